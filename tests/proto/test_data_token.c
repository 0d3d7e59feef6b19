/* proto/data_token: minted tokens check; every other form is refused for its own reason. */
#include "proto/data_token.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/text.h"
#include "tests/test.h"

#define NOW 1800000000

static struct data_key *key;
static struct data_keys keys;

static struct data_token sample(void)
{
    return (struct data_token){
        .slug = "weather",
        .request_id = "r-01HX.ab_c",
        .issued_at = NOW,
        .expires_at = NOW + 30,
        .calls = 10,
        .bytes = 1 << 20,
        .n_scope = 2,
        .scope = { "openmeteo", "model" },
    };
}

static int make_keys(void **state)
{
    (void)state;
    if (data_key_generate(&key, NULL))
        return -1;
    keys.key[0] = key;
    keys.n = 1;
    return 0;
}

static int drop_keys(void **state)
{
    (void)state;
    data_keys_fini(&keys);
    return 0;
}

static char *minted(const struct data_token *token)
{
    char *text = NULL;
    struct err err = { 0 };
    if (data_token_mint(key, token, &text, &err))
        fail_msg("%s", err.msg);
    return text;
}

static enum err_kind check(const char *text, int64_t now, struct err *err)
{
    struct data_token out;
    return data_token_check(&keys, text, strlen(text), "weather", now, &out, err);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct data_token token = sample();
    char *text CLEANUP_FREE = minted(&token);
    struct data_token out;
    assert_int_equal(data_token_check(&keys, text, strlen(text), "weather", NOW, &out, NULL), 0);
    assert_string_equal(out.slug, token.slug);
    assert_string_equal(out.request_id, token.request_id);
    assert_int_equal(out.issued_at, token.issued_at);
    assert_int_equal(out.expires_at, token.expires_at);
    assert_int_equal(out.calls, token.calls);
    assert_int_equal(out.bytes, token.bytes);
    assert_int_equal(out.n_scope, 2);
    assert_string_equal(out.scope[0], "openmeteo");
    assert_string_equal(out.scope[1], "model");
    assert_true(data_token_in_scope(&out, "model"));
    assert_false(data_token_in_scope(&out, "mode"));
}

static void test_window(void **state)
{
    (void)state;
    struct data_token token = sample();
    char *text CLEANUP_FREE = minted(&token);
    struct err err;
    assert_int_equal(check(text, NOW + 29, &err), ERR_OK);
    assert_int_equal(check(text, NOW + 30, &err), ERR_TIMEOUT);
    assert_int_equal(check(text, NOW - DATA_SKEW, &err), ERR_OK);
    assert_int_equal(check(text, NOW - DATA_SKEW - 1, &err), ERR_DENIED);
}

static void test_other_slug(void **state)
{
    (void)state;
    struct data_token token = sample();
    char *text CLEANUP_FREE = minted(&token);
    struct data_token out;
    struct err err;
    assert_int_equal(data_token_check(&keys, text, strlen(text), "other", NOW, &out, &err),
                     ERR_DENIED);
    assert_non_null(strstr(err.msg, "another slug"));
}

static void test_other_key(void **state)
{
    (void)state;
    struct data_token token = sample();
    char *text CLEANUP_FREE = minted(&token);
    struct data_keys others CLEANUP(data_keys_fini) = { .n = 1 };
    assert_int_equal(data_key_generate(&others.key[0], NULL), 0);
    struct data_token out;
    struct err err;
    assert_int_equal(data_token_check(&others, text, strlen(text), "weather", NOW, &out, &err),
                     ERR_DENIED);
    assert_non_null(strstr(err.msg, "key id"));
}

/* Every single-bit change and every truncation is refused. */
static void test_altered(void **state)
{
    (void)state;
    struct data_token token = sample();
    char *text CLEANUP_FREE = minted(&token);
    size_t len = strlen(text);
    struct data_token out;
    for (size_t i = 0; i < len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ (1 << bit));
            if (!data_token_check(&keys, text, len, "weather", NOW, &out, NULL))
                fail_msg("bit %u of byte %zu", bit, i);
            text[i] = (char)(text[i] ^ (1 << bit));
        }
        assert_int_not_equal(data_token_check(&keys, text, i, "weather", NOW, &out, NULL), 0);
    }
}

/* header.claims.signature from texts; the signature is made by `sign` over the first two. */
static char *forge(const char *header, const char *claims, bool sign)
{
    char h[512], c[1024], s[256] = "";
    text_b64url(header, strlen(header), h);
    text_b64url(claims, strlen(claims), c);
    char *head = xasprintf("%s.%s", h, c);
    if (sign) {
        /* An HMAC with the public key as its secret: the classic confusion of algorithms. */
        char *pem CLEANUP_FREE = NULL;
        assert_int_equal(data_key_public_pem(key, &pem, NULL), 0);
        uint8_t mac[32];
        unsigned n = 0;
        HMAC(EVP_sha256(), pem, (int)strlen(pem), (const uint8_t *)head, strlen(head), mac, &n);
        text_b64url(mac, n, s);
    }
    char *text = xasprintf("%s.%s", head, s);
    free(head);
    return text;
}

