#include "shim/metrics.h"

#include <cgroups1.pb-c.h>
#include <cgroups2.pb-c.h>
#include <unistd.h>

#include "base/own.h"
#include "proto/unpack.h"

#define INTERFACES_MAX ARRAY_LEN(((struct control_event *)0)->interfaces)

/* A file that this kernel does not have counts as 0. */
static enum err_kind optional(const char *dir, const char *file, uint64_t *out, struct err *err)
{
    int64_t v = 0;
    enum err_kind kind = cgroup_read_number(dir, file, &v, err);
    if (kind && kind != ERR_NOT_FOUND)
        return kind;
    /* "No limit" is the largest number for those who read a metric. */
    *out = kind ? 0 : v == CGROUP_UNLIMITED ? UINT64_MAX : (uint64_t)v;
    return ERR_OK;
}

static enum err_kind needed(const char *dir, const char *file, uint64_t *out, struct err *err)
{
    int64_t v = 0;
    if (cgroup_read_number(dir, file, &v, err))
        return err->kind;
    *out = (uint64_t)v;
    return ERR_OK;
}

static enum err_kind keyed(const char *dir, const char *file, const char *const keys[],
                           uint64_t *values, size_t n, struct err *err)
{
    enum err_kind kind = cgroup_read_keyed(dir, file, keys, values, n, err);
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

/* A container's part of what its pod used, in proportion to what the Sentry counted for each. */
static uint64_t share(const struct metrics_source *source, uint64_t total)
{
    const struct control_event *e = source->event;
    if (!source->share_cpu || !e || e->all_ns == 0)
        return total;
    return (uint64_t)((double)total * ((double)e->container_ns / (double)e->all_ns));
}

static enum err_kind read_pids(const struct metrics_source *source, uint64_t *current,
                               uint64_t *limit, struct err *err)
{
    if (source->event)
        *current = source->event->pids;
    else if (needed(source->set->pids, "pids.current", current, err))
        return err->kind;
    if (source->guest_pids_limit != CGROUP_ABSENT)
        *limit = (uint64_t)source->guest_pids_limit;
    else if (optional(source->set->pids, "pids.max", limit, err))
        return err->kind;
    return ERR_OK;
}

static void pack(const ProtobufCMessage *message, struct buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *to = buf_reserve(out, len);
    if (!to)
        return;
    (void)protobuf_c_message_pack(message, to);
    out->len += len;
}

/* ---- v1 ---------------------------------------------------------------------------------- */

static enum err_kind v1_entry(const char *dir, const char *stem, Cgroups1__MemoryEntry *entry,
                              struct err *err)
{
    static const char *const tails[] = { "limit_in_bytes", "usage_in_bytes", "max_usage_in_bytes",
                                         "failcnt" };
    uint64_t *to[] = { &entry->limit, &entry->usage, &entry->max, &entry->failcnt };
    for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
        char *file CLEANUP_FREE = xasprintf("memory.%s%s", stem, tails[i]);
        if (optional(dir, file, to[i], err))
            return err->kind;
    }
    return ERR_OK;
}

static enum err_kind v1_cpu(const struct metrics_source *source, Cgroups1__CPUUsage *usage,
                            Cgroups1__Throttle *throttle, struct err *err)
{
    static const char *const split[] = { "user", "system" };
    static const char *const slow[] = { "nr_periods", "nr_throttled", "throttled_time" };
    const char *dir = source->set->cpuacct;
    uint64_t ticks[2];
    uint64_t t[3];
    if (!dir)
        return err_set(err, ERR_UNSUPPORTED, "this host has no cpuacct cgroup");
    if (needed(dir, "cpuacct.usage", &usage->total, err) ||
        keyed(dir, "cpuacct.stat", split, ticks, 2, err) ||
        keyed(source->set->cpu, "cpu.stat", slow, t, 3, err))
        return err->kind;
    uint64_t tick_ns = 1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK);
    usage->total = share(source, usage->total);
    usage->user = share(source, ticks[0] * tick_ns);
    usage->kernel = share(source, ticks[1] * tick_ns);
    throttle->periods = t[0];
    throttle->throttled_periods = t[1];
    throttle->throttled_time = t[2];
    return ERR_OK;
}

