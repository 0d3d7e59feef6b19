#include "gate/cdp_jwt.h"

#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

struct cdp_key {
    EVP_PKEY *pkey;
    bool ed25519;
};

DEFINE_CLEANUP(EVP_MD_CTX, EVP_MD_CTX_free, md_ctx_freep)
DEFINE_CLEANUP(BIO, BIO_free_all, bio_freep)
DEFINE_CLEANUP(ECDSA_SIG, ECDSA_SIG_free, ecdsa_sig_freep)

void cdp_key_free(struct cdp_key *key)
{
    if (!key)
        return;
    EVP_PKEY_free(key->pkey);
    free(key);
}

static EVP_PKEY *parse_pem(const char *text)
{
    BIO *bio CLEANUP(bio_freep) = BIO_new_mem_buf(text, -1);
    return bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)(uintptr_t) "") : NULL;
}

static EVP_PKEY *parse_seed(const char *text)
{
    uint8_t bytes[96];
    size_t n = strcspn(text, " \r\n"), len = 0;
    if (n > 100 || !text_unb64(text, n, bytes, &len) || (len != 32 && len != 64))
        return NULL;
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, 32);
    uint8_t own[32];
    size_t own_len = sizeof(own);
    if (pkey && len == 64 &&
        (!EVP_PKEY_get_raw_public_key(pkey, own, &own_len) || memcmp(own, bytes + 32, 32) != 0)) {
        EVP_PKEY_free(pkey);
        pkey = NULL;
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return pkey;
}

static bool is_p256(const EVP_PKEY *pkey)
{
    char group[64];
    return EVP_PKEY_get_base_id(pkey) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(pkey, group, sizeof(group), NULL) &&
           strcmp(group, "prime256v1") == 0;
}

enum err_kind cdp_key_parse(const char *text, struct cdp_key **out, struct err *err)
{
    struct cdp_key *key CLEANUP(cdp_key_freep) = xcalloc(1, sizeof(*key));
    key->pkey = text_starts(text, "-----BEGIN ") ? parse_pem(text) : parse_seed(text);
    ERR_clear_error();
    key->ed25519 = key->pkey && EVP_PKEY_get_base_id(key->pkey) == EVP_PKEY_ED25519;
    if (!key->pkey || (!key->ed25519 && !is_p256(key->pkey)))
        return err_set(err, ERR_INVALID,
                       "not a CDP key (base64 Ed25519 secret, or PEM of a P-256 or Ed25519 key)");
    *out = STEAL(key);
    return ERR_OK;
}

/* JOSE wants r|s, 32 bytes each; OpenSSL gives DER. */
static bool es256_raw(const uint8_t *der, size_t len, uint8_t out[64])
{
    ECDSA_SIG *sig CLEANUP(ecdsa_sig_freep) = d2i_ECDSA_SIG(NULL, &der, (long)len);
    return sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), out, 32) == 32 &&
           BN_bn2binpad(ECDSA_SIG_get0_s(sig), out + 32, 32) == 32;
}

static bool sign(const struct cdp_key *key, const void *data, size_t len, uint8_t out[64])
{
    EVP_MD_CTX *ctx CLEANUP(md_ctx_freep) = EVP_MD_CTX_new();
    uint8_t der[128];
    size_t n = sizeof(der);
    if (!ctx ||
        EVP_DigestSignInit(ctx, NULL, key->ed25519 ? NULL : EVP_sha256(), NULL, key->pkey) != 1 ||
        EVP_DigestSign(ctx, der, &n, data, len) != 1)
        return false;
    if (!key->ed25519)
        return es256_raw(der, n, out);
    memcpy(out, der, 64);
    return n == 64;
}

static void append_b64url(struct buf *out, const void *data, size_t len)
{
    char *text CLEANUP_FREE = xmalloc(text_b64_len(len) + 1);
    text_b64url(data, len, text);
    buf_append_str(out, text);
}

static void append_part(struct buf *out, json_t *part)
{
    json_t *value CLEANUP_JSON = part;
    char *text CLEANUP_FREE = json_dumps(value, JSON_COMPACT);
    append_b64url(out, text, strlen(text));
}

enum err_kind cdp_jwt_mint(const struct cdp_key *key, const char *key_id, const char *method,
                           const char *host, const char *path, int64_t now, struct buf *out,
                           struct err *err)
{
    uint8_t random[16], signature[64];
    char nonce[33];
    if (RAND_bytes(random, sizeof(random)) != 1)
        return err_set(err, ERR_INTERNAL, "no randomness for a JWT");
    text_hex(random, sizeof(random), nonce);
    char *uri CLEANUP_FREE = xasprintf("%s %s%s", method, host, path);
    struct buf jwt CLEANUP(buf_fini);
    buf_init(&jwt, 16384);
    append_part(&jwt, json_pack("{s:s, s:s, s:s, s:s}", "alg", key->ed25519 ? "EdDSA" : "ES256",
                                "typ", "JWT", "kid", key_id, "nonce", nonce));
    buf_append_str(&jwt, ".");
    append_part(&jwt, json_pack("{s:s, s:s, s:I, s:I, s:I, s:[s]}", "sub", key_id, "iss", "cdp",
                                "iat", (json_int_t)now, "nbf", (json_int_t)now, "exp",
                                (json_int_t)(now + CDP_JWT_LIFE_S), "uris", uri));
    if (jwt.failed || !sign(key, jwt.data, jwt.len, signature))
        return err_set(err, ERR_INTERNAL, "the JWT could not be signed");
    buf_append_str(&jwt, ".");
    append_b64url(&jwt, signature, sizeof(signature));
    buf_append(out, jwt.data, jwt.len);
    return out->failed ? err_set(err, ERR_INTERNAL, "the JWT is too long") : ERR_OK;
}
