/*
 * One x402 facilitator as the gate asks it: verify, settle, supported, over http/client.h.
 *
 * Verify has a deadline and a circuit breaker. Settle has a deadline and no breaker: money that may
 * have moved is asked about whatever the facilitator's health. Nothing is repeated in here: one
 * call is at most one request on the wire, so "first send, delivered exactly once" can be told
 * (settle_outcome.h). No redirects, no proxy, at most FACILITATOR_ANSWER_MAX bytes.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "gate/settle_outcome.h"

struct facilitator;
struct http_client;
struct auth;

struct facilitator_setup {
    const char
        *url; /* base, with or without trailing slash; https, or http on loopback, or plain_ok */
    bool plain_ok;
    uint32_t verify_ms;        /* 5000 */
    uint32_t settle_ms;        /* 30000 */
    uint32_t supported_ms;     /* 5000 */
    uint32_t breaker_failures; /* 5 in a row open it … */
    uint32_t breaker_ms;       /* … for 10000; then one probe at a time */
    struct auth *auth;         /* borrowed; NULL: none */
};
void facilitator_setup_defaults(struct facilitator_setup *config);

/* ERR_INVALID names what is wrong with the URL. `client` is borrowed and outlives it. */
CHECKED enum err_kind facilitator_new(const struct facilitator_setup *config, struct loop *loop,
                                      struct http_client *client, struct facilitator **out,
                                      struct err *err);
void facilitator_free(struct facilitator *facilitator); /* calls under way complete no more */
DEFINE_CLEANUP(struct facilitator, facilitator_free, facilitator_freep)
const char *facilitator_url(const struct facilitator *facilitator); /* without trailing slash */

struct facilitator_call {
    void *op; /* NULL when idle */
};
/* Will not be called; the request may have been sent. Fine when idle. */
void facilitator_cancel(struct facilitator_call *call);

typedef void facilitator_verify_fn(void *arg, const struct verify_outcome *outcome);
/* `body` is copied. `payer` as in verify_outcome_read(). With the breaker open completes
 * VERIFY_UNAVAILABLE next turn. */
void facilitator_verify(struct facilitator *facilitator, const char *body, size_t len,
                        const char *payer, struct facilitator_call *call, facilitator_verify_fn *fn,
                        void *arg);
/* Seconds until verify is worth trying again; 0 when the breaker is closed. For Retry-After and
 * readiness. */
uint32_t facilitator_retry_after_s(const struct facilitator *facilitator);

typedef void facilitator_settle_fn(void *arg, const struct facilitator_reply *reply);
/* One send; `reply` is valid during the callback. The settler (reconcile.h) is the only caller. */
void facilitator_settle(struct facilitator *facilitator, const char *body, size_t len,
                        struct facilitator_call *call, facilitator_settle_fn *fn, void *arg);

typedef void facilitator_supported_fn(void *arg, const json_t *supported, const struct err *err);
/* `supported` is the strict-parsed object (borrowed) or NULL with the reason: ERR_UNAVAILABLE
 * unreachable, ERR_INVALID nonsense, ERR_DENIED 401/403. */
void facilitator_supported(struct facilitator *facilitator, struct facilitator_call *call,
                           facilitator_supported_fn *fn, void *arg);