static enum err_kind v1_memory(const char *dir, Cgroups1__MemoryStat *memory,
                               Cgroups1__MemoryOomControl *oom, struct err *err)
{
    static const char *const stat[] = { "cache", "rss", "total_cache", "total_rss",
                                        "total_inactive_file" };
    static const char *const control[] = { "oom_kill_disable", "under_oom", "oom_kill" };
    uint64_t s[5];
    uint64_t o[3];
    if (needed(dir, "memory.usage_in_bytes", &memory->usage->usage, err) ||
        v1_entry(dir, "", memory->usage, err) || v1_entry(dir, "memsw.", memory->swap, err) ||
        /* Each file costs; nothing of ours limits these two, so their use is all there is to say.
         */
        optional(dir, "memory.kmem.usage_in_bytes", &memory->kernel->usage, err) ||
        optional(dir, "memory.kmem.tcp.usage_in_bytes", &memory->kernel_tcp->usage, err) ||
        keyed(dir, "memory.stat", stat, s, 5, err) ||
        keyed(dir, "memory.oom_control", control, o, 3, err))
        return err->kind;
    memory->cache = s[0];
    memory->rss = s[1];
    memory->total_cache = s[2];
    memory->total_rss = s[3];
    memory->total_inactive_file = s[4];
    oom->oom_kill_disable = o[0];
    oom->under_oom = o[1];
    oom->oom_kill = o[2];
    return ERR_OK;
}

static size_t v1_network(const struct control_event *event, Cgroups1__NetworkStat *stats,
                         Cgroups1__NetworkStat **list)
{
    size_t n = event ? event->n_interfaces : 0;
    for (size_t i = 0; i < n; i++) {
        const struct control_interface *from = &event->interfaces[i];
        cgroups1__network_stat__init(&stats[i]);
        stats[i].name = proto_str(from->name);
        stats[i].rx_bytes = from->rx_bytes;
        stats[i].rx_packets = from->rx_packets;
        stats[i].rx_errors = from->rx_errors;
        stats[i].rx_dropped = from->rx_dropped;
        stats[i].tx_bytes = from->tx_bytes;
        stats[i].tx_packets = from->tx_packets;
        stats[i].tx_errors = from->tx_errors;
        stats[i].tx_dropped = from->tx_dropped;
        list[i] = &stats[i];
    }
    return n;
}

static enum err_kind pack_v1(const struct metrics_source *source, struct buf *out, struct err *err)
{
    Cgroups1__PidsStat pids = CGROUPS1__PIDS_STAT__INIT;
    Cgroups1__CPUUsage usage = CGROUPS1__CPUUSAGE__INIT;
    Cgroups1__Throttle throttle = CGROUPS1__THROTTLE__INIT;
    Cgroups1__CPUStat cpu = CGROUPS1__CPUSTAT__INIT;
    Cgroups1__MemoryEntry entries[4] = { CGROUPS1__MEMORY_ENTRY__INIT, CGROUPS1__MEMORY_ENTRY__INIT,
                                         CGROUPS1__MEMORY_ENTRY__INIT,
                                         CGROUPS1__MEMORY_ENTRY__INIT };
    Cgroups1__MemoryStat memory = CGROUPS1__MEMORY_STAT__INIT;
    Cgroups1__MemoryOomControl oom = CGROUPS1__MEMORY_OOM_CONTROL__INIT;
    Cgroups1__NetworkStat stats[INTERFACES_MAX];
    Cgroups1__NetworkStat *list[INTERFACES_MAX];
    Cgroups1__Metrics metrics = CGROUPS1__METRICS__INIT;
    memory.usage = &entries[0];
    memory.swap = &entries[1];
    memory.kernel = &entries[2];
    memory.kernel_tcp = &entries[3];
    cpu.usage = &usage;
    cpu.throttling = &throttle;
    if (read_pids(source, &pids.current, &pids.limit, err) ||
        v1_cpu(source, &usage, &throttle, err) ||
        v1_memory(source->set->memory, &memory, &oom, err))
        return err->kind;
    metrics.pids = &pids;
    metrics.cpu = &cpu;
    metrics.memory = &memory;
    metrics.memory_oom_control = &oom;
    metrics.network = list;
    metrics.n_network = v1_network(source->event, stats, list);
    pack(&metrics.base, out);
    return ERR_OK;
}

/* ---- v2 ---------------------------------------------------------------------------------- */

