#include "gate/facilitator_client.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "gate/auth.h"
#include "gate/breaker.h"
#include "http/client.h"

#define SUPPORTED_MAX ((size_t)1024 * 1024)

struct facilitator {
    struct facilitator_setup setup;
    char *url;  /* without trailing slash */
    char *host; /* "name" or "name:port" of the URL */
    char *path; /* its path, "" or "/x/y" */
    struct loop *loop;
    struct http_client *client;
    struct breaker breaker;
    struct exchange *exchanges;
};

/* One call under way. */
struct exchange {
    struct facilitator *facilitator;
    struct exchange *next;
    struct exchange **link;
    struct facilitator_call *call; /* NULL: cancelled */
    struct http_call *http;
    enum auth_op op;
    char *body; /* owned */
    size_t len;
    char payer[160];
    struct loop_timer timer; /* for ends that need no wire */
    const char *unsent;      /* why nothing was sent */
    facilitator_verify_fn *verify_fn;
    facilitator_settle_fn *settle_fn;
    facilitator_supported_fn *supported_fn;
    void *arg;
};

void facilitator_setup_defaults(struct facilitator_setup *setup)
{
    *setup = (struct facilitator_setup){
        .verify_ms = 5000,
        .settle_ms = 30000,
        .supported_ms = 5000,
        .breaker_failures = 5,
        .breaker_ms = 10000,
    };
}

static bool is_loopback(const char *host)
{
    return text_starts(host, "127.") || !strcmp(host, "localhost") ||
           text_starts(host, "localhost:") || text_starts(host, "[::1]");
}

/* Splits scheme://host/path and holds it to the rules of facilitator_setup.url. */
static enum err_kind read_url(struct facilitator *f, const struct facilitator_setup *setup,
                              struct err *err)
{
    bool tls = text_starts(setup->url, "https://");
    if (!tls && !text_starts(setup->url, "http://"))
        return err_set(err, ERR_INVALID, "facilitator \"%s\": must be an http(s) URL", setup->url);
    f->url = xstrdup(setup->url);
    for (size_t n = strlen(f->url); n > 0 && f->url[n - 1] == '/'; n--)
        f->url[n - 1] = '\0';
    const char *host = f->url + (tls ? 8 : 7);
    size_t n = strcspn(host, "/?#@ ");
    if (n == 0 || strpbrk(host, "?#@ "))
        return err_set(err, ERR_INVALID,
                       "facilitator \"%s\": host and path only, no user, query or fragment",
                       setup->url);
    f->host = xstrndup(host, n);
    f->path = xstrdup(host + n);
    if (!tls && !setup->plain_ok && !is_loopback(f->host))
        return err_set(err, ERR_INVALID,
                       "facilitator \"%s\": http beyond loopback needs plain_http", setup->url);
    return ERR_OK;
}

enum err_kind facilitator_new(const struct facilitator_setup *setup, struct loop *loop,
                              struct http_client *client, struct facilitator **out, struct err *err)
{
    struct facilitator *f CLEANUP(facilitator_freep) = xcalloc(1, sizeof(*f));
    if (read_url(f, setup, err))
        return err->kind;
    f->setup = *setup;
    f->setup.url = f->url;
    f->loop = loop;
    f->client = client;
    breaker_init(&f->breaker, setup->breaker_failures, setup->breaker_ms);
    *out = STEAL(f);
    return ERR_OK;
}

static void exchange_free(struct exchange *x)
{
    if (x->call)
        x->call->op = NULL;
    *x->link = x->next;
    if (x->next)
        x->next->link = x->link;
    loop_cancel(&x->timer);
    free(x->body);
    free(x);
}

void facilitator_free(struct facilitator *f)
{
    if (!f)
        return;
    while (f->exchanges) {
        struct exchange *x = f->exchanges;
        if (x->http)
            http_call_cancel(x->http);
        exchange_free(x);
    }
    free(f->url);
    free(f->host);
    free(f->path);
    free(f);
}

const char *facilitator_url(const struct facilitator *f)
{
    return f->url;
}

uint32_t facilitator_retry_after_s(const struct facilitator *f)
{
    return (breaker_wait_ms(&f->breaker, loop_now_ms(f->loop)) + 999) / 1000;
}

void facilitator_cancel(struct facilitator_call *call)
{
    struct exchange *x = call->op;
    if (!x)
        return;
    if (x->op == AUTH_VERIFY) /* a probe that nobody waits for must not hold the breaker */
        breaker_cancelled(&x->facilitator->breaker);
    if (x->http)
        http_call_cancel(x->http);
    exchange_free(x);
}

