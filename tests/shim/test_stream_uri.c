/* stdin, stdout and stderr as callers write them. */
#include "shim/stream_uri.h"

#include <string.h>

#include "tests/test.h"

static void good(const char *text, enum stream_kind kind, const char *path)
{
    struct stream_uri uri CLEANUP_STREAM_URI;
    struct err err = { 0 };
    assert_int_equal(stream_uri_parse(text, "stdout", &uri, &err), ERR_OK);
    assert_int_equal(uri.kind, kind);
    if (path)
        assert_string_equal(uri.path, path);
    else
        assert_null(uri.path);
}

static void bad(const char *text)
{
    struct stream_uri uri CLEANUP_STREAM_URI;
    struct err err = { 0 };
    assert_int_equal(stream_uri_parse(text, "stdout", &uri, &err), ERR_INVALID);
    assert_true(strncmp(err.msg, "stdout", 6) == 0);
    assert_null(uri.path);
}

static void test_kinds(void **ctx)
{
    (void)ctx;
    good("", STREAM_NONE, NULL);
    good(NULL, STREAM_NONE, NULL);
    good("/run/containerd/fifo/1/c-stdout", STREAM_FIFO, "/run/containerd/fifo/1/c-stdout");
    good("fifo:///a", STREAM_FIFO, "/a");
    good("file:///var/log/x", STREAM_FILE, "/var/log/x");
    good("binary:///usr/bin/utter-log", STREAM_BINARY, "/usr/bin/utter-log");
    good("file:///a%20b", STREAM_FILE, "/a b");
}

static void test_refused(void **ctx)
{
    (void)ctx;
    bad("relative");
    bad("/");
    bad("/a\nb");
    bad("binary-v2:///usr/bin/x");
    bad("http://host/x");
    bad("file://relative");
    bad("file:///a?b=c");
    bad("binary:///x?=v");
    bad("binary:///x?k=%00");
    bad("binary:///x?k=%zz");
    bad("file:///a%");
    char long_one[STREAM_URI_MAX + 3];
    memset(long_one, 'a', sizeof(long_one) - 1);
    long_one[0] = '/';
    long_one[sizeof(long_one) - 1] = '\0';
    bad(long_one);
}

static void test_query_becomes_arguments(void **ctx)
{
    (void)ctx;
    struct stream_uri uri CLEANUP_STREAM_URI;
    struct err err = { 0 };
    assert_int_equal(
        stream_uri_parse("binary:///n?_NERDCTL_INTERNAL_LOGGING=%2Fvar%2Flib%2Fnerdctl&x", "stdout",
                         &uri, &err),
        ERR_OK);
    assert_int_equal(uri.n_args, 4);
    assert_string_equal(uri.args[0], "_NERDCTL_INTERNAL_LOGGING");
    assert_string_equal(uri.args[1], "/var/lib/nerdctl");
    assert_string_equal(uri.args[2], "x");
    assert_string_equal(uri.args[3], "");
    assert_null(uri.args[4]);
}

static void test_too_many_arguments(void **ctx)
{
    (void)ctx;
    bad("binary:///n?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1");
    good("binary:///n?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1", STREAM_BINARY, "/n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_query_becomes_arguments),
        cmocka_unit_test(test_too_many_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
