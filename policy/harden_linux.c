/* Limits, seccomp and what else of /linux is rewritten. */
#include <string.h>

#include "base/json.h"
#include "policy/harden.h"
#include "policy/seccomp.h"

static json_t *object_in(json_t *object, const char *key)
{
    json_t *member = json_object_get(object, key);
    if (!member) {
        member = json_object();
        json_object_set_new(object, key, member);
    }
    return member;
}

static void set_number(struct harden *harden, json_t *object, const char *pointer, const char *key,
                       int64_t value)
{
    const json_t *old = json_object_get(object, key);
    if (old && json_integer_value(old) == value)
        return;
    if (old)
        changes_add(harden->changes, at("%s/%s", pointer, key).s, "%lld set to %lld",
                    (long long)json_integer_value(old), (long long)value);
    else
        changes_add(harden->changes, at("%s/%s", pointer, key).s, "absent, set to %lld",
                    (long long)value);
    json_object_set_new(object, key, json_integer(value));
}

/* A workload of a pod has a cgroup of its own only in name; its numbers stay as asked. */
static struct policy_limits own_limits(const struct harden *harden)
{
    struct policy_limits limits = harden->plan->limits;
    if (harden->context->role == POLICY_ROLE_WORKLOAD) {
        limits.memory = spec_memory(harden->spec);
        limits.cpu_quota = spec_cpu_quota(harden->spec);
        limits.cpu_period = spec_cpu_period(harden->spec);
    }
    return limits;
}

int64_t shares_within(int64_t asked, int64_t quota, int64_t period)
{
    int64_t worth = quota * 1024 / period;
    worth = worth < 2 ? 2 : worth;
    return asked < worth ? asked : worth;
}

static void harden_resources(struct harden *harden, json_t *resources)
{
    static const char at_memory[] = "/linux/resources/memory";
    static const char at_cpu[] = "/linux/resources/cpu";
    struct policy_limits limits = own_limits(harden);
    const json_t *old = json_object_get(resources, "cpu");
    int64_t shares = member_int(old, "shares", 0);
    json_t *memory = object_in(resources, "memory");
    set_number(harden, memory, at_memory, "limit", limits.memory);
    /* On cgroup v2 swap below the limit makes runsc drop the limit; left out, swap is unlimited. */
    set_number(harden, memory, at_memory, "swap", limits.memory);
    json_object_set_new(resources, "memory",
                        json_pack("{s:I,s:I}", "limit", (json_int_t)limits.memory, "swap",
                                  (json_int_t)limits.memory));
    json_t *cpu = object_in(resources, "cpu");
    set_number(harden, cpu, at_cpu, "quota", limits.cpu_quota);
    set_number(harden, cpu, at_cpu, "period", limits.cpu_period);
    json_object_del(cpu, "burst");
    json_object_del(cpu, "idle");
    json_object_del(cpu, "realtimeRuntime");
    json_object_del(cpu, "realtimePeriod");
    if (spec_sandbox_shares(harden->spec))
        shares = spec_sandbox_shares(harden->spec);
    if (shares)
        set_number(harden, cpu, at_cpu, "shares",
                   shares_within(shares, limits.cpu_quota, limits.cpu_period));
    else
        json_object_del(cpu, "shares");
    set_number(harden, object_in(resources, "pids"), "/linux/resources/pids", "limit",
               limits.host_pids);
}

static void drop(struct harden *harden, json_t *object, const char *pointer, const char *key)
{
    if (json_object_get(object, key) && !json_is_empty(json_object_get(object, key)))
        changes_add(harden->changes, at("%s/%s", pointer, key).s, "dropped");
    json_object_del(object, key);
}

static void drop_resources(struct harden *harden, json_t *resources)
{
    static const char *const dropped[] = { "unified", "hugepageLimits", "blockIO", "network",
                                           "rdma" };
    for (size_t i = 0; i < ARRAY_LEN(dropped); i++)
        drop(harden, resources, "/linux/resources", dropped[i]);
    json_object_set_new(resources, "devices",
                        json_pack("[{s:b,s:s}]", "allow", 0, "access", "rwm"));
}

static void harden_seccomp(struct harden *harden, json_t *linux_)
{
    const json_t *caller = json_object_get(linux_, "seccomp");
    bool kept;
    json_t *own = seccomp_guarded(caller, &kept);
    changes_add(harden->changes, "/linux/seccomp",
                kept     ? "Utter's rules put before the profile's"
                : caller ? "profile with an action that gVisor does not take replaced by Utter's"
                         : "absent, set to Utter's");
    json_object_set_new(linux_, "seccomp", own);
}

void harden_linux(struct harden *harden)
{
    static const char *const dropped[] = { "uidMappings",      "gidMappings", "devices",
                                           "mountLabel",       "netDevices",  "intelRdt",
                                           "personality",      "timeOffsets", "memoryPolicy",
                                           "rootfsPropagation" };
    json_t *linux_ = object_in(harden->spec, "linux");
    json_t *resources = object_in(linux_, "resources");
    harden_resources(harden, resources);
    drop_resources(harden, resources);
    harden_seccomp(harden, linux_);
    for (size_t i = 0; i < ARRAY_LEN(dropped); i++)
        drop(harden, linux_, "/linux", dropped[i]);
    static const char *const foreign[] = { "windows", "solaris", "freebsd", "vm", "zos" };
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        json_object_del(harden->spec, foreign[i]);
}
