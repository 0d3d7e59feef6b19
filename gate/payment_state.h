/*
 * The life of one payment: a constant table of state × event, nothing else. Pure.
 *
 * A payment is one authorization (chain, asset, payer, nonce), not one request: retries, copies and
 * other spellings of the same authorization meet the same state. payment_step() is the only thing
 * that may compute a next state; a cell that the table does not name refuses, so an event that
 * nobody thought of can neither charge nor release.
 *
 * Two rules are in the table itself: nothing leads from SETTLING, UNKNOWN, ABANDONED, CONCEDED or
 * SETTLED back to a state from which the handler may run again, and FAILED ("provably not paid") is
 * entered only from SETTLING by a definite refusal of the first send, or by an operator.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* The numbers are written to the ledger: never renumber, only append. 0 is no state, so zeroed
 * memory is none. */
enum payment_state {
    PAYMENT_INVALID = 0,
    PAYMENT_NEW = 1,      /* not held; in memory only */
    PAYMENT_RESERVED = 2, /* claimed, verify under way; in memory only */
    PAYMENT_RUNNING = 3,  /* verified; durable before the handler starts */
    PAYMENT_UNCHARGED =
        4, /* a run ended without charge; the same payment may run again within its budget */
    PAYMENT_RESERVED_AGAIN = 5, /* UNCHARGED, claimed again, verify under way; in memory only */
    PAYMENT_SETTLING = 6,       /* answer sealed; durable before the first settle leaves */
    PAYMENT_SETTLED = 7,        /* transfer proven; durable before the first byte is released */
    PAYMENT_FAILED = 8,         /* provably not paid */
    PAYMENT_UNKNOWN = 9,        /* a settle was sent and its outcome is not known; reconciled */
    PAYMENT_ABANDONED =
        10, /* reconciliation ended without proof: neither paid nor unpaid, an operator's case */
    PAYMENT_CONCEDED = 11, /* unproven, answer released by the route's own setting */
    PAYMENT_STATE_N,
};

enum payment_event {
    PAYMENT_RESERVE,         /* a request claims it */
    PAYMENT_DROP,            /* verify said no, or the request ended before the handler ran */
    PAYMENT_RUN,             /* verify said yes: the handler may start */
    PAYMENT_UNCHARGE,        /* the handler's answer is not one to charge for */
    PAYMENT_SEAL,            /* the answer is stored and will be settled */
    PAYMENT_SETTLE,          /* transfer proven: a strict success, or evidence from the chain */
    PAYMENT_REFUSE,          /* definite refusal of the first send (settle_outcome.h) */
    PAYMENT_DOUBT,           /* sent, outcome unknown */
    PAYMENT_RESTART,         /* the ledger was opened and found it in this state */
    PAYMENT_GIVE_UP,         /* reconciliation time is over */
    PAYMENT_CONCEDE,         /* unproven: release */
    PAYMENT_RESOLVE_SETTLED, /* an operator names the transaction */
    PAYMENT_RESOLVE_UNPAID,  /* an operator says that nothing moved, with a reason */
    PAYMENT_EVENT_N,
};

/* What a request that carries a payment in this state meets, before its fingerprint and secret are
 * compared. */
enum payment_meets {
    PAYMENT_MEETS_JUDGE,   /* judged as new: terms, window, caps, verify */
    PAYMENT_MEETS_WAIT,    /* waits for the first, then shares its end */
    PAYMENT_MEETS_ANSWER,  /* the sealed answer, within the replay bounds */
    PAYMENT_MEETS_REFUSAL, /* 402 with the stored reason */
    PAYMENT_MEETS_DOUBT,   /* 409 settlement_unproven, never a 402 */
};

/* Steps *state. ERR_PRECONDITION and an untouched state when the table has no such cell. */
CHECKED enum err_kind payment_step(enum payment_state *state, enum payment_event event,
                                   struct err *err);

enum payment_meets payment_state_meets(enum payment_state state);

/* May stand in the ledger (NEW and the two RESERVED live in memory only). */
bool payment_state_durable(enum payment_state state);
/* A settle was or may have been sent and its end is not known: SETTLING, UNKNOWN, ABANDONED,
 * CONCEDED. */
bool payment_state_unresolved(enum payment_state state);

const char *payment_state_name(enum payment_state state); /* "running"; "?" for none. Never NULL. */
const char *payment_event_name(enum payment_event event);
