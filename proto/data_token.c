#include "proto/data_token.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "proto/data_token_priv.h"

#define ISSUER "gate"
#define AUDIENCE "dataproxy"
#define CALLS_MAX 1000000
#define BYTES_MAX (INT64_C(1) << 40)
#define SIGNATURE_LEN 64
#define PART_MAX 1536 /* decoded bytes of header or claims */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool data_name_valid(const char *name, size_t max)
{
    size_t n = strlen(name);
    if (n == 0 || n > max || !name_char(name[0]) || !name_char(name[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!name_char(name[i]) && name[i] != '-' && name[i] != '_')
            return false;
    }
    return true;
}

bool data_id_valid(const char *id)
{
    size_t n = strlen(id);
    if (n == 0 || n > DATA_ID_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = id[i];
        if (!name_char(c) && !(c >= 'A' && c <= 'Z') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

bool data_token_in_scope(const struct data_token *token, const char *upstream)
{
    for (size_t i = 0; i < token->n_scope; i++) {
        if (strcmp(token->scope[i], upstream) == 0)
            return true;
    }
    return false;
}

/* The members' ranges, the same for minting and checking. */
static CHECKED enum err_kind token_valid(const struct data_token *t, struct err *err)
{
    if (!data_name_valid(t->slug, DATA_SLUG_MAX))
        return err_set(err, ERR_INVALID, "data token: bad slug");
    if (!data_id_valid(t->request_id))
        return err_set(err, ERR_INVALID, "data token: bad request id");
    if (t->issued_at < 0 || t->issued_at > INT64_C(1) << 40 || t->expires_at <= t->issued_at ||
        t->expires_at - t->issued_at > DATA_LIFETIME_MAX)
        return err_set(err, ERR_INVALID, "data token: lifetime out of range");
    if (t->calls < 0 || t->calls > CALLS_MAX || t->bytes < 0 || t->bytes > BYTES_MAX)
        return err_set(err, ERR_INVALID, "data token: budget out of range");
    if (t->n_scope == 0 || t->n_scope > DATA_SCOPE_MAX)
        return err_set(err, ERR_INVALID, "data token: scope must name 1 to %d upstreams",
                       DATA_SCOPE_MAX);
    for (size_t i = 0; i < t->n_scope; i++) {
        if (!data_name_valid(t->scope[i], DATA_UPSTREAM_MAX))
            return err_set(err, ERR_INVALID, "data token: bad upstream name");
    }
    return ERR_OK;
}

static void append_part(struct buf *b, const void *data, size_t len)
{
    char text[DATA_TOKEN_MAX];
    assert(text_b64_len(len) < sizeof(text));
    buf_append(b, text, text_b64url(data, len, text));
}

/* Every member has been held to its character set, so no escaping is needed. */
static void append_claims(struct buf *b, const struct data_token *t)
{
    struct buf claims;
    buf_init(&claims, PART_MAX);
    buf_printf(&claims,
               "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"%s\",\"jti\":\"%s\","
               "\"iat\":%" PRId64 ",\"exp\":%" PRId64 ",\"calls\":%" PRId64 ",\"bytes\":%" PRId64
               ",\"scope\":[",
               t->slug, t->request_id, t->issued_at, t->expires_at, t->calls, t->bytes);
    for (size_t i = 0; i < t->n_scope; i++)
        buf_printf(&claims, "%s\"%s\"", i ? "," : "", t->scope[i]);
    buf_append_str(&claims, "]}");
    b->failed |= claims.failed;
    append_part(b, claims.data, claims.len);
    buf_fini(&claims);
}

static void md_ctx_freep(EVP_MD_CTX **p)
{
    EVP_MD_CTX_free(*p);
}

enum err_kind data_token_mint(const struct data_key *key, const struct data_token *token,
                              char **out, struct err *err)
{
    if (!key->private)
        return err_set(err, ERR_PRECONDITION, "key %s has no private half here", key->id);
    enum err_kind kind = token_valid(token, err);
    if (kind)
        return kind;
    struct buf b CLEANUP(buf_wipe);
    buf_init(&b, DATA_TOKEN_MAX);
    buf_append_str(&b, key->header);
    buf_append_str(&b, ".");
    append_claims(&b, token);
    EVP_MD_CTX *ctx CLEANUP(md_ctx_freep) = EVP_MD_CTX_new();
    uint8_t signature[SIGNATURE_LEN];
    size_t len = sizeof(signature);
    if (!ctx || EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pkey) != 1 ||
        EVP_DigestSign(ctx, signature, &len, b.data, b.len) != 1)
        return err_set(err, ERR_INTERNAL, "data token: signing failed");
    buf_append_str(&b, ".");
    append_part(&b, signature, len);
    if (b.failed)
        return err_set(err, ERR_INVALID, "data token: longer than %d bytes", DATA_TOKEN_MAX);
    *out = xstrdup(buf_cstr(&b));
    return ERR_OK;
}

/* The three dot-separated parts as views. */
struct parts {
    const char *at[3];
    size_t len[3];
};

static bool split(const char *text, size_t len, struct parts *out)
{
    size_t part = 0;
    size_t from = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != '.')
            continue;
        if (part == 3)
            return false;
        out->at[part] = text + from;
        out->len[part++] = i - from;
        from = i + 1;
    }
    return part == 3;
}

static CHECKED enum err_kind decode_json(const char *text, size_t len, json_t **out,
                                         struct err *err)
{
    uint8_t raw[DATA_TOKEN_MAX];
    size_t n;
    if (len == 0 || !text_unb64url(text, len, raw, &n) || memchr(text, '=', len))
        return err_set(err, ERR_INVALID, "data token: not base64url");
    if (json_strict_load((const char *)raw, n, PART_MAX, 0, out, NULL) || !json_is_object(*out))
        return err_set(err, ERR_INVALID, "data token: part is not a JSON object");
    return ERR_OK;
}

static bool string_is(const json_t *object, const char *key, const char *expected)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value && strcmp(value, expected) == 0;
}

