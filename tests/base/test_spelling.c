/* base/spelling: each way programs escape what they reflect is found, from its first byte on. */
#include "base/spelling.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static const char secret[] = "sk/9+q=Z\\w?\"&%<'~A b";

static enum spelling_match at(const char *text, const char *data, size_t len, bool final)
{
    const struct spelling spelling = spelling_of(text, strlen(text), false);
    return spelling_at(&spelling, (const uint8_t *)data, len, final);
}

/* Whole when it is all there and decided, partial at every cut before. */
static void expect_spelling(const char *text, const char *data)
{
    char more[1024];
    int n = snprintf(more, sizeof(more), "%s..............................", data);
    if (at(text, data, strlen(data), true) != SPELLING_WHOLE)
        fail_msg("%s is not found at the end", data);
    if (at(text, more, (size_t)n, false) != SPELLING_WHOLE)
        fail_msg("%s is not found", data);
    for (size_t cut = 1; cut < strlen(data); cut++) {
        if (at(text, data, cut, false) == SPELLING_NONE)
            fail_msg("%s cut after %zu bytes is passed on", data, cut);
    }
}

static const char *const spellings[] = {
    "sk/9+q=Z\\w?\"&%<'~A b",                                         /* as is */
    "sk%2F9%2Bq%3DZ%5Cw%3F%22%26%25%3C%27~A%20b",                     /* RFC 3986 */
    "sk%2f9%2Bq%3dZ%5cw%3F%22%26%25%3C%27%7eA+b",                     /* mixed case, a form's + */
    "sk%252F9%252Bq%253DZ%255Cw%253F%2522%2526%25%253C%2527~A%2520b", /* twice */
    "%73%6b%2f%39%2b%71%3d%5a%5c%77%3f%22%26%25%3c%27%7e%41%20%62",   /* every byte */
    "sk/9+q=Z\\\\w?\\\"&%<'~A b",                                     /* JSON */
    "sk\\/9+q=Z\\\\w?\\\"&%<'~A b",                                   /* PHP's JSON */
    "sk/9\\u002Bq=Z\\\\w?\\u0022\\u0026%\\u003C\\u0027~A b",          /* .NET's, Go's */
    "s\\u006b\\u002f9\\u002bq\\u003dZ\\u005cw\\u003f\\u0022&%<'~\\u0041\\u0020b",
    "sk\\x2f9\\x2Bq\\x3dZ\\x5cw?\\x22&%<\\'~A\\x20b",                  /* C */
    "sk\\0579\\053q\\075Z\\134w\\077\\042&%<\\047~A\\040b",            /* octal */
    "sk/9+q=Z\\w?&quot;&amp;%&lt;&#39;~A b",                           /* HTML */
    "sk&#x2F;9&#43;q&#x3d;Z&#92;w?&#34;&#38;%&#060;&#x00027;~A&#32;b", /* by number */
    "sk&sol;9&plus;q&equals;Z&bsol;w&quest;&quot;&amp;&percnt;&lt;&apos;~A b",
    "sk&amp;#47;9&amp;amp;#43;q=Z\\w?&amp;quot;&amp;%&amp;lt;'~A b", /* HTML in HTML */
    "sk/9+q=3DZ=5Cw?=22&%=3C'~A b",                                  /* quoted-printable */
    "sk/9+q\r\n=Z\\w?\"\n&%<\r\n '~A b",                             /* wrapped */
    "sk/9+q=\r\n=3DZ\\w?\\n\"&%\\r\\n<'~A b",                        /* wrapped in both ways */
};

static void test_every_spelling(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
        expect_spelling(secret, spellings[i]);
}

/* What itself looks like an escape, or like the beginning of one, is found as it stands. */
static void test_texts_that_look_escaped(void **state)
{
    (void)state;
    static const char *const texts[] = { "%2F%25%", "&amp;&#43", "\\u002f\\\\", "==%%\\&",
                                         "a\\nb=3D" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        expect_spelling(texts[i], texts[i]);
}

static void test_letters_in_either_case(void **state)
{
    (void)state;
    static const uint8_t text[] = "SK%2D-dEF";
    struct spelling spelling = spelling_of("sk--Def", strlen("sk--Def"), true);
    assert_int_equal(spelling_at(&spelling, text, 9, true), SPELLING_WHOLE);
    spelling.fold = false;
    assert_int_equal(spelling_at(&spelling, text, 9, true), SPELLING_NONE);
}

static void test_near_misses(void **state)
{
    (void)state;
    static const char *const texts[] = { "sk/9+q=Z\\w?\"&%<'~A_b",
                                         "sk%2G9",
                                         "sk&#x2F9",
                                         "sk&#111111111111111;9",
                                         "sk\\u012f9+",
                                         "sk\n\n/9+q",
                                         "sk&solx",
                                         "sk%",
                                         "s" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(at(secret, texts[i], strlen(texts[i]), true), SPELLING_NONE);
}

static void test_starts(void **state)
{
    (void)state;
    bool first[256] = { false };
    const struct spelling spelling = spelling_of(secret, strlen(secret), true);
    spelling_starts(&spelling, first);
    assert_true(first['s'] && first['S'] && first['%'] && first['\\'] && first['&'] && first['=']);
    assert_false(first['k'] || first['x'] || first[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_spelling),
        cmocka_unit_test(test_texts_that_look_escaped),
        cmocka_unit_test(test_letters_in_either_case),
        cmocka_unit_test(test_near_misses),
        cmocka_unit_test(test_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
