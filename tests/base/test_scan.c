/* base/scan: every form, cut at every place, is found before its last byte is out. */
#include "base/scan.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tests/test.h"

static const char secret[] = "sk-live/\"9+q=Z~7\\w?";

/* Feeds text in pieces of `step`; true when the stream was cut. What came out must not hold the
 * form. */
static bool cut(struct scan_set *set, const char *text, size_t len, size_t step, const char *form,
                size_t form_len)
{
    struct scan_stream stream;
    struct buf out;
    scan_stream_init(&stream, set);
    buf_init(&out, 1 << 20);
    bool passed = true;
    for (size_t i = 0; passed && i < len; i += step)
        passed = scan_stream_feed(&stream, text + i, len - i < step ? len - i : step, &out);
    if (passed)
        passed = scan_stream_end(&stream, &out);
    if (out.len)
        assert_null(memmem(out.data, out.len, form, form_len));
    if (passed)
        assert_int_equal(out.len, len);
    buf_fini(&out);
    scan_stream_fini(&stream);
    return !passed;
}

static void expect_found(struct scan_set *set, const char *form)
{
    size_t n = strlen(form);
    for (size_t before = 0; before < 5; before++) {
        char text[1024];
        int len =
            snprintf(text, sizeof(text), "%.*s%s tail of the answer", (int)before, "....", form);
        for (size_t step = 1; step <= n + 3; step++) {
            if (!cut(set, text, (size_t)len, step, form, n))
                fail_msg("not found: %s (step %zu)", form, step);
        }
    }
}

static void test_forms(void **state)
{
    (void)state;
    struct scan_set *set CLEANUP(scan_set_unrefp) = scan_set_new();
    scan_set_add(set, secret, strlen(secret));
    expect_found(set, secret);
    expect_found(set, "sk-live/\\\"9+q=Z~7\\\\w?");
    expect_found(set, "sk-live\\/\\\"9+q=Z~7\\\\w?");
    expect_found(set, "sk-live%2F%229%2Bq%3DZ~7%5Cw%3F");
    expect_found(set, "sk-live%2f%229%2bq%3dZ~7%5cw%3f");
    char hex[128];
    text_hex(secret, strlen(secret), hex);
    expect_found(set, hex);
    for (char *p = hex; *p; p++)
        *p = (char)(*p >= 'a' ? *p - 32 : *p);
    expect_found(set, hex);
    expect_found(set, "SK-LIVE/&quot;9&#43;Q=Z~7&#92;W?");
    expect_found(set, "sk-li\r\nve\\u002f\\u00229+q=Z~7\\\\w?");
}

/* What cannot become a secret any more is not held back. */
static void test_other_text_is_not_delayed(void **state)
{
    (void)state;
    struct scan_set *set CLEANUP(scan_set_unrefp) = scan_set_new();
    struct scan_stream stream;
    struct buf out CLEANUP(buf_fini);
    scan_set_add(set, secret, strlen(secret));
    scan_stream_init(&stream, set);
    buf_init(&out, 1 << 20);
    assert_true(scan_stream_feed(&stream, "data: {\"t\":1}\n\n", 15, &out));
    assert_int_equal(out.len, 15);
    assert_true(scan_stream_feed(&stream, "x sk-li", 7, &out));
    assert_int_equal(out.len, 17);
    assert_true(scan_stream_feed(&stream, "ght", 3, &out));
    assert_int_equal(out.len, 25);
    scan_stream_fini(&stream);
}

static void test_base64_in_lines(void **state)
{
    (void)state;
    struct scan_set *set CLEANUP(scan_set_unrefp) = scan_set_new();
    scan_set_add(set, secret, strlen(secret));
    char text[64];
    char lines[128];
    text_b64(secret, strlen(secret), text);
    (void)snprintf(lines, sizeof(lines), "%.8s\r\n%.8s\r\n%s", text, text + 8, text + 16);
    assert_true(scan_once(set, lines, strlen(lines)));
    (void)snprintf(lines, sizeof(lines), "%.8s%%2B%s", text, text + 9);
    assert_int_equal(scan_once(set, lines, strlen(lines)), text[8] == '+');
}

static void test_base64_alignments(void **state)
{
    (void)state;
    struct scan_set *set CLEANUP(scan_set_unrefp) = scan_set_new();
    scan_set_add(set, secret, strlen(secret));
    for (size_t before = 0; before < 7; before++) {
        for (size_t after = 0; after < 4; after++) {
            char plain[128];
            char text[256];
            int n = snprintf(plain, sizeof(plain), "%.*s%s%.*s", (int)before, "user:pw", secret,
                             (int)after, "@zz!");
            text_b64(plain, (size_t)n, text);
            assert_true(scan_once(set, text, strlen(text)));
            text_b64url(plain, (size_t)n, text);
            assert_true(scan_once(set, text, strlen(text)));
        }
    }
}

static void test_clean_text_passes(void **state)
{
    (void)state;
    struct scan_set *set CLEANUP(scan_set_unrefp) = scan_set_new();
    scan_set_add(set, secret, strlen(secret));
    static const char text[] = "sk-live/\"9+q=Z~7\\w! is not it, nor is sk-live/ alone";
    for (size_t step = 1; step < sizeof(text); step++)
        assert_false(cut(set, text, strlen(text), step, secret, strlen(secret)));
    struct scan_set *none CLEANUP(scan_set_unrefp) = scan_set_new();
    assert_false(cut(none, text, strlen(text), 3, secret, strlen(secret)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_base64_alignments),
        cmocka_unit_test(test_base64_in_lines),
        cmocka_unit_test(test_other_text_is_not_delayed),
        cmocka_unit_test(test_clean_text_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
