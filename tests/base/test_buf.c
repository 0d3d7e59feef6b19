/* base/buf: the hard maximum, sticky failure, the cursor's end. */
#include "base/buf.h"

#include <string.h>

#include "tests/test.h"

static void test_maximum(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    buf_append(&b, "12345", 5);
    assert_false(b.failed);
    assert_string_equal(buf_cstr(&b), "12345");
    buf_append(&b, "6", 1);
    assert_true(b.failed);
    assert_int_equal(b.len, 5);
    buf_clear(&b);
    buf_printf(&b, "%d", 123456);
    assert_true(b.failed);
    buf_clear(&b);
    buf_append(&b, "abcde", 5);
    buf_consume(&b, 2);
    assert_string_equal(buf_cstr(&b), "cde");
    buf_consume(&b, 99);
    assert_int_equal(b.len, 0);
    buf_fini(&b);
    assert_string_equal(buf_cstr(&b), "");
}

static void test_cursor(void **state)
{
    (void)state;
    const uint8_t data[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    struct in in = in_make(data, sizeof(data));
    assert_int_equal(in_be16(&in), 0x0102);
    assert_int_equal(in_be32(&in), 0x03040506);
    assert_int_equal(in_be32(&in), 0);
    assert_true(in.failed);
    assert_null(in_bytes(&in, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_maximum),
                                        cmocka_unit_test(test_cursor) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
