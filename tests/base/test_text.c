/* base/text: strict forms and their limits. */
#include "base/text.h"

#include <string.h>

#include "tests/test.h"

static void test_numbers(void **state)
{
    (void)state;
    uint64_t u;
    int64_t i;
    assert_true(text_u64("0", &u) && u == 0);
    assert_true(text_u64("18446744073709551615", &u) && u == UINT64_MAX);
    const char *bad[] = { "", "-1", "+1", " 1", "1 ", "01", "0x1", "18446744073709551616", "1e3" };
    for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++)
        assert_false(text_u64(bad[k], &u));
    assert_true(text_i64("-9223372036854775808", &i) && i == INT64_MIN);
    assert_false(text_i64("9223372036854775808", &i));
    assert_false(text_i64("-0", &i));
}

static void test_base64(void **state)
{
    (void)state;
    uint8_t data[300];
    char text[500];
    for (size_t len = 0; len < sizeof(data); len++) {
        uint8_t back[310];
        size_t n = 0;
        for (size_t k = 0; k < len; k++)
            data[k] = (uint8_t)(k * 31 + len);
        text_b64(data, len, text);
        assert_int_equal(strlen(text), text_b64_len(len));
        assert_true(text_unb64(text, strlen(text), back, &n));
        assert_int_equal(n, len);
        assert_memory_equal(back, data, len);
        size_t chars = text_b64url(data, len, text);
        assert_true(text_unb64url(text, chars, back, &n));
        assert_int_equal(n, len);
    }
    uint8_t out[16];
    size_t n;
    const char *bad[] = { "A", "A===", "AA=", "AB==", "AA==AA==", "A A=", "AA-_", "=" };
    for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++)
        assert_false(text_unb64(bad[k], strlen(bad[k]), out, &n));
    assert_true(text_unb64("AA", 2, out, &n));
}

static void test_utf8(void **state)
{
    (void)state;
    assert_true(text_utf8_valid("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10));
    const char *bad[] = { "\xff",         "\xc0\x80",         "\xe0\x80\x80",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3" };
    for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++)
        assert_false(text_utf8_valid(bad[k], strlen(bad[k])));
}

static void test_safe(void **state)
{
    (void)state;
    char out[16];
    assert_string_equal(text_safe("a\n\"\x01", out, sizeof(out)), "a\\n\\\"\\x01");
    assert_string_equal(text_safe("0123456789abcdefXYZ", out, sizeof(out)), "0123456789abcde");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
