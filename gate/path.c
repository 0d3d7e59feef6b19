#include "gate/path.h"

#include <string.h>

#include "base/text.h"

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* One escape at p: *decoded is the byte. */
static const char *check_escape(const char *p, size_t left, unsigned char *decoded)
{
    uint8_t byte;
    if (left < 3 || !text_unhex(p + 1, &byte, 1))
        return "malformed percent escape in the path";
    *decoded = byte;
    if (byte < 0x20 || byte == 0x7f)
        return "encoded control byte in the path";
    if (byte == '/' || byte == '\\')
        return "encoded slash in the path";
    return NULL;
}

static void put_escape(unsigned char c, char **at)
{
    static const char digits[] = "0123456789ABCDEF";
    *(*at)++ = '%';
    *(*at)++ = digits[c >> 4];
    *(*at)++ = digits[c & 15];
}

/* Bytes of the path as they decode, for the UTF-8 check, go to `plain`. */
static const char *normalise(struct http_str path, char *out, char *plain, size_t *plain_len)
{
    char *at = out;
    for (size_t i = 0; i < path.len;) {
        unsigned char c = (unsigned char)path.p[i];
        if (c == '\\' || c < 0x21 || c >= 0x7f)
            return "byte that a path cannot hold";
        if (c != '%') {
            *at++ = plain[(*plain_len)++] = (char)c;
            i++;
            continue;
        }
        const char *why = check_escape(path.p + i, path.len - i, &c);
        if (why)
            return why;
        plain[(*plain_len)++] = (char)c;
        if (is_unreserved(c))
            *at++ = (char)c;
        else
            put_escape(c, &at);
        i += 3;
    }
    *at = '\0';
    return NULL;
}

static const char *check_segments(const char *path)
{
    for (const char *p = path; *p == '/';) {
        size_t n = strcspn(p + 1, "/");
        if (n == 0 && p[1] == '/')
            return "empty segment in the path";
        if ((n == 1 && p[1] == '.') || (n == 2 && p[1] == '.' && p[2] == '.'))
            return "dot segment in the path";
        p += n + 1;
    }
    return NULL;
}

enum err_kind path_canonical(struct http_str path, char *out, struct err *err)
{
    char plain[PATH_MAX_BYTES + 1];
    size_t plain_len = 0;
    if (path.len == 0 || path.len > PATH_MAX_BYTES || path.p[0] != '/')
        return err_set(err, ERR_INVALID, "not a path");
    const char *why = normalise(path, out, plain, &plain_len);
    if (!why && !text_utf8_valid(plain, plain_len))
        why = "the path is not UTF-8";
    if (!why)
        why = check_segments(out);
    return why ? err_set(err, ERR_INVALID, "%s", why) : ERR_OK;
}
