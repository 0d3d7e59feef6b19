/*
 * What a seller asks and what the buyer signs: reading a 402 of either version, choosing an offer,
 * making the payment header. Pure but for randomness.
 *
 * Pays exact (EIP-3009, Permit2) and upto on EVM networks; of upto the price is what it may cost at
 * most. A token that is known is only paid under its own EIP-712 name and version.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "gate/price.h"
#include "gate/route.h"

struct purchase {
    int version;                    /* 1 or 2 */
    json_t *required;               /* owned: the 402's document */
    json_t *chosen;                 /* borrowed from required */
    struct offer offer;             /* what the chosen item says; borrows from required */
    struct evm_address facilitator; /* upto: who alone may settle */
    char price[PRICE_TEXT_MAX];     /* "0.01", or atomic units of an unknown token */
    const char *symbol;             /* "USDC", or the asset's address */
    const char *network_label;      /* "Base Sepolia (testnet)" or the id */
    bool token_known;
    char *header; /* owned: value of the payment header, after purchase_sign() */
    char payer[EVM_ADDRESS_TEXT];
};

void purchase_fini(struct purchase *p);

/* `header` is the value of PAYMENT-REQUIRED or NULL, `body` the 402's body. `version` 0 takes 2
 * where offered. `network` (CAIP-2, slug or NULL) narrows the choice. ERR_INVALID: no x402
 * document; ERR_UNSUPPORTED: nothing in it that can be paid from here, with the reason. */
CHECKED enum err_kind purchase_read(const char *header, size_t header_len, const char *body,
                                    size_t body_len, int version, const char *network,
                                    struct purchase *out, struct err *err);

/* ERR_PRECONDITION when the price is above `max` (human units of the token), or the token is not
 * known and a human limit means nothing. */
CHECKED enum err_kind purchase_within(const struct purchase *p, const char *max, struct err *err);

/* What a receipt says was charged, for people: `amount` in atomic units, or NULL for the price. */
void purchase_paid(const struct purchase *p, const char *amount, char out[PRICE_TEXT_MAX]);

/* Signs: fills header and payer. now: seconds. */
CHECKED enum err_kind purchase_sign(struct purchase *p, const uint8_t secret[32], int64_t now,
                                    struct err *err);

/* "PAYMENT-SIGNATURE" or "X-PAYMENT". */
const char *purchase_header_name(int version);
