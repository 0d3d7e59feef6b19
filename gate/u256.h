/*
 * Unsigned 256-bit integers as x402 carries them: canonical decimal text on the wire, 32 big-endian
 * bytes in hashes. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define U256_TEXT_MAX 79 /* 78 digits and NUL */

struct u256 {
    uint64_t w[4]; /* least significant first */
};

/* Canonical decimal, `0|[1-9][0-9]{0,77}`, below 2^256. False on anything else: sign, leading zero,
 * hex, exponent, blanks. */
bool u256_parse(const char *s, struct u256 *out);
/* Canonical decimal into out, U256_TEXT_MAX bytes; returns out. */
const char *u256_text(const struct u256 *v, char *out);

struct u256 u256_from_u64(uint64_t v);
struct u256 u256_from_be(const uint8_t bytes[32]);
void u256_to_be(const struct u256 *v, uint8_t bytes[32]);
/* The value, or UINT64_MAX where it does not fit. */
uint64_t u256_to_u64_saturated(const struct u256 *v);

int u256_compare(const struct u256 *a, const struct u256 *b); /* <0, 0, >0 */
bool u256_is_zero(const struct u256 *v);
/* v*factor + addend in place; false on overflow (v is then undefined). */
bool u256_mul_add(struct u256 *v, uint64_t factor, uint64_t addend);
/* v/divisor in place, returns the remainder. divisor is not 0. */
uint64_t u256_div(struct u256 *v, uint64_t divisor);
/* a+b and a-b; false on overflow or underflow. */
bool u256_add(const struct u256 *a, const struct u256 *b, struct u256 *out);
bool u256_sub(const struct u256 *a, const struct u256 *b, struct u256 *out);
