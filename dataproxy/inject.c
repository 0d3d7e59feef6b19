#include "dataproxy/inject.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#define TOKEN_ANSWER_MAX 65536
#define TOKEN_MS 10000
#define REFRESH_EARLY_MS 30000
#define LIFETIME_DEFAULT_S 300

/* The access token of an oauth2 upstream. */
struct grant {
    char *token; /* owned; wiped */
    uint64_t expires_ms;
    struct outgoing request;
    char *body;
    char *host;
    struct fetch fetch;
    bool running;
};

struct injector {
    struct loop *loop;
    struct fetcher *fetcher;
    const struct upstream *upstream;
    struct secret secret;
    struct scan_set *scan;
    struct grant grant;
    struct inject_wait *waiting;
};

static void wipe_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* base64 of user:password */
static char *basic_pair(const struct injector *in)
{
    char *pair = xasprintf("%s:%s", in->upstream->inject.user, in->secret.value);
    char *encoded = xmalloc(text_b64_len(strlen(pair)) + 1);
    text_b64(pair, strlen(pair), encoded);
    wipe_free(pair);
    return encoded;
}

static void rebuild_scan(struct injector *in)
{
    scan_set_unref(in->scan);
    in->scan = scan_set_new();
    if (in->secret.value)
        scan_set_add(in->scan, in->secret.value, in->secret.len);
    if (in->secret.value && in->upstream->inject.kind == INJECT_BASIC) {
        /* What is sent is an encoding already, and can be encoded again. */
        char *pair = basic_pair(in);
        scan_set_add(in->scan, pair, strlen(pair));
        wipe_free(pair);
    }
    if (in->grant.token && strlen(in->grant.token) >= SCAN_SECRET_MIN)
        scan_set_add(in->scan, in->grant.token, strlen(in->grant.token));
}

static void drop_grant_token(struct injector *in)
{
    wipe_free(in->grant.token);
    in->grant.token = NULL;
    in->grant.expires_ms = 0;
}

enum err_kind injector_new(struct loop *loop, struct fetcher *fetcher,
                           const struct upstream *upstream, struct injector **out, struct err *err)
{
    struct injector *in CLEANUP(injector_freep) = xcalloc(1, sizeof(*in));
    in->loop = loop;
    in->fetcher = fetcher;
    in->upstream = upstream;
    if (upstream->inject.kind != INJECT_NONE) {
        secret_init(&in->secret, upstream->inject.file);
        enum err_kind kind = secret_refresh(&in->secret, NULL, err);
        if (kind) {
            (void)err_prefix(err, "upstream \"%s\"", upstream->name);
            return kind;
        }
    }
    rebuild_scan(in);
    *out = STEAL(in);
    return ERR_OK;
}

static void end_fetch(struct injector *in)
{
    fetch_cancel(&in->grant.fetch);
    outgoing_fini(&in->grant.request);
    wipe_free(STEAL(in->grant.body));
    free(STEAL(in->grant.host));
    in->grant.running = false;
}

void injector_free(struct injector *in)
{
    if (!in)
        return;
    while (in->waiting)
        inject_wait_cancel(in->waiting);
    end_fetch(in);
    drop_grant_token(in);
    scan_set_unref(in->scan);
    secret_fini(&in->secret);
    free(in);
}

struct scan_set *injector_scan_set(struct injector *in)
{
    return scan_set_ref(in->scan);
}

void injector_rejected(struct injector *in)
{
    drop_grant_token(in);
}

/* ---- putting it in ---- */

static bool add_secret_header(struct outgoing *out, const char *name, const char *template,
                              const char *secret)
{
    const char *at = template ? strstr(template, "{secret}") : NULL;
    char *value =
        at ? xasprintf("%.*s%s%s", (int)(at - template), template, secret, at + strlen("{secret}"))
           : xstrdup(secret);
    bool added = outgoing_add(out, name, value);
    wipe_free(value);
    return added;
}

