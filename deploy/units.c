#include "deploy/units.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"

/* The digits at the start of s as a number, and what follows them. */
static bool leading_number(const char *s, uint64_t *out, const char **rest)
{
    size_t n = strspn(s, "0123456789");
    if (n == 0 || n > 18)
        return false;
    char *digits CLEANUP_FREE = xstrndup(s, n);
    *rest = s + n;
    return text_u64(digits, out);
}

static bool scaled(uint64_t n, uint64_t factor, int64_t *out)
{
    return !__builtin_mul_overflow(n, factor, out);
}

bool units_size(const char *s, int64_t *out)
{
    static const struct {
        const char *suffix;
        uint64_t factor;
    } units[] = {
        { "", 1 },          { "K", 1U << 10 },   { "Ki", 1U << 10 },  { "KiB", 1U << 10 },
        { "M", 1U << 20 },  { "Mi", 1U << 20 },  { "MiB", 1U << 20 }, { "G", 1U << 30 },
        { "Gi", 1U << 30 }, { "GiB", 1U << 30 },
    };
    uint64_t n;
    const char *rest;
    if (!leading_number(s, &n, &rest))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(rest, units[i].suffix) == 0)
            return scaled(n, units[i].factor, out);
    }
    return false;
}

bool units_seconds(const char *s, int64_t *out)
{
    uint64_t n;
    const char *rest;
    if (!leading_number(s, &n, &rest))
        return false;
    if (strcmp(rest, "") == 0 || strcmp(rest, "s") == 0)
        return scaled(n, 1, out);
    if (strcmp(rest, "m") == 0)
        return scaled(n, 60, out);
    if (strcmp(rest, "h") == 0)
        return scaled(n, 3600, out);
    return false;
}

bool units_cpu_milli(const char *s, int64_t *out)
{
    uint64_t whole, part = 0;
    const char *rest;
    if (!leading_number(s, &whole, &rest) || whole > 1024)
        return false;
    if (*rest == '.') {
        const char *digits = rest + 1;
        size_t n = strspn(digits, "0123456789");
        if (n == 0 || n > 3 || digits[n] != '\0')
            return false;
        for (size_t i = 0; i < 3; i++)
            part = part * 10 + (i < n ? (uint64_t)(digits[i] - '0') : 0);
    } else if (*rest != '\0') {
        return false;
    }
    *out = (int64_t)(whole * 1000 + part);
    return true;
}
