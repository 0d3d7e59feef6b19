/* Rules over resources (of a create and of an update), cgroup path and sysctls. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/cpuset.h"
#include "policy/schema.h"

#define MEMORY_MIN (32 * 1024 * 1024)
#define CPU_MILLI_MIN 100
#define QUOTA_MIN 1000 /* microseconds; the kernel takes no less */
#define PERIOD_MIN 1000
#define PERIOD_MAX 1000000
#define PERIOD_DEFAULT 100000
#define PIDS_MIN 8

static const json_t *spec_resource(const json_t *spec, const char *key)
{
    const json_t *resources = json_object_get(json_object_get(spec, "linux"), "resources");
    return json_object_get(resources, key);
}

/* A number that CRI writes as an annotation of the pause container. */
static int64_t sandbox_number(const json_t *spec, const char *key)
{
    const char *type = spec_annotation(spec, "io.kubernetes.cri.container-type");
    const char *text = spec_annotation(spec, key);
    int64_t value;
    return type && strcmp(type, "sandbox") == 0 && text && text_i64(text, &value) ? value : 0;
}

static int64_t spec_limit(const json_t *spec, const char *resource, const char *key,
                          const char *annotation)
{
    int64_t own = member_int(spec_resource(spec, resource), key, 0);
    return own ? own : sandbox_number(spec, annotation);
}

int64_t spec_memory(const json_t *spec)
{
    return spec_limit(spec, "memory", "limit", "io.kubernetes.cri.sandbox-memory");
}

int64_t spec_cpu_quota(const json_t *spec)
{
    return spec_limit(spec, "cpu", "quota", "io.kubernetes.cri.sandbox-cpu-quota");
}

int64_t spec_cpu_period(const json_t *spec)
{
    int64_t period = spec_limit(spec, "cpu", "period", "io.kubernetes.cri.sandbox-cpu-period");
    return period ? period : PERIOD_DEFAULT;
}

/* CRI gives the pause container the least there is; the pod's share is in an annotation. */
int64_t spec_sandbox_shares(const json_t *spec)
{
    int64_t shares = sandbox_number(spec, "io.kubernetes.cri.sandbox-cpu-shares");
    return shares >= 2 && shares <= 262144 ? shares : 0;
}

/* ---- memory ------------------------------------------------------------------------------------
 */

static void check_memory_value(struct policy_check_run *run, const char *here, int64_t limit)
{
    if (limit < MEMORY_MIN)
        policy_find(run, here, "memory limit is %lld bytes, at least %d", (long long)limit,
                    MEMORY_MIN);
    else if (limit > run->config->max_memory)
        policy_find(run, here, "memory limit is %lld bytes, the maximum is %lld", (long long)limit,
                    (long long)run->config->max_memory);
}

void check_memory(struct policy_check_run *run)
{
    const json_t *memory = json_object_get(run->resources, "memory");
    struct at here = at("%s/memory/limit", run->resources_at);
    if (member_true(memory, "disableOOMKiller"))
        policy_find(run, at("%s/memory/disableOOMKiller", run->resources_at).s,
                    "disableOOMKiller is true");
    if (run->in_force) {
        if (json_object_get(memory, "limit"))
            check_memory_value(run, here.s, member_int(memory, "limit", 0));
        return;
    }
    int64_t limit = spec_memory(run->spec);
    if (limit == 0)
        policy_find(run, here.s, "no memory limit");
    else
        check_memory_value(run, here.s, limit);
}

/* ---- CPU ---------------------------------------------------------------------------------------
 */

static void check_cpu_value(struct policy_check_run *run, int64_t quota, int64_t period)
{
    struct at here = at("%s/cpu/quota", run->resources_at);
    int64_t milli;
    if (period < PERIOD_MIN || period > PERIOD_MAX)
        policy_find(run, at("%s/cpu/period", run->resources_at).s,
                    "CPU period is %lld, %d to %d are taken", (long long)period, PERIOD_MIN,
                    PERIOD_MAX);
    else if (quota <= 0 || __builtin_mul_overflow(quota, 1000, &milli))
        policy_find(run, here.s, "CPU quota is %lld", (long long)quota);
    else if (quota < QUOTA_MIN)
        policy_find(run, here.s, "CPU quota is %lld, at least %d", (long long)quota, QUOTA_MIN);
    else if (milli < CPU_MILLI_MIN * period)
        policy_find(run, here.s, "CPU quota is %lld of %lld, at least a tenth", (long long)quota,
                    (long long)period);
    else if (milli > run->config->max_cpu_milli * period)
        policy_find(run, here.s, "CPU quota is %lld of %lld, the maximum is %lld/1000 CPU",
                    (long long)quota, (long long)period, (long long)run->config->max_cpu_milli);
}

