#include "gate/config_scan.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static void PRINTF_LIKE(3, 0) report(struct scan *s, bool warning, const char *fmt, va_list ap)
{
    char line[512];
    vsnprintf(line, sizeof(line), fmt, ap);
    if (!warning)
        s->faults++;
    if (s->fault)
        s->fault(s->arg, warning, line);
}

void scan_fault(struct scan *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(s, false, fmt, ap);
    va_end(ap);
}

void scan_warning(struct scan *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(s, true, fmt, ap);
    va_end(ap);
}

static void *keep(struct scan *s, void *p)
{
    s->c->made = xreallocarray(s->c->made, s->made_n + 2, sizeof(*s->c->made));
    s->c->made[s->made_n++] = p;
    s->c->made[s->made_n] = NULL;
    return p;
}

const char *scan_made(struct scan *s, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return keep(s, xstrdup(text));
}

void *scan_array(struct scan *s, size_t n, size_t size)
{
    return keep(s, xcalloc(n ? n : 1, size));
}

static void check_keys(struct at *at, const char *const keys[])
{
    const char *key;
    json_t *value;
    if (at->object && !json_is_object(at->object)) {
        scan_fault(at->s, "%s: must be an object", at->where);
        at->object = NULL;
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)at->object, key, value)
    {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        char shown[64];
        if (!keys[i])
            scan_fault(at->s, "%s: unknown key \"%s\"", at->where,
                       text_safe(key, shown, sizeof(shown)));
    }
}

struct at scan_at(struct scan *s, const json_t *object, const char *const keys[], const char *fmt,
                  ...)
{
    struct at at = { .s = s, .object = object };
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(at.where, sizeof(at.where), fmt, ap);
    va_end(ap);
    check_keys(&at, keys);
    return at;
}

/* Names of members at the top stand alone, others behind their object's. */
static const char *name_of(const struct at *at, const char *key, char *out, size_t size)
{
    if (strcmp(at->where, "configuration") == 0)
        snprintf(out, size, "%s", key);
    else
        snprintf(out, size, "%s.%s", at->where, key);
    return out;
}

struct at scan_member(const struct at *at, const char *key, const char *const keys[])
{
    struct at sub = { .s = at->s, .object = json_object_get(at->object, key) };
    name_of(at, key, sub.where, sizeof(sub.where));
    check_keys(&sub, keys);
    return sub;
}

static void member_fault(const struct at *at, const char *key, const char *what)
{
    char name[160];
    scan_fault(at->s, "%s: %s", name_of(at, key, name, sizeof(name)), what);
}

const char *scan_text(const struct at *at, const char *key, bool required, const char *fallback)
{
    const json_t *v = json_object_get(at->object, key);
    if (!v) {
        if (required)
            member_fault(at, key, "missing");
        return fallback;
    }
    if (!json_is_string(v) || !json_string_length(v)) {
        member_fault(at, key, "must be a string that is not empty");
        return fallback;
    }
    return json_string_value(v);
}

int64_t scan_int(const struct at *at, const char *key, int64_t min, int64_t max, int64_t fallback)
{
    const json_t *v = json_object_get(at->object, key);
    if (!v)
        return fallback;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
        char what[96];
        snprintf(what, sizeof(what), "must be a whole number from %lld to %lld", (long long)min,
                 (long long)max);
        member_fault(at, key, what);
        return fallback;
    }
    return json_integer_value(v);
}

bool scan_bool(const struct at *at, const char *key, bool fallback)
{
    const json_t *v = json_object_get(at->object, key);
    if (v && !json_is_boolean(v))
        member_fault(at, key, "must be true or false");
    return v && json_is_boolean(v) ? json_is_true(v) : fallback;
}

size_t scan_word(const struct at *at, const char *key, const char *const words[], size_t fallback)
{
    const json_t *v = json_object_get(at->object, key);
    char what[128] = "must be one of";
    if (!v)
        return fallback;
    for (size_t i = 0; words[i]; i++) {
        if (json_is_string(v) && strcmp(words[i], json_string_value(v)) == 0)
            return i;
        size_t n = strlen(what);
        snprintf(what + n, sizeof(what) - n, " \"%s\"", words[i]);
    }
    member_fault(at, key, what);
    return fallback;
}

