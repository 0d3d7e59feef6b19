/*
 * Writing a layer: a tar with settled owners and, where asked, settled times, so that the same
 * files give the same digest. Uncompressed: its digest is its diff id.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "deploy/digest.h"

#define LAYER_BYTES_MAX (512LL << 20)
#define LAYER_ENTRIES_MAX 50000

struct layer;

CHECKED enum err_kind layer_new(struct layer **out, struct err *err);
void layer_free(struct layer *layer);
DEFINE_CLEANUP(struct layer, layer_free, layer_freep)

/* Names are relative, without leading slash. Parents are added as 0755 directories by themselves.
 */
CHECKED enum err_kind layer_dir(struct layer *layer, const char *name, mode_t mode,
                                struct err *err);
CHECKED enum err_kind layer_bytes(struct layer *layer, const char *name, mode_t mode,
                                  const void *data, size_t len, struct err *err);
/* A regular file's content from fd (borrowed), `size` bytes. */
CHECKED enum err_kind layer_fd(struct layer *layer, const char *name, mode_t mode, time_t mtime,
                               int fd, int64_t size, struct err *err);
CHECKED enum err_kind layer_link(struct layer *layer, const char *name, const char *target,
                                 struct err *err);
/* Ends it: an fd at its start (the caller's), size and digest. No more may be added. */
CHECKED enum err_kind layer_end(struct layer *layer, int *fd, int64_t *size,
                                char digest[DIGEST_SIZE], struct err *err);

/* Everything below `folder` goes below `prefix`: times zero, modes 0644 or 0755, owner root, in
 * sorted order. Links must be relative and stay inside; .git and __pycache__ are left out; anything
 * that is neither file, directory nor link is refused. */
CHECKED enum err_kind layer_folder(struct layer *layer, const char *folder, const char *prefix,
                                   struct err *err);