static void check_cpu_rest(struct policy_check_run *run, const json_t *cpu)
{
    int64_t shares = member_int(cpu, "shares", 0);
    if (shares && (shares < 2 || shares > 262144))
        policy_find(run, at("%s/cpu/shares", run->resources_at).s, "CPU shares are %lld",
                    (long long)shares);
}

/* Which of them this host has is found by policy_check_cpuset(). */
void check_cpuset(struct policy_check_run *run)
{
    static const char *const sets[] = { "cpus", "mems" };
    const json_t *cpu = json_object_get(run->resources, "cpu");
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        const char *text = member_str(cpu, sets[i]);
        struct cpuset set;
        if (*text && (!cpuset_parse(text, &set) || strchr(text, '\n')))
            policy_find(run, at("%s/cpu/%s", run->resources_at, sets[i]).s,
                        "%s is \"%s\", which is no list like 0-1,3", sets[i], text);
    }
}

void check_cpu(struct policy_check_run *run)
{
    const json_t *cpu = json_object_get(run->resources, "cpu");
    check_field(run);
    check_cpu_rest(run, cpu);
    if (run->in_force) {
        if (json_object_get(cpu, "quota") || json_object_get(cpu, "period"))
            check_cpu_value(run, member_int(cpu, "quota", run->in_force->cpu_quota),
                            member_int(cpu, "period", run->in_force->cpu_period));
        return;
    }
    int64_t quota = spec_cpu_quota(run->spec);
    if (quota == 0)
        policy_find(run, at("%s/cpu/quota", run->resources_at).s, "no CPU limit");
    else
        check_cpu_value(run, quota, spec_cpu_period(run->spec));
}

/* ---- pids, unified -----------------------------------------------------------------------------
 */

void check_pids(struct policy_check_run *run)
{
    const json_t *value = json_object_get(json_object_get(run->resources, "pids"), "limit");
    int64_t limit = json_integer_value(value);
    struct at here = at("%s/pids/limit", run->resources_at);
    if (!value)
        return; /* absent: the maximum (no tool of CRI's and no flag of ctr's writes it) */
    if (limit < PIDS_MIN)
        policy_find(run, here.s, "pids limit is %lld, at least %d", (long long)limit, PIDS_MIN);
    else if (limit > run->config->max_pids)
        policy_find(run, here.s, "pids limit is %lld, the maximum is %lld", (long long)limit,
                    (long long)run->config->max_pids);
}

/* What the kubelet writes by itself; the shim sets memory.oom.group and swap on its own. */
bool unified_is_dropped(const char *key, const char *value)
{
    return strcmp(key, "memory.oom.group") == 0 || strcmp(key, "memory.high") == 0 ||
           strcmp(key, "memory.min") == 0 ||
           (strcmp(key, "memory.swap.max") == 0 && strcmp(value, "0") == 0);
}

void check_unified(struct policy_check_run *run)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(run->resources, "unified"), key, value)
    {
        const char *text = json_string_value(value);
        if (!unified_is_dropped(key, text ? text : ""))
            policy_find(run, member_at(at("%s/unified", run->resources_at).s, key).s,
                        "%s is \"%s\"", key, text ? text : "");
    }
}

/* ---- update ------------------------------------------------------------------------------------
 */

/* What the shim does not change in a running sandbox: to answer such an update with success would
 * be a lie. */
static void check_unchangeable(struct policy_check_run *run)
{
    static const struct {
        const char *object;
        const char *key;
    } fields[] = {
        { "cpu", "cpus" },
        { "cpu", "mems" },
        { "memory", "reservation" },
        { "memory", "swappiness" },
        { "memory", "useHierarchy" },
        { "unified", "memory.high" },
        { "unified", "memory.min" },
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const json_t *object = json_object_get(run->resources, fields[i].object);
        const json_t *value = json_object_get(object, fields[i].key);
        if (value && !json_is_empty(value))
            policy_find(run, at("/%s/%s", fields[i].object, fields[i].key).s,
                        "%s.%s cannot change while the container runs", fields[i].object,
                        fields[i].key);
    }
}