/* ---- the end of an exchange ---- */

static struct facilitator_reply reply_of(const struct http_result *result)
{
    struct facilitator_reply reply = { .transport = FACILITATOR_LOST };
    switch (result->outcome) {
    case HTTP_CALL_OK:
        reply.transport = FACILITATOR_ANSWERED;
        reply.status = result->status;
        reply.body = (const char *)result->body;
        reply.len = result->body_len;
        break;
    case HTTP_CALL_TIMEOUT:
        reply.transport = result->maybe_sent ? FACILITATOR_TIMED_OUT : FACILITATOR_NOT_SENT;
        break;
    case HTTP_CALL_NO_CONNECT:
    case HTTP_CALL_DENIED:
        reply.transport = FACILITATOR_NOT_SENT;
        break;
    case HTTP_CALL_BROKEN:
    case HTTP_CALL_TOO_LARGE:
    case HTTP_CALL_BAD_ANSWER:
    case HTTP_CALL_ABORTED:
    default:
        reply.transport =
            result->maybe_sent || result->status ? FACILITATOR_LOST : FACILITATOR_NOT_SENT;
        break;
    }
    return reply;
}

/* The facilitator's own id of the exchange, for its operator and ours. */
static void log_operators_fault(const struct exchange *x, const struct http_result *result,
                                const char *why)
{
    static const char *const names[] = { "correlation-id", "x-correlation-id", "x-request-id",
                                         "cf-ray" };
    char id[96] = "";
    for (size_t i = 0; i < ARRAY_LEN(names) && !id[0]; i++) {
        const struct http_field *field = http_result_find(result, names[i]);
        if (field)
            (void)snprintf(id, sizeof(id), "%.*s", (int)field->value.len, field->value.p);
    }
    char clean[200];
    log_error("facilitator_refuses_us", log_str("facilitator", x->facilitator->url),
              log_int("status", result->status), log_str("why", why),
              log_str("correlation_id", text_safe(id, clean, sizeof(clean))));
}

static void end_verify(struct exchange *x, const struct facilitator_reply *reply,
                       const struct http_result *result)
{
    struct facilitator *f = x->facilitator;
    struct verify_outcome outcome;
    verify_outcome_read(x->payer, reply, &outcome);
    if (outcome.verdict == VERIFY_OPERATORS && result)
        log_operators_fault(x, result, outcome.why);
    if (result)
        breaker_note(&f->breaker, outcome.verdict != VERIFY_UNAVAILABLE, loop_now_ms(f->loop));
    x->call->op = NULL;
    x->call = NULL;
    x->verify_fn(x->arg, &outcome);
}

static void end_supported(struct exchange *x, const struct facilitator_reply *reply)
{
    json_t *root CLEANUP_JSON = NULL;
    struct err err = { 0 };
    if (reply->transport != FACILITATOR_ANSWERED || reply->status >= 500 || reply->status == 429)
        (void)err_set(&err, ERR_UNAVAILABLE, "facilitator %s: no answer to /supported",
                      x->facilitator->url);
    else if (reply->status == 401 || reply->status == 403)
        (void)err_set(&err, ERR_DENIED, "facilitator %s: status %d to /supported (token?)",
                      x->facilitator->url, reply->status);
    else if (reply->status != 200)
        (void)err_set(&err, ERR_INVALID,
                      "facilitator %s: status %d to /supported (wrong base URL?)",
                      x->facilitator->url, reply->status);
    else if (json_strict_load(reply->body, reply->len, SUPPORTED_MAX, 0, &root, &err) ||
             !json_is_array(json_object_get(root, "kinds")))
        (void)err_set(&err, ERR_INVALID, "facilitator %s: /supported is not what x402 says",
                      x->facilitator->url);
    x->call->op = NULL;
    x->call = NULL;
    x->supported_fn(x->arg, err.kind ? NULL : root, err.kind ? &err : NULL);
}

/* `result` is NULL when nothing went on the wire. */
static void exchange_end(struct exchange *x, const struct facilitator_reply *reply,
                         const struct http_result *result)
{
    x->http = NULL;
    if (!x->call) {
        exchange_free(x);
        return;
    }
    if (x->op == AUTH_VERIFY) {
        end_verify(x, reply, result);
    } else if (x->op == AUTH_SETTLE) {
        x->call->op = NULL;
        x->call = NULL;
        x->settle_fn(x->arg, reply);
    } else {
        end_supported(x, reply);
    }
    exchange_free(x);
}