const char **scan_list(const struct at *at, const char *key, size_t max)
{
    const json_t *v = json_object_get(at->object, key);
    size_t n = json_array_size(v);
    const char **list = scan_array(at->s, n + 1, sizeof(*list));
    if (v && (!json_is_array(v) || n > max)) {
        member_fault(at, key, "must be a list of strings, not too long");
        return list;
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = json_string_value(json_array_get(v, i));
        if (!list[i] || !list[i][0]) {
            member_fault(at, key, "must hold strings only, none empty");
            list[i] = NULL;
            break;
        }
    }
    return list;
}

const char *scan_path(const struct at *at, const char *key, bool required)
{
    const char *s = scan_text(at, key, required, NULL);
    if (s && s[0] != '/') {
        member_fault(at, key, "must be an absolute path");
        return NULL;
    }
    return s;
}

const char *scan_label(const struct at *at, const char *key, size_t max, const char *fallback)
{
    const char *s = scan_text(at, key, false, fallback);
    bool ok = !s || (strlen(s) <= max && text_utf8_valid(s, strlen(s)));
    for (const char *p = s; ok && p && *p; p++)
        ok = (unsigned char)*p >= 0x20 && *p != 0x7f;
    if (ok)
        return s;
    char what[96];
    snprintf(what, sizeof(what), "must be printable text of at most %zu bytes", max);
    member_fault(at, key, what);
    return fallback;
}

static bool parse_port(const char *s, uint16_t *out)
{
    uint64_t port = 0;
    if (!text_u64(s, &port) || port > UINT16_MAX)
        return false;
    *out = (uint16_t)port;
    return true;
}

static bool parse_tcp(const char *s, struct endpoint *out)
{
    const char *colon = strrchr(s, ':');
    size_t n = colon ? (size_t)(colon - s) : 0;
    if (!colon || n == 0 || n >= sizeof(out->host) || !parse_port(colon + 1, &out->port))
        return false;
    struct in6_addr any;
    if (s[0] == '[' && s[n - 1] == ']') {
        snprintf(out->host, sizeof(out->host), "%.*s", (int)(n - 2), s + 1);
        return inet_pton(AF_INET6, out->host, &any) == 1;
    }
    snprintf(out->host, sizeof(out->host), "%.*s", (int)n, s);
    if (strcmp(out->host, "localhost") == 0)
        snprintf(out->host, sizeof(out->host), "127.0.0.1");
    return inet_pton(AF_INET, out->host, &any) == 1;
}

void scan_endpoint(const struct at *at, const char *key, const char *prefix, struct endpoint *out)
{
    const char *s = scan_text(at, key, true, NULL);
    if (!s)
        return;
    if (text_starts(s, "unix:/")) {
        out->kind = ENDPOINT_UNIX;
        if (strlen(s + 5) >= sizeof(out->path))
            member_fault(at, key, "socket path is longer than 107 bytes");
        else
            snprintf(out->path, sizeof(out->path), "%s", s + 5);
        return;
    }
    out->kind = ENDPOINT_TCP;
    if (!text_starts(s, prefix) || !parse_tcp(s + strlen(prefix), out)) {
        char what[96];
        snprintf(what, sizeof(what), "must be \"%sADDRESS:PORT\" or \"unix:/path\"", prefix);
        member_fault(at, key, what);
    }
}

bool url_is_origin(const char *url, const char **authority)
{
    const char *host = NULL;
    if (text_starts(url, "https://"))
        host = url + 8;
    else if (text_starts(url, "http://"))
        host = url + 7;
    if (!host || !host[0] || strlen(host) > 255)
        return false;
    *authority = host;
    return host[strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]")] == '\0';
}

bool authority_is_loopback(const char *authority)
{
    size_t n = authority[0] == '[' ? strcspn(authority, "]") + 1 : strcspn(authority, ":/");
    char host[64];
    struct in_addr v4;
    snprintf(host, sizeof(host), "%.*s", (int)n, authority);
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return strcmp(host, "[::1]") == 0 || strcmp(host, "localhost") == 0;
}
