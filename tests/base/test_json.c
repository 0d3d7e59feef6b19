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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_depth),     cmocka_unit_test(test_pointer),
        cmocka_unit_test(test_canonical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