static void on_done(void *arg, const struct http_result *result)
{
    struct facilitator_reply reply = reply_of(result);
    exchange_end(arg, &reply, result);
}

static void on_unsent(struct loop_timer *timer)
{
    struct exchange *x = timer->arg;
    struct facilitator_reply reply = { .transport = FACILITATOR_NOT_SENT };
    log_debug("facilitator_not_asked", log_str("why", x->unsent));
    exchange_end(x, &reply, NULL);
}

static void end_unsent(struct exchange *x, const char *why)
{
    x->unsent = why;
    loop_after(x->facilitator->loop, &x->timer, 0, on_unsent, x);
}

/* ---- the start ---- */

static enum err_kind start_call(struct exchange *x, const char *method, const char *path,
                                uint32_t deadline_ms, struct err *err)
{
    struct facilitator *f = x->facilitator;
    char *url CLEANUP_FREE = xasprintf("%s%s", f->url, path);
    char *full CLEANUP_FREE = xasprintf("%s%s", f->path, path);
    struct buf authorization CLEANUP(buf_wipe);
    struct buf correlation CLEANUP(buf_wipe);
    buf_init(&authorization, 16384);
    buf_init(&correlation, 4096);
    if (f->setup.auth && auth_headers(f->setup.auth, x->op, method, f->host, full, time(NULL),
                                      &authorization, &correlation, err))
        return err->kind;
    struct http_header headers[4] = { { "Accept", "application/json" },
                                      { "Content-Type", "application/json" } };
    size_t n = x->body ? 2 : 1;
    if (authorization.len)
        headers[n++] = (struct http_header){ "Authorization", buf_cstr(&authorization) };
    if (correlation.len)
        headers[n++] = (struct http_header){ "Correlation-Context", buf_cstr(&correlation) };
    struct http_call_spec spec = {
        .method = method,
        .url = url,
        .headers = headers,
        .n_headers = n,
        .body = x->body,
        .body_len = x->len,
        .deadline_ms = deadline_ms,
        .response_max = x->op == AUTH_SUPPORTED ? SUPPORTED_MAX : FACILITATOR_ANSWER_MAX,
        .done = on_done,
        .arg = x,
    };
    return http_call_start(f->client, &spec, &x->http, err);
}

static struct exchange *exchange_new(struct facilitator *f, enum auth_op op, const char *body,
                                     size_t len, struct facilitator_call *call, void *arg)
{
    struct exchange *x = xcalloc(1, sizeof(*x));
    x->facilitator = f;
    x->op = op;
    x->body = body ? xstrndup(body, len) : NULL;
    x->len = len;
    x->call = call;
    x->arg = arg;
    call->op = x;
    x->next = f->exchanges;
    x->link = &f->exchanges;
    if (x->next)
        x->next->link = &x->next;
    f->exchanges = x;
    return x;
}

static void exchange_start(struct exchange *x, const char *method, const char *path,
                           uint32_t deadline_ms)
{
    struct err err;
    if (!start_call(x, method, path, deadline_ms, &err))
        return;
    log_error("facilitator_call_failed", log_str("facilitator", x->facilitator->url),
              log_str("error", err.msg));
    end_unsent(x, "could not be made");
}

void facilitator_verify(struct facilitator *f, const char *body, size_t len, const char *payer,
                        struct facilitator_call *call, facilitator_verify_fn *fn, void *arg)
{
    struct exchange *x = exchange_new(f, AUTH_VERIFY, body, len, call, arg);
    x->verify_fn = fn;
    (void)snprintf(x->payer, sizeof(x->payer), "%s", payer);
    if (breaker_allows(&f->breaker, loop_now_ms(f->loop)))
        exchange_start(x, "POST", "/verify", f->setup.verify_ms);
    else
        end_unsent(x, "breaker open");
}

void facilitator_settle(struct facilitator *f, const char *body, size_t len,
                        struct facilitator_call *call, facilitator_settle_fn *fn, void *arg)
{
    struct exchange *x = exchange_new(f, AUTH_SETTLE, body, len, call, arg);
    x->settle_fn = fn;
    exchange_start(x, "POST", "/settle", f->setup.settle_ms);
}

void facilitator_supported(struct facilitator *f, struct facilitator_call *call,
                           facilitator_supported_fn *fn, void *arg)
{
    struct exchange *x = exchange_new(f, AUTH_SUPPORTED, NULL, 0, call, arg);
    x->supported_fn = fn;
    exchange_start(x, "GET", "/supported", f->setup.supported_ms);
}
