/* The words of HTTP: slices, tokens, methods, reasons, authorities. Pure. */
#include "http/message.h"

#include <string.h>
#include <strings.h>

#include "base/own.h"

bool http_str_is(struct http_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.len ? s.p : "", text, s.len) == 0;
}

bool http_str_is_nocase(struct http_str s, const char *text)
{
    return s.len == strlen(text) && (s.len == 0 || strncasecmp(s.p, text, s.len) == 0);
}

char *http_str_dup(struct http_str s)
{
    return xstrndup(s.len ? s.p : "", s.len);
}

const struct http_field *http_find(const struct http_head *head, const char *name)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (http_str_is_nocase(head->fields[i].name, name))
            return &head->fields[i];
    }
    return NULL;
}

size_t http_count(const struct http_head *head, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < head->n_fields; i++)
        n += http_str_is_nocase(head->fields[i].name, name);
    return n;
}

static struct http_str trim(struct http_str s)
{
    while (s.len && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.len--;
    }
    while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
        s.len--;
    return s;
}

bool http_list_has(struct http_str list, const char *token)
{
    while (list.len) {
        const char *comma = memchr(list.p, ',', list.len);
        size_t n = comma ? (size_t)(comma - list.p) : list.len;
        struct http_str item = { list.p, n };
        const char *semicolon = n ? memchr(item.p, ';', n) : NULL;
        if (semicolon)
            item.len = (size_t)(semicolon - item.p);
        if (http_str_is_nocase(trim(item), token))
            return true;
        size_t skip = comma ? n + 1 : n;
        list.p += skip;
        list.len -= skip;
    }
    return false;
}

static const char *const METHODS[] = {
    [HTTP_OTHER] = NULL,        [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",
    [HTTP_POST] = "POST",       [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH",
    [HTTP_DELETE] = "DELETE",   [HTTP_OPTIONS] = "OPTIONS", [HTTP_TRACE] = "TRACE",
    [HTTP_CONNECT] = "CONNECT",
};

enum http_method http_method_of(struct http_str name)
{
    for (size_t i = HTTP_GET; i < ARRAY_LEN(METHODS); i++) {
        if (http_str_is(name, METHODS[i]))
            return (enum http_method)i;
    }
    return HTTP_OTHER;
}

const char *http_method_name(enum http_method method)
{
    return (size_t)method < ARRAY_LEN(METHODS) ? METHODS[method] : NULL;
}

static const struct {
    int status;
    const char *reason;
} REASONS[] = {
    { 100, "Continue" },
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 203, "Non-Authoritative Information" },
    { 204, "No Content" },
    { 205, "Reset Content" },
    { 206, "Partial Content" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 402, "Payment Required" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 407, "Proxy Authentication Required" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 426, "Upgrade Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 451, "Unavailable For Legal Reasons" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
};

const char *http_reason(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(REASONS); i++) {
        if (REASONS[i].status == status)
            return REASONS[i].reason;
    }
    return "Unknown";
}

/* RFC 9110 section 5.6.2: tchar. */
static bool is_tchar(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-')
        return true;
    return c != 0 && strchr("!#$%&'*+.^_`|~", c) != NULL;
}

bool http_token_valid(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_tchar((unsigned char)s[i]))
            return false;
    }
    return len > 0;
}

static bool bytes_valid(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* Challenges are values of a thousand bytes and more: eight at a time, one by one where some may be
 * control bytes. */
bool http_value_valid(const char *s, size_t len)
{
    const uint64_t ones = ~(uint64_t)0 / 255, tops = ones * 0x80;
    while (len >= 8) {
        uint64_t eight;
        memcpy(&eight, s, sizeof(eight));
        uint64_t del = eight ^ (ones * 0x7f);
        uint64_t low = (eight - ones * 0x20) & ~eight, is_del = (del - ones) & ~del;
        if (((low | is_del) & tops) && !bytes_valid(s, 8))
            return false;
        s += 8;
        len -= 8;
    }
    return bytes_valid(s, len);
}

static bool is_host_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

/* Length of the host part at the front of s, 0 when malformed. */
static size_t host_length(struct http_str s)
{
    if (s.len && s.p[0] == '[') {
        const char *end = memchr(s.p, ']', s.len);
        size_t n = end ? (size_t)(end - s.p) + 1 : 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (!strchr("0123456789abcdefABCDEF:.", s.p[i]))
                return 0;
        }
        return n > 3 ? n : 0;
    }
    size_t n = 0;
    while (n < s.len &&
           is_host_char((unsigned char)(s.p[n] | (s.p[n] >= 'A' && s.p[n] <= 'Z' ? 0x20 : 0))))
        n++;
    return n;
}

bool http_authority_parse(struct http_str authority, char *host, size_t host_size, int *port)
{
    size_t n = host_length(authority);
    if (n == 0 || n >= host_size)
        return false;
    *port = -1;
    if (n < authority.len) {
        size_t digits = authority.len - n - 1;
        if (authority.p[n] != ':' || digits == 0 || digits > 5)
            return false;
        int value = 0;
        for (size_t i = n + 1; i < authority.len; i++) {
            if (authority.p[i] < '0' || authority.p[i] > '9')
                return false;
            value = value * 10 + (authority.p[i] - '0');
        }
        if (value > 65535)
            return false;
        *port = value;
    }
    for (size_t i = 0; i < n; i++)
        host[i] =
            (char)(authority.p[i] | (authority.p[i] >= 'A' && authority.p[i] <= 'Z' ? 0x20 : 0));
    host[n] = '\0';
    return true;
}

static void move(struct http_str *s, const char *from, size_t size, const char *to)
{
    if (s->p && s->p >= from && s->p <= from + size)
        s->p = to + (s->p - from);
}

void http_head_rebase(struct http_head *head, const char *from, const char *to,
                      struct http_field *fields)
{
    struct http_str *all[] = { &head->method_name, &head->target, &head->scheme, &head->authority,
                               &head->path,        &head->query,  &head->reason };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        move(all[i], from, head->size, to);
    for (size_t i = 0; i < head->n_fields; i++) {
        fields[i] = head->fields[i];
        move(&fields[i].name, from, head->size, to);
        move(&fields[i].value, from, head->size, to);
    }
    head->fields = fields;
}
