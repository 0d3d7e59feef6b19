/*
 * Which parents of a sandbox's cgroup were not there before.
 *
 * Two containers below one fresh parent: the first saw it missing, the second saw it there, and the
 * second leaves last. So what was missing is noted in a file per parent, for all shims of the host;
 * whoever leaves an empty one behind removes it, and the note with it.
 */
#pragma once

#include "shim/cgroup.h"

/* While *fd (the caller's, close it) is open nobody removes a parent: from before cgroup_claim()
 * until runsc has made the leaf. */
CHECKED enum err_kind cgroup_parents_hold(const char *dir, int *fd, struct err *err);
/* After cgroup_claim(): notes the parents of path->path beyond keep_len. */
void cgroup_parents_note(const char *dir, const struct cgroup_path *path);
/* cgroup_remove() of the leaf and of every parent that is noted and empty. While somebody holds the
 * parents only the leaf goes: who holds will be the last one out. */
CHECKED enum err_kind cgroup_parents_remove(const char *dir, const struct cgroup_host *host,
                                            const struct cgroup_path *path, struct err *err);
