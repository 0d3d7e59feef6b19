/*
 * Images in containerd: made from folders, imported from OCI archives, looked up, unpacked.
 *
 * What is made here is held by an image record of the client's namespace; the work itself runs
 * under the caller's lease. Digests and sizes of everything that comes in are checked by the daemon
 * and, for documents, here.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "base/own.h"
#include "deploy/containerd.h"
#include "deploy/digest.h"
#include "deploy/endpoint.h"

struct image {
    char *name;   /* in containerd */
    char *digest; /* of its target */
    json_t *manifest;
    json_t *config;
    char chain[DIGEST_SIZE]; /* of all layers: the snapshot to start from */
};
void image_free(struct image *image);
DEFINE_CLEANUP(struct image, image_free, image_freep)

/* By name; "name@sha256:…" also demands that digest. ERR_NOT_FOUND says how to get it there. */
CHECKED enum err_kind image_find(struct containerd *cd, const char *ref, struct image **out,
                                 struct err *err);
/* Makes the snapshots of its layers where missing. */
CHECKED enum err_kind image_unpack(struct containerd *cd, const struct image *image,
                                   struct err *err);

/* An OCI archive (tar of an image layout) as `name`; the archive must hold one image for this
 * machine. */
CHECKED enum err_kind image_import(struct containerd *cd, const char *archive, const char *name,
                                   const char *snapshotter, struct image **out, struct err *err);

/* Layers and what they run, put into containerd as `name`. `layers` is an array of {fd, size,
 * digest} or {size, digest} for what is there already. */
struct image_recipe {
    const char *name;
    const json_t *layers;
    const json_t *args; /* Entrypoint */
    const json_t *env;  /* NAME=value list or NULL */
    const char *dir;    /* WorkingDir */
    const char *snapshotter;
    const json_t *labels; /* of the image record, or NULL */
};
CHECKED enum err_kind image_make(struct containerd *cd, const struct image_recipe *recipe,
                                 struct image **out, struct err *err);

/* The handler's folder as an image "utter.local/<slug>:<12 hex>", made once per content. Fills
 * endpoint->entry and entry_file where the file left them open. */
CHECKED enum err_kind image_of_folder(struct containerd *cd, struct endpoint *endpoint,
                                      const char *snapshotter, struct image **out, struct err *err);
/* A host program with its libraries as an image; for the gate. */
CHECKED enum err_kind image_of_program(struct containerd *cd, const char *program, const char *name,
                                       const json_t *args, const char *snapshotter,
                                       struct image **out, struct err *err);
/* Removes the folder images of a slug but these two (either may be NULL). */
CHECKED enum err_kind image_prune(struct containerd *cd, const char *slug, const char *keep,
                                  const char *keep_too, struct err *err);
