/* Limits as the kernel has them: read back, compared, changed with a way back. Declared in
 * cgroup.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "shim/cgroup.h"
#include "shim/cgroup_file.h"

static bool is_v2(const struct cgroup_set *set)
{
    return set->host->version == CGROUP_V2;
}

/* v2: "max 100000" or "50000 100000". */
static enum err_kind read_cpu_max(const char *dir, struct cgroup_limits *out, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    if (cgroup_file_read(dir, "cpu.max", &text, err))
        return err->kind;
    char *blank = strchr(text, ' ');
    uint64_t quota = CGROUP_UNLIMITED;
    uint64_t period;
    if (blank)
        *blank = 0;
    if (!blank || !text_u64(blank + 1, &period) ||
        (strcmp(text, "max") != 0 && !text_u64(text, &quota)) || quota > INT64_MAX ||
        period > INT64_MAX)
        return err_set(err, ERR_INTERNAL, "%s/cpu.max cannot be read", dir);
    out->cpu_quota = (int64_t)quota;
    out->cpu_period = (int64_t)period;
    return ERR_OK;
}

/* A kernel without swap accounting has no such file. */
static enum err_kind read_swap(const char *dir, const char *file, int64_t *out, struct err *err)
{
    enum err_kind kind = cgroup_read_number(dir, file, out, err);
    if (kind != ERR_NOT_FOUND)
        return kind;
    *out = CGROUP_ABSENT;
    return ERR_OK;
}

static enum err_kind read_v2(const struct cgroup_set *set, struct cgroup_limits *out,
                             struct err *err)
{
    int64_t swap;
    if (cgroup_read_number(set->memory, "memory.max", &out->memory, err) ||
        read_swap(set->memory, "memory.swap.max", &swap, err) ||
        cgroup_read_number(set->pids, "pids.max", &out->pids, err) ||
        read_cpu_max(set->cpu, out, err))
        return err->kind;
    if (swap == CGROUP_ABSENT)
        out->memory_swap = CGROUP_ABSENT;
    else if (swap == CGROUP_UNLIMITED || out->memory == CGROUP_UNLIMITED)
        out->memory_swap = CGROUP_UNLIMITED;
    else if (__builtin_add_overflow(out->memory, swap, &out->memory_swap))
        out->memory_swap = CGROUP_UNLIMITED;
    return ERR_OK;
}

static enum err_kind read_v1(const struct cgroup_set *set, struct cgroup_limits *out,
                             struct err *err)
{
    if (cgroup_read_number(set->memory, "memory.limit_in_bytes", &out->memory, err) ||
        read_swap(set->memory, "memory.memsw.limit_in_bytes", &out->memory_swap, err) ||
        cgroup_read_number(set->pids, "pids.max", &out->pids, err) ||
        cgroup_read_number(set->cpu, "cpu.cfs_quota_us", &out->cpu_quota, err) ||
        cgroup_read_number(set->cpu, "cpu.cfs_period_us", &out->cpu_period, err))
        return err->kind;
    return ERR_OK;
}

enum err_kind cgroup_read_limits(const struct cgroup_set *set, struct cgroup_limits *out,
                                 struct err *err)
{
    return is_v2(set) ? read_v2(set, out, err) : read_v1(set, out, err);
}

static void show(int64_t v, char out[32])
{
    if (v == CGROUP_UNLIMITED)
        (void)snprintf(out, 32, "unlimited");
    else
        (void)snprintf(out, 32, "%" PRId64, v);
}

static void compare(struct buf *b, const char *what, int64_t want, int64_t have)
{
    char w[32];
    char h[32];
    if (want == CGROUP_ABSENT || want == have)
        return;
    show(want, w);
    show(have, h);
    buf_printf(b, "%s%s is %s, not %s", b->len ? "; " : "", what, h, w);
}

static int64_t in_pages(int64_t bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE);
    return bytes == CGROUP_ABSENT || bytes == CGROUP_UNLIMITED ? bytes : bytes - bytes % page;
}

static void compare_place(struct buf *b, const char *what, const char *have, const char *want)
{
    if (strcmp(have, want) != 0)
        buf_printf(b, "%s%s cgroup is %s, not %s", b->len ? "; " : "", what, have, want);
}

