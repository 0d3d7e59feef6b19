/* http/chunked: what is a chunked body and what is not, in every cut. */
#include "tests/test.h"

#include <string.h>

#include "http/chunked.h"

struct vector {
    const char *bytes;
    const char *body; /* NULL: malformed */
    size_t rest;      /* bytes after the end */
};

static const struct vector VECTORS[] = {
    { "0\r\n\r\n", "", 0 },
    { "3\r\nabc\r\n0\r\n\r\n", "abc", 0 },
    { "3\r\nabc\r\n2\r\nde\r\n000\r\n\r\n", "abcde", 0 },
    { "A\r\n0123456789\r\n0\r\n\r\nGET", "0123456789", 3 },
    { "3;ext=1\r\nabc\r\n0\r\n\r\n", "abc", 0 },
    { "0\r\nX-Trailer: PAYMENT\r\n\r\n", "", 0 },
    { "3\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "3\r\nabcX\r\n0\r\n\r\n", NULL, 0 },
    { "3\r\nabc\n0\r\n\r\n", NULL, 0 },
    { "0x3\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { " 3\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "3 \r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "-3\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "+3\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "00000000000000003\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "fffffffffffffffff\r\n", NULL, 0 },
    { "3;a\nb\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "3;a\rb\r\nabc\r\n0\r\n\r\n", NULL, 0 },
    { "0\r\n folded\r\n\r\n", NULL, 0 },
    { "0\r\n: x\r\n\r\n", NULL, 0 },
    { "0\r\nno colon\r\n\r\n", NULL, 0 },
    { "0\r\nX\xba: y\r\n\r\n", NULL, 0 },
    { "0\r\n\n", NULL, 0 },
};

static enum chunked_status run(const char *bytes, size_t len, size_t step, char *body,
                               size_t *body_len, size_t *rest)
{
    struct chunked c;
    size_t at = 0, used;
    enum chunked_status s = CHUNKED_MORE;
    chunked_init(&c);
    *body_len = 0;
    while (at < len && s != CHUNKED_DONE && s != CHUNKED_BAD) {
        size_t n = len - at < step ? len - at : step;
        const char *data;
        size_t data_len;
        s = chunked_feed(&c, bytes + at, n, &used, &data, &data_len);
        at += used;
        if (s == CHUNKED_DATA) {
            memcpy(body + *body_len, data, data_len);
            *body_len += data_len;
        }
    }
    *rest = len - at;
    return s;
}

static void test_vectors_in_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(VECTORS) / sizeof(VECTORS[0]); i++) {
        const struct vector *v = &VECTORS[i];
        for (size_t step = 1; step <= strlen(v->bytes); step++) {
            char body[64];
            size_t len, rest;
            enum chunked_status s = run(v->bytes, strlen(v->bytes), step, body, &len, &rest);
            if (!v->body) {
                if (s != CHUNKED_BAD)
                    fail_msg("vector %zu step %zu: %d", i, step, (int)s);
                continue;
            }
            if (s != CHUNKED_DONE || len != strlen(v->body) || memcmp(body, v->body, len) != 0)
                fail_msg("vector %zu step %zu: %d", i, step, (int)s);
            assert_int_equal(rest, v->rest);
        }
    }
}

static void test_bounds(void **state)
{
    (void)state;
    char long_extension[600] = "3;";
    memset(long_extension + 2, 'a', sizeof(long_extension) - 2);
    char body[8];
    size_t len, rest;
    assert_int_equal(run(long_extension, sizeof(long_extension), 600, body, &len, &rest),
                     CHUNKED_BAD);
    static char trailers[8192] = "0\r\n";
    for (size_t i = 3; i + 6 <= sizeof(trailers); i += 6)
        memcpy(trailers + i, "X: y\r\n", 6);
    assert_int_equal(run(trailers, sizeof(trailers) - 6, 8192, body, &len, &rest), CHUNKED_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_in_every_cut),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
