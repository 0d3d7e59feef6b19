/*
 * Prices: decimal text in human units to atomic units and back, without a float. Pure.
 */
#pragma once

#include "base/err.h"
#include "gate/u256.h"

#define PRICE_DECIMALS_MAX 36
#define PRICE_TEXT_MAX 128 /* 78 digits, point, leading zeros */

/* "0.01", "$0.01", "2": at most `decimals` fraction digits, no sign, blanks or exponent, one digit
 * before and after a point, not zero. ERR_INVALID says what was wrong with the text. */
CHECKED enum err_kind price_to_atomic(const char *text, unsigned decimals, struct u256 *out,
                                      struct err *err);
/* "0.01" for 10000 with 6 decimals: no trailing zeros, no point where it is whole. decimals is at
 * most PRICE_DECIMALS_MAX, out takes PRICE_TEXT_MAX bytes; returns out. */
const char *price_from_atomic(const struct u256 *v, unsigned decimals, char *out);