static bool add_query(struct injector *in, struct outgoing *out)
{
    const char *s = in->secret.value;
    buf_printf(&out->url, "%c%s=", strchr(buf_cstr(&out->url), '?') ? '&' : '?',
               in->upstream->inject.name);
    for (; *s; s++) {
        bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
                     (*s >= '0' && *s <= '9') || strchr("-._~", *s);
        buf_printf(&out->url, plain ? "%c" : "%%%02X", (unsigned char)*s);
    }
    return !out->url.failed;
}

static bool add_basic(struct injector *in, struct outgoing *out)
{
    char *pair = basic_pair(in);
    char *value = xasprintf("Basic %s", pair);
    bool added = outgoing_add(out, "Authorization", value);
    wipe_free(pair);
    wipe_free(value);
    return added;
}

static bool add_sigv4(struct injector *in, struct outgoing *out)
{
    const struct inject_spec *spec = &in->upstream->inject;
    out->userpwd = xasprintf("%s:%s", spec->user, in->secret.value);
    out->sigv4 = xasprintf("aws:amz:%s:%s", spec->region, spec->service);
    return true;
}

static bool put_in(struct injector *in, struct outgoing *out)
{
    const struct inject_spec *spec = &in->upstream->inject;
    switch (spec->kind) {
    case INJECT_NONE:
        return true;
    case INJECT_HEADER:
        return add_secret_header(out, spec->name, spec->value, in->secret.value);
    case INJECT_QUERY:
        return add_query(in, out);
    case INJECT_BASIC:
        return add_basic(in, out);
    case INJECT_SIGV4:
        return add_sigv4(in, out);
    case INJECT_OAUTH2:
        return add_secret_header(out, "Authorization", "Bearer {secret}", in->grant.token);
    }
    return false;
}

static void finish(struct inject_wait *wait, enum err_kind kind, const char *why)
{
    inject_fn *fn = wait->fn;
    void *arg = wait->arg;
    inject_wait_cancel(wait);
    fn(arg, kind, why);
}

static void finish_all(struct injector *in, enum err_kind kind, const char *why)
{
    while (in->waiting) {
        bool put = kind || put_in(in, in->waiting->out);
        finish(in->waiting, put ? kind : ERR_UNAVAILABLE, put ? why : "request too long");
    }
}

/* ---- OAuth2 client credentials ---- */

static CHECKED enum err_kind read_grant(struct injector *in, const struct http_result *result,
                                        struct err *err)
{
    json_t *tree CLEANUP_JSON = NULL;
    const char *token = NULL;
    const char *type = NULL;
    int64_t lifetime = LIFETIME_DEFAULT_S;
    if (result->outcome != HTTP_CALL_OK || result->status != 200)
        return err_set(err, ERR_UNAVAILABLE, "token endpoint: %s, status %d %s",
                       http_call_outcome_name(result->outcome), result->status, result->why);
    if (json_strict_load((const char *)result->body, result->body_len, TOKEN_ANSWER_MAX, 0, &tree,
                         err) ||
        json_get_string(tree, "access_token", true, &token, err) ||
        json_get_string(tree, "token_type", true, &type, err) ||
        json_get_int(tree, "expires_in", false, 1, 86400 * 30, &lifetime, err))
        return err_prefix(err, "token endpoint");
    if (strcasecmp(type, "bearer") != 0 || strlen(token) < SCAN_SECRET_MIN ||
        strlen(token) > SCAN_SECRET_MAX || !http_value_valid(token, strlen(token)))
        return err_set(err, ERR_UNAVAILABLE, "token endpoint: not a bearer token of %d to %d bytes",
                       SCAN_SECRET_MIN, SCAN_SECRET_MAX);
    drop_grant_token(in);
    in->grant.token = xstrdup(token);
    in->grant.expires_ms = loop_now_ms(in->loop) + (uint64_t)lifetime * 1000;
    rebuild_scan(in);
    return ERR_OK;
}

