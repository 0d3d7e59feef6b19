/* Rules over the process: of the container, and of an exec. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/check.h"
#include "policy/rlimit.h"

#define ID_MAX 4294967294 /* 2^32 - 2: the kernel's highest; one more is "no id" */
#define GIDS_MAX 64
#define ARGS_MAX 1024
#define ARGS_BYTES_MAX (128 * 1024)

void check_no_new_privileges(struct policy_check_run *run)
{
    const json_t *value = json_object_get(run->process, "noNewPrivileges");
    if (!json_is_true(value))
        policy_find(run, at("%s/noNewPrivileges", run->process_at).s, "noNewPrivileges is %s",
                    value ? "false" : "missing");
}

static const char *const capability_sets[] = { "bounding", "effective", "permitted", "inheritable",
                                               "ambient" };

/* CRI's pause container always carries 14; pause needs none and gets none (policy_harden). Its
 * profile takes only the default ones: rule pause looks at the rest of it. */
static bool pause_may_hold(const char *capability)
{
    static const char *const defaults[] = {
        "CAP_CHOWN",   "CAP_DAC_OVERRIDE", "CAP_FSETID",      "CAP_FOWNER",           "CAP_MKNOD",
        "CAP_NET_RAW", "CAP_SETGID",       "CAP_SETUID",      "CAP_SETFCAP",          "CAP_SETPCAP",
        "CAP_KILL",    "CAP_SYS_CHROOT",   "CAP_AUDIT_WRITE", "CAP_NET_BIND_SERVICE",
    };
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
        if (strcmp(defaults[i], capability) == 0)
            return true;
    }
    return false;
}

static bool capability_counts(const struct policy_check_run *run, const char *set,
                              const char *capability)
{
    return run->context.role != POLICY_ROLE_PAUSE || strcmp(set, "ambient") == 0 ||
           strcmp(set, "inheritable") == 0 || !pause_may_hold(capability);
}

static size_t count_capabilities(const struct policy_check_run *run, const char *set,
                                 const char **first)
{
    const json_t *list = json_object_get(json_object_get(run->process, "capabilities"), set);
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && capability_counts(run, set, name)) {
            *first = *first ? *first : name;
            n++;
        }
    }
    return n;
}

void check_capabilities(struct policy_check_run *run)
{
    char text[160] = "";
    const char *first = NULL;
    for (size_t i = 0; i < ARRAY_LEN(capability_sets); i++) {
        size_t n = count_capabilities(run, capability_sets[i], &first), used = strlen(text);
        if (n)
            (void)snprintf(text + used, sizeof(text) - used, "%zu %s, ", n, capability_sets[i]);
    }
    if (first)
        policy_find(run, at("%s/capabilities", run->process_at).s, "%s%s first", text, first);
}

static void check_id(struct policy_check_run *run, const json_t *user, const char *key)
{
    int64_t id = member_int(user, key, 0);
    if (id > ID_MAX)
        policy_find(run, at("%s/user/%s", run->process_at, key).s, "%s is %lld", key,
                    (long long)id);
}

void check_user(struct policy_check_run *run)
{
    const json_t *user = json_object_get(run->process, "user");
    check_id(run, user, "uid");
    check_id(run, user, "gid");
    const json_t *groups = json_object_get(user, "additionalGids");
    if (json_array_size(groups) > GIDS_MAX)
        policy_find(run, at("%s/user/additionalGids", run->process_at).s, "%zu groups, at most %d",
                    json_array_size(groups), GIDS_MAX);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        int64_t gid = json_integer_value(json_array_get(groups, i));
        if (gid > ID_MAX)
            policy_find(run, at("%s/user/additionalGids/%zu", run->process_at, i).s,
                        "group is %lld", (long long)gid);
    }
    int64_t umask = member_int(user, "umask", 022);
    if (umask > 0777)
        policy_find(run, at("%s/user/umask", run->process_at).s, "umask is %lld", (long long)umask);
}

void check_args(struct policy_check_run *run)
{
    const json_t *args = json_object_get(run->process, "args");
    const char *first = json_string_value(json_array_get(args, 0));
    if (!first || !*first) {
        policy_find(run, at("%s/args", run->process_at).s, "no program to run");
        return;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < json_array_size(args); i++)
        bytes += json_string_length(json_array_get(args, i)) + 1;
    if (json_array_size(args) > ARGS_MAX || bytes > ARGS_BYTES_MAX)
        policy_find(run, at("%s/args", run->process_at).s,
                    "%zu arguments of %zu bytes, at most %d and %d", json_array_size(args), bytes,
                    ARGS_MAX, ARGS_BYTES_MAX);
}