/* On top of memory, cpu and pids: what a running sandbox cannot take. */
void check_update(struct policy_check_run *run)
{
    check_unchangeable(run);
    const struct policy_limits *force = run->in_force;
    int64_t pids = member_int(json_object_get(run->resources, "pids"), "limit", force->pids);
    int64_t memory = member_int(json_object_get(run->resources, "memory"), "limit", 0);
    if (pids != force->pids && pids >= PIDS_MIN && pids <= run->config->max_pids)
        policy_find(run, "/pids/limit", "pids limit is %lld, in force is %lld", (long long)pids,
                    (long long)force->pids);
    if (run->context.role == POLICY_ROLE_WORKLOAD && memory > force->memory)
        policy_find(run, "/memory/limit", "memory limit is %lld bytes, the pod's is %lld",
                    (long long)memory, (long long)force->memory);
}

/* ---- cgroup path -------------------------------------------------------------------------------
 */

static bool parent_is_listed(const struct policy_check_run *run, const char *parent)
{
    for (char **entry = run->config->cgroup_parents; entry && *entry; entry++) {
        if ((*entry)[0] == '/' ? path_below(parent, *entry) : strcmp(parent, *entry) == 0)
            return true;
    }
    return false;
}

static bool is_kubernetes(const struct policy_check_run *run)
{
    return strcmp(run->context.ns, "k8s.io") == 0;
}

/* /a/b/<id> */
static bool directory_is_allowed(const struct policy_check_run *run, const char *path)
{
    const char *last = strrchr(path, '/');
    if (!path_is_clean(path) || last == path || strcmp(last + 1, run->context.id) != 0)
        return false;
    char *parent CLEANUP_FREE = xstrndup(path, (size_t)(last - path));
    char *own CLEANUP_FREE = xasprintf("/%s", run->context.ns);
    return path_below(parent, own) || (is_kubernetes(run) && text_starts(parent, "/kubepods")) ||
           parent_is_listed(run, parent);
}

/* The unit is PREFIX-ID.scope: with a free prefix an id of one's choice names any scope there is
 * (session-1). */
static bool scope_prefix_is_known(const char *prefix)
{
    static const char *const known[] = { "nerdctl", "cri-containerd", "containerd", "utter" };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i], prefix) == 0)
            return true;
    }
    return false;
}

/* slice:prefix:<id> */
static bool slice_is_allowed(const struct policy_check_run *run, const char *path)
{
    const char *first = strchr(path, ':');
    const char *second = first ? strchr(first + 1, ':') : NULL;
    if (!second || strcmp(second + 1, run->context.id) != 0)
        return false;
    char *slice CLEANUP_FREE = xstrndup(path, (size_t)(first - path));
    char *prefix CLEANUP_FREE = xstrndup(first + 1, (size_t)(second - first - 1));
    if (!scope_prefix_is_known(prefix) || !name_is_plain(slice) || !text_ends(slice, ".slice"))
        return false;
    return strcmp(slice, "system.slice") == 0 || parent_is_listed(run, slice) ||
           (is_kubernetes(run) && text_starts(slice, "kubepods"));
}

/* It is written to lists of ours and shown in /proc and logs line by line. */
static bool is_printable(const char *path)
{
    for (; *path; path++) {
        if (*path <= ' ' || *path > '~')
            return false;
    }
    return true;
}

void check_cgroups_path(struct policy_check_run *run)
{
    const char *path = member_str(json_object_get(run->spec, "linux"), "cgroupsPath");
    bool allowed = path[0] == '/' ? directory_is_allowed(run, path) : slice_is_allowed(run, path);
    if (!allowed || !is_printable(path))
        policy_find(run, "/linux/cgroupsPath", "cgroupsPath is \"%s\"", path);
}

/* ---- sysctl ------------------------------------------------------------------------------------
 */

static bool sysctl_is_allowed(const char *key, const char *value)
{
    static const struct {
        const char *key;
        const char *value;
    } allowed[] = {
        { "net.ipv4.ip_unprivileged_port_start", "0" },
        { "net.ipv4.ping_group_range", "0 2147483647" },
        { "net.ipv6.conf.all.disable_ipv6", "1" },
        { "net.ipv6.conf.default.disable_ipv6", "1" },
    };
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        if (strcmp(allowed[i].key, key) == 0 && strcmp(allowed[i].value, value) == 0)
            return true;
    }
    return false;
}

void check_sysctl(struct policy_check_run *run)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(json_object_get(run->spec, "linux"), "sysctl"), key, value)
    {
        const char *text = json_string_value(value);
        if (!sysctl_is_allowed(key, text ? text : ""))
            policy_find(run, member_at("/linux/sysctl", key).s, "%s = %s", key, text ? text : "");
    }
}