static void on_grant(void *arg, const struct http_result *result)
{
    struct injector *in = arg;
    struct err err = { 0 };
    enum err_kind kind = read_grant(in, result, &err);
    end_fetch(in);
    if (kind)
        log_warn("oauth2_failed", log_str("upstream", in->upstream->name), log_str("why", err.msg));
    finish_all(in, kind ? ERR_UNAVAILABLE : ERR_OK, kind ? err.msg : NULL);
}

static void append_form(struct buf *b, const char *name, const char *value)
{
    buf_printf(b, "%s%s=", b->len ? "&" : "", name);
    for (; *value; value++) {
        bool plain = (*value >= 'a' && *value <= 'z') || (*value >= 'A' && *value <= 'Z') ||
                     (*value >= '0' && *value <= '9') || strchr("-._~", *value);
        buf_printf(b, plain ? "%c" : "%%%02X", (unsigned char)*value);
    }
}

static void start_grant(struct injector *in)
{
    const struct inject_spec *spec = &in->upstream->inject;
    struct grant *grant = &in->grant;
    struct buf body CLEANUP(buf_wipe);
    buf_init(&body, 4 * SCAN_SECRET_MAX);
    append_form(&body, "grant_type", "client_credentials");
    append_form(&body, "client_id", spec->user);
    append_form(&body, "client_secret", in->secret.value);
    if (spec->scope)
        append_form(&body, "scope", spec->scope);
    outgoing_init(&grant->request);
    (void)outgoing_add(&grant->request, "Content-Type", "application/x-www-form-urlencoded");
    (void)outgoing_add(&grant->request, "Accept", "application/json");
    grant->body = xstrdup(buf_cstr(&body));
    const char *authority = strstr(spec->token_url, "://") + 3;
    size_t len = strcspn(authority, "/?#");
    size_t port = authority[0] == '[' ? strcspn(authority, "]") + 1 : strcspn(authority, ":");
    grant->host = xstrndup(authority, port < len ? port : len);
    grant->running = true;
    const struct http_call_spec call = {
        .method = "POST",
        .url = spec->token_url,
        .headers = grant->request.header,
        .n_headers = grant->request.n_headers,
        .body = grant->body,
        .body_len = strlen(grant->body),
        .deadline_ms = TOKEN_MS,
        .response_max = TOKEN_ANSWER_MAX,
        .flags = HTTP_CALL_FRESH,
    };
    fetch_start(&grant->fetch, in->fetcher, grant->host, in->upstream->internal, &call, on_grant,
                in);
}

static bool grant_fresh(const struct injector *in)
{
    return in->grant.token && loop_now_ms(in->loop) + REFRESH_EARLY_MS < in->grant.expires_ms;
}

static void queue(struct injector *in, struct inject_wait *wait)
{
    wait->next = in->waiting;
    wait->prev = &in->waiting;
    if (in->waiting)
        in->waiting->prev = &wait->next;
    in->waiting = wait;
}

void inject_wait_cancel(struct inject_wait *wait)
{
    if (!wait->prev)
        return;
    *wait->prev = wait->next;
    if (wait->next)
        wait->next->prev = wait->prev;
    wait->prev = NULL;
    wait->next = NULL;
}

static void refresh(struct injector *in)
{
    struct err err = { 0 };
    bool changed = false;
    if (secret_refresh(&in->secret, &changed, &err))
        log_warn("credential_kept", log_str("upstream", in->upstream->name),
                 log_str("why", err.msg));
    if (changed) {
        drop_grant_token(in);
        rebuild_scan(in);
    }
}

void injector_apply(struct injector *in, struct outgoing *out, struct inject_wait *wait,
                    inject_fn *fn, void *arg)
{
    *wait = (struct inject_wait){ .out = out, .fn = fn, .arg = arg };
    if (in->upstream->inject.kind != INJECT_NONE)
        refresh(in);
    if (in->upstream->inject.kind != INJECT_OAUTH2 || grant_fresh(in)) {
        bool put = put_in(in, out);
        fn(arg, put ? ERR_OK : ERR_UNAVAILABLE, put ? NULL : "request too long");
        return;
    }
    queue(in, wait);
    if (!in->grant.running)
        start_grant(in);
}
