/*
 * One payment as a buyer sent it: decoded, keyed, matched with an offer and prechecked on what was
 * signed. Pure: no clock, no ledger, no network; the caller hands in the time.
 *
 * Order of use, as a request lives:
 *   payment_read()   header to payment; 400s                     (needs nothing)
 *   payment_bind()   key and candidate offer                     (needs the offers)
 *   -- ledger lookup by payment->key: what the ledger holds as running or later is not judged again
 *   payment_check()  terms, window, signature, extensions; 402s  (needs the time)
 *   payment_facilitator_body()  bytes for /verify and /settle
 *
 * What is always true after payment_read(): the JSON passed the strict reader, has at most
 * PAYMENT_DEPTH levels and PAYMENT_NODES values, and `json` holds exactly the bytes that were
 * validated: they are what the facilitator gets.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "gate/evm_signature.h"
#include "gate/route.h"
#include "gate/u256.h"

#define PAYMENT_HEADER_MAX (16 * 1024) /* bytes of a payment header's value */
#define PAYMENT_DEPTH 16
#define PAYMENT_NODES 512
#define PAYMENT_KEY_TEXT 256
#define PAYMENT_PAYER_MAX 129
#define PAYMENT_IDENTIFIER_MAX 129

/* Why a payment is not taken. payment_fault_status() and _reason() are the only map outward. */
enum payment_fault {
    PAYMENT_OK = 0,
    PAYMENT_NONE,             /* no payment header: 402 */
    PAYMENT_TWO_HEADERS,      /* both families, or one twice: 400 */
    PAYMENT_TOO_LONG,         /* 400 */
    PAYMENT_NOT_BASE64,       /* 400 */
    PAYMENT_NOT_JSON,         /* 400: not strict JSON, too deep, too many values */
    PAYMENT_BAD_SHAPE,        /* 400: a member missing or of the wrong type */
    PAYMENT_BAD_VERSION,      /* 400: x402Version unknown or not the header's */
    PAYMENT_BAD_IDENTIFIER,   /* 400: malformed payment-identifier */
    PAYMENT_NEEDS_IDENTIFIER, /* 400: required and absent */
    PAYMENT_NO_MATCH, /* 402: no offer of this route has that scheme, network, asset, terms */
    PAYMENT_WRONG_RECIPIENT,   /* 402 */
    PAYMENT_WRONG_AMOUNT,      /* 402 */
    PAYMENT_WRONG_SPENDER,     /* 402: Permit2 spender is not the scheme's proxy */
    PAYMENT_WRONG_TOKEN,       /* 402: Permit2 permitted token is not the asset */
    PAYMENT_WRONG_FACILITATOR, /* 402: upto witness names another facilitator */
    PAYMENT_NOT_YET_VALID,     /* 402 */
    PAYMENT_EXPIRED,           /* 402: validBefore does not cover handler and settlement */
    PAYMENT_TOO_FAR,           /* 402: validBefore too far ahead */
    PAYMENT_BAD_SIGNATURE,     /* 402 */
    PAYMENT_ECHO_MISMATCH,     /* 402: a declared extension came back with other content */
    PAYMENT_FAULT_N,
};

int payment_fault_status(enum payment_fault f);         /* 200 for PAYMENT_OK, else 400 or 402 */
const char *payment_fault_reason(enum payment_fault f); /* wire word, "invalid_payload", … */
const char *payment_fault_text(enum payment_fault f);   /* one sentence for people */

/* Two spellings of one authorization have one key: chain, asset, owner and nonce, never protocol
 * version, scheme or text form. `exact` and `upto` share the Permit2 nonce space. */
struct payment_key {
    uint8_t hash[32];            /* SHA-256 of text: what ledger and claims index */
    char text[PAYMENT_KEY_TEXT]; /* "eip3009/8453/0xasset/0xfrom/0xnonce", "permit2/8453/0xowner/N",
                                    "opaque/<scheme>/<network>/<hash>" */
};

enum payer_proof {
    PAYER_CLAIMED, /* from the payload, not checked here (contract wallet, opaque) */
    PAYER_PROVEN,  /* the signature was checked locally */
};

