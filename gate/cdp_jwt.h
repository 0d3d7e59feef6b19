/*
 * The JWT that Coinbase's CDP facilitator wants: one per call, bound to method, host and path,
 * valid for two minutes, signed with Ed25519 (EdDSA) or P-256 (ES256). Pure but for OpenSSL's
 * randomness.
 *
 * Source: CDP API authentication (header alg, kid, typ, nonce; claims sub, iss "cdp", nbf, exp,
 * uris ["METHOD host/path"]).
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

#define CDP_JWT_LIFE_S 120
#define CDP_CORRELATION "sdk_version=0.1.0,sdk_language=c,source=utter-gate"

struct cdp_key;

/* A PEM private key (P-256, SEC1 or PKCS#8), or base64 of Ed25519 seed and public key (64 bytes) or
 * of the seed alone (32). ERR_INVALID otherwise. The text is borrowed. */
CHECKED enum err_kind cdp_key_parse(const char *text, struct cdp_key **out, struct err *err);
void cdp_key_free(struct cdp_key *key); /* NULL is fine */
DEFINE_CLEANUP(struct cdp_key, cdp_key_free, cdp_key_freep)

/* Appends the token. now: wall clock, seconds. */
CHECKED enum err_kind cdp_jwt_mint(const struct cdp_key *key, const char *key_id,
                                   const char *method, const char *host, const char *path,
                                   int64_t now, struct buf *out, struct err *err);
