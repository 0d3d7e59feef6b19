#include "policy/seccomp.h"

#include <string.h>
#include <sys/stat.h>

#include "policy/schema.h"

#define CLONE_NEWUSER_BIT 0x10000000

/* What lets a guest make namespaces, mounts or other roots, look into its neighbours or run code
 * from nowhere. Denied for everybody in the sandbox. */
static const char *const denied[] = {
    "unshare",    "setns",         "mount",  "umount2", "pivot_root",
    "move_mount", "open_tree",     "fsopen", "fsmount", "fsconfig",
    "fspick",     "mount_setattr", "chroot", "ptrace",  "memfd_create",
};

static bool is_guarded(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
        if (denied[i][0] == name[0] && strcmp(denied[i], name) == 0)
            return true;
    }
    return name[0] == 'c' && strcmp(name, "clone3") == 0;
}

static bool action_is_kept(const char *action)
{
    return strcmp(action, "SCMP_ACT_ALLOW") == 0 || strcmp(action, "SCMP_ACT_ERRNO") == 0 ||
           strcmp(action, "SCMP_ACT_KILL") == 0 || strcmp(action, "SCMP_ACT_TRAP") == 0;
}

static bool profile_is_kept(const json_t *caller)
{
    const json_t *rules = json_object_get(caller, "syscalls");
    if (!caller || !action_is_kept(member_str(caller, "defaultAction")))
        return false;
    for (size_t i = 0; i < json_array_size(rules); i++) {
        if (!action_is_kept(member_str(json_array_get(rules, i), "action")))
            return false;
    }
    return true;
}

/* A call that is denied when an argument has these bits. */
static const struct {
    const char *name;
    int index;
    int mask;
    int bits;
} masked[] = {
    { "clone", 0, CLONE_NEWUSER_BIT, CLONE_NEWUSER_BIT },
    { "mknod", 1, S_IFMT, S_IFCHR }, /* old runsc asks for no capability (measured) */
    { "mknod", 1, S_IFMT, S_IFBLK },
    { "mknodat", 2, S_IFMT, S_IFCHR },
    { "mknodat", 2, S_IFMT, S_IFBLK },
};

static json_t *masked_rule(size_t i)
{
    return json_pack("{s:[s],s:s,s:[{s:i,s:i,s:i,s:s}]}", "names", masked[i].name, "action",
                     "SCMP_ACT_ERRNO", "args", "index", masked[i].index, "value", masked[i].mask,
                     "valueTwo", masked[i].bits, "op", "SCMP_CMP_MASKED_EQ");
}

/* clone3's flags are behind a pointer, where no filter sees them. TRACE without a tracer is ENOSYS
 * in gVisor (ERRNO is always EPERM there), after which glibc uses clone; ptrace is denied. */
static json_t *own_rules(void)
{
    json_t *names = json_array();
    for (size_t i = 0; i < ARRAY_LEN(denied); i++)
        json_array_append_new(names, json_string(denied[i]));
    json_t *rules = json_pack("[{s:[s],s:s}]", "names", "clone3", "action", "SCMP_ACT_TRACE");
    for (size_t i = 0; i < ARRAY_LEN(masked); i++)
        json_array_append_new(rules, masked_rule(i));
    json_array_append_new(rules,
                          json_pack("{s:o,s:s}", "names", names, "action", "SCMP_ACT_ERRNO"));
    return rules;
}

static json_t *unguarded_names(const json_t *rule)
{
    const json_t *names = json_object_get(rule, "names");
    json_t *kept = json_array();
    for (size_t i = 0; i < json_array_size(names); i++) {
        json_t *name = json_array_get(names, i);
        if (json_is_string(name) && !is_guarded(json_string_value(name)))
            json_array_append(kept, name);
    }
    return kept;
}

static void append_caller_rules(json_t *rules, const json_t *caller)
{
    const json_t *theirs = json_object_get(caller, "syscalls");
    for (size_t i = 0; i < json_array_size(theirs); i++) {
        const json_t *rule = json_array_get(theirs, i);
        json_t *names CLEANUP_JSON = unguarded_names(rule);
        json_t *args = json_object_get(rule, "args");
        if (json_array_size(names) == 0)
            continue;
        json_t *kept = json_pack("{s:O,s:s}", "names", names, "action", member_str(rule, "action"));
        if (json_array_size(args) > 0)
            json_object_set(kept, "args", args);
        json_array_append_new(rules, kept);
    }
}

json_t *seccomp_guarded(const json_t *caller, bool *kept)
{
#if defined(__x86_64__)
    static const char architecture[] = "SCMP_ARCH_X86_64";
#elif defined(__aarch64__)
    static const char architecture[] = "SCMP_ARCH_AARCH64";
#else
#error "gVisor runs on x86_64 and aarch64"
#endif
    json_t *rules = own_rules();
    *kept = profile_is_kept(caller);
    if (*kept)
        append_caller_rules(rules, caller);
    return json_pack("{s:s,s:[s],s:o}", "defaultAction",
                     *kept ? member_str(caller, "defaultAction") : "SCMP_ACT_ALLOW",
                     "architectures", architecture, "syscalls", rules);
}

/* ---- rule -------------------------------------------------------------------------------------
 */

static bool op_is_known(const char *op)
{
    static const char *const ops[] = { "SCMP_CMP_NE",       "SCMP_CMP_LT", "SCMP_CMP_LE",
                                       "SCMP_CMP_EQ",       "SCMP_CMP_GE", "SCMP_CMP_GT",
                                       "SCMP_CMP_MASKED_EQ" };
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (strcmp(ops[i], op) == 0)
            return true;
    }
    return false;
}

static void check_args_of(struct policy_check_run *run, size_t i, const json_t *args)
{
    for (size_t k = 0; k < json_array_size(args); k++) {
        const json_t *arg = json_array_get(args, k);
        struct at here = at("/linux/seccomp/syscalls/%zu/args/%zu", i, k);
        if (member_int(arg, "index", 0) > 5)
            policy_find(run, here.s, "argument %lld of a system call",
                        (long long)member_int(arg, "index", 0));
        if (!op_is_known(member_str(arg, "op")))
            policy_find(run, here.s, "comparison \"%s\"", member_str(arg, "op"));
    }
}

void check_seccomp(struct policy_check_run *run)
{
    check_field(run);
    const json_t *rules = json_object_get(
        json_object_get(json_object_get(run->spec, "linux"), "seccomp"), "syscalls");
    for (size_t i = 0; i < json_array_size(rules); i++)
        check_args_of(run, i, json_object_get(json_array_get(rules, i), "args"));
}
