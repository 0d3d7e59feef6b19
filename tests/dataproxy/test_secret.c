/* dataproxy/secret: owner-only files, changes picked up, a bad change keeps what works. */
#include "dataproxy/secret.h"

#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "tests/test.h"

static void put(const char *path, const char *text, mode_t mode)
{
    assert_int_equal(fs_write(path, text, strlen(text), mode, false, NULL), 0);
}

static void test_secret(void **state)
{
    (void)state;
    char dir[] = "/tmp/utter-test-secret.XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *path CLEANUP_FREE = xasprintf("%s/key", dir);
    struct secret secret CLEANUP(secret_fini);
    struct err err;
    bool changed;
    secret_init(&secret, path);
    assert_int_equal(secret_refresh(&secret, &changed, &err), ERR_NOT_FOUND);
    put(path, "0123456789\n", 0440);
    assert_int_equal(secret_refresh(&secret, &changed, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "chmod 0400"));
    put(path, "0123456789\n", 0400);
    assert_int_equal(secret_refresh(&secret, &changed, &err), 0);
    assert_true(changed);
    assert_string_equal(secret.value, "0123456789");
    assert_int_equal(secret_refresh(&secret, &changed, &err), 0);
    assert_false(changed);
    put(path, "abcdefghij", 0400);
    assert_int_equal(secret_refresh(&secret, &changed, &err), 0);
    assert_true(changed);
    assert_string_equal(secret.value, "abcdefghij");
    static const char *const bad[] = { "short", "two\nlines here", "with\ttab in it" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put(path, bad[i], 0400);
        assert_int_equal(secret_refresh(&secret, &changed, &err), ERR_INVALID);
        assert_string_equal(secret.value, "abcdefghij");
        assert_null(strstr(err.msg, bad[i]));
    }
    assert_int_equal(fs_remove_tree(dir, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_secret) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
