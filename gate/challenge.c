#include "gate/challenge.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

#define RESOURCE_PATH_MAX 1024
#define CHALLENGE_TEXT_MAX (64 * 1024)

/* Everything of the two documents that does not depend on path and fault. */
struct challenge_cache {
    char *v2_tail;   /* from after the resource's URL to the end */
    char **v1_items; /* accepts items without their closing brace */
    size_t v1_n;
    char *header; /* whole, for PAYMENT_NONE on an exact path; else NULL */
    char *body;
    size_t header_len, body_len;
};

void challenge_cache_free(struct challenge_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->v1_n; i++)
        free(c->v1_items[i]);
    free(c->v1_items);
    free(c->v2_tail);
    free(c->header);
    free(c->body);
    free(c);
}
DEFINE_CLEANUP(struct challenge_cache, challenge_cache_free, challenge_cache_freep)

static char *dump(const json_t *value)
{
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
}

static void append_string(struct buf *out, const char *s)
{
    json_t *value CLEANUP_JSON = json_string(s);
    char *text CLEANUP_FREE = dump(value);
    buf_append_str(out, text ? text : "\"\"");
}

static void append_member(struct buf *out, const char *name, const json_t *value)
{
    if (!value)
        return;
    char *text CLEANUP_FREE = dump(value);
    buf_printf(out, ",\"%s\":", name);
    buf_append_str(out, text);
}

static void append_text_member(struct buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    buf_printf(out, ",\"%s\":", name);
    append_string(out, value);
}

static char *make_v2_tail(const struct route *r)
{
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, CHALLENGE_TEXT_MAX);
    append_text_member(&out, "description", r->description);
    append_text_member(&out, "mimeType", r->mime_type);
    append_text_member(&out, "serviceName", r->service_name);
    append_member(&out, "tags", r->tags);
    append_text_member(&out, "iconUrl", r->icon_url);
    buf_append_str(&out, "},\"accepts\":[");
    for (size_t i = 0; i < r->offer_n; i++) {
        char *text CLEANUP_FREE = dump(r->offers[i].v2);
        buf_append_str(&out, i ? "," : "");
        buf_append_str(&out, text);
    }
    buf_append_str(&out, "]");
    append_member(&out, "extensions", r->extensions);
    buf_append_str(&out, "}");
    return out.failed ? NULL : xstrdup(buf_cstr(&out));
}

static void make_v1_items(const struct route *r, struct challenge_cache *c)
{
    c->v1_items = xcalloc(r->offer_n + 1, sizeof(*c->v1_items));
    for (size_t i = 0; i < r->offer_n; i++) {
        if (!r->offers[i].v1)
            continue;
        char *text = dump(r->offers[i].v1);
        text[strlen(text) - 1] = '\0';
        c->v1_items[c->v1_n++] = text;
    }
}

static void append_b64(struct buf *out, const void *data, size_t len)
{
    uint8_t *to = buf_reserve(out, text_b64_len(len) + 1); /* and the terminator */
    if (!to)
        return;
    text_b64(data, len, (char *)to);
    out->len += text_b64_len(len);
}

static void append_header(struct buf *out, const struct challenge_cache *c, const char *url,
                          const char *error)
{
    struct buf json CLEANUP(buf_fini);
    buf_init(&json, CHALLENGE_TEXT_MAX);
    buf_append_str(&json, "{\"x402Version\":2,\"error\":");
    append_string(&json, error);
    buf_append_str(&json, ",\"resource\":{\"url\":");
    append_string(&json, url);
    buf_append_str(&json, c->v2_tail);
    append_b64(out, json.data, json.len);
}

static void append_body(struct buf *out, const struct challenge_cache *c, const char *url,
                        const char *error)
{
    buf_printf(out, "{\"x402Version\":%d,\"error\":", c->v1_n ? 1 : 2);
    append_string(out, error);
    for (size_t i = 0; i < c->v1_n; i++) {
        buf_append_str(out, i ? "," : ",\"accepts\":[");
        buf_append_str(out, c->v1_items[i]);
        append_text_member(out, "resource", url);
        buf_append_str(out, "}");
    }
    buf_append_str(out, c->v1_n ? "]}" : "}");
}

void challenge_resource(const struct route *route, const char *origin, const char *path,
                        struct buf *out)
{
    size_t n = strlen(path);
    if (n > RESOURCE_PATH_MAX) {
        path = route->path;
        n = strcspn(path, "{*");
    }
    buf_append_str(out, origin);
    buf_append(out, path, n);
}

