/*
 * What a facilitator's answer to verify or settle can mean. Pure; every byte of the answer is
 * outside text.
 *
 * Settle has three ends. SETTLED needs a strict success (2xx, boolean true, a transaction, our
 * network, our payer, an amount that is not above the asked). REFUSED needs everything at once: the
 * first send of this payment, delivered exactly once, status 2xx or 4xx (not 401, 403, 408, 429),
 * boolean false, an empty transaction, and a reason from a short list that cannot follow a
 * transfer. All else, also what nobody listed, is UNKNOWN: the official facilitator answers
 * `*transaction_failed` with an empty transaction also when only the wait for the receipt failed
 * after a good broadcast.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FACILITATOR_ANSWER_MAX                                                                     \
    ((size_t)64 * 1024) /* bytes of a body; more is a fault of the transport */
#define FACILITATOR_REASON_MAX 128
#define FACILITATOR_TX_MAX 160 /* EVM 66, Solana 88; the rest is room */

/* How the exchange ended below the answer. */
enum facilitator_transport {
    FACILITATOR_ANSWERED, /* a complete response: status and body are set */
    FACILITATOR_NOT_SENT, /* provably no byte of the request left (no connection, breaker) */
    FACILITATOR_LOST, /* sent, or perhaps sent, and no complete response: reset, bad framing, too
                         large */
    FACILITATOR_TIMED_OUT, /* no complete response within the deadline */
};

struct facilitator_reply {
    enum facilitator_transport transport;
    int status;       /* HTTP status when ANSWERED */
    const char *body; /* borrowed */
    size_t len;
};

/* What was asked, to hold the answer against. Strings borrowed; payer "" if it is not known. */
struct settle_asked {
    const char *network;    /* as sent: slug (v1) or CAIP-2 (v2) */
    const char *network2;   /* the other accepted spelling of the same network, or NULL */
    const char *payer;      /* 0x-hex compares without case, else byte-exact */
    const char *amount;     /* decimal atomic units asked for */
    bool empty_transaction; /* a success without transaction is right (upto with charge 0) */
    bool first_send; /* no settle of this payment has left before, in this run or an earlier one */
    bool delivered_once; /* the transport cannot have sent it twice */
};

enum settle_verdict {
    SETTLE_UNKNOWN = 0,
    SETTLE_SETTLED,
    SETTLE_REFUSED,
};

struct settle_outcome {
    enum settle_verdict verdict;
    bool pending;    /* settlement_pending: repeat the identical settle once at once */
    bool nonce_used; /* the reason says that the nonce was used: a transfer or a cancel happened */
    bool operators;  /* 401, 403, schema 4xx: the operator's fault; log once, readiness false */
    bool lied;       /* a success that fails a strict check: alert */
    char reason[FACILITATOR_REASON_MAX + 1]; /* filtered [A-Za-z0-9_.:-], "" if none */
    char transaction[FACILITATOR_TX_MAX +
                     1]; /* filtered, also from failures: evidence; "" if none */
    char payer[129];     /* filtered, "" if none */
    char amount[80];     /* decimal, "" if none */
    char why[96];        /* our own words for the log: "status 500", "network differs" */
};

void settle_outcome_read(const struct settle_asked *asked, const struct facilitator_reply *reply,
                         struct settle_outcome *out);

enum verify_verdict {
    VERIFY_UNAVAILABLE =
        0, /* the facilitator's fault: 503 + Retry-After, no handler run; counts for the breaker */
    VERIFY_VALID,
    VERIFY_INVALID,   /* 402 with the filtered reason */
    VERIFY_ALLOWANCE, /* 412: permit2_allowance_required */
    VERIFY_OPERATORS, /* 401, 403, schema 4xx: 503, one operator line, readiness false */
};

struct verify_outcome {
    enum verify_verdict verdict;
    bool nonce_used; /* see ledger_is_young(): may be a payment that this ledger no longer knows */
    char reason[FACILITATOR_REASON_MAX + 1];
    char payer[129];
    char why[96];
};

/* `payer` is what the payload says ("" if opaque): a valid answer that names another one is
 * UNAVAILABLE. */
void verify_outcome_read(const char *payer, const struct facilitator_reply *reply,
                         struct verify_outcome *out);

/* The allow-list of SETTLE_REFUSED, NULL-terminated; for the test that walks it. */
extern const char *const settle_refusals[];
/* The reason speaks of a used nonce (also "already known", duplicate_settlement, invalid nonce). */
bool facilitator_reason_nonce_used(const char *reason);

const char *settle_verdict_name(enum settle_verdict verdict);
const char *verify_verdict_name(enum verify_verdict verdict);
