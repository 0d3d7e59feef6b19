/* dataproxy/memo: the signature once, the window each time, nothing known after a change of keys.
 */
#include "dataproxy/memo.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

#define NOW 1800000000

static void test_memo(void **state)
{
    (void)state;
    static struct memo memo;
    struct data_keys keys CLEANUP(data_keys_fini) = { .n = 1 };
    struct data_keys others CLEANUP(data_keys_fini) = { .n = 1 };
    struct data_token token = { .slug = "s",
                                .request_id = "r",
                                .issued_at = NOW,
                                .expires_at = NOW + 10,
                                .calls = 1,
                                .bytes = 1,
                                .n_scope = 1,
                                .scope = { "api" } };
    struct data_token out;
    char *text CLEANUP_FREE = NULL;
    assert_int_equal(data_key_generate(&keys.key[0], NULL), 0);
    assert_int_equal(data_key_generate(&others.key[0], NULL), 0);
    assert_int_equal(data_token_mint(keys.key[0], &token, &text, NULL), 0);
    size_t len = strlen(text);
    assert_int_equal(memo_check(&memo, &others, text, len, "s", NOW, &out, NULL), ERR_DENIED);
    assert_int_equal(memo_check(&memo, &keys, text, len, "s", NOW, &out, NULL), 0);
    /* Known now: the other keys are not asked. The window still is. */
    assert_int_equal(memo_check(&memo, &others, text, len, "s", NOW + 9, &out, NULL), 0);
    assert_string_equal(out.request_id, "r");
    assert_int_equal(memo_check(&memo, &keys, text, len, "s", NOW + 10, &out, NULL), ERR_TIMEOUT);
    text[len - 1] = (char)(text[len - 1] == 'A' ? 'Q' : 'A');
    assert_int_not_equal(memo_check(&memo, &keys, text, len, "s", NOW, &out, NULL), 0);
    memo_clear(&memo);
    text[len - 1] = 'A';
    assert_int_not_equal(memo_check(&memo, &others, text, len, "s", NOW, &out, NULL), 0);
}

static void test_more_tokens_than_room(void **state)
{
    (void)state;
    static struct memo memo;
    struct data_keys keys CLEANUP(data_keys_fini) = { .n = 1 };
    assert_int_equal(data_key_generate(&keys.key[0], NULL), 0);
    for (int i = 0; i < MEMO_TOKENS + 10; i++) {
        struct data_token token = { .slug = "s",
                                    .issued_at = NOW,
                                    .expires_at = NOW + 10,
                                    .calls = 1,
                                    .bytes = 1,
                                    .n_scope = 1,
                                    .scope = { "api" } };
        struct data_token out;
        char *text CLEANUP_FREE = NULL;
        (void)snprintf(token.request_id, sizeof(token.request_id), "r%d", i);
        assert_int_equal(data_token_mint(keys.key[0], &token, &text, NULL), 0);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(memo_check(&memo, &keys, text, strlen(text), "s", NOW, &out, NULL), 0);
            assert_string_equal(out.request_id, token.request_id);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_memo),
                                        cmocka_unit_test(test_more_tokens_than_room) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