/* Why a header is none of those that our keys mint. */
static CHECKED enum err_kind refuse_header(const struct parts *parts, struct err *err)
{
    static const char *const names[] = { "alg", "kid", "typ", NULL };
    json_t *header CLEANUP_JSON = NULL;
    enum err_kind kind = decode_json(parts->at[0], parts->len[0], &header, err);
    if (kind)
        return kind;
    if (json_only_keys(header, names, "", NULL) || !string_is(header, "typ", "JWT"))
        return err_set(err, ERR_INVALID, "data token: header must hold alg, kid and typ \"JWT\"");
    if (!string_is(header, "alg", "EdDSA"))
        return err_set(err, ERR_DENIED, "data token: algorithm must be EdDSA");
    return err_set(err, ERR_DENIED, "data token: unknown key id, or a header not as minted");
}

/* The key whose header it is, byte for byte: there is no other way to write one. */
static CHECKED enum err_kind header_key(const struct data_keys *keys, const struct parts *parts,
                                        const struct data_key **out, struct err *err)
{
    for (size_t i = 0; i < keys->n; i++) {
        const char *header = keys->key[i]->header;
        if (strlen(header) == parts->len[0] && memcmp(header, parts->at[0], parts->len[0]) == 0) {
            *out = keys->key[i];
            return ERR_OK;
        }
    }
    return refuse_header(parts, err);
}

