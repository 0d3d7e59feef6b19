/* Exec, Update and the strict reading of their documents. */
#include "tests/policy/help.h"

#define CONTAINER "nerdctl23-hardened-internal-net"

static struct policy_config *config;

static void expect_exec(const char *at, const char *value, const char *expected)
{
    json_t *container CLEANUP_JSON = load_spec(CONTAINER);
    json_t *process CLEANUP_JSON = load_spec("exec-24-1");
    struct policy_context context = { 0 };
    struct policy_report report;
    if (at)
        set_at(process, at, value);
    policy_report_init(&report);
    policy_check_exec(process, container, &context, config, &report);
    expect_rules(&report, expected, at ? at : "exec");
    policy_report_fini(&report);
}

static void test_exec(void **state)
{
    (void)state;
    static const struct {
        const char *at, *value, *rules;
    } cases[] = {
        { NULL, NULL, "" },
        { "/terminal", "true", "" },
        { "/cwd", "\"/tmp\"", "" },
        { "/user/additionalGids", "[]", "" },
        { "/apparmorProfile", "\"x\"", "" },
        { "/oomScoreAdj", "-1000", "" },
        { "/user/uid", "0", "exec-user" },
        { "/user/uid", NULL, "exec-user" },
        { "/user", NULL, "exec-user" },
        { "/user/gid", "0", "exec-user" },
        { "/user/additionalGids/-", "0", "exec-user" },
        { "/noNewPrivileges", "false", "no-new-privileges" },
        { "/noNewPrivileges", NULL, "no-new-privileges" },
        { "/capabilities/bounding", "[\"CAP_SYS_ADMIN\"]", "capabilities" },
        { "/capabilities/ambient", "[\"CAP_SYS_ADMIN\"]", "capabilities" },
        { "/env/-", "\"A=b\"", "env-name" },
        { "/env/-", "\"HOME=/AKIAIOSFODNN7EXAMPLE\"", "env-secret" },
        { "/env/-", "\"PATH=/x\"", "env-form" },
        { "/args", "[]", "args" },
        { "/cwd", "\"..\"", "cwd" },
        { "/selinuxLabel", "\"x\"", "selinux" },
        { "/scheduler", "{\"policy\":\"SCHED_FIFO\"}", "field" },
        { "/Args", "[]", "schema" },
        { "/consoleSize", "{\"height\":99999,\"width\":1}", "terminal" },
        { "/rlimits", "[{\"type\":\"X\",\"soft\":1,\"hard\":1}]", "rlimits" },
        { "/user/umask", "9999", "user" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_exec(cases[i].at, cases[i].value, cases[i].rules);
}

static void test_harden_exec(void **state)
{
    (void)state;
    json_t *container CLEANUP_JSON = load_spec(CONTAINER);
    json_t *process CLEANUP_JSON = load_spec("exec-24-1");
    struct policy_context context = { 0 };
    struct policy_changes changes;
    set_at(process, "/oomScoreAdj", "-1000");
    set_at(process, "/apparmorProfile", "\"x\"");
    set_at(process, "/capabilities", NULL);
    policy_changes_init(&changes);
    json_t *out CLEANUP_JSON = policy_harden_exec(process, container, &context, config, &changes);
    json_t *none CLEANUP_JSON = parse("{\"bounding\":[],\"effective\":[],\"permitted\":[],"
                                      "\"inheritable\":[],\"ambient\":[]}");
    assert_true(json_is_true(json_object_get(out, "noNewPrivileges")));
    assert_true(json_equal(json_object_get(out, "capabilities"), none));
    assert_null(json_object_get(out, "oomScoreAdj"));
    assert_null(json_object_get(out, "apparmorProfile"));
    assert_int_equal(json_integer_value(json_at(out, "/rlimits/0/hard")), 256);
    assert_int_equal(json_integer_value(json_at(out, "/user/uid")), 1000);
    policy_changes_fini(&changes);
}

/* ---- update -----------------------------------------------------------------------------------
 */

static const struct policy_limits in_force = {
    .memory = 134217728, .cpu_quota = 50000, .cpu_period = 100000, .pids = 256, .host_pids = 2112
};

static void expect_update(const char *text, enum policy_role role, const char *expected,
                          struct policy_limits *wanted)
{
    json_t *resources CLEANUP_JSON = parse(text);
    struct policy_context context = { .ns = "nd", .id = "x", .role = role };
    struct policy_report report;
    policy_report_init(&report);
    policy_check_update(resources, &in_force, &context, config, wanted, &report);
    expect_rules(&report, expected, text);
    policy_report_fini(&report);
}

static void test_update(void **state)
{
    (void)state;
    static const struct {
        const char *resources, *rules;
    } cases[] = {
        { "{}", "" },
        { "{\"memory\":{\"limit\":67108864,\"swap\":-1}}", "" },
        { "{\"pids\":{\"limit\":256}}", "" },
        { "{\"cpu\":{\"quota\":20000,\"period\":100000}}", "" },
        { "{\"cpu\":{\"quota\":20000}}", "" },
        { "{\"cpu\":{\"shares\":512}}", "" },
        { "{\"memory\":{\"limit\":0}}", "memory" },
        { "{\"memory\":{\"limit\":-1}}", "memory" },
        { "{\"memory\":{\"limit\":1073741824}}", "memory" },
        { "{\"cpu\":{\"quota\":0}}", "cpu" },
        { "{\"cpu\":{\"quota\":-1,\"period\":100000}}", "cpu" },
        { "{\"cpu\":{\"period\":10000}}", "cpu" }, /* 50000 of 10000 are five CPUs */
        { "{\"cpu\":{\"burst\":1000}}", "cpu" },
        { "{\"pids\":{\"limit\":0}}", "pids" },
        { "{\"pids\":{\"limit\":-1}}", "pids" },
        { "{\"pids\":{\"limit\":128}}", "update" },
        { "{\"unified\":{\"memory.max\":\"max\"}}", "unified" },
        { "{\"devices\":[{\"allow\":true,\"access\":\"rwm\"}]}", "devices" },
        { "{\"blockIO\":{\"weight\":10}}", "field" },
        { "{\"Memory\":{\"limit\":0}}", "schema" },
        { "{\"cpu\":{\"cpus\":\"0\"}}", "update" },
        { "{\"cpu\":{\"mems\":\"0\"}}", "update" },
        { "{\"cpu\":{\"cpus\":\"\",\"mems\":\"\"}}", "" },
        { "{\"memory\":{\"reservation\":67108864}}", "update" },
        { "{\"memory\":{\"swappiness\":10}}", "update" },
        { "{\"memory\":{\"useHierarchy\":true}}", "update" },
        { "{\"unified\":{\"memory.high\":\"67108864\"}}", "update" },
        { "{\"unified\":{\"memory.oom.group\":\"1\",\"memory.swap.max\":\"0\"}}", "" },
        { "{\"hugepageLimits\":[{\"pageSize\":\"2MB\",\"limit\":1}]}", "field" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_update(cases[i].resources, POLICY_ROLE_SINGLE, cases[i].rules, NULL);
    expect_update("{\"memory\":{\"limit\":268435456}}", POLICY_ROLE_WORKLOAD, "update", NULL);
}

static void test_update_wanted(void **state)
{
    (void)state;
    struct policy_limits wanted;
    expect_update("{\"memory\":{\"limit\":67108864,\"swap\":999}}", POLICY_ROLE_SINGLE, "",
                  &wanted);
    assert_int_equal(wanted.memory, 67108864);
    assert_int_equal(wanted.cpu_quota, 50000);
    assert_int_equal(wanted.pids, 256);
    expect_update("{\"cpu\":{\"quota\":20000,\"period\":200000}}", POLICY_ROLE_SINGLE, "", &wanted);
    assert_int_equal(wanted.memory, 134217728);
    assert_int_equal(wanted.cpu_quota, 20000);
    assert_int_equal(wanted.cpu_period, 200000);
    /* Shares are applied, up to what the quota is worth; half a CPU is 512. */
    expect_update("{\"cpu\":{\"shares\":100}}", POLICY_ROLE_SINGLE, "", &wanted);
    assert_int_equal(wanted.cpu_shares, 100);
    expect_update("{\"cpu\":{\"shares\":262144}}", POLICY_ROLE_SINGLE, "", &wanted);
    assert_int_equal(wanted.cpu_shares, 512);
    expect_update("{\"memory\":{\"limit\":67108864}}", POLICY_ROLE_SINGLE, "", &wanted);
    assert_int_equal(wanted.cpu_shares, 0);
    /* In a pod the sandbox's limits stay the pod's. */
    expect_update("{\"memory\":{\"limit\":67108864}}", POLICY_ROLE_WORKLOAD, "", &wanted);
    assert_int_equal(wanted.memory, 134217728);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void test_json(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "{} {}",
        "{\"root\":{\"readonly\":true,\"ReadOnly\":false}}",
        "{\"root\":{\"readonly\":true,\"readonly\":false}}",
        "{\"process\":{\"user\":{\"uid\":1000}},\"Process\":{\"user\":{\"uid\":0}}}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":18446744073709551616}",
        "{\"a\":NaN}",
        "\xef\xbb\xbf{}",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct policy_report report;
        struct err err;
        policy_report_init(&report);
        assert_null(policy_document_parse(texts[i], strlen(texts[i]), &report));
        expect_rules(&report, "json", texts[i]);
        assert_true(report.malformed);
        assert_int_equal(policy_report_err(&report, &err), ERR_INVALID);
        policy_report_fini(&report);
    }
}

static int set_up(void **state)
{
    (void)state;
    config = policy_config_new_default();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    policy_config_free(config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec),   cmocka_unit_test(test_harden_exec),
        cmocka_unit_test(test_update), cmocka_unit_test(test_update_wanted),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
