/*
 * containerd's API as plain C: structs, strings and JSON instead of protobuf messages.
 *
 * Every call is made in the client's namespace, and within its lease where one is set. Labels are
 * JSON objects of strings (NULL reads as empty). Error kinds: as rpc.h maps them; a missing object
 * is ERR_NOT_FOUND, one that is there already ERR_EXISTS.
 *
 * Source: the services of containerd's api/ directory, 1.6 to 2.4.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

struct containerd;

CHECKED enum err_kind containerd_open(const char *address, const char *ns, const char *snapshotter,
                                      struct containerd **out, struct err *err);
void containerd_free(struct containerd *cd);
DEFINE_CLEANUP(struct containerd, containerd_free, containerd_freep)
/* What it was opened with; borrowed. */
const char *containerd_address(const struct containerd *cd);
const char *containerd_namespace(const struct containerd *cd);

/* "1.6.20~ds1" or the like; the caller frees. */
CHECKED enum err_kind containerd_version(struct containerd *cd, char **out, struct err *err);
/* Makes the client's namespace; an existing one is fine. */
CHECKED enum err_kind containerd_namespace_ensure(struct containerd *cd, struct err *err);
CHECKED enum err_kind containerd_namespace_remove(struct containerd *cd, struct err *err);
/* JSON array of {type, id, ok}: what the daemon has loaded. The caller's. */
CHECKED enum err_kind containerd_plugins(struct containerd *cd, json_t **out, struct err *err);

/* A lease that protects what is made until dropped, or until it expires should we die. From here on
 * every call carries it. */
CHECKED enum err_kind containerd_lease(struct containerd *cd, const char *id, int expire_seconds,
                                       struct err *err);
/* Drops it; sync: garbage collection has run when this returns. Absent is fine. */
CHECKED enum err_kind containerd_lease_drop(struct containerd *cd, const char *id, bool sync,
                                            struct err *err);
/* Ids of the namespace's leases as a JSON array; the caller's. */
CHECKED enum err_kind containerd_lease_list(struct containerd *cd, json_t **out, struct err *err);

/* ---- content ---- */
CHECKED enum err_kind containerd_content_has(struct containerd *cd, const char *digest,
                                             int64_t *size, struct err *err);
/* At most max bytes into *out, the caller's, NUL-terminated; size and digest are checked. */
CHECKED enum err_kind containerd_content_read(struct containerd *cd, const char *digest, size_t max,
                                              char **out, size_t *len, struct err *err);
/* Bytes read, 0 at the end, -1. */
typedef ssize_t cd_read_fn(void *arg, void *out, size_t want);
CHECKED enum err_kind containerd_content_put_from(struct containerd *cd, const char *digest,
                                                  int64_t size, cd_read_fn *read_fn, void *arg,
                                                  const json_t *labels, struct err *err);
/* Streams `size` bytes read from fd as `digest`; the daemon checks both. Already there is fine. */
CHECKED enum err_kind containerd_content_put(struct containerd *cd, const char *digest, int fd,
                                             int64_t size, const json_t *labels, struct err *err);
CHECKED enum err_kind containerd_content_put_bytes(struct containerd *cd, const char *digest,
                                                   const void *data, size_t len,
                                                   const json_t *labels, struct err *err);
/* Digests of the namespace as a JSON array; the caller's. */
CHECKED enum err_kind containerd_content_list(struct containerd *cd, json_t **out, struct err *err);

/* ---- images ---- */
struct cd_descriptor {
    const char *media_type; /* borrowed from whoever filled it */
    const char *digest;
    int64_t size;
};
struct cd_image {
    char *name;
    char *media_type;
    char *digest;
    int64_t size;
    json_t *labels;
};
void cd_image_fini(struct cd_image *image);
CHECKED enum err_kind containerd_image_get(struct containerd *cd, const char *name,
                                           struct cd_image *out, struct err *err);
/* Makes the image or points an existing one elsewhere. */
CHECKED enum err_kind containerd_image_put(struct containerd *cd, const char *name,
                                           const struct cd_descriptor *target, const json_t *labels,
                                           struct err *err);
/* JSON array of {name, digest, labels}. `filter` may be NULL. The caller's. */
CHECKED enum err_kind containerd_image_list(struct containerd *cd, const char *filter, json_t **out,
                                            struct err *err);
/* Absent is fine. sync: what only it held is collected when this returns. */
CHECKED enum err_kind containerd_image_remove(struct containerd *cd, const char *name, bool sync,
                                              struct err *err);

/* ---- snapshots and diffs; the mounts are JSON arrays of {type, source, options} ---- */
CHECKED enum err_kind containerd_snapshot_has(struct containerd *cd, const char *key, bool *out,
                                              struct err *err);
CHECKED enum err_kind containerd_snapshot_prepare(struct containerd *cd, const char *key,
                                                  const char *parent, const json_t *labels,
                                                  json_t **mounts, struct err *err);
