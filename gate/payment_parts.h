/*
 * What payment.c, payment_evm.c, payment_bind.c and payment_check.c share; nobody else includes it.
 */
#pragma once

#include "gate/payment.h"

/* Reads the signed members of an EVM payment from `payload`; kind is set. PAYMENT_BAD_SHAPE names
 * the member in why. */
CHECKED enum payment_fault payment_evm_read(struct payment *p, const json_t *payload,
                                            struct err *why);

/* The digest the buyer signed if the asset is that of `offer`. */
void payment_evm_digest(const struct payment *p, const struct offer *offer, uint8_t digest[32]);

/* Every member of `part` is in `whole` with an equal value, objects recursively. */
bool json_is_subset(const json_t *part, const json_t *whole);

/* "0x" texts of 20 bytes compare by value, anything else byte for byte. */
bool address_text_equal(const char *a, const char *b);

/* A copy of an opaque scheme's payload in which what a facilitator may read alike is alike: hex is
 * lower case, base64 is of one alphabet, unpadded, with its last bits zero. NULL: it holds a number
 * that two readers may read differently (a fraction, an exponent, beyond 2^53). */
json_t *payment_one_spelling(const json_t *payload);