static void make_url(const struct route *route, const char *origin, const char *path,
                     struct buf *url)
{
    buf_init(url, 4 * RESOURCE_PATH_MAX);
    challenge_resource(route, origin, path, url);
}

enum err_kind challenge_rebuild(struct route *route, const char *origin, size_t *header_len,
                                struct err *err)
{
    struct challenge_cache *c CLEANUP(challenge_cache_freep) = xcalloc(1, sizeof(*c));
    struct buf url CLEANUP(buf_fini), header CLEANUP(buf_fini), body CLEANUP(buf_fini);
    make_url(route, origin, route->path, &url);
    buf_init(&header, CHALLENGE_TEXT_MAX * 2);
    buf_init(&body, CHALLENGE_TEXT_MAX * 2);
    c->v2_tail = make_v2_tail(route);
    if (!c->v2_tail)
        return err_set(err, ERR_PRECONDITION, "the challenge is longer than 64 KiB");
    make_v1_items(route, c);
    const char *error = payment_fault_reason(PAYMENT_NONE);
    append_header(&header, c, buf_cstr(&url), error);
    append_body(&body, c, buf_cstr(&url), error);
    if (header_len)
        *header_len = header.len;
    if (header.failed || body.failed || header.len > CHALLENGE_HEADER_MAX)
        return err_set(err, ERR_PRECONDITION,
                       "the challenge header is %zu bytes, more than %d (shorten description, "
                       "extensions or offers)",
                       header.len, CHALLENGE_HEADER_MAX);
    if (route->exact) {
        c->header_len = header.len;
        c->body_len = body.len;
        c->header = xstrdup(buf_cstr(&header));
        c->body = xstrdup(buf_cstr(&body));
    }
    challenge_cache_free(route->challenge);
    route->challenge = STEAL(c);
    return ERR_OK;
}

void challenge_make(const struct route *route, const char *origin, const char *path,
                    enum payment_fault fault, const char *reason, struct buf *scratch,
                    struct challenge *out)
{
    const struct challenge_cache *c = route->challenge;
    if (c->header && fault == PAYMENT_NONE && !reason) {
        *out = (struct challenge){ c->header, c->header_len, c->body, c->body_len };
        return;
    }
    struct buf url CLEANUP(buf_fini);
    make_url(route, origin, path, &url);
    char word[129];
    const char *error = reason ? reason_filter(reason, word) : payment_fault_reason(fault);
    buf_clear(scratch);
    append_header(scratch, c, buf_cstr(&url), error);
    size_t header_len = scratch->len;
    buf_append(scratch, "", 1); /* both are terminated */
    append_body(scratch, c, buf_cstr(&url), error);
    const char *text = buf_cstr(scratch);
    *out = (struct challenge){
        .header = text,
        .header_len = scratch->failed ? 0 : header_len,
        .body = text + header_len + 1,
        .body_len = scratch->failed ? 0 : scratch->len - header_len - 1,
    };
}

const char *reason_filter(const char *reason, char *out)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    size_t n = reason ? strspn(reason, allowed) : 0;
    if (n == 0 || n > 128 || reason[n] != '\0') {
        reason = "payment_invalid";
        n = strlen(reason);
    }
    memcpy(out, reason, n);
    out[n] = '\0';
    return out;
}

const char *receipt_header_name(int version)
{
    return version == 1 ? "X-PAYMENT-RESPONSE" : "PAYMENT-RESPONSE";
}

const char *offer_network(const struct offer *offer, int version)
{
    return version == 1 ? offer->v1_network : offer->network;
}

void receipt_make(const struct receipt *r, struct buf *out)
{
    struct buf json CLEANUP(buf_fini);
    buf_init(&json, CHALLENGE_TEXT_MAX);
    buf_printf(&json, "{\"success\":%s", r->success ? "true" : "false");
    append_text_member(&json, "errorReason", r->error_reason);
    append_text_member(&json, "transaction", r->transaction);
    append_text_member(&json, "network", r->network);
    append_text_member(&json, "payer", r->payer);
    append_text_member(&json, "amount", r->amount);
    append_member(&json, "extensions", r->extensions);
    buf_append_str(&json, "}");
    append_b64(out, json.data, json.len);
}
