/*
 * Bind mounts of a container: each source opened once, judged by its descriptor, mounted from that
 * descriptor into the shim's own directory. runsc sees only that path.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "policy/policy.h"

/* Mounts every bind of the plan at <private_dir>/binds/N (N: its index in /mounts) with nosuid,
 * nodev and noexec, read-only unless the plan says rw, and puts that path in as the mount's source.
 * *log_fd gets an O_PATH descriptor of a pod's termination log, else stays. */
CHECKED enum err_kind binds_mount(json_t *spec, const struct policy_plan *plan,
                                  const char *private_dir, int *log_fd, struct err *err);
/* Unmounts everything in <private_dir>/binds. Absent is fine. */
CHECKED enum err_kind binds_unmount(const char *private_dir, struct err *err);
