/*
 * Which parents of a sandbox's cgroup were not there before.
 *
 * Two containers below one fresh parent: the first saw it missing, the second saw it there, and the
 * second leaves last. So what was missing is noted in a file per parent, for all shims of the host;
 * whoever leaves an empty one behind removes it, and the note with it.
 */
#pragma once

#include "shim/cgroup.h"

/* After cgroup_claim(): notes the parents of path->path beyond keep_len. */
void cgroup_parents_note(const char *dir, const struct cgroup_path *path);
/* Before cgroup_remove(): lowers keep_len by the parents that are noted. */
void cgroup_parents_recall(const char *dir, struct cgroup_path *path);
/* After it: drops the notes of parents that are gone. */
void cgroup_parents_forget(const char *dir, const struct cgroup_host *host,
                           const struct cgroup_path *path);
