/* base/json: what two readers could read differently is refused. */
#include "base/json.h"

#include <string.h>

#include "tests/test.h"

static enum err_kind load(const char *text, struct err *err)
{
    json_t *tree CLEANUP_JSON = NULL;
    return json_strict_load(text, strlen(text), JSON_SIZE_MAX, 0, &tree, err);
}

static void refuses(const char *text, const char *why)
{
    struct err err = { 0 };
    assert_int_equal(load(text, &err), ERR_INVALID);
    if (!strstr(err.msg, why))
        fail_msg("%s: expected \"%s\" in \"%s\"", text, why, err.msg);
}

static void test_refusals(void **state)
{
    (void)state;
    refuses("{\"a\":1,\"a\":2}", "duplicate");
    refuses("{\"a\":1,\"A\":2}", "duplicate key");
    refuses("{\"x\":[{\"user\":1,\"User\":2}]}", "letter case");
    refuses("{} {}", "after the JSON value");
    refuses("{}\nx", "after the JSON value");
    refuses("{\"a\":\"\\u0000\"}", "NUL");
    refuses("{\"a\":\"\xff\"}", "");
    refuses("{\"a\":18446744073709551616}", "too big");
    refuses("{\"a\":01}", "");
    refuses("", "");
    refuses("3", "");
}

static void test_accepts(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(
        load(" {\"a\":[1,2,{\"b\":\"\xc3\xa4\"}],\"c\":-9223372036854775808} \n", &err), 0);
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * (JSON_DEPTH_MAX + 1) + 1];
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        text[2 * depth] = 0;
        assert_int_equal(load(text, NULL), depth > JSON_DEPTH_MAX ? ERR_INVALID : ERR_OK);
    }
}

static void test_pointer(void **state)
{
    (void)state;
    json_t *tree CLEANUP_JSON = json_loads("{\"a/b\":{\"c~\":[10,20]}}", 0, NULL);
    assert_int_equal(json_integer_value(json_at(tree, "/a~1b/c~0/1")), 20);
    assert_null(json_at(tree, "/a~1b/c~0/2"));
    assert_null(json_at(tree, "/nope/c"));
    assert_ptr_equal(json_at(tree, ""), tree);
}

static void test_canonical(void **state)
{
    (void)state;
    json_t *tree CLEANUP_JSON = json_loads("{\"b\":1, \"a\":[true,null]}", 0, NULL);
    char *text CLEANUP_FREE = json_canonical(tree);
    assert_string_equal(text, "{\"a\":[true,null],\"b\":1}");
}

static void test_uint64_max(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":18446744073709551615, \"b\":[18446744073709551615],"
                               "\"c\":\"18446744073709551615 \\\"18446744073709551615\"}";
    json_t *tree = NULL;
    struct err err = { 0 };
    assert_int_equal(json_strict_load(text, strlen(text), 4096, 0, &tree, &err), ERR_INVALID);
    assert_int_equal(json_strict_load(text, strlen(text), 4096, JSON_TAKE_UINT64_MAX, &tree, &err),
                     ERR_OK);
    assert_false(json_is_integer(json_object_get(tree, "a")));
    assert_true(json_real_value(json_object_get(tree, "a")) == JSON_UINT64_MAX);
    int64_t n = 7;
    assert_int_equal(json_get_int(tree, "a", true, 0, INT64_MAX, &n, &err), ERR_INVALID);
    char *out CLEANUP_FREE = json_canonical(tree);
    assert_string_equal(out, "{\"a\":18446744073709551615,\"b\":[18446744073709551615],"
                             "\"c\":\"18446744073709551615 \\\"18446744073709551615\"}");
    json_decref(tree);
    /* only this number, and only whole */
    static const char *const others[] = { "[18446744073709551616]", "[184467440737095516150]",
                                          "[118446744073709551615]", "[-18446744073709551615]" };
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_int_equal(
            json_strict_load(others[i], strlen(others[i]), 4096, JSON_TAKE_UINT64_MAX, &tree, &err),
            ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uint64_max), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_accepts),    cmocka_unit_test(test_depth),
        cmocka_unit_test(test_pointer),    cmocka_unit_test(test_canonical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