static void compare_limits(struct buf *b, const struct cgroup_limits *want,
                           const struct cgroup_limits *have)
{
    compare(b, "memory", in_pages(want->memory), have->memory);
    if (have->memory_swap != CGROUP_ABSENT)
        compare(b, "memory+swap", in_pages(want->memory_swap), have->memory_swap);
    compare(b, "pids", want->pids, have->pids);
    compare(b, "cpu quota", want->cpu_quota, have->cpu_quota);
    compare(b, "cpu period", want->cpu_period, have->cpu_period);
}

static enum err_kind judged(struct buf *b, const char *what, struct err *err)
{
    enum err_kind kind = ERR_OK;
    if (b->len)
        kind = err_set(err, ERR_PRECONDITION, "%s: %s", what, buf_cstr(b));
    buf_fini(b);
    return kind;
}

enum err_kind cgroup_verify(const struct cgroup_set *set, const struct cgroup_path *path,
                            const struct cgroup_limits *want, struct err *err)
{
    struct cgroup_limits have;
    struct buf b;
    if (cgroup_read_limits(set, &have, err))
        return err->kind;
    buf_init(&b, 900);
    struct cgroup_set *place CLEANUP(cgroup_set_freep) = cgroup_set_at(set->host, path->path);
    compare_place(&b, "memory", set->memory, place->memory);
    compare_place(&b, "pids", set->pids, place->pids);
    compare_place(&b, "cpu", set->cpu, place->cpu);
    compare_limits(&b, want, &have);
    return judged(&b, "limits not in force", err);
}

/* ---- update ------------------------------------------------------------------------------ */

struct change {
    const char *dir;
    const char *file;
    char *old; /* owned */
    char new[64];
};

#define CHANGES_MAX 5

struct changes {
    struct change list[CHANGES_MAX];
    size_t n;
};

static void changes_fini(struct changes *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->list[i].old);
}

