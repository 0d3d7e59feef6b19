#include "dataproxy/target.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "base/text.h"

void target_fini(struct target *target)
{
    free(target->path);
    free(target->query);
    *target = (struct target){ 0 };
}

static CHECKED enum err_kind check_method(const struct http_head *head, struct err *err)
{
    switch (head->method) {
    case HTTP_GET:
    case HTTP_HEAD:
    case HTTP_POST:
    case HTTP_PUT:
    case HTTP_PATCH:
    case HTTP_DELETE:
        return ERR_OK;
    case HTTP_CONNECT:
        return err_set(err, ERR_UNSUPPORTED,
                       "no CONNECT tunnels here: ask http://data/<upstream>/<path> with the header "
                       "Utter-Data-Token (the proxy speaks https to the upstream)");
    case HTTP_OTHER:
    case HTTP_OPTIONS:
    case HTTP_TRACE:
        break;
    }
    return err_set(err, ERR_UNSUPPORTED, "methods are GET, HEAD, POST, PUT, PATCH, DELETE");
}

/* "host" or "host:port", lower-cased; port is `port` where none is named. */
static bool split_authority(struct http_str authority, char *host, size_t size, uint16_t *port)
{
    const char *p = authority.p;
    size_t n = authority.len;
    const char *colon = n && p[0] == '[' ? memmem(p, n, "]:", 2) : memchr(p, ':', n);
    if (colon && *colon == ']')
        colon++;
    size_t host_len = colon ? (size_t)(colon - p) : n;
    if (host_len == 0 || host_len >= size)
        return false;
    for (size_t i = 0; i < host_len; i++)
        host[i] = (char)tolower((unsigned char)p[i]);
    host[host_len] = 0;
    if (!colon)
        return true;
    char digits[8];
    uint64_t value;
    size_t digits_len = n - host_len - 1;
    if (digits_len >= sizeof(digits))
        return false;
    memcpy(digits, colon + 1, digits_len);
    digits[digits_len] = 0;
    if (!text_u64(digits, &value) || value == 0 || value > 65535)
        return false;
    *port = (uint16_t)value;
    return true;
}

/* /<upstream>/rest */
static CHECKED enum err_kind by_name(const struct config *config, struct http_str path,
                                     struct target *out, struct err *err)
{
    const char *from = path.p + 1;
    size_t left = path.len - 1;
    const char *slash = memchr(from, '/', left);
    size_t n = slash ? (size_t)(slash - from) : left;
    char name[DATA_UPSTREAM_MAX + 1];
    if (n > 0 && n < sizeof(name)) {
        memcpy(name, from, n);
        name[n] = 0;
        out->upstream = config_upstream(config, name);
    }
    if (!out->upstream)
        return err_set(err, ERR_NOT_FOUND,
                       "no such upstream: ask http://data/<upstream>/<path> with a declared name");
    out->path = slash ? xstrndup(slash, left - n) : xstrdup("/");
    return ERR_OK;
}

/* Absolute-form names the declared host, or `data` with the upstream's name in the path. */
static CHECKED enum err_kind by_authority(const struct config *config, const struct http_head *head,
                                          struct target *out, struct err *err)
{
    char host[256];
    uint16_t port = http_str_is_nocase(head->scheme, "https") ? 443 : 80;
    if (!split_authority(head->authority, host, sizeof(host), &port))
        return err_set(err, ERR_INVALID, "host must be a plain name, with a port of 1 to 65535");
    if (strcmp(host, "data") == 0)
        return by_name(config, head->path, out, err);
    out->upstream = config_upstream_by_host(config, host, port);
    if (!out->upstream)
        return err_set(err, ERR_NOT_FOUND,
                       "no upstream is declared for this host (or more than one: ask "
                       "http://data/<upstream>/<path>)");
    size_t base = strlen(out->upstream->base);
    if (head->path.len < base || memcmp(head->path.p, out->upstream->base, base) != 0 ||
        (head->path.len > base && head->path.p[base] != '/'))
        return err_set(err, ERR_NOT_FOUND, "this path is not below the upstream's declared URL");
    out->path =
        head->path.len > base ? xstrndup(head->path.p + base, head->path.len - base) : xstrdup("/");
    return ERR_OK;
}

enum err_kind target_read(const struct config *config, const struct http_head *head,
                          struct target *out, struct err *err)
{
    *out = (struct target){ 0 };
    enum err_kind kind = check_method(head, err);
    if (kind)
        return kind;
    if (head->form == HTTP_FORM_ABSOLUTE)
        kind = by_authority(config, head, out, err);
    else if (head->form == HTTP_FORM_ORIGIN)
        kind = by_name(config, head->path, out, err);
    else
        kind = err_set(err, ERR_INVALID, "ask http://data/<upstream>/<path>");
    if (kind)
        return kind;
    if (!upstream_path_valid(out->path, strlen(out->path)) ||
        (head->query.p && !upstream_query_valid(head->query.p, head->query.len)))
        return err_set(
            err, ERR_INVALID,
            "path or query can be read in two ways: no empty or dot segments, no encoded "
            "slash, dot, percent or control byte, no raw non-ASCII");
    out->query = head->query.p ? xstrndup(head->query.p, head->query.len) : NULL;
    return ERR_OK;
}

/* "Bearer x" → x; "Basic b64(user:x)" → x. NULL: neither. */
static char *credential_of(struct http_str value)
{
    if (value.len > 7 && strncasecmp(value.p, "bearer ", 7) == 0)
        return xstrndup(value.p + 7, value.len - 7);
    if (value.len <= 6 || strncasecmp(value.p, "basic ", 6) != 0)
        return NULL;
    size_t n = value.len - 6;
    uint8_t *pair CLEANUP_FREE = xmalloc(n + 4);
    size_t len = 0;
    if (!text_unb64(value.p + 6, n, pair, &len))
        return NULL;
    const uint8_t *colon = memchr(pair, ':', len);
    return colon ? xstrndup((const char *)colon + 1, len - (size_t)(colon + 1 - pair)) : NULL;
}

enum err_kind target_token(const struct http_head *head, char **out, struct err *err)
{
    const struct http_field *own = http_find(head, "utter-data-token");
    const struct http_field *proxy =
        head->form == HTTP_FORM_ABSOLUTE ? http_find(head, "proxy-authorization") : NULL;
    if (http_count(head, "utter-data-token") > 1 ||
        (proxy && http_count(head, "proxy-authorization") > 1))
        return err_set(err, ERR_DENIED, "more than one token");
    char *first CLEANUP_FREE = own ? http_str_dup(own->value) : NULL;
    char *second CLEANUP_FREE = proxy ? credential_of(proxy->value) : NULL;
    if (first && second && strcmp(first, second) != 0)
        return err_set(err, ERR_DENIED, "two tokens that differ");
    if (!first && !second)
        return err_set(err, ERR_DENIED, "no token: pass on the request's header Utter-Data-Token");
    *out = first ? STEAL(first) : STEAL(second);
    return ERR_OK;
}
