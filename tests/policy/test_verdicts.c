/* Every captured document gets the verdict of tests/data/verdicts.json, with its full list of
 * rules, from the library and from the program, in the same words. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/policy/help.h"

static json_t *verdicts;
static struct policy_config *config;
static char config_path[] = "/tmp/ut-policy-test.XXXXXX";

static void case_report(const json_t *row, struct policy_report *report)
{
    const char *exec = json_string_value(json_object_get(row, "exec"));
    const char *update = json_string_value(json_object_get(row, "update"));
    json_t *spec CLEANUP_JSON = load_spec(json_string_value(json_object_get(row, "spec")));
    json_t *extra CLEANUP_JSON = exec || update ? load_spec(exec ? exec : update) : NULL;
    struct policy_context context = { 0 };
    struct policy_guess guess;
    policy_context_guess(spec, &context, &guess);
    if (exec) {
        policy_check_exec(extra, spec, &context, config, report);
    } else if (update) {
        struct policy_limits limits = policy_limits_of(spec, &context, config);
        policy_check_update(extra, &limits, &context, config, NULL, report);
    } else {
        policy_check(spec, &context, config, report);
    }
}

static void case_name(const json_t *row, char *out, size_t size, char *expected)
{
    const char *extra = json_string_value(json_object_get(row, "exec"));
    if (!extra)
        extra = json_string_value(json_object_get(row, "update"));
    (void)snprintf(out, size, "%s%s%s", extra ? extra : "", extra ? " against " : "",
                   json_string_value(json_object_get(row, "spec")));
    size_t i;
    json_t *rule;
    expected[0] = 0;
    json_array_foreach(json_object_get(row, "refused"), i, rule)
    {
        strcat(expected, i ? " " : "");
        strcat(expected, json_string_value(rule));
    }
}

static void test_library(void **state)
{
    (void)state;
    assert_int_equal(json_array_size(verdicts), 28);
    for (size_t i = 0; i < json_array_size(verdicts); i++) {
        char name[256], expected[4096];
        struct policy_report report;
        case_name(json_array_get(verdicts, i), name, sizeof(name), expected);
        policy_report_init(&report);
        case_report(json_array_get(verdicts, i), &report);
        expect_rules(&report, expected, name);
        policy_report_fini(&report);
    }
}

static int run_program(const char *args, char *out, size_t size)
{
    char *command CLEANUP_FREE =
        xasprintf("'%s/utter-policy' check --config '%s' %s 2>&1", TEST_BIN, config_path, args);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, size - 1, pipe);
    out[n] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static char *case_args(const json_t *row)
{
    const char *exec = json_string_value(json_object_get(row, "exec"));
    const char *update = json_string_value(json_object_get(row, "update"));
    const char *spec = json_string_value(json_object_get(row, "spec"));
    if (!exec && !update)
        return xasprintf("'%s/specs/%s.json'", TEST_DATA, spec);
    return xasprintf("--%s '%s/specs/%s.json' '%s/specs/%s.json'", exec ? "exec" : "update",
                     TEST_DATA, exec ? exec : update, TEST_DATA, spec);
}

static void test_program(void **state)
{
    (void)state;
    static char out[65536];
    for (size_t i = 0; i < json_array_size(verdicts); i++) {
        const json_t *row = json_array_get(verdicts, i);
        char *args CLEANUP_FREE = case_args(row);
        struct policy_report report;
        struct buf expected;
        policy_report_init(&report);
        buf_init(&expected, sizeof(out));
        case_report(row, &report);
        for (size_t k = 0; k < report.n; k++) {
            char *line CLEANUP_FREE = policy_finding_text(&report.findings[k]);
            buf_printf(&expected, "%s\n", line);
        }
        assert_int_equal(run_program(args, out, sizeof(out)), report.n ? 1 : 0);
        if (report.n)
            assert_string_equal(out, buf_cstr(&expected));
        else
            assert_memory_equal(out, "accepted\n", 9);
        buf_fini(&expected);
        policy_report_fini(&report);
    }
}

/* The line that the shim answers with is the program's lines in one. */
static void test_one_text(void **state)
{
    (void)state;
    struct policy_report report;
    policy_report_init(&report);
    json_t *row CLEANUP_JSON = parse("{\"spec\":\"nerdctl23-compose-hardened\"}");
    case_report(row, &report);
    char *text CLEANUP_FREE = policy_report_text(&report);
    assert_string_equal(text, "utter: refused: no-new-privileges: noNewPrivileges is missing "
                              "(--security-opt no-new-privileges)");
    struct err err;
    assert_int_equal(policy_report_err(&report, &err), ERR_PRECONDITION);
    assert_string_equal(err.msg, text);
    policy_report_fini(&report);
}

/* What does not fit an error is counted, never cut in the middle. */
static void test_many_findings(void **state)
{
    (void)state;
    struct policy_report report;
    struct err err;
    policy_report_init(&report);
    for (int i = 0; i < 50; i++)
        policy_report_add(&report, "env-name", "/process/env", "NAME_%d is not on the allow-list",
                          i);
    assert_int_equal(policy_report_err(&report, &err), ERR_PRECONDITION);
    assert_true(strlen(err.msg) < sizeof(err.msg) - 16);
    const char *more = strstr(err.msg, "; and ");
    assert_non_null(more);
    assert_int_equal(more[-1], ')');
    assert_non_null(strstr(more, " more, which utter-policy check lists"));
    char *whole CLEANUP_FREE = policy_report_text(&report);
    assert_non_null(strstr(whole, "NAME_49"));
    policy_report_fini(&report);
    /* One finding is told whole even where it alone is long. */
    char *long_text CLEANUP_FREE = xcalloc(1, 2000);
    memset(long_text, 'x', 1999);
    policy_report_add(&report, "args", "", "%s", long_text);
    assert_int_equal(policy_report_err(&report, &err), ERR_PRECONDITION);
    assert_int_equal(err.msg[strlen(err.msg) - 1], ')');
    policy_report_fini(&report);
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(config_path);
    if (fd < 0 || write(fd, "{}", 2) != 2)
        return -1;
    close(fd);
    verdicts = load_data("verdicts.json");
    config = policy_config_new_default();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(config_path);
    json_decref(verdicts);
    policy_config_free(config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_one_text),
        cmocka_unit_test(test_many_findings),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
