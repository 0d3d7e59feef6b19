/*
 * What the gate says about money: the 402 for both protocol versions, and receipts. Pure.
 *
 * One answer serves both: v2 JSON in the header PAYMENT-REQUIRED, v1 JSON as the body. For a route
 * with an exact path both are made once, so an unpaid request costs two copies.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "gate/payment.h"
#include "gate/route.h"

#define CHALLENGE_HEADER_MAX 4096  /* bytes of PAYMENT-REQUIRED; refused at load beyond */
#define CHALLENGE_HEADER_WARN 2048 /* some intermediaries drop headers above this */

struct challenge_cache;
void challenge_cache_free(struct challenge_cache *c);

/* Views, both NUL-terminated; valid as long as the route, or, where `scratch` was needed, as long
 * as scratch. */
struct challenge {
    const char *header; /* value of PAYMENT-REQUIRED: base64, no line breaks */
    size_t header_len;
    const char *body; /* v1 JSON (application/json); "{}" with x402Version 2 and error when no offer
                         is v1 */
    size_t body_len;
};

/* The absolute URL of `path` (canonical, without query) as challenges and v1 requirements name it:
 * origin and path, or, beyond 1 KiB, origin and the route's part before its first wildcard. */
void challenge_resource(const struct route *route, const char *origin, const char *path,
                        struct buf *out);

/* Makes or remakes the route's cache (config load, after offer_learn()). ERR_PRECONDITION when the
 * header would be longer than CHALLENGE_HEADER_MAX; *header_len (may be NULL) is the length. */
CHECKED enum err_kind challenge_rebuild(struct route *route, const char *origin, size_t *header_len,
                                        struct err *err);

/* The 402 (or 400, 412) of `route` for canonical `path`. fault PAYMENT_NONE gives the cached one.
 * `reason` overrides the fault's word (a facilitator's invalidReason, which goes through
 * reason_filter() here) or is NULL. */
void challenge_make(const struct route *route, const char *origin, const char *path,
                    enum payment_fault fault, const char *reason, struct buf *scratch,
                    struct challenge *out);

/* Keeps `[A-Za-z0-9_.:-]{1,128}` of a facilitator's reason; anything else becomes
 * "payment_invalid". out takes 129 bytes; returns out. */
const char *reason_filter(const char *reason, char *out);

struct receipt {
    bool success;
    const char *transaction;  /* "" when there is none */
    const char *network;      /* in the form of the payment's version */
    const char *payer;        /* or NULL */
    const char *amount;       /* or NULL: left out */
    const char *error_reason; /* or NULL; filtered by the caller */
    const json_t *extensions; /* or NULL; v2 only */
};

/* "PAYMENT-RESPONSE" or "X-PAYMENT-RESPONSE". */
const char *receipt_header_name(int version);
/* The base64 value, appended to out. */
void receipt_make(const struct receipt *r, struct buf *out);

/* The network of the offer in the form of that protocol version. */
const char *offer_network(const struct offer *offer, int version);
