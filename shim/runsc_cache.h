/*
 * What was found out about a runsc binary, kept in a file between shims. Private to runsc_binary.c.
 *
 * Always true: a result is only taken from a directory and a file that root alone can write, and
 * only for exactly the key it was made for.
 */
#pragma once

#include "shim/runsc_binary.h"

/* ERR_OK with a fresh result, or why there is none. */
CHECKED enum err_kind runsc_cache_load(const char *dir, const char *path,
                                       const struct runsc_key *key, struct runsc_binary **out);
/* Best effort: without a cache everything works, slower. */
void runsc_cache_save(const char *dir, const struct runsc_binary *binary);
