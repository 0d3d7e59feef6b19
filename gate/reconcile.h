/*
 * The settler: sends every settle of this gate, the first and all later ones, until the end of a
 * payment is known.
 *
 * From ledger_seal() on a payment is the settler's, not the request's: the buyer's connection may
 * go, the settle goes on. The bytes of every send are those stored with the seal, sent to the
 * facilitator stored with it. settlement_pending is repeated once at once; everything unknown with
 * back-off (1 s doubling to 5 min, to 1 h once nothing can newly move) for at least settle_hold_s
 * (7 days) and past validBefore, across restarts. Evidence from a chain (evm_rpc.h) is asked for
 * before each repeat where a network has an RPC configured. Without proof: ABANDONED when the time
 * is over; with the route's `unproven: release` CONCEDED as soon as a later send gets the nonce
 * reason, but never when our first send of this run got it (somebody else may have used or
 * cancelled the nonce).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "gate/claims.h"
#include "gate/evm_rpc.h"
#include "gate/facilitator_client.h"
#include "gate/ledger.h"

struct settler;

struct settler_setup {
    struct ledger *ledger; /* borrowed, as all below */
    struct claims *claims; /* or NULL: none is shared */
    struct facilitator *const
        *facilitators; /* matched by URL; a stored URL that none has stays UNKNOWN and is logged */
    size_t facilitators_n;
    struct evm_rpc *const *rpcs; /* matched by network; may be none */
    size_t rpcs_n;
    uint32_t first_repeat_ms; /* 1000 */
    uint32_t last_repeat_ms;  /* 300000 */
    uint32_t parallel_max;    /* background sends at once: 8 */
};
void settler_setup_defaults(struct settler_setup *config);

/* Starts reconciling what the ledger holds as UNKNOWN. */
CHECKED enum err_kind settler_new(const struct settler_setup *config, struct loop *loop,
                                  struct settler **out, struct err *err);
void settler_free(
    struct settler *settler); /* before its ledger; unfinished stay UNKNOWN for the next start */
DEFINE_CLEANUP(struct settler, settler_free, settler_freep)

/* Right after LEDGER_SEALED: takes its own reference and sends at once. Called again for a payment
 * that is being reconciled (a buyer came back and waits), it brings the next send forward, at most
 * once per first_repeat_ms. */
void settler_start(struct settler *settler, struct ledger_payment *payment);

/* Operator's `ledger resolve`: `transaction` non-NULL says settled, else unpaid with `reason`.
 * Completes LEDGER_DONE, NEW (no such payment), MISMATCH (its state cannot be resolved, or the
 * transaction is bound to another), UNAVAILABLE. */
void settler_resolve(struct settler *settler, const uint8_t key[LEDGER_KEY_LEN],
                     const char *transaction, const char *reason, struct ledger_call *call,
                     ledger_result_fn *fn, void *arg);

/* True when a settle got 401, 403 or a schema 4xx last: readiness is false. */
bool settler_operators_fault(const struct settler *settler);
