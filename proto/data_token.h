/*
 * The data token: what lets one handler call reach its declared upstreams for as long as it runs.
 *
 * A JWT (RFC 7519) signed with Ed25519 (RFC 8037, "EdDSA"). The gate mints one per paid call; the
 * data proxy checks it. One algorithm, one header form: `alg` other than EdDSA, or any header
 * member beside alg, kid and typ, is refused before a key is looked at. A key's id is derived from
 * the key itself (first 16 hex digits of the SHA-256 of its raw public half), so that a file's name
 * grants nothing.
 *
 * A token by itself opens nothing: the proxy serves only requests that the gate has opened and not
 * ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"

#define DATA_TOKEN_MAX 2048  /* bytes of the encoded form */
#define DATA_SLUG_MAX 40     /* characters, as deploy's slugs */
#define DATA_ID_MAX 64       /* characters of a request id */
#define DATA_UPSTREAM_MAX 32 /* characters of an upstream's name */
#define DATA_SCOPE_MAX 16    /* upstreams a token may name */
#define DATA_KEY_ID_LEN 16
#define DATA_LIFETIME_MAX 3600 /* seconds from iat to exp */
#define DATA_SKEW 5            /* seconds that two clocks of one host may differ */

struct data_token {
    char slug[DATA_SLUG_MAX + 1];
    char request_id[DATA_ID_MAX + 1];
    int64_t issued_at;  /* Unix seconds */
    int64_t expires_at; /* Unix seconds; at most DATA_LIFETIME_MAX after issued_at */
    int64_t calls;      /* upstream calls allowed, 0 … 1000000 */
    int64_t bytes;      /* bytes allowed, both directions summed, 0 … 2^40 */
    size_t n_scope;
    char scope[DATA_SCOPE_MAX][DATA_UPSTREAM_MAX + 1];
};

/* [a-z0-9] with inner '-' and '_': the form of slugs and upstream names. */
bool data_name_valid(const char *name, size_t max);
/* [A-Za-z0-9._-]{1,DATA_ID_MAX} */
bool data_id_valid(const char *id);

/* One Ed25519 key: a private one mints and checks, a public one only checks. */
struct data_key;
void data_key_free(struct data_key *key);
DEFINE_CLEANUP(struct data_key, data_key_free, data_key_freep)
const char *data_key_id(const struct data_key *key);

CHECKED enum err_kind data_key_generate(struct data_key **out, struct err *err);
/* PEM files. A private file must be a regular file without permissions for group and others. */
CHECKED enum err_kind data_key_load_private(const char *path, struct data_key **out,
                                            struct err *err);
CHECKED enum err_kind data_key_load_public(const char *path, struct data_key **out,
                                           struct err *err);
/* PEM text, NUL-terminated, the caller's. ERR_PRECONDITION for the private half of a public key. */
CHECKED enum err_kind data_key_private_pem(const struct data_key *key, char **out, struct err *err);
CHECKED enum err_kind data_key_public_pem(const struct data_key *key, char **out, struct err *err);

/* A small set of public keys: the current one and those still valid during a rotation. */
#define DATA_KEYS_MAX 8
struct data_keys {
    struct data_key *key[DATA_KEYS_MAX]; /* owned */
    size_t n;
};
void data_keys_fini(struct data_keys *keys);
/* Reads every *.pub of a directory; a file that is no Ed25519 public key fails the load as a whole.
 */
CHECKED enum err_kind data_keys_load(const char *dir, struct data_keys *out, struct err *err);

/* Signs; *out is the encoded token, the caller's, to be wiped after use. ERR_INVALID when a member
 * is out of its range. */
CHECKED enum err_kind data_token_mint(const struct data_key *key, const struct data_token *token,
                                      char **out, struct err *err);

/* Checks form, signature, iss, aud, sub == slug and the time window against now (Unix seconds).
 * ERR_INVALID for a malformed one, ERR_DENIED for a wrong signature, key, audience, issuer or slug,
 * ERR_TIMEOUT for one that has expired. The message never contains token bytes. */
CHECKED enum err_kind data_token_check(const struct data_keys *keys, const char *text, size_t len,
                                       const char *slug, int64_t now, struct data_token *out,
                                       struct err *err);
/* The part of it that time changes: ERR_DENIED before iat, ERR_TIMEOUT from exp on. */
CHECKED enum err_kind data_token_check_window(const struct data_token *token, int64_t now,
                                              struct err *err);
bool data_token_in_scope(const struct data_token *token, const char *upstream);