static enum err_kind v2_cpu(const struct metrics_source *source, Cgroups2__CPUStat *cpu,
                            struct err *err)
{
    static const char *const keys[] = { "usage_usec", "user_usec",    "system_usec",
                                        "nr_periods", "nr_throttled", "throttled_usec" };
    uint64_t v[6];
    if (cgroup_read_keyed(source->set->cpu, "cpu.stat", keys, v, 6, err))
        return err->kind;
    cpu->usage_usec = share(source, v[0]);
    cpu->user_usec = share(source, v[1]);
    cpu->system_usec = share(source, v[2]);
    cpu->nr_periods = v[3];
    cpu->nr_throttled = v[4];
    cpu->throttled_usec = v[5];
    return ERR_OK;
}

static enum err_kind v2_memory(const char *dir, Cgroups2__MemoryStat *memory,
                               Cgroups2__MemoryEvents *events, struct err *err)
{
    static const char *const stat[] = { "anon", "file", "inactive_file" };
    static const char *const event[] = { "low", "high", "max", "oom", "oom_kill" };
    uint64_t s[3];
    uint64_t e[5];
    if (needed(dir, "memory.current", &memory->usage, err) ||
        optional(dir, "memory.max", &memory->usage_limit, err) ||
        optional(dir, "memory.swap.current", &memory->swap_usage, err) ||
        optional(dir, "memory.swap.max", &memory->swap_limit, err) ||
        keyed(dir, "memory.stat", stat, s, 3, err) || keyed(dir, "memory.events", event, e, 5, err))
        return err->kind;
    memory->anon = s[0];
    memory->file = s[1];
    memory->inactive_file = s[2];
    events->low = e[0];
    events->high = e[1];
    events->max = e[2];
    events->oom = e[3];
    events->oom_kill = e[4];
    return ERR_OK;
}

static size_t v2_network(const struct control_event *event, Cgroups2__NetworkStat *stats,
                         Cgroups2__NetworkStat **list)
{
    size_t n = event ? event->n_interfaces : 0;
    for (size_t i = 0; i < n; i++) {
        const struct control_interface *from = &event->interfaces[i];
        cgroups2__network_stat__init(&stats[i]);
        stats[i].name = proto_str(from->name);
        stats[i].rx_bytes = from->rx_bytes;
        stats[i].rx_packets = from->rx_packets;
        stats[i].rx_errors = from->rx_errors;
        stats[i].rx_dropped = from->rx_dropped;
        stats[i].tx_bytes = from->tx_bytes;
        stats[i].tx_packets = from->tx_packets;
        stats[i].tx_errors = from->tx_errors;
        stats[i].tx_dropped = from->tx_dropped;
        list[i] = &stats[i];
    }
    return n;
}

static enum err_kind pack_v2(const struct metrics_source *source, struct buf *out, struct err *err)
{
    Cgroups2__PidsStat pids = CGROUPS2__PIDS_STAT__INIT;
    Cgroups2__CPUStat cpu = CGROUPS2__CPUSTAT__INIT;
    Cgroups2__MemoryStat memory = CGROUPS2__MEMORY_STAT__INIT;
    Cgroups2__MemoryEvents events = CGROUPS2__MEMORY_EVENTS__INIT;
    Cgroups2__NetworkStat stats[INTERFACES_MAX];
    Cgroups2__NetworkStat *list[INTERFACES_MAX];
    Cgroups2__Metrics metrics = CGROUPS2__METRICS__INIT;
    if (read_pids(source, &pids.current, &pids.limit, err) || v2_cpu(source, &cpu, err) ||
        v2_memory(source->set->memory, &memory, &events, err))
        return err->kind;
    metrics.pids = &pids;
    metrics.cpu = &cpu;
    metrics.memory = &memory;
    metrics.memory_events = &events;
    metrics.network = list;
    metrics.n_network = v2_network(source->event, stats, list);
    pack(&metrics.base, out);
    return ERR_OK;
}

enum err_kind metrics_pack(const struct metrics_source *source, struct buf *out,
                           const char **type_url, struct err *err)
{
    bool v2 = source->set->host->version == CGROUP_V2;
    *type_url = v2 ? METRICS_TYPE_V2 : METRICS_TYPE_V1;
    if (v2 ? pack_v2(source, out, err) : pack_v1(source, out, err))
        return err_prefix(err, "stats");
    return out->failed ? err_set(err, ERR_INTERNAL, "stats: too long") : ERR_OK;
}