CHECKED enum err_kind containerd_snapshot_view(struct containerd *cd, const char *key,
                                               const char *parent, const json_t *labels,
                                               json_t **mounts, struct err *err);
CHECKED enum err_kind containerd_snapshot_mounts(struct containerd *cd, const char *key,
                                                 json_t **mounts, struct err *err);
CHECKED enum err_kind containerd_snapshot_commit(struct containerd *cd, const char *name,
                                                 const char *key, const json_t *labels,
                                                 struct err *err);
CHECKED enum err_kind containerd_snapshot_remove(struct containerd *cd, const char *key,
                                                 struct err *err); /* absent is fine */
/* Names of the namespace's snapshots as a JSON array; the caller's. */
CHECKED enum err_kind containerd_snapshot_list(struct containerd *cd, json_t **out,
                                               struct err *err);
/* Unpacks a layer onto mounts; *diff_id ("sha256:…", the caller's) is the digest of the unpacked
 * tar. */
CHECKED enum err_kind containerd_diff_apply(struct containerd *cd,
                                            const struct cd_descriptor *layer, const json_t *mounts,
                                            char **diff_id, struct err *err);

/* ---- containers ---- */
struct cd_container {
    char *id;
    char *image;
    char *runtime;
    char *snapshot_key;
    json_t *labels;
    json_t *spec; /* OCI runtime spec; NULL where it did not parse */
};
void cd_container_fini(struct cd_container *container);
CHECKED enum err_kind containerd_container_get(struct containerd *cd, const char *id,
                                               struct cd_container *out, struct err *err);
CHECKED enum err_kind containerd_container_create(struct containerd *cd,
                                                  const struct cd_container *container,
                                                  struct err *err);
/* JSON array of {id, image, runtime, labels}; `filter` may be NULL. The caller's. */
CHECKED enum err_kind containerd_container_list(struct containerd *cd, const char *filter,
                                                json_t **out, struct err *err);
CHECKED enum err_kind containerd_container_label(struct containerd *cd, const char *id,
                                                 const char *key, const char *value,
                                                 struct err *err);
CHECKED enum err_kind containerd_container_remove(struct containerd *cd, const char *id,
                                                  struct err *err); /* absent is fine */

/* ---- tasks ---- */
enum cd_task_state {
    CD_TASK_UNKNOWN = 0,
    CD_TASK_CREATED = 1,
    CD_TASK_RUNNING = 2,
    CD_TASK_STOPPED = 3,
    CD_TASK_PAUSED = 4,
    CD_TASK_PAUSING = 5,
};
struct cd_task {
    enum cd_task_state state;
    uint32_t pid;
    uint32_t exit_status; /* meaningful in CD_TASK_STOPPED */
};
const char *cd_task_state_name(enum cd_task_state state);
/* `log_uri` goes to stdout and stderr ("binary:///…", "file:///…" or "" for none). */
CHECKED enum err_kind containerd_task_create(struct containerd *cd, const char *id,
                                             const json_t *mounts, const char *log_uri,
                                             uint32_t *pid, struct err *err);
CHECKED enum err_kind containerd_task_start(struct containerd *cd, const char *id, struct err *err);
CHECKED enum err_kind containerd_task_get(struct containerd *cd, const char *id,
                                          struct cd_task *out, struct err *err);
CHECKED enum err_kind containerd_task_kill(struct containerd *cd, const char *id, uint32_t sig,
                                           struct err *err);
/* ERR_TIMEOUT when it has not exited within ms. */
CHECKED enum err_kind containerd_task_wait(struct containerd *cd, const char *id, int ms,
                                           uint32_t *exit_status, struct err *err);
CHECKED enum err_kind containerd_task_delete(struct containerd *cd, const char *id,
                                             uint32_t *exit_status, struct err *err);
/* SIGTERM, up to grace_ms, SIGKILL, delete. No task is fine. */
CHECKED enum err_kind containerd_task_end(struct containerd *cd, const char *id, int grace_ms,
                                          struct err *err);
/* The metric message as the shim sent it: type_url and bytes, the caller's. */
CHECKED enum err_kind containerd_task_metrics(struct containerd *cd, const char *id, char **type,
                                              struct buf *out, struct err *err);

/* ---- events ---- */
struct containerd_events;
struct cd_event {
    char topic[64];
    char container[80];
    char exec[80]; /* TaskExit: the process; equal to container for its first process */
    uint32_t exit_status;
};
/* Subscribes to the namespace's task events. */
CHECKED enum err_kind containerd_events_open(struct containerd *cd, struct containerd_events **out,
                                             struct err *err);
/* ERR_TIMEOUT: none within ms. ERR_UNAVAILABLE and others: the stream is gone, open a new one. */
CHECKED enum err_kind containerd_events_next(struct containerd_events *events, int ms,
                                             struct cd_event *out, struct err *err);
void containerd_events_free(struct containerd_events *events);
DEFINE_CLEANUP(struct containerd_events, containerd_events_free, containerd_events_freep)
