/*
 * Paths in an operator's file: where they may lead. Pure.
 */
#pragma once

#include "base/err.h"

/* A path without empty, "." and ".." parts (but a leading "./"). A relative one is taken from
 * `directory`; an absolute one must lie below `allowed` (NULL: none may be). *out is absolute, the
 * caller's. `key` is what messages begin with. */
CHECKED enum err_kind place_put(const char *directory, const char *key, const char *path,
                                const char *allowed, char **out, struct err *err);