void check_cwd(struct policy_check_run *run)
{
    const char *cwd = member_str(run->process, "cwd");
    if (!path_is_clean(cwd))
        policy_find(run, at("%s/cwd", run->process_at).s, "cwd is \"%s\"", cwd);
}

void check_terminal(struct policy_check_run *run)
{
    const json_t *size = json_object_get(run->process, "consoleSize");
    if (member_int(size, "height", 0) > 65535 || member_int(size, "width", 0) > 65535)
        policy_find(run, at("%s/consoleSize", run->process_at).s, "a side over 65535");
}

static bool rlimit_is_known(const char *type)
{
    static const char *const known[] = {
        "RLIMIT_AS",     "RLIMIT_CORE",   "RLIMIT_CPU",        "RLIMIT_DATA",
        "RLIMIT_FSIZE",  "RLIMIT_LOCKS",  "RLIMIT_MEMLOCK",    "RLIMIT_MSGQUEUE",
        "RLIMIT_NICE",   "RLIMIT_NOFILE", "RLIMIT_NPROC",      "RLIMIT_RSS",
        "RLIMIT_RTPRIO", "RLIMIT_RTTIME", "RLIMIT_SIGPENDING", "RLIMIT_STACK",
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i], type) == 0)
            return true;
    }
    return false;
}

static void check_rlimit(struct policy_check_run *run, const json_t *rlimits, size_t i)
{
    const json_t *rlimit = json_array_get(rlimits, i);
    const char *type = member_str(rlimit, "type");
    struct at here = at("%s/rlimits/%zu", run->process_at, i);
    if (!rlimit_is_known(type))
        policy_find(run, here.s, "unknown limit \"%s\"", type);
    else if (rlimit_value(rlimit, "soft") < 0 || rlimit_value(rlimit, "hard") < 0)
        policy_find(run, here.s, "%s without a soft and a hard value", type);
    else if (rlimit_value(rlimit, "soft") > rlimit_value(rlimit, "hard"))
        policy_find(run, here.s, "%s has a soft limit over its hard one", type);
    else if (run->context.role != POLICY_ROLE_SINGLE && !rlimit_is_ours(type))
        policy_find(run, here.s, "%s in a pod, whose containers share one set", type);
    for (size_t k = 0; k < i; k++) {
        if (strcmp(type, member_str(json_array_get(rlimits, k), "type")) == 0)
            policy_find(run, here.s, "%s twice", type);
    }
}

void check_rlimits(struct policy_check_run *run)
{
    const json_t *rlimits = json_object_get(run->process, "rlimits");
    for (size_t i = 0; i < json_array_size(rlimits) && i < 32; i++)
        check_rlimit(run, rlimits, i);
    if (json_array_size(rlimits) > 32)
        policy_find(run, at("%s/rlimits", run->process_at).s, "%zu limits",
                    json_array_size(rlimits));
}

static void check_host_name(struct policy_check_run *run, const char *key)
{
    const char *name = member_str(run->spec, key);
    if (*name && !hostname_is_valid(name))
        policy_find(run, at("/%s", key).s, "%s is \"%s\"", key, name);
}

void check_hostname(struct policy_check_run *run)
{
    check_host_name(run, "hostname");
    check_host_name(run, "domainname");
}

static bool has_group(const json_t *user, int64_t gid)
{
    const json_t *groups = json_object_get(user, "additionalGids");
    for (size_t i = 0; i < json_array_size(groups); i++) {
        if (json_integer_value(json_array_get(groups, i)) == gid)
            return true;
    }
    return gid == member_int(user, "gid", 0);
}

/* The limit on processes counts per uid: a second uid would double what the guest may hold. */
void check_exec_user(struct policy_check_run *run)
{
    const json_t *asked = json_object_get(run->process, "user");
    const json_t *own = json_at(run->container, "/process/user");
    static const char *const keys[] = { "uid", "gid" };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        int64_t is = member_int(asked, keys[i], 0), must = member_int(own, keys[i], 0);
        if (is != must)
            policy_find(run, at("/user/%s", keys[i]).s, "%s %lld, the container's is %lld", keys[i],
                        (long long)is, (long long)must);
    }
    const json_t *groups = json_object_get(asked, "additionalGids");
    for (size_t i = 0; i < json_array_size(groups); i++) {
        int64_t gid = json_integer_value(json_array_get(groups, i));
        /* Tools repeat the primary group of the exec here; that gid is judged above. */
        if (gid != member_int(asked, "gid", 0) && !has_group(own, gid))
            policy_find(run, at("/user/additionalGids/%zu", i).s, "group %lld, not the container's",
                        (long long)gid);
    }
}
