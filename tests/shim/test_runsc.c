/* How runsc is called, and what is read from its log. */
#include "shim/runsc.h"

#include <string.h>

#include "base/own.h"
#include "tests/test.h"

static bool has(char **argv, const char *word)
{
    for (size_t i = 0; argv[i]; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

static char **build(char **flags, size_t n, bool sandbox)
{
    char path[] = "/usr/bin/runsc";
    struct runsc_binary binary = { .path = path, .flags = flags, .n_flags = n };
    char root[] = "/r";
    char logs[] = "/l";
    const struct runsc runsc = {
        .binary = &binary, .root = root, .log_dir = logs, .network_sandbox = sandbox
    };
    const char *verb[] = { "start", "c1", NULL };
    return runsc_argv(&runsc, "/l/x.log", verb);
}

static void test_flags_come_before_the_verb(void **ctx)
{
    (void)ctx;
    char a[] = "directfs";
    char b[] = "oci-seccomp";
    char c[] = "overlay2";
    char *flags[] = { a, b, c };
    char **argv = build(flags, 3, false);
    assert_string_equal(argv[0], "/usr/bin/runsc");
    assert_string_equal(argv[1], "--root=/r");
    assert_true(has(argv, "--network=none"));
    assert_true(has(argv, "--directfs=false"));
    assert_true(has(argv, "--oci-seccomp=true"));
    assert_true(has(argv, "--overlay2=none"));
    assert_false(has(argv, "--host-uds=none")); /* this binary does not know it */
    size_t n = 0;
    while (argv[n])
        n++;
    assert_string_equal(argv[n - 2], "start");
    assert_string_equal(argv[n - 1], "c1");
    runsc_argv_free(argv);
    argv = build(flags, 3, true);
    assert_true(has(argv, "--network=sandbox"));
    runsc_argv_free(argv);
}

static void test_last_error_of_the_log(void **ctx)
{
    (void)ctx;
    const char log[] =
        "{\"msg\":\"first\",\"level\":\"error\"}\n"
        "{\"msg\":\"noise\",\"level\":\"info\"}\n"
        "not json at all\n"
        "{\"msg\":\"creating container: no \\\"such\\\" thing\",\"level\":\"error\"}\n";
    char line[128];
    assert_true(runsc_log_error(log, sizeof(log) - 1, line, sizeof(line)));
    assert_non_null(strstr(line, "creating container: no"));
    assert_false(runsc_log_error("", 0, line, sizeof(line)));
    const char quiet[] = "{\"msg\":\"x\",\"level\":\"warning\"}";
    assert_false(runsc_log_error(quiet, sizeof(quiet) - 1, line, sizeof(line)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_come_before_the_verb),
        cmocka_unit_test(test_last_error_of_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
