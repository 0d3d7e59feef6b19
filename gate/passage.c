#include "gate/passage.h"

#include <string.h>

#include "base/own.h"

void passage_init(struct passage *p)
{
    p->n = 0;
    buf_init(&p->text, (size_t)4 * HTTP_HEAD_MAX);
}

void passage_fini(struct passage *p)
{
    buf_wipe(&p->text);
    p->n = 0;
}

void passage_add(struct passage *p, const char *name, size_t name_len, const char *value,
                 size_t value_len)
{
    if (p->n == PASSAGE_MAX || !http_token_valid(name, name_len) ||
        !http_value_valid(value, value_len)) {
        p->text.failed = true;
        return;
    }
    p->at[p->n][0] = p->text.len;
    buf_append(&p->text, name, name_len);
    buf_append(&p->text, "", 1);
    p->at[p->n][1] = p->text.len;
    buf_append(&p->text, value, value_len);
    buf_append(&p->text, "", 1);
    if (!p->text.failed)
        p->n++;
}

void passage_put(struct passage *p, const char *name, const char *value)
{
    passage_add(p, name, strlen(name), value, strlen(value));
}

void passage_seal(struct passage *p)
{
    for (size_t i = 0; i < p->n; i++) {
        p->fields[i].name = (const char *)p->text.data + p->at[i][0];
        p->fields[i].value = (const char *)p->text.data + p->at[i][1];
    }
}

/* ---- names ---- */

static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c | 0x20);
    return c == '_' ? '-' : c;
}

static bool name_is(struct http_str name, const char *text)
{
    size_t i = 0;
    while (i < name.len && text[i] && fold(name.p[i]) == text[i])
        i++;
    return i == name.len && text[i] == '\0';
}

/* `list` entries that end in '*' are prefixes. */
static bool name_in(struct http_str name, const char *const *list)
{
    for (; *list; list++) {
        size_t n = strlen(*list);
        if ((*list)[n - 1] != '*') {
            if (name_is(name, *list))
                return true;
            continue;
        }
        size_t i = 0;
        while (i < n - 1 && i < name.len && fold(name.p[i]) == (*list)[i])
            i++;
        if (i == n - 1)
            return true;
    }
    return false;
}

static const char *const HOP_BY_HOP[] = {
    "connection",     "keep-alive",     "te", "trailer", "transfer-encoding", "upgrade", "proxy-*",
    "content-length", "http2-settings", NULL,
};

static const char *const NOT_TO_HANDLER[] = {
    /* money */
    "payment-*",
    "x-payment*",
    "sign-in-with-x",
    "access-control-expose-headers",
    /* whose request it is is ours to say */
    "host",
    "forwarded",
    "x-forwarded-*",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "via",
    "utter-*",
    "x-request-id",
    /* would make an answer that is nothing to sell */
    "if-*",
    "range",
    "expect",
    "accept-encoding",
    NULL,
};

static const char *const NOT_TO_BUYER[] = {
    /* money and receipts */
    "payment-*",
    "x-payment*",
    "settlement-overrides",
    "extension-responses",
    "sign-in-with-x",
    "utter-*",
    /* our origin and connection */
    "alt-svc",
    "strict-transport-security",
    "clear-site-data",
    "public-key-pins",
    "server",
    "via",
    "date",
    "refresh",
    "x-powered-by",
    "content-encoding",
    "service-worker-allowed",
    "set-login",
    "nel",
    "report-to",
    "reporting-endpoints",
    "x-accel-*",
    "x-sendfile",
    "x-request-id",
    /* caching and cross-origin rules are the gate's */
    "cache-control",
    "expires",
    "age",
    "pragma",
    "cdn-cache-control",
    "surrogate-*",
    "vary",
    "cloudflare-cdn-cache-control",
    "access-control-*",
    "timing-allow-origin",
    NULL,
};

/* Named by one of the message's own Connection fields. */
static bool listed(const struct http_field *fields, size_t n, struct http_str name)
{
    char text[128];
    if (name.len >= sizeof(text))
        return false;
    memcpy(text, name.p, name.len);
    text[name.len] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (http_str_is_nocase(fields[i].name, "connection") &&
            http_list_has(fields[i].value, text))
            return true;
    }
    return false;
}

static void add_field(struct passage *p, const struct http_field *f)
{
    passage_add(p, f->name.p, f->name.len, f->value.len ? f->value.p : "", f->value.len);
}

void passage_to_handler(struct passage *p, const struct http_head *head, const struct route *route)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];
        if (name_in(f->name, HOP_BY_HOP) || name_in(f->name, NOT_TO_HANDLER) ||
            listed(head->fields, head->n_fields, f->name))
            continue;
        if (name_is(f->name, "authorization") && !route->forward_authorization)
            continue;
        if (name_is(f->name, "cookie") && !route->forward_cookie)
            continue;
        add_field(p, f);
    }
}

/* A place inside our origin: a path, or an absolute URL of the origin itself. */
static bool stays_here(struct http_str location, const char *origin)
{
    size_t n = strlen(origin);
    if (location.len && location.p[0] == '/')
        return location.len < 2 || (location.p[1] != '/' && location.p[1] != '\\');
    return location.len >= n && memcmp(location.p, origin, n) == 0 &&
           (location.len == n || location.p[n] == '/' || location.p[n] == '?');
}

static bool is_payment_challenge(struct http_str value)
{
    static const char *const schemes[] = { "payment", "l402", "lsat", "x402", NULL };
    struct http_str word = { value.p, 0 };
    while (word.len < value.len && value.p[word.len] != ' ' && value.p[word.len] != ',')
        word.len++;
    return name_in(word, schemes);
}

static bool may_reach_buyer(const struct http_field *f, const struct route *route,
                            const char *origin)
{
    if (name_in(f->name, HOP_BY_HOP) || name_in(f->name, NOT_TO_BUYER))
        return false;
    if (name_is(f->name, "set-cookie") || name_is(f->name, "set-cookie2"))
        return route->answer.set_cookie;
    if (name_is(f->name, "location") || name_is(f->name, "content-location"))
        return stays_here(f->value, origin);
    if (name_is(f->name, "www-authenticate"))
        return !is_payment_challenge(f->value);
    return true;
}

void passage_to_buyer(struct passage *p, const struct http_field *fields, size_t n,
                      const struct route *route, const char *origin)
{
    for (size_t i = 0; i < n; i++) {
        if (may_reach_buyer(&fields[i], route, origin) && !listed(fields, n, fields[i].name))
            add_field(p, &fields[i]);
    }
}

/* ---- as text ---- */

void passage_write(const struct passage *p, struct buf *out)
{
    for (size_t i = 0; i < p->n; i++) {
        buf_append_str(out, (const char *)p->text.data + p->at[i][0]);
        buf_append(out, ": ", 2);
        buf_append_str(out, (const char *)p->text.data + p->at[i][1]);
        buf_append(out, "\r\n", 2);
    }
}

bool passage_read(struct passage *p, const char *lines, size_t len)
{
    while (len) {
        const char *end = memmem(lines, len, "\r\n", 2);
        const char *colon = end ? memmem(lines, (size_t)(end - lines), ": ", 2) : NULL;
        if (!colon)
            return false;
        passage_add(p, lines, (size_t)(colon - lines), colon + 2, (size_t)(end - colon) - 2);
        len -= (size_t)(end - lines) + 2;
        lines = end + 2;
    }
    return !p->text.failed;
}
