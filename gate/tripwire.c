#include "gate/tripwire.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"

static bool contains(const void *data, size_t len, const char *form, size_t n)
{
    return n && memmem(data, len, form, n);
}

/* The characters of base64 that the token alone decides when it stands behind `shift` bytes. */
static bool contains_base64(const char *token, size_t shift, const void *data, size_t len)
{
    static const size_t first_own[] = { 0, 2, 3 };
    size_t total = shift + strlen(token);
    char *padded CLEANUP_FREE = xcalloc(1, total + 1);
    char *text CLEANUP_FREE = xmalloc(text_b64_len(total) + 1);
    memcpy(padded + shift, token, strlen(token));
    size_t n = total * 8 / 6 - first_own[shift];
    text_b64(padded, total, text);
    bool found = contains(data, len, text + first_own[shift], n);
    (void)text_b64url(padded, total, text);
    return found || contains(data, len, text + first_own[shift], n);
}

static bool contains_hex(const char *token, const void *data, size_t len)
{
    size_t n = strlen(token);
    char *hex CLEANUP_FREE = xmalloc(2 * n + 1);
    text_hex(token, n, hex);
    bool found = contains(data, len, hex, 2 * n);
    for (char *p = hex; *p; p++)
        *p = (char)(*p >= 'a' ? *p - 'a' + 'A' : *p);
    return found || contains(data, len, hex, 2 * n);
}

/* A token is of URL-safe characters, so that percent-encoding changes it only where all bytes or
 * the dots are encoded. */
static bool contains_percent(const char *token, bool every, const void *data, size_t len)
{
    char *text CLEANUP_FREE = xmalloc(3 * strlen(token) + 1);
    size_t n = 0;
    for (const char *p = token; *p; p++)
        n += (size_t)sprintf(text + n, every || *p == '.' ? "%%%02X" : "%c", (unsigned char)*p);
    bool found = contains(data, len, text, n);
    for (char *p = text; every && *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'F' ? *p - 'A' + 'a' : *p);
    return found || contains(data, len, text, n);
}

bool tripwire_hit(const char *token, const void *data, size_t len)
{
    if (contains(data, len, token, strlen(token)) || contains_hex(token, data, len) ||
        contains_percent(token, true, data, len) || contains_percent(token, false, data, len))
        return true;
    for (size_t shift = 0; shift < 3; shift++) {
        if (contains_base64(token, shift, data, len))
            return true;
    }
    return false;
}
