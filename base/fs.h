/*
 * Files as a program that trusts nobody reads and writes them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Reads a regular file of at most max bytes into a fresh NUL-terminated string, the caller's.
 * The last component may not be a symlink (O_NOFOLLOW). len may be NULL. */
CHECKED enum err_kind fs_read(const char *path, size_t max, char **out, size_t *len,
                              struct err *err);
CHECKED enum err_kind fs_read_at(int dirfd, const char *name, size_t max, char **out, size_t *len,
                                 struct err *err);

/* Writes through a temporary name in the same directory, fsyncs when `durable`, renames over. */
CHECKED enum err_kind fs_write(const char *path, const void *data, size_t len, mode_t mode,
                               bool durable, struct err *err);

/* Makes a directory and its parents; existing ones are fine. */
CHECKED enum err_kind fs_mkdirs(const char *path, mode_t mode, struct err *err);

/* Removes a tree without following symlinks or crossing mounts; absent is fine. */
CHECKED enum err_kind fs_remove_tree(const char *path, struct err *err);

/* openat2 with RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS; every component must be real.
 * Relative to dirfd (or AT_FDCWD). Returns the fd in *fd, the caller's. */
CHECKED enum err_kind fs_open_real(int dirfd, const char *path, int flags, int *fd,
                                   struct err *err);

/* Is a file with this status kept from others? No right for group or others; or, as Kubernetes
 * hands a pod its secrets, root's own and readable by one group besides, which this process is in
 * and which is not root's. */
struct stat;
bool fs_kept(const struct stat *st);

/* ERR_PRECONDITION unless the file and every parent directory are owned by root and not writable by
 * group or others: what such a path names cannot be swapped by anyone but root. */
CHECKED enum err_kind fs_root_only(const char *path, struct err *err);

/* Writes all of it, retrying short writes. */
CHECKED enum err_kind fs_write_fd(int fd, const void *data, size_t len, struct err *err);
