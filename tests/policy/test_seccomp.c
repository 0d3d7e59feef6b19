/* The guest's filter as runsc reads it (first rule that matches, else the default): no caller's
 * profile opens what Utter closes, and what a profile closes stays closed. */
#include <sys/stat.h>

#include "policy/seccomp.h"
#include "tests/policy/help.h"

struct call {
    const char *name;
    int64_t args[6];
};

static bool arg_matches(const json_t *arg, const struct call *call)
{
    int64_t is = call->args[json_integer_value(json_object_get(arg, "index"))];
    int64_t value = json_integer_value(json_object_get(arg, "value"));
    int64_t two = json_integer_value(json_object_get(arg, "valueTwo"));
    const char *op = json_string_value(json_object_get(arg, "op"));
    if (strcmp(op, "SCMP_CMP_MASKED_EQ") == 0)
        return (is & value) == two;
    if (strcmp(op, "SCMP_CMP_EQ") == 0)
        return is == value;
    fail_msg("the test does not know %s", op);
    return false;
}

static bool rule_matches(const json_t *rule, const struct call *call)
{
    size_t i;
    json_t *name, *arg;
    bool named = false;
    json_array_foreach(json_object_get(rule, "names"), i, name) named |=
        strcmp(json_string_value(name), call->name) == 0;
    if (!named)
        return false;
    json_array_foreach(json_object_get(rule, "args"), i, arg)
    {
        if (!arg_matches(arg, call))
            return false;
    }
    return true;
}

static const char *action_of(const json_t *profile, const struct call *call)
{
    size_t i;
    json_t *rule;
    json_array_foreach(json_object_get(profile, "syscalls"), i, rule)
    {
        if (rule_matches(rule, call))
            return json_string_value(json_object_get(rule, "action"));
    }
    return json_string_value(json_object_get(profile, "defaultAction"));
}

static const struct call closed[] = {
    { "unshare", { 0 } },
    { "setns", { 0 } },
    { "mount", { 0 } },
    { "umount2", { 0 } },
    { "pivot_root", { 0 } },
    { "move_mount", { 0 } },
    { "open_tree", { 0 } },
    { "fsopen", { 0 } },
    { "fsmount", { 0 } },
    { "fsconfig", { 0 } },
    { "fspick", { 0 } },
    { "mount_setattr", { 0 } },
    { "chroot", { 0 } },
    { "ptrace", { 0 } },
    { "memfd_create", { 0 } },
    { "clone", { 0x10000000 } },
    { "clone", { 0x7e020011 } },
    { "mknod", { 0, S_IFCHR | 0666 } },
    { "mknod", { 0, S_IFBLK } },
    { "mknodat", { 0, 0, S_IFCHR } },
    { "mknodat", { 0, 0, S_IFBLK | 0600 } },
};

/* clone(2) of a thread, of a process; a FIFO; what any program does. */
static const struct call open_calls[] = {
    { "clone", { 0x3d0f00 } },
    { "clone", { 0x01200011 } },
    { "mknod", { 0, S_IFIFO | 0600 } },
    { "mknodat", { 0, 0, S_IFREG } },
    { "read", { 0 } },
};

static void expect_closed(const json_t *profile, const char *what)
{
    for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
        if (strcmp(action_of(profile, &closed[i]), "SCMP_ACT_ERRNO") != 0)
            fail_msg("%s opens %s", what, closed[i].name);
    }
    struct call clone3 = { "clone3", { 0 } };
    assert_string_equal(action_of(profile, &clone3), "SCMP_ACT_TRACE");
}

static void test_hostile_profiles(void **state)
{
    (void)state;
    static const char *const profiles[] = {
        "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}",
        "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"mount\",\"unshare\","
        "\"clone\",\"clone3\",\"ptrace\",\"mknod\",\"mknodat\"],\"action\":\"SCMP_ACT_ALLOW\"}]}",
        "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"clone\"],\"action\":"
        "\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":268435456,\"valueTwo\":268435456,"
        "\"op\":\"SCMP_CMP_MASKED_EQ\"}]},{\"names\":[\"clone\",\"read\",\"mknod\",\"mknodat\"],"
        "\"action\":\"SCMP_ACT_ALLOW\"}]}",
        "{\"defaultAction\":\"SCMP_ACT_LOG\"}",
        "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"mount\"],\"action\":"
        "\"SCMP_ACT_NOTIFY\"}]}",
        "{}",
    };
    for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
        json_t *caller CLEANUP_JSON = parse(profiles[i]);
        bool kept;
        json_t *profile CLEANUP_JSON = seccomp_guarded(caller, &kept);
        assert_int_equal(kept, i < 3);
        expect_closed(profile, profiles[i]);
        for (size_t k = 0; k < ARRAY_LEN(open_calls); k++)
            assert_string_equal(action_of(profile, &open_calls[k]), "SCMP_ACT_ALLOW");
    }
    bool kept;
    json_t *none CLEANUP_JSON = seccomp_guarded(NULL, &kept);
    assert_false(kept);
    expect_closed(none, "no profile");
}

/* nerdctl's and CRI's own profiles: threads and processes still start, their denials stay. */
static void test_tools_profiles(void **state)
{
    (void)state;
    static const char *const specs[] = { "nerdctl23-hardened-network-none", "cri16-hardened",
                                         "cri24-hardened" };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        json_t *spec CLEANUP_JSON = load_spec(specs[i]);
        bool kept;
        json_t *profile CLEANUP_JSON = seccomp_guarded(json_at(spec, "/linux/seccomp"), &kept);
        struct call denied = { "kexec_load", { 0 } };
        assert_true(kept);
        expect_closed(profile, specs[i]);
        for (size_t k = 0; k < ARRAY_LEN(open_calls); k++)
            assert_string_equal(action_of(profile, &open_calls[k]), "SCMP_ACT_ALLOW");
        assert_string_equal(action_of(profile, &denied), "SCMP_ACT_ERRNO");
        assert_int_equal(json_array_size(json_object_get(profile, "architectures")), 1);
        assert_null(json_object_get(profile, "flags"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_profiles),
        cmocka_unit_test(test_tools_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