/* What is signed in an EVM payment. */
struct evm_authorization {
    struct evm_address from, to; /* to: the recipient (Permit2: witness.to) */
    struct u256 value;
    struct u256 valid_after, valid_before; /* seconds; Permit2: witness.validAfter, deadline */
    uint8_t nonce[32];                     /* Permit2: u256, big-endian */
    struct evm_address token, spender, facilitator; /* Permit2; facilitator: upto only */
    uint8_t *signature;                             /* owned; at most PAYMENT_HEADER_MAX bytes */
    size_t signature_len;
};

struct payment {
    int version; /* 1: X-PAYMENT and X-PAYMENT-RESPONSE; 2: PAYMENT-SIGNATURE and PAYMENT-RESPONSE
                  */
    enum pay_kind kind;
    char *json; /* owned; exactly the decoded bytes, NUL-terminated */
    size_t json_len;
    json_t *root;                 /* owned */
    const char *scheme;           /* borrowed from root */
    const char *network;          /* as written: CAIP-2 in v2, slug in v1 */
    uint64_t chain_id;            /* 0 when not EVM */
    struct evm_authorization evm; /* all but PAY_OPAQUE */
    int64_t
        valid_before; /* seconds since the epoch; INT64_MAX when there is none or it is beyond */
    char identifier[PAYMENT_IDENTIFIER_MAX]; /* payment-identifier, "" when absent */
    /* set by payment_bind() */
    const struct offer
        *offer; /* the offer it pays, borrowed; NULL: none matches (see payment_check)
                 */
    struct payment_key key;
    char payer[PAYMENT_PAYER_MAX]; /* lower-case address; opaque: "" */
    /* set by payment_check() */
    enum payer_proof proof;
    bool to_facilitator; /* the signature is not ours to judge: rate-limit, never proof of payer */
};

void payment_fini(struct payment *p); /* wipes and frees; safe on a zeroed struct */

/* The two payment headers of a request; value NULL when absent, count how often each came. */
struct payment_headers {
    const char *v1; /* X-PAYMENT */
    size_t v1_len;
    unsigned v1_count;
    const char *v2; /* PAYMENT-SIGNATURE */
    size_t v2_len;
    unsigned v2_count;
};

/* PAYMENT_OK: *out is the caller's (payment_fini). Otherwise *out is empty and `why` (may be NULL)
 * holds a line for the log, never for the buyer. */
CHECKED enum payment_fault payment_read(const struct payment_headers *headers, struct payment *out,
                                        struct err *why);

/* Finds the offer of `route` this payment names and computes key and payer. A v1 payload names no
 * asset: where offers of its network differ in asset, the one whose domain recovers `from` is
 * taken. Returns PAYMENT_OK also when no offer matches in its terms as long as there is a key
 * (offer is then NULL): the ledger decides first. PAYMENT_NO_MATCH: not even a key (v1 network not
 * offered here, unknown members in an opaque payload, …). */
CHECKED enum payment_fault payment_bind(struct payment *p, const struct route *route,
                                        struct err *why);

struct payment_limits {
    int64_t now;      /* wall clock, seconds */
    uint32_t skew_s;  /* tolerated clock difference */
    uint32_t need_s;  /* handler and settlement: what validBefore has to cover */
    uint32_t ahead_s; /* how far past now+maxTimeoutSeconds validBefore may lie */
};

/* Judges a new payment on its signed members. Needs payment_bind() first. Sets proof and
 * to_facilitator. */
CHECKED enum payment_fault payment_check(struct payment *p, const struct route *route,
                                         const struct payment_limits *limits, struct err *why);

enum payload_form { PAYLOAD_EXACT, PAYLOAD_MINIMAL };

/* {"x402Version","paymentPayload","paymentRequirements"} for this payment and its offer, appended
 * to out. EXACT carries payment->json byte for byte; MINIMAL only the members the scheme defines.
 * `resource` is the absolute URL that was asked for (v1 requirements carry it); `charge` replaces
 * the amount (upto at settle) or is NULL. The same input gives the same bytes. */
void payment_facilitator_body(const struct payment *p, const struct offer *offer,
                              const char *resource, enum payload_form form,
                              const struct u256 *charge, struct buf *out);
