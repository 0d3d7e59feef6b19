/* CDP's JWT: claims, binding to one call, and both signature algorithms checked by OpenSSL. */
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/cdp_jwt.h"
#include "tests/test.h"

/* RFC 8032 section 7.1, test 1: secret and public key. */
#define ED_SECRET "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
#define ED_PUBLIC "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"

static json_t *part(const char *p, size_t n)
{
    uint8_t text[4096];
    size_t len = 0;
    assert_true(text_unb64url(p, n, text, &len));
    json_t *out = json_loadb((const char *)text, len, 0, NULL);
    assert_non_null(out);
    return out;
}

struct jwt {
    json_t *header, *claims;
    size_t signed_len; /* of "header.claims" */
    uint8_t signature[72];
    size_t signature_len;
};

static void split(struct buf *token, struct jwt *out)
{
    const char *t = buf_cstr(token), *dot = strchr(t, '.'), *last = strrchr(t, '.');
    assert_true(dot && last && dot != last);
    out->header = part(t, (size_t)(dot - t));
    out->claims = part(dot + 1, (size_t)(last - dot - 1));
    out->signed_len = (size_t)(last - t);
    assert_true(text_unb64url(last + 1, strlen(last + 1), out->signature, &out->signature_len));
    assert_int_equal(out->signature_len, 64);
}

static void check_claims(const struct jwt *j, const char *alg)
{
    assert_string_equal(json_string_value(json_object_get(j->header, "alg")), alg);
    assert_string_equal(json_string_value(json_object_get(j->header, "kid")), "organizations/1/k");
    assert_int_equal(json_string_length(json_object_get(j->header, "nonce")), 32);
    assert_string_equal(json_string_value(json_object_get(j->claims, "iss")), "cdp");
    assert_string_equal(json_string_value(json_object_get(j->claims, "sub")), "organizations/1/k");
    assert_int_equal(json_integer_value(json_object_get(j->claims, "nbf")), 1000);
    assert_int_equal(json_integer_value(json_object_get(j->claims, "exp")), 1120);
    assert_string_equal(json_string_value(json_array_get(json_object_get(j->claims, "uris"), 0)),
                        "POST api.cdp.coinbase.com/platform/v2/x402/verify");
}

static void mint(const struct cdp_key *key, struct buf *token)
{
    buf_init(token, 8192);
    assert_int_equal(cdp_jwt_mint(key, "organizations/1/k", "POST", "api.cdp.coinbase.com",
                                  "/platform/v2/x402/verify", 1000, token, NULL),
                     ERR_OK);
}

static void eddsa(void **state)
{
    (void)state;
    uint8_t both[64];
    char b64[100];
    struct cdp_key *key CLEANUP(cdp_key_freep) = NULL;
    struct buf token CLEANUP(buf_fini), again CLEANUP(buf_fini);
    struct jwt j;
    assert_true(text_unhex(ED_SECRET ED_PUBLIC, both, 64));
    text_b64(both, 64, b64);
    assert_int_equal(cdp_key_parse(b64, &key, NULL), ERR_OK);
    mint(key, &token);
    mint(key, &again);
    assert_string_not_equal(buf_cstr(&token), buf_cstr(&again)); /* a fresh nonce each */
    split(&token, &j);
    check_claims(&j, "EdDSA");
    EVP_PKEY *pub = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, both + 32, 32);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pub), 1);
    assert_int_equal(EVP_DigestVerify(ctx, j.signature, 64, token.data, j.signed_len), 1);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pub);
    json_decref(j.header);
    json_decref(j.claims);
}

static void es256(void **state)
{
    (void)state;
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem = NULL;
    struct cdp_key *key CLEANUP(cdp_key_freep) = NULL;
    struct buf token CLEANUP(buf_fini);
    struct jwt j;
    assert_int_equal(PEM_write_bio_PrivateKey(bio, pair, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(BIO_write(bio, "", 1), 1);
    assert_true(BIO_get_mem_data(bio, &pem) > 0);
    assert_int_equal(cdp_key_parse(pem, &key, NULL), ERR_OK);
    mint(key, &token);
    split(&token, &j);
    check_claims(&j, "ES256");
    ECDSA_SIG *sig = ECDSA_SIG_new();
    assert_int_equal(ECDSA_SIG_set0(sig, BN_bin2bn(j.signature, 32, NULL),
                                    BN_bin2bn(j.signature + 32, 32, NULL)),
                     1);
    uint8_t *der = NULL;
    int der_len = i2d_ECDSA_SIG(sig, &der);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, pair), 1);
    assert_int_equal(EVP_DigestVerify(ctx, der, (size_t)der_len, token.data, j.signed_len), 1);
    EVP_MD_CTX_free(ctx);
    OPENSSL_free(der);
    ECDSA_SIG_free(sig);
    BIO_free(bio);
    EVP_PKEY_free(pair);
    json_decref(j.header);
    json_decref(j.claims);
}

static void keys_that_are_none(void **state)
{
    (void)state;
    uint8_t wrong[64];
    char b64[100];
    assert_true(text_unhex(ED_SECRET ED_PUBLIC, wrong, 64));
    wrong[40] ^= 1; /* the public half is another's */
    text_b64(wrong, 64, b64);
    const char *const texts[] = { "",
                                  "x",
                                  "AAAA",
                                  b64,
                                  "-----BEGIN EC PRIVATE KEY-----\nAAAA\n",
                                  "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n" };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct cdp_key *key CLEANUP(cdp_key_freep) = NULL;
        assert_int_equal(cdp_key_parse(texts[i], &key, NULL), ERR_INVALID);
    }
    EVP_PKEY *pair = EVP_EC_gen("P-384"); /* a curve that ES256 is not for */
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem = NULL;
    struct cdp_key *key CLEANUP(cdp_key_freep) = NULL;
    assert_int_equal(PEM_write_bio_PrivateKey(bio, pair, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(BIO_write(bio, "", 1), 1);
    assert_true(BIO_get_mem_data(bio, &pem) > 0);
    assert_int_equal(cdp_key_parse(pem, &key, NULL), ERR_INVALID);
    BIO_free(bio);
    EVP_PKEY_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eddsa),
        cmocka_unit_test(es256),
        cmocka_unit_test(keys_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
