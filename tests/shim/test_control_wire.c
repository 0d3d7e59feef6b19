/* shim/control_wire: the end of an answer, what is taken from it, what is refused; requests. */
#include "shim/control_wire.h"

#include <jansson.h>
#include <string.h>

#include "base/json.h"
#include "tests/test.h"

static void parse(enum control_call call, const char *text, struct control_answer *out)
{
    control_answer_parse(call, text, strlen(text), "c1", out);
}

static void outcome(enum control_call call, const char *text, enum control_outcome want,
                    enum err_kind kind)
{
    struct control_answer a;
    parse(call, text, &a);
    if (a.reply.outcome != want || a.reply.err.kind != kind)
        fail_msg("%s: outcome %d, %s", text, (int)a.reply.outcome, a.reply.err.msg);
    control_answer_fini(&a);
}

static void test_scan(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum control_scan_result result;
        size_t used;
    } rows[] = {
        { "{}", CONTROL_SCAN_END, 2 },
        { "{}x", CONTROL_SCAN_END, 2 },
        { "{\"a\":{\"b\":[1]}}", CONTROL_SCAN_END, 15 },
        { "{\"a\":\"}\\\"}\"}", CONTROL_SCAN_END, 12 },
        { "{\"a\":\"\\\\\"}", CONTROL_SCAN_END, 10 },
        { "{\"a\":\"}", CONTROL_SCAN_MORE, 7 },
        { "{", CONTROL_SCAN_MORE, 1 },
        { "", CONTROL_SCAN_MORE, 0 },
        { "[]", CONTROL_SCAN_BAD, 0 },
        { " {}", CONTROL_SCAN_BAD, 0 },
        { "x", CONTROL_SCAN_BAD, 0 },
        { "}", CONTROL_SCAN_BAD, 0 },
        { "{{{{{{{{{{{{{{{{{", CONTROL_SCAN_BAD, 0 },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        /* Whole, and byte by byte. */
        struct control_scan scan = { 0 };
        size_t used = 0;
        assert_int_equal(control_scan(&scan, rows[i].text, strlen(rows[i].text), &used),
                         rows[i].result);
        assert_int_equal(used, rows[i].used);
        struct control_scan slow = { 0 };
        enum control_scan_result r = CONTROL_SCAN_MORE;
        size_t at = 0;
        for (; r == CONTROL_SCAN_MORE && rows[i].text[at]; at++)
            r = control_scan(&slow, rows[i].text + at, 1, &used);
        assert_int_equal(r, rows[i].result);
        if (r == CONTROL_SCAN_END)
            assert_int_equal(at, rows[i].used);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    struct control_answer a;
    parse(CONTROL_CALL_WAIT, "{\"success\":true,\"err\":\"\",\"result\":65280}", &a);
    assert_int_equal(a.reply.outcome, CONTROL_OK);
    assert_int_equal(a.reply.wait_status, 65280);
    parse(CONTROL_CALL_EXEC, "{\"success\":true,\"err\":\"\",\"result\":7}", &a);
    assert_int_equal(a.reply.outcome, CONTROL_OK);
    assert_int_equal(a.reply.pid, 7);
    parse(CONTROL_CALL_STATE, "{\"success\":true,\"err\":\"\",\"result\":2}", &a);
    assert_int_equal(a.reply.state, CONTROL_STATE_RUNNING);
    assert_true(a.state_known);
    outcome(CONTROL_CALL_SIGNAL, "{\"success\":true,\"err\":\"\",\"result\":{}}", CONTROL_OK,
            ERR_OK);
    static const char *const bad[] = {
        "{\"success\":true,\"result\":65536}",
        "{\"success\":true,\"result\":-1}",
        "{\"success\":true,\"result\":\"0\"}",
        "{\"success\":true,\"result\":1.5}",
        "{\"success\":true,\"result\":null}",
        "{\"success\":true}",
        "{\"success\":\"true\",\"result\":1}",
        "{\"result\":1}",
        "{\"success\":false}",
        "{\"success\":true,\"success\":false,\"result\":1}",
        "{}",
        "{\"success\":true,\"result\":1",
        "{\"success\":true,\"result\":99999999999999999999}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        outcome(CONTROL_CALL_WAIT, bad[i], CONTROL_BROKEN, ERR_INTERNAL);
    outcome(CONTROL_CALL_EXEC, "{\"success\":true,\"result\":0}", CONTROL_BROKEN, ERR_INTERNAL);
    outcome(CONTROL_CALL_STATE, "{\"success\":true,\"result\":4}", CONTROL_BROKEN, ERR_INTERNAL);
}

static void error_text(enum control_call call, const char *text, enum control_outcome want,
                       enum err_kind kind)
{
    json_t *j CLEANUP_JSON = json_pack("{s:b,s:s,s:n}", "success", 0, "err", text, "result");
    char *s CLEANUP_FREE = json_dumps(j, 0);
    outcome(call, s, want, kind);
}

static void test_errors(void **state)
{
    (void)state;
    error_text(CONTROL_CALL_SIGNAL, "no such process", CONTROL_REFUSED, ERR_NOT_FOUND);
    error_text(CONTROL_CALL_WAIT, "container \"x\" not found", CONTROL_REFUSED, ERR_NOT_FOUND);
    error_text(CONTROL_CALL_WAIT, "container \"x\" not started", CONTROL_REFUSED, ERR_PRECONDITION);
    error_text(CONTROL_CALL_EXEC, "container has stopped", CONTROL_REFUSED, ERR_NOT_FOUND);
    error_text(CONTROL_CALL_SIGNAL, "invalid argument", CONTROL_REFUSED, ERR_INVALID);
    error_text(CONTROL_CALL_EXEC, "failed to load /x: no such file or directory", CONTROL_REFUSED,
               ERR_INVALID);
    error_text(CONTROL_CALL_EXEC, "something new", CONTROL_REFUSED, ERR_INTERNAL);
    /* Before any effect: the command line may be used. */
    error_text(CONTROL_CALL_EXEC, "unknown method", CONTROL_USE_CLI, ERR_UNSUPPORTED);
    error_text(CONTROL_CALL_EVENT, "json: cannot unmarshal string into Go value", CONTROL_USE_CLI,
               ERR_UNSUPPORTED);
    error_text(CONTROL_CALL_NETWORK, "unknown method", CONTROL_REFUSED, ERR_UNSUPPORTED);
    error_text(CONTROL_CALL_IDENTIFY, "unknown method", CONTROL_OK, ERR_OK);
    struct control_answer a;
    parse(CONTROL_CALL_EXEC, "{\"success\":false,\"err\":\"a\\u001b[31m\\nb\"}", &a);
    assert_null(strchr(a.reply.err.msg, '\n'));
    assert_null(strchr(a.reply.err.msg, 0x1b));
}

static void test_processes(void **state)
{
    (void)state;
    struct control_answer a;
    parse(
        CONTROL_CALL_PROCESSES,
        "{\"success\":true,\"err\":\"\",\"result\":[{\"uid\":1000,\"pid\":2,\"ppid\":1,\"threads\":"
        "[2,3],\"c\":0,\"tty\":\"?\",\"stime\":\"1\",\"time\":\"2\",\"cmd\":\"a\\nb\\u0000\"}]}",
        &a);
    assert_int_equal(a.reply.n_processes, 1);
    assert_int_equal(a.reply.processes[0].pid, 2);
    assert_int_equal(a.reply.processes[0].ppid, 1);
    assert_int_equal(a.reply.processes[0].uid, 1000);
    assert_int_equal(a.reply.processes[0].threads, 2);
    assert_string_equal(a.reply.processes[0].cmd, "a\\nb");
    assert_false(a.has_pgid);
    control_answer_fini(&a);
    parse(CONTROL_CALL_PROCESSES, "{\"success\":true,\"result\":[{\"pid\":2,\"pgid\":2}]}", &a);
    assert_true(a.has_pgid);
    assert_int_equal(a.reply.processes[0].pgid, 2);
    control_answer_fini(&a);
    parse(CONTROL_CALL_PROCESSES, "{\"success\":true,\"result\":null}", &a);
    assert_int_equal(a.reply.outcome, CONTROL_OK);
    assert_int_equal(a.reply.n_processes, 0);
    control_answer_fini(&a);
    static const char *const bad[] = { "{}",           "[{\"pid\":0}]",          "[{\"pid\":-3}]",
                                       "[1]",          "[{\"pid\":4294967296}]", "\"x\"",
                                       "[{\"uid\":0}]" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char *s CLEANUP_FREE = xasprintf("{\"success\":true,\"result\":%s}", bad[i]);
        outcome(CONTROL_CALL_PROCESSES, s, CONTROL_BROKEN, ERR_INTERNAL);
    }
}

static void test_event(void **state)
{
    (void)state;
    struct control_answer a;
    parse(
        CONTROL_CALL_EVENT,
        "{\"success\":true,\"err\":\"\",\"result\":{\"event\":{\"type\":\"stats\",\"id\":\"c1\","
        "\"data\":{\"cpu\":{\"usage\":{\"total\":5}},\"memory\":{\"usage\":{\"usage\":7}},\"pids\":"
        "{\"current\":3},\"network_interfaces\":[{\"Name\":\"eth0\",\"RxBytes\":9,\"TxDropped\":2}]"
        "}},\"containerUsage\":{\"c1\":10,\"c2\":30}}}",
        &a);
    assert_int_equal(a.reply.outcome, CONTROL_OK);
    assert_int_equal(a.reply.event->cpu_ns, 5);
    assert_int_equal(a.reply.event->memory_usage, 7);
    assert_int_equal(a.reply.event->pids, 3);
    assert_int_equal(a.reply.event->container_ns, 10);
    assert_int_equal(a.reply.event->all_ns, 40);
    assert_int_equal(a.reply.event->n_interfaces, 1);
    assert_string_equal(a.reply.event->interfaces[0].name, "eth0");
    assert_int_equal(a.reply.event->interfaces[0].rx_bytes, 9);
    assert_int_equal(a.reply.event->interfaces[0].tx_dropped, 2);
    control_answer_fini(&a);
    static const char overflow[] =
        "{\"event\":{\"data\":{}},\"containerUsage\":{\"a\":9223372036854775807,\"b\":"
        "9223372036854775807,\"c\":9223372036854775807}}";
    static const char *const bad[] = {
        "{}",
        "{\"event\":{\"data\":{\"cpu\":{\"usage\":{\"total\":-5}}}}}",
        "{\"event\":{\"data\":{}},\"containerUsage\":{\"a\":-1}}",
        overflow,
        "{\"event\":{\"data\":{\"network_interfaces\":[1]}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char *s CLEANUP_FREE = xasprintf("{\"success\":true,\"result\":%s}", bad[i]);
        outcome(CONTROL_CALL_EVENT, s, CONTROL_BROKEN, ERR_INTERNAL);
    }
}

static void test_network(void **state)
{
    (void)state;
    struct control_answer a;
    parse(
        CONTROL_CALL_NETWORK,
        "{\"success\":true,\"result\":{\"LoopbackLinks\":[{\"Name\":\"lo\",\"Addresses\":[{"
        "\"Address\":\"127.0.0.1\",\"PrefixLen\":8}],\"Routes\":[{}]}],\"FDBasedLinks\":[{\"Name\":"
        "\"eth0\",\"Addresses\":[{\"Address\":\"10.9.0.2\",\"PrefixLen\":24}],\"Routes\":null}],"
        "\"XDPLinks\":null,\"Defaultv4Gateway\":{\"Route\":{},\"Name\":\"eth0\"},"
        "\"Defaultv6Gateway\":{\"Route\":{},\"Name\":\"\"}}}",
        &a);
    assert_int_equal(a.reply.outcome, CONTROL_OK);
    assert_int_equal(a.reply.network->n_links, 2);
    assert_string_equal(a.reply.network->links[0].addresses[0], "127.0.0.1/8");
    assert_string_equal(a.reply.network->links[1].addresses[0], "10.9.0.2/24");
    assert_true(a.reply.network->links[1].default_route);
    assert_false(a.reply.network->links[0].default_route);
    assert_int_equal(a.reply.network->links[0].n_routes, 1);
    control_answer_fini(&a);
}

static void test_exec_request_always_names_rights(void **state)
{
    (void)state;
    const char *const argv[] = { "sh", "-c", "echo \"x\"\n\xc3\xa4", NULL };
    const char *const envv[] = { "A=b", NULL };
    const uint32_t groups[] = { 5, 6 };
    struct control_exec exec = { .container = "c1",
                                 .argv = argv,
                                 .envv = envv,
                                 .cwd = "/w",
                                 .uid = 1000,
                                 .gid = 4294967294,
                                 .groups = groups,
                                 .n_groups = 2 };
    char *text CLEANUP_FREE = control_request_exec(&exec);
    json_t *j CLEANUP_JSON = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_at(j, "/method")), "containerManager.ExecuteAsync");
    static const char *const zero[] = { "PermittedCaps", "InheritableCaps", "EffectiveCaps",
                                        "BoundingCaps", "AmbientCaps" };
    for (size_t i = 0; i < ARRAY_LEN(zero); i++) {
        const json_t *v = json_object_get(json_at(j, "/arg/Capabilities"), zero[i]);
        assert_true(json_is_integer(v));
        assert_int_equal(json_integer_value(v), 0);
    }
    assert_true(json_is_false(json_at(j, "/arg/NoNewPrivileges")));
    assert_true(json_is_false(json_at(j, "/arg/StdioIsPty")));
    assert_int_equal(json_integer_value(json_at(j, "/arg/KGID")), 4294967294);
    assert_int_equal(json_array_size(json_at(j, "/arg/GuestFDs")), 3);
    assert_int_equal(json_array_size(json_at(j, "/arg/ExtraKGIDs")), 2);
    assert_string_equal(json_string_value(json_array_get(json_at(j, "/arg/argv"), 2)), argv[2]);
    const char *const broken[] = { "sh", "\xff", NULL };
    exec.argv = broken;
    assert_null(control_request_exec(&exec));
    exec.argv = argv;
    exec.cwd = "\xff";
    assert_null(control_request_exec(&exec));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_exec_request_always_names_rights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
