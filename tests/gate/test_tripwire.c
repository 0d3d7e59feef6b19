/* gate/tripwire: each form of a token is found wherever it stands; near misses are not. */
#include "gate/tripwire.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tests/test.h"

static const char token[] = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ3In0.AAECAw-_z9";

static void test_base64_at_any_alignment(void **state)
{
    (void)state;
    for (int before = 0; before < 7; before++) {
        char plain[256];
        char text[512];
        int n = snprintf(plain, sizeof(plain), "%.*s%s tail", before, "prefix?", token);
        text_b64(plain, (size_t)n, text);
        assert_true(tripwire_hit(token, text, strlen(text)));
        (void)text_b64url(plain, (size_t)n, text);
        assert_true(tripwire_hit(token, text, strlen(text)));
    }
}

static void test_plain_hex_and_percent(void **state)
{
    (void)state;
    char text[512];
    char hex[256];
    text_hex(token, strlen(token), hex);
    (void)snprintf(text, sizeof(text), "{\"t\":\"%s\"}", token);
    assert_true(tripwire_hit(token, text, strlen(text)));
    assert_true(tripwire_hit(token, hex, strlen(hex)));
    assert_true(tripwire_hit(token, "eyJhbGciOiJFZERTQSJ9%2EeyJzdWIiOiJ3In0%2EAAECAw-_z9", 51));
}

static void test_near_misses(void **state)
{
    (void)state;
    assert_false(tripwire_hit(token, token, strlen(token) - 1));
    assert_false(tripwire_hit(token, "", 0));
    assert_false(tripwire_hit(token, "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ3In0", 37));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64_at_any_alignment),
        cmocka_unit_test(test_plain_hex_and_percent),
        cmocka_unit_test(test_near_misses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
