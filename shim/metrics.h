/*
 * Statistics as containerd wants them: one protobuf message of the host's cgroup version, read from
 * the sandbox's cgroup files; guest process count and network counters from the control socket.
 *
 * v1 hosts get io.containerd.cgroups.v1.Metrics, unified ones io.containerd.cgroups.v2.Metrics,
 * whatever the driver; memory.usage and cpu.usage are always set, since clients dereference them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "shim/cgroup.h"
#include "shim/control.h"

#define METRICS_TYPE_V1 "io.containerd.cgroups.v1.Metrics"
#define METRICS_TYPE_V2 "io.containerd.cgroups.v2.Metrics"

struct metrics_source {
    const struct cgroup_set *set;
    const struct control_event *event; /* NULL: pids and CPU from the cgroup, no network */
    int64_t guest_pids_limit;          /* the limit in the guest (RLIMIT_NPROC), or CGROUP_ABSENT */
    bool share_cpu; /* pod: CPU is this container's share (event->container_ns of all_ns) */
};

/* Appends the packed message to `out` and names its type. */
CHECKED enum err_kind metrics_pack(const struct metrics_source *source, struct buf *out,
                                   const char **type_url, struct err *err);