static void change(struct changes *c, const char *dir, const char *file, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

static void change(struct changes *c, const char *dir, const char *file, const char *fmt, ...)
{
    struct change *one = &c->list[c->n++];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(one->new, sizeof(one->new), fmt, ap);
    va_end(ap);
    one->dir = dir;
    one->file = file;
}

static void plan_memory_v1(struct changes *c, const struct cgroup_set *set, int64_t want,
                           const struct cgroup_limits *have)
{
    const char *const limit = "memory.limit_in_bytes";
    const char *const total = "memory.memsw.limit_in_bytes";
    /* The kernel never lets memory exceed memory+swap, not even in between. */
    bool raise = want > have->memory;
    bool swap = have->memory_swap != CGROUP_ABSENT;
    if (swap && raise)
        change(c, set->memory, total, "%" PRId64, want);
    change(c, set->memory, limit, "%" PRId64, want);
    if (swap && !raise)
        change(c, set->memory, total, "%" PRId64, want);
}

static void plan_cpu(struct changes *c, const struct cgroup_set *set,
                     const struct cgroup_limits *want, const struct cgroup_limits *have)
{
    int64_t quota = want->cpu_quota == CGROUP_ABSENT ? have->cpu_quota : want->cpu_quota;
    int64_t period = want->cpu_period == CGROUP_ABSENT ? have->cpu_period : want->cpu_period;
    if (quota == have->cpu_quota && period == have->cpu_period)
        return;
    if (is_v2(set)) {
        change(c, set->cpu, "cpu.max", "%" PRId64 " %" PRId64, quota, period);
        return;
    }
    if (period != have->cpu_period)
        change(c, set->cpu, "cpu.cfs_period_us", "%" PRId64, period);
    if (quota != have->cpu_quota)
        change(c, set->cpu, "cpu.cfs_quota_us", "%" PRId64, quota);
}

static const char *shares_file(const struct cgroup_set *set)
{
    return is_v2(set) ? "cpu.weight" : "cpu.shares";
}

/* v2 has 1 to 10000 for v1's 2 to 262144; the same line that OCI runtimes draw. */
static int64_t shares_value(const struct cgroup_set *set, int64_t shares)
{
    return is_v2(set) ? 1 + (shares - 2) * 9999 / 262142 : shares;
}

static void plan_shares(struct changes *c, const struct cgroup_set *set,
                        const struct cgroup_limits *want)
{
    if (want->cpu_shares > 0)
        change(c, set->cpu, shares_file(set), "%" PRId64, shares_value(set, want->cpu_shares));
}

static void put_back(const struct changes *c, size_t n)
{
    struct err err;
    while (n-- > 0) {
        const struct change *one = &c->list[n];
        if (cgroup_file_write(one->dir, one->file, one->old, &err))
            log_error("cgroup_roll_back", log_str("error", err.msg));
    }
}

static enum err_kind apply(struct changes *c, struct err *err)
{
    /* What is there now first, all of it: nothing is written that cannot be put back. */
    for (size_t i = 0; i < c->n; i++) {
        if (cgroup_file_read(c->list[i].dir, c->list[i].file, &c->list[i].old, err))
            return err->kind;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (cgroup_file_write(c->list[i].dir, c->list[i].file, c->list[i].new, err)) {
            put_back(c, i + 1);
            return err->kind;
        }
    }
    return ERR_OK;
}

static enum err_kind check_value(int64_t v, const char *what, struct err *err)
{
    if (v == CGROUP_ABSENT || (v > 0 && v != CGROUP_UNLIMITED))
        return ERR_OK;
    return err_set(err, ERR_INVALID, "%s: a limit cannot be lifted", what);
}

static enum err_kind check_wanted(const struct cgroup_set *set, const struct cgroup_limits *want,
                                  const struct cgroup_limits *have, struct err *err)
{
    int64_t used = 0;
    if (check_value(want->memory, "memory", err) ||
        check_value(want->cpu_quota, "cpu quota", err) ||
        check_value(want->cpu_period, "cpu period", err) || check_value(want->pids, "pids", err))
        return err->kind;
    if (want->pids != CGROUP_ABSENT && want->pids != have->pids)
        return err_set(err, ERR_PRECONDITION,
                       "pids: %" PRId64 " is in force and cannot change while the sandbox runs",
                       have->pids);
    if (want->memory_swap != CGROUP_ABSENT && want->memory_swap != want->memory)
        return err_set(err, ERR_INVALID, "memory swap: must equal memory");
    if (want->memory == CGROUP_ABSENT)
        return ERR_OK;
    const char *file = is_v2(set) ? "memory.current" : "memory.usage_in_bytes";
    if (cgroup_read_number(set->memory, file, &used, err))
        return err->kind;
    if (want->memory < used)
        return err_set(err, ERR_PRECONDITION,
                       "memory: %" PRId64 " is below the %" PRId64 " bytes in use", want->memory,
                       used);
    return ERR_OK;
}

static enum err_kind read_back(const struct cgroup_set *set, const struct cgroup_limits *want,
                               struct err *err)
{
    struct cgroup_limits now;
    struct cgroup_limits whole = *want;
    struct buf b;
    if (cgroup_read_limits(set, &now, err))
        return err->kind;
    whole.memory_swap = whole.memory;
    buf_init(&b, 900);
    compare_limits(&b, &whole, &now);
    if (want->cpu_shares > 0) {
        int64_t shares = 0;
        if (cgroup_read_number(set->cpu, shares_file(set), &shares, err)) {
            buf_fini(&b);
            return err->kind;
        }
        compare(&b, "cpu shares", shares_value(set, want->cpu_shares), shares);
    }
    return judged(&b, "update did not take", err);
}

enum err_kind cgroup_update(const struct cgroup_set *set, const struct cgroup_limits *want,
                            struct err *err)
{
    struct cgroup_limits have;
    struct changes c CLEANUP(changes_fini) = { .n = 0 };
    if (cgroup_read_limits(set, &have, err) || check_wanted(set, want, &have, err))
        return err->kind;
    if (want->memory != CGROUP_ABSENT && is_v2(set)) {
        if (have.memory_swap != CGROUP_ABSENT)
            change(&c, set->memory, "memory.swap.max", "0");
        change(&c, set->memory, "memory.max", "%" PRId64, want->memory);
    } else if (want->memory != CGROUP_ABSENT) {
        plan_memory_v1(&c, set, want->memory, &have);
    }
    plan_cpu(&c, set, want, &have);
    plan_shares(&c, set, want);
    if (apply(&c, err))
        return err->kind;
    if (read_back(set, want, err)) {
        put_back(&c, c.n);
        return err->kind;
    }
    return ERR_OK;
}

enum err_kind cgroup_oom_group(const struct cgroup_set *set, struct err *err)
{
    return is_v2(set) ? cgroup_file_write(set->memory, "memory.oom.group", "1", err) : ERR_OK;
}

enum err_kind cgroup_oom_kills(const struct cgroup_set *set, uint64_t *out, struct err *err)
{
    static const char *const key[] = { "oom_kill" };
    return cgroup_read_keyed(set->memory, is_v2(set) ? "memory.events" : "memory.oom_control", key,
                             out, 1, err);
}
