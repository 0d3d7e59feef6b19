/*
 * Network namespaces as files: made, entered for a moment, removed.
 *
 * The calling thread enters and comes back within one call; should it be unable to come back the
 * process aborts, since nothing it did afterwards would be where it believes to be.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* A fresh namespace at `path` (its directory is made, 0700): lo up, forwarding off, IPv6 off by
 * default. An existing file of that name is removed first: it is ours by its place, and every
 * Create gets a new one. */
CHECKED enum err_kind netns_make(const char *path, struct err *err);
/* Absent is fine. */
CHECKED enum err_kind netns_remove(const char *path, struct err *err);
bool netns_is_there(const char *path);

/* Calls fn inside; its result is returned. */
typedef enum err_kind netns_fn(void *arg, struct err *err);
CHECKED enum err_kind netns_within(const char *path, netns_fn *fn, void *arg, struct err *err);
