#include "gate/u256.h"

#include <string.h>

typedef unsigned __int128 u128;

bool u256_mul_add(struct u256 *v, uint64_t factor, uint64_t addend)
{
    u128 carry = addend;
    for (size_t i = 0; i < 4; i++) {
        carry += (u128)v->w[i] * factor;
        v->w[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return carry == 0;
}

uint64_t u256_div(struct u256 *v, uint64_t divisor)
{
    u128 rest = 0;
    for (size_t i = 4; i-- > 0;) {
        rest = (rest << 64) | v->w[i];
        v->w[i] = (uint64_t)(rest / divisor);
        rest %= divisor;
    }
    return (uint64_t)rest;
}

bool u256_parse(const char *s, struct u256 *out)
{
    size_t n = strnlen(s, U256_TEXT_MAX);
    if (n == 0 || n >= U256_TEXT_MAX || (s[0] == '0' && n > 1))
        return false;
    struct u256 v = { 0 };
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || !u256_mul_add(&v, 10, (uint64_t)(s[i] - '0')))
            return false;
    }
    *out = v;
    return true;
}

const char *u256_text(const struct u256 *v, char *out)
{
    char digits[U256_TEXT_MAX];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    struct u256 rest = *v;
    do {
        digits[--at] = (char)('0' + u256_div(&rest, 10));
    } while (!u256_is_zero(&rest));
    memcpy(out, digits + at, sizeof(digits) - at);
    return out;
}

struct u256 u256_from_u64(uint64_t v)
{
    return (struct u256){ .w = { v, 0, 0, 0 } };
}

struct u256 u256_from_be(const uint8_t bytes[32])
{
    struct u256 v = { 0 };
    for (size_t i = 0; i < 32; i++)
        v.w[3 - i / 8] = (v.w[3 - i / 8] << 8) | bytes[i];
    return v;
}

void u256_to_be(const struct u256 *v, uint8_t bytes[32])
{
    for (size_t i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(v->w[3 - i / 8] >> (8 * (7 - i % 8)));
}

uint64_t u256_to_u64_saturated(const struct u256 *v)
{
    return v->w[1] || v->w[2] || v->w[3] ? UINT64_MAX : v->w[0];
}

int u256_compare(const struct u256 *a, const struct u256 *b)
{
    for (size_t i = 4; i-- > 0;) {
        if (a->w[i] != b->w[i])
            return a->w[i] < b->w[i] ? -1 : 1;
    }
    return 0;
}

bool u256_is_zero(const struct u256 *v)
{
    return !(v->w[0] | v->w[1] | v->w[2] | v->w[3]);
}

bool u256_add(const struct u256 *a, const struct u256 *b, struct u256 *out)
{
    u128 carry = 0;
    for (size_t i = 0; i < 4; i++) {
        carry += (u128)a->w[i] + b->w[i];
        out->w[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return carry == 0;
}

bool u256_sub(const struct u256 *a, const struct u256 *b, struct u256 *out)
{
    uint64_t borrow = 0;
    for (size_t i = 0; i < 4; i++) {
        u128 d = (u128)a->w[i] - b->w[i] - borrow;
        out->w[i] = (uint64_t)d;
        borrow = (uint64_t)(d >> 64) & 1;
    }
    return borrow == 0;
}
