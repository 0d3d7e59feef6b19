#include "gate/price.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum err_kind price_to_atomic(const char *text, unsigned decimals, struct u256 *out,
                              struct err *err)
{
    char shown[64];
    text_safe(text, shown, sizeof(shown));
    const char *p = text[0] == '$' ? text + 1 : text;
    const char *point = strchr(p, '.');
    size_t whole = point ? (size_t)(point - p) : strlen(p);
    size_t fraction = point ? strlen(point + 1) : 0;
    if (whole == 0 || (point && fraction == 0) || (p[0] == '0' && whole > 1))
        return err_set(err, ERR_INVALID, "\"%s\" is not a price such as \"0.01\"", shown);
    if (fraction > decimals)
        return err_set(err, ERR_INVALID, "\"%s\" has more fraction digits than the asset has (%u)",
                       shown, decimals);
    struct u256 v = { 0 };
    for (size_t i = 0; i < whole + (point ? 1 : 0) + fraction; i++) {
        if (point && i == whole)
            continue;
        if (!is_digit(p[i]))
            return err_set(err, ERR_INVALID, "\"%s\" is not a price such as \"0.01\"", shown);
        if (!u256_mul_add(&v, 10, (uint64_t)(p[i] - '0')))
            return err_set(err, ERR_INVALID, "\"%s\" is beyond 256 bits", shown);
    }
    for (size_t i = fraction; i < decimals; i++) {
        if (!u256_mul_add(&v, 10, 0))
            return err_set(err, ERR_INVALID, "\"%s\" is beyond 256 bits", shown);
    }
    if (u256_is_zero(&v))
        return err_set(err, ERR_INVALID, "\"%s\" is zero (a route without a price says free)",
                       shown);
    *out = v;
    return ERR_OK;
}

const char *price_from_atomic(const struct u256 *v, unsigned decimals, char *out)
{
    char digits[U256_TEXT_MAX];
    size_t n = strlen(u256_text(v, digits)), at = 0;
    size_t whole = n > decimals ? n - decimals : 0;
    if (whole == 0)
        out[at++] = '0';
    memcpy(out, digits, whole);
    at += whole;
    if (decimals) {
        out[at++] = '.';
        for (size_t i = n - whole; i < decimals; i++)
            out[at++] = '0';
        memcpy(out + at, digits + whole, n - whole);
        at += n - whole;
        while (out[at - 1] == '0')
            at--;
        if (out[at - 1] == '.')
            at--;
    }
    out[at] = '\0';
    return out;
}
