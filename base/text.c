#include "base/text.h"

#include <stdio.h>
#include <string.h>

bool text_u64(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    if (!s || !*s || (s[0] == '0' && s[1]))
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

bool text_i64(const char *s, int64_t *out)
{
    uint64_t v;
    bool negative = s && s[0] == '-';
    if (!text_u64(negative ? s + 1 : s, &v))
        return false;
    if (negative) {
        if (v == 0 || v > (uint64_t)INT64_MAX + 1)
            return false;
        *out = (int64_t)(0 - v);
        return true;
    }
    if (v > INT64_MAX)
        return false;
    *out = (int64_t)v;
    return true;
}

bool text_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool text_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s);
    size_t m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

void text_hex(const void *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = data;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * len] = 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool text_unhex(const char *s, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(s[2 * i]);
        int low = high < 0 ? -1 : hex_digit(s[2 * i + 1]);
        if (low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static const char b64_std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char b64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

size_t text_b64_len(size_t len)
{
    return (len + 2) / 3 * 4;
}

static size_t b64_encode(const char *alphabet, bool pad, const void *data, size_t len, char *out)
{
    const uint8_t *p = data;
    size_t n = 0;
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        uint32_t v = (uint32_t)p[i] << 16;
        if (have > 1)
            v |= (uint32_t)p[i + 1] << 8;
        if (have > 2)
            v |= p[i + 2];
        for (size_t k = 0; k < 4; k++) {
            if (k <= have)
                out[n++] = alphabet[v >> (18 - 6 * k) & 63];
            else if (pad)
                out[n++] = '=';
        }
    }
    out[n] = 0;
    return n;
}

void text_b64(const void *data, size_t len, char *out)
{
    (void)b64_encode(b64_std, true, data, len, out);
}

size_t text_b64url(const void *data, size_t len, char *out)
{
    return b64_encode(b64_url, false, data, len, out);
}

static int b64_digit(char c, bool url)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (url ? '-' : '+'))
        return 62;
    if (c == (url ? '_' : '/'))
        return 63;
    return -1;
}

static bool b64_decode(const char *s, size_t n, bool url, uint8_t *out, size_t *out_len)
{
    size_t pad = 0;
    while (pad < 2 && n > pad && s[n - 1 - pad] == '=')
        pad++;
    if (pad && n % 4 != 0)
        return false;
    n -= pad;
    if (n % 4 == 1)
        return false;
    uint32_t v = 0;
    unsigned bits = 0;
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        int d = b64_digit(s[i], url);
        if (d < 0)
            return false;
        v = (v << 6 | (uint32_t)d) & 0xffffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[len++] = (uint8_t)(v >> bits);
        }
    }
    if (v & ((1u << bits) - 1))
        return false;
    *out_len = len;
    return true;
}

bool text_unb64(const char *s, size_t n, uint8_t *out, size_t *out_len)
{
    return b64_decode(s, n, false, out, out_len);
}

bool text_unb64url(const char *s, size_t n, uint8_t *out, size_t *out_len)
{
    return b64_decode(s, n, true, out, out_len);
}

/* Length of the sequence that starts with `lead`, its least code point in *least; 0 if none does.
 */
static size_t utf8_length(uint8_t lead, uint32_t *least)
{
    if (lead < 0x80)
        return *least = 0, 1;
    if (lead >= 0xc2 && lead < 0xe0)
        return *least = 0x80, 2;
    if (lead >= 0xe0 && lead < 0xf0)
        return *least = 0x800, 3;
    if (lead >= 0xf0 && lead < 0xf5)
        return *least = 0x10000, 4;
    return 0;
}

bool text_utf8_valid(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s;
    for (size_t i = 0; i < n;) {
        uint32_t least = 0;
        size_t len = utf8_length(p[i], &least);
        if (!len || len > n - i)
            return false;
        uint32_t c = len == 1 ? p[i] : p[i] & (0x7fu >> len);
        for (size_t k = 1; k < len; k++) {
            if ((p[i + k] & 0xc0) != 0x80)
                return false;
            c = c << 6 | (p[i + k] & 0x3fu);
        }
        if (c < least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            return false;
        i += len;
    }
    return true;
}

const char *text_safe(const char *s, char *out, size_t out_size)
{
    size_t n = 0;
    for (; s && *s; s++) {
        char piece[8];
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            (void)snprintf(piece, sizeof(piece), "\\%c", c);
        else if (c == '\n')
            (void)snprintf(piece, sizeof(piece), "\\n");
        else if (c < 0x20 || c >= 0x7f)
            (void)snprintf(piece, sizeof(piece), "\\x%02x", c);
        else
            (void)snprintf(piece, sizeof(piece), "%c", c);
        size_t len = strlen(piece);
        if (n + len + 1 > out_size)
            break;
        memcpy(out + n, piece, len);
        n += len;
    }
    if (out_size)
        out[n] = 0;
    return out;
}

bool text_equal_secret(const void *a, const void *b, size_t len)
{
    const uint8_t *x = a;
    const uint8_t *y = b;
    uint8_t diff = 0;
    for (size_t i = 0; i < len; i++)
        diff = (uint8_t)(diff | (x[i] ^ y[i]));
    return diff == 0;
}