static void test_algorithm_confusion(void **state)
{
    (void)state;
    static const char claims[] =
        "{\"iss\":\"gate\",\"aud\":\"dataproxy\",\"sub\":\"weather\",\"jti\":\"x\","
        "\"iat\":1800000000,\"exp\":1800000030,\"calls\":1,\"bytes\":1,\"scope\":[\"model\"]}";
    static const char *const algorithms[] = {
        "none", "None", "HS256", "RS256", "ES256", "eddsa", ""
    };
    for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
        char *header CLEANUP_FREE = xasprintf("{\"alg\":\"%s\",\"kid\":\"%s\",\"typ\":\"JWT\"}",
                                              algorithms[i], data_key_id(key));
        for (int sign = 0; sign < 2; sign++) {
            char *text CLEANUP_FREE = forge(header, claims, sign);
            struct err err;
            assert_int_equal(check(text, NOW, &err), ERR_DENIED);
            assert_non_null(strstr(err.msg, "EdDSA"));
        }
    }
    char *header CLEANUP_FREE =
        xasprintf("{\"alg\":\"EdDSA\",\"kid\":\"%s\",\"typ\":\"JWT\"}", data_key_id(key));
    char *unsigned_text CLEANUP_FREE = forge(header, claims, false);
    assert_int_equal(check(unsigned_text, NOW, NULL), ERR_DENIED);
}

static void test_header_members(void **state)
{
    (void)state;
    static const char *const extra[] = { "\"jwk\":{}", "\"crit\":[]", "\"x5u\":\"http://a\"",
                                         "\"ALG\":\"none\"" };
    for (size_t i = 0; i < ARRAY_LEN(extra); i++) {
        char *header CLEANUP_FREE = xasprintf(
            "{\"alg\":\"EdDSA\",\"kid\":\"%s\",\"typ\":\"JWT\",%s}", data_key_id(key), extra[i]);
        char *text CLEANUP_FREE = forge(header, "{}", true);
        assert_int_equal(check(text, NOW, NULL), ERR_INVALID);
    }
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = { "",      ".",       "..",          "a.b",
                                       "a.b.c", "a.b.c.d", "e30.e30.e30", "!.!.!" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(check(bad[i], NOW, NULL), ERR_INVALID);
    char *huge CLEANUP_FREE = xcalloc(1, DATA_TOKEN_MAX + 2);
    memset(huge, 'a', DATA_TOKEN_MAX + 1);
    assert_int_equal(check(huge, NOW, NULL), ERR_INVALID);
}

static void test_mint_refuses(void **state)
{
    (void)state;
    struct data_token bad[6];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = sample();
    bad[0].n_scope = 0;
    strcpy(bad[1].slug, "UP\"");
    strcpy(bad[2].request_id, "a\",\"x");
    bad[3].expires_at = NOW + DATA_LIFETIME_MAX + 1;
    bad[4].calls = -1;
    strcpy(bad[5].scope[1], "../x");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char *text = NULL;
        assert_int_equal(data_token_mint(key, &bad[i], &text, NULL), ERR_INVALID);
        assert_null(text);
    }
    /* The longest token that the limits allow still fits. */
    struct data_token big = sample();
    memset(big.slug, 'a', DATA_SLUG_MAX);
    memset(big.request_id, 'b', DATA_ID_MAX);
    big.n_scope = DATA_SCOPE_MAX;
    for (size_t i = 0; i < DATA_SCOPE_MAX; i++)
        memset(big.scope[i], 'c', DATA_UPSTREAM_MAX);
    char *text CLEANUP_FREE = minted(&big);
    assert_true(strlen(text) <= DATA_TOKEN_MAX);
}

static void test_key_files(void **state)
{
    (void)state;
    char dir[] = "/tmp/utter-test-keys.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err err;
    char *private_pem CLEANUP_FREE = NULL;
    char *public_pem CLEANUP_FREE = NULL;
    assert_int_equal(data_key_private_pem(key, &private_pem, &err), 0);
    assert_int_equal(data_key_public_pem(key, &public_pem, &err), 0);
    char *private_path CLEANUP_FREE = xasprintf("%s/data.key", dir);
    char *public_path CLEANUP_FREE = xasprintf("%s/a.pub", dir);
    char *broken_path CLEANUP_FREE = xasprintf("%s/b.pub", dir);

    struct data_keys loaded CLEANUP(data_keys_fini) = { 0 };
    assert_int_equal(data_keys_load(dir, &loaded, &err), ERR_NOT_FOUND);
    assert_int_equal(fs_write(private_path, private_pem, strlen(private_pem), 0440, false, &err),
                     0);
    assert_int_equal(fs_write(public_path, public_pem, strlen(public_pem), 0444, false, &err), 0);

    struct data_key *again CLEANUP(data_key_freep) = NULL;
    assert_int_equal(data_key_load_private(private_path, &again, &err), ERR_PRECONDITION);
    assert_int_equal(chmod(private_path, 0400), 0);
    assert_int_equal(data_key_load_private(private_path, &again, &err), 0);
    assert_string_equal(data_key_id(again), data_key_id(key));
    assert_int_equal(data_keys_load(dir, &loaded, &err), 0);
    assert_int_equal(loaded.n, 1);

    char *none CLEANUP_FREE = NULL;
    assert_int_equal(data_key_private_pem(loaded.key[0], &none, &err), ERR_PRECONDITION);
    struct data_token token = sample();
    assert_int_equal(data_token_mint(loaded.key[0], &token, &none, &err), ERR_PRECONDITION);

    assert_int_equal(fs_write(broken_path, "x", 1, 0444, false, &err), 0);
    struct data_keys broken CLEANUP(data_keys_fini) = { 0 };
    assert_int_equal(data_keys_load(dir, &broken, &err), ERR_INVALID);
    assert_int_equal(fs_remove_tree(dir, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_window),
        cmocka_unit_test(test_other_slug),     cmocka_unit_test(test_other_key),
        cmocka_unit_test(test_altered),        cmocka_unit_test(test_algorithm_confusion),
        cmocka_unit_test(test_header_members), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_mint_refuses),   cmocka_unit_test(test_key_files),
    };
    return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