static CHECKED enum err_kind check_signature(const struct data_key *key, const char *text,
                                             const struct parts *parts, struct err *err)
{
    uint8_t signature[SIGNATURE_LEN + 8];
    size_t len = 0;
    size_t signed_len = parts->len[0] + 1 + parts->len[1];
    EVP_MD_CTX *ctx CLEANUP(md_ctx_freep) = EVP_MD_CTX_new();
    if (parts->len[2] != 86 || memchr(parts->at[2], '=', 86) ||
        !text_unb64url(parts->at[2], parts->len[2], signature, &len) || len != SIGNATURE_LEN ||
        !ctx || EVP_MD_CTX_copy_ex(ctx, key->verifier) != 1 ||
        EVP_DigestVerify(ctx, signature, len, (const uint8_t *)text, signed_len) != 1)
        return err_set(err, ERR_DENIED, "data token: signature does not match");
    return ERR_OK;
}

static bool copy_string(const json_t *object, const char *key, char *out, size_t size)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (!value || strlen(value) >= size)
        return false;
    memcpy(out, value, strlen(value) + 1);
    return true;
}

static bool copy_int(const json_t *object, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        return false;
    *out = json_integer_value(value);
    return true;
}

static bool copy_scope(const json_t *claims, struct data_token *t)
{
    const json_t *scope = json_object_get(claims, "scope");
    if (!json_is_array(scope) || json_array_size(scope) > DATA_SCOPE_MAX)
        return false;
    for (t->n_scope = 0; t->n_scope < json_array_size(scope); t->n_scope++) {
        const char *name = json_string_value(json_array_get(scope, t->n_scope));
        if (!name || strlen(name) > DATA_UPSTREAM_MAX)
            return false;
        strcpy(t->scope[t->n_scope], name);
    }
    return true;
}

static CHECKED enum err_kind read_claims(const struct parts *parts, struct data_token *t,
                                         struct err *err)
{
    static const char *const names[] = { "iss", "aud",   "sub",   "jti",   "iat",
                                         "exp", "calls", "bytes", "scope", NULL };
    json_t *claims CLEANUP_JSON = NULL;
    enum err_kind kind = decode_json(parts->at[1], parts->len[1], &claims, err);
    if (kind)
        return kind;
    *t = (struct data_token){ 0 };
    if (json_only_keys(claims, names, "", NULL) ||
        !copy_string(claims, "sub", t->slug, sizeof(t->slug)) ||
        !copy_string(claims, "jti", t->request_id, sizeof(t->request_id)) ||
        !copy_int(claims, "iat", &t->issued_at) || !copy_int(claims, "exp", &t->expires_at) ||
        !copy_int(claims, "calls", &t->calls) || !copy_int(claims, "bytes", &t->bytes) ||
        !copy_scope(claims, t))
        return err_set(err, ERR_INVALID, "data token: claims are not of the minted form");
    if (!string_is(claims, "iss", ISSUER) || !string_is(claims, "aud", AUDIENCE))
        return err_set(err, ERR_DENIED, "data token: for another audience");
    return token_valid(t, err);
}

enum err_kind data_token_check_window(const struct data_token *token, int64_t now, struct err *err)
{
    if (token->issued_at > now + DATA_SKEW)
        return err_set(err, ERR_DENIED, "data token: not valid yet");
    if (now >= token->expires_at)
        return err_set(err, ERR_TIMEOUT, "data token: expired");
    return ERR_OK;
}

enum err_kind data_token_check(const struct data_keys *keys, const char *text, size_t len,
                               const char *slug, int64_t now, struct data_token *out,
                               struct err *err)
{
    struct parts parts;
    const struct data_key *key = NULL;
    if (len > DATA_TOKEN_MAX || !split(text, len, &parts))
        return err_set(err, ERR_INVALID, "data token: not a JWT of at most %d bytes",
                       DATA_TOKEN_MAX);
    enum err_kind kind = header_key(keys, &parts, &key, err);
    if (!kind)
        kind = check_signature(key, text, &parts, err);
    if (!kind)
        kind = read_claims(&parts, out, err);
    if (kind)
        return kind;
    if (strcmp(out->slug, slug) != 0)
        return err_set(err, ERR_DENIED, "data token: for another slug");
    return data_token_check_window(out, now, err);
}
