/*
 * The container's root file system: where it may come from, and mounting it.
 *
 * An API client names sources, lower and upper directories. Each is opened once, without following
 * any symlink, must lie below a snapshotter's directory, and is then mounted from that descriptor:
 * nothing is looked up a second time. Overlay options are an allow-list. rootfs_parse() is pure;
 * rootfs_mount() touches the host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/own.h"

#define ROOTFS_MOUNTS_MAX 8
#define ROOTFS_LOWER_MAX 128
#define ROOTFS_OPTION_MAX 16

enum rootfs_type {
    ROOTFS_OVERLAY,
    ROOTFS_BIND,
    ROOTFS_EROFS,
    ROOTFS_EXT4,
};

/* One mount as containerd's Create names it. Borrowed. */
struct rootfs_request {
    const char *type;
    const char *source;
    const char *target; /* "" or a relative path without ".."; what is not "" is refused */
    const char *const *options;
    size_t n_options;
};

/* One mount, taken apart. Owned. */
struct rootfs_layer {
    enum rootfs_type type;
    char *source; /* not for overlay */
    char *lower[ROOTFS_LOWER_MAX];
    size_t n_lower;
    char *upper; /* overlay: NULL for a read-only one */
    char *work;
    char *extra; /* overlay: allowed further options, comma-separated, or NULL */
    bool ro;
};

/* ERR_INVALID or ERR_PRECONDITION names the mount's fault. */
CHECKED enum err_kind rootfs_parse(const struct rootfs_request *request, struct rootfs_layer *out,
                                   struct err *err);
void rootfs_layer_fini(struct rootfs_layer *layer);

/* Where sources may lie. */
struct rootfs_roots {
    const char *containerd_root; /* <this>/io.containerd.snapshotter.v1.* */
    char *const *further;        /* the operator's, NULL-terminated; may be NULL */
};
/* True if the absolute path lies strictly below one of the roots. Pure. */
bool rootfs_below(const struct rootfs_roots *roots, const char *path);

/* Mounts the requests in order on `target` (which is a directory that only root can reach). On
 * failure everything is unmounted again. */
CHECKED enum err_kind rootfs_mount(const struct rootfs_request *requests, size_t n,
                                   const struct rootfs_roots *roots, const char *target,
                                   struct err *err);

/* Unmounts everything that is stacked on target; lazily where it is busy. Absent is fine. */
CHECKED enum err_kind rootfs_unmount(const char *target, struct err *err);
