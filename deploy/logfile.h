/*
 * A log of bounded size and rate: PATH.log, the one before as PATH.log.1, the count of dropped
 * lines in PATH.dropped.
 *
 * On disk there are never more than twice `half` bytes. What arrives over `rate` bytes a second is
 * dropped in whole pieces and its lines are counted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"

struct logfile;

CHECKED enum err_kind logfile_open(const char *path, size_t half, size_t rate, struct logfile **out,
                                   struct err *err);
/* `now_ms` is monotonic. A full disk drops too; nothing here fails or blocks for long. */
void logfile_add(struct logfile *log, const void *data, size_t len, int64_t now_ms);
uint64_t logfile_dropped(const struct logfile *log);
void logfile_free(struct logfile *log); /* writes the count */
DEFINE_CLEANUP(struct logfile, logfile_free, logfile_freep)
