/*
 * A verify or settle body read and judged: the checks a chain's facilitator makes before it asks
 * the chain. Pure. Balances and used nonces are the book's (book.h).
 *
 * Checks are made on what was signed: scheme, network, EIP-712 domain, signature, recipient,
 * amount, window. v1 and v2; exact with EIP-3009 and Permit2, upto with Permit2.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gate/payment.h"
#include "gate/tokens.h"

#define JUDGE_BODY_MAX (256 * 1024)

struct judge_wallets {
    const struct evm_address *list; /* contract wallets: any signature of theirs is taken */
    size_t n;
};

/* One request as the book needs it. judgement_fini() frees. */
struct judgement {
    json_t *body;                 /* owned */
    struct payment p;             /* owned; signed members, chain, kind, version */
    struct offer terms;           /* of paymentRequirements; borrows from body */
    const char *reason;           /* NULL: fine; else the x402 reason it is refused for */
    char payer[EVM_ADDRESS_TEXT]; /* EIP-55; "" before it could be read */
    char network[CAIP2_MAX];      /* as the requirements name it */
    char key[PAYMENT_KEY_TEXT];   /* nonce space and nonce, spelling-free; "" before it is known */
    struct u256 charge;           /* what moves: the amount required */
};

/* Settling an upto payment takes any amount up to the ceiling; verifying wants the ceiling itself.
 * `facilitator` is the address that upto permits must name. now: seconds. Never fails: a body that
 * cannot be read has a reason. */
void judge(const char *text, size_t len, bool settle, int64_t now,
           const struct evm_address *facilitator, const struct judge_wallets *wallets,
           struct judgement *out);
void judgement_fini(struct judgement *j);
