#include "dataproxy/proxy.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/log.h"
#include "base/text.h"
#include "dataproxy/cache.h"
#include "dataproxy/inject.h"
#include "dataproxy/memo.h"
#include "dataproxy/rate.h"
#include "dataproxy/target.h"
#include "http/server.h"
#include "proto/data_token.h"

#define PENDING_MAX                                                                                \
    (256 * 1024) /* bytes queued for a slow handler before the upstream is paused                  \
                  */
#define ANSWER_FIELDS_MAX 32
#define CACHE_KEY_MAX 65536

/* What belongs to one upstream for as long as the proxy runs. */
struct desk {
    struct injector *injector;
    struct rate rate;
    struct cache *cache; /* NULL: none */
};

struct proxy {
    struct proxy_parts parts;
    struct http_server *server;
    struct data_keys keys;
    struct memo memo;
    struct desk desk[CONFIG_UPSTREAMS_MAX];
    struct proxy_stats stats;
    struct call *calls;
    size_t reserved; /* the sum over calls */
};

/* One handler's call. Lives from on_request() to finish(). */
struct call {
    struct proxy *proxy;
    struct call *next;
    struct call **prev;
    struct http_request *request; /* NULL once answered */
    struct target target;
    struct data_token token;
    struct request_call budget;
    struct outgoing outgoing;
    struct inject_wait inject;
    struct fetch fetch;
    struct scan_stream scan;
    bool scanning;
    bool begun; /* the answer's head is out */
    int status; /* the upstream's, and the fields that pass */
    struct http_header answer[ANSWER_FIELDS_MAX];
    size_t n_answer;
    bool head; /* the method is HEAD: no body follows */
    const char *method;
    const void *body;
    size_t body_len;
    size_t reserved; /* of the memory for all calls */
    size_t received; /* body bytes from the upstream */
    struct buf keep; /* for the cache */
    char *keep_type;
    char *cache_key;
    bool keeping;
    uint64_t started_ms;
    enum proxy_outcome outcome; /* decided by whoever stops the call */
    const char *why;            /* static or within the call */
    char why_text[256];
    struct egress_record record;
};

static const char *const outcome_names[PROXY_OUTCOME_N] = {
    [PROXY_OK] = "ok",
    [PROXY_CACHED] = "cached",
    [PROXY_BAD_REQUEST] = "bad_request",
    [PROXY_NO_TOKEN] = "no_token",
    [PROXY_NOT_OPEN] = "not_open",
    [PROXY_NOT_ALLOWED] = "not_allowed",
    [PROXY_BUDGET] = "budget",
    [PROXY_ADDRESS] = "address",
    [PROXY_UPSTREAM] = "upstream",
    [PROXY_CREDENTIAL] = "credential",
    [PROXY_LEAK] = "leak",
    [PROXY_ENDED] = "ended",
    [PROXY_GONE] = "gone",
};

const char *proxy_outcome_name(enum proxy_outcome outcome)
{
    return outcome_names[outcome];
}

/* ---- the end of every call ---- */

static void drop_head(struct call *call);

static void release(struct call *call)
{
    inject_wait_cancel(&call->inject);
    fetch_cancel(&call->fetch);
    request_call_end(&call->budget);
    if (call->scanning)
        scan_stream_fini(&call->scan);
    outgoing_fini(&call->outgoing);
    drop_head(call);
    target_fini(&call->target);
    buf_fini(&call->keep);
    free(call->keep_type);
    free(call->cache_key);
    call->proxy->reserved -= call->reserved;
    *call->prev = call->next;
    if (call->next)
        call->next->prev = call->prev;
    free(call);
}

/* The only way out: counts, records, logs, frees. The answer has been sent or cut by then. */
static void finish(struct call *call, enum proxy_outcome outcome, const char *why)
{
    struct proxy *proxy = call->proxy;
    call->record.ms = loop_now_ms(proxy->parts.loop) - call->started_ms;
    call->record.outcome = outcome_names[outcome];
    proxy->stats.outcome[outcome]++;
    proxy->stats.bytes_up += call->record.bytes_up;
    proxy->stats.bytes_down += call->record.bytes_down;
    proxy->stats.calls--;
    egress_add(*proxy->parts.egress, &call->record);
    log_info("call", log_str("outcome", outcome_names[outcome]),
             log_str("request", call->record.request_id),
             log_str("upstream", call->record.upstream), log_str("method", call->record.method),
             log_int("status", call->record.status),
             log_int("upstream_status", call->record.upstream_status),
             log_int("bytes_up", (int64_t)call->record.bytes_up),
             log_int("bytes_down", (int64_t)call->record.bytes_down),
             log_int("ms", (int64_t)call->record.ms), log_str("why", why ? why : ""));
    release(call);
}

/* Answers with a line for the handler's author and ends the call; cuts when the head is out
 * already. */
static void refuse(struct call *call, int status, enum proxy_outcome outcome, const char *why)
{
    struct http_request *request = STEAL(call->request);
    http_request_on_gone(request, NULL, NULL);
    if (call->begun) {
        http_answer_reset(request);
    } else {
        char line[320];
        (void)snprintf(line, sizeof(line), "utter-dataproxy: %s", why);
        call->record.status = status;
        http_answer_text(request, status, line);
    }
    finish(call, outcome, why);
}

static const char *keep_why(struct call *call, const char *text)
{
    (void)snprintf(call->why_text, sizeof(call->why_text), "%.*s", (int)sizeof(call->why_text) - 1,
                   text);
    return call->why_text;
}

/* ---- 7. the answer comes back: head, body, end ---- */

/* Cuts from within a callback of the running fetch: the decision is kept and taken in on_fetched().
 */
static void decide(struct call *call, enum proxy_outcome outcome, const char *why)
{
    call->outcome = outcome;
    call->why = why;
}

static bool has_coding(const struct http_result *head)
{
    const struct http_field *field = http_result_find(head, "content-encoding");
    return field && field->value.len && !http_str_is_nocase(field->value, "identity");
}

static bool value_leaks(const struct call *call, const struct http_field *field)
{
    return scan_once(call->scan.set, field->value.p, field->value.len);
}

/* Copies what may pass. */
static void keep_head(struct call *call, const struct http_result *head)
{
    call->status = head->status;
    for (size_t i = 0; i < head->n_fields && call->n_answer < ANSWER_FIELDS_MAX; i++) {
        char *name CLEANUP_FREE = http_str_dup(head->fields[i].name);
        if (upstream_answer_header_allowed(name) && !value_leaks(call, &head->fields[i]) &&
            strcasecmp(name, "date") != 0)
            call->answer[call->n_answer++] =
                (struct http_header){ .name = STEAL(name),
                                      .value = http_str_dup(head->fields[i].value) };
    }
}

static void drop_head(struct call *call)
{
    for (size_t i = 0; i < call->n_answer; i++) {
        free((char *)(uintptr_t)call->answer[i].name);
        free((char *)(uintptr_t)call->answer[i].value);
    }
    call->n_answer = 0;
}

/* The head goes out with the first byte that may, so that what is found before is a clean refusal.
 */
static void begin_answer(struct call *call)
{
    if (call->begun)
        return;
    call->record.status = call->status;
    call->begun = true;
    http_answer_begin(call->request, call->status, call->answer, call->n_answer, -1);
}

static bool holds_word(struct http_str value, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= value.len; i++) {
        if (strncasecmp(value.p + i, word, n) == 0)
            return true;
    }
    return false;
}

/* The upstream's own word goes before the operator's cache. */
static bool may_keep(const struct http_result *head)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];
        if (http_str_is_nocase(f->name, "cache-control") &&
            (holds_word(f->value, "no-store") || holds_word(f->value, "private")))
            return false;
        if (http_str_is_nocase(f->name, "vary") && holds_word(f->value, "*"))
            return false;
    }
    return head->status == 200;
}

static void keep_for_cache(struct call *call, const struct http_result *head)
{
    const struct http_field *type = http_result_find(head, "content-type");
    call->keeping = call->cache_key && may_keep(head);
    if (call->keeping && type && !value_leaks(call, type))
        call->keep_type = http_str_dup(type->value);
}

static bool on_head(void *arg, const struct http_result *head)
{
    struct call *call = arg;
    call->record.upstream_status = head->status;
    if (head->status >= 300 && head->status < 400 && head->status != 304) {
        decide(call, PROXY_UPSTREAM, "the upstream redirects: redirects are not followed");
        return false;
    }
    if (has_coding(head)) {
        decide(call, PROXY_UPSTREAM, "the upstream encodes its answer although identity was asked");
        return false;
    }
    if (head->status == 401)
        injector_rejected(
            call->proxy->desk[call->target.upstream - call->proxy->parts.config->upstream]
                .injector);
    keep_for_cache(call, head);
    keep_head(call, head);
    return true;
}

static bool pass_on(struct call *call, struct buf *out)
{
    if (out->len && !request_call_count(&call->budget, out->len)) {
        decide(call, PROXY_BUDGET, "the request's bytes are used up");
        return false;
    }
    call->record.bytes_down += out->len;
    if (call->keeping)
        buf_append(&call->keep, out->data, out->len);
    if (out->len) {
        begin_answer(call);
        http_answer_write(call->request, out->data, out->len);
    }
    return true;
}

static enum http_data on_data(void *arg, const void *data, size_t len)
{
    struct call *call = arg;
    if (http_answer_pending(call->request) > PENDING_MAX)
        return HTTP_DATA_PAUSE;
    call->received += len;
    if (call->received > call->target.upstream->response_body) {
        decide(call, PROXY_UPSTREAM, "the upstream's answer is larger than its limit");
        return HTTP_DATA_STOP;
    }
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, SIZE_MAX / 4);
    if (!scan_stream_feed(&call->scan, data, len, &out)) {
        decide(call, PROXY_LEAK, "the upstream's answer holds its credential");
        return HTTP_DATA_STOP;
    }
    return pass_on(call, &out) ? HTTP_DATA_GO : HTTP_DATA_STOP;
}

static void on_drained(struct http_request *request, void *arg)
{
    (void)request;
    struct call *call = arg;
    fetch_resume(&call->fetch);
}

static void put_in_cache(struct call *call, struct desk *desk)
{
    if (call->keeping && !call->keep.failed)
        cache_put(desk->cache, call->cache_key, call->keep_type, call->keep.data, call->keep.len,
                  loop_now_ms(call->proxy->parts.loop));
}

static struct desk *desk_of(struct call *call)
{
    return &call->proxy->desk[call->target.upstream - call->proxy->parts.config->upstream];
}

static void complete(struct call *call)
{
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, SIZE_MAX / 4);
    if (!scan_stream_end(&call->scan, &out) || !pass_on(call, &out)) {
        refuse(call, 502, call->why ? call->outcome : PROXY_LEAK,
               call->why ? call->why : "the upstream's answer holds its credential");
        return;
    }
    put_in_cache(call, desk_of(call));
    begin_answer(call);
    struct http_request *request = STEAL(call->request);
    http_request_on_gone(request, NULL, NULL);
    http_request_on_drained(request, NULL, NULL);
    http_answer_end(request);
    finish(call, PROXY_OK, NULL);
}

/* The fetch has ended, well or not. */
static void on_fetched(void *arg, const struct http_result *result)
{
    struct call *call = arg;
    if (result->outcome == HTTP_CALL_OK && !call->why) {
        complete(call);
        return;
    }
    if (call->why) {
        if (call->outcome == PROXY_LEAK)
            request_call_taint(&call->budget);
        refuse(call, 502, call->outcome, call->why);
        return;
    }
    if (call->fetch.refused) {
        refuse(call, 502, PROXY_ADDRESS, keep_why(call, result->why));
        return;
    }
    bool late = result->outcome == HTTP_CALL_TIMEOUT;
    log_warn("upstream_failed", log_str("upstream", call->record.upstream),
             log_str("outcome", http_call_outcome_name(result->outcome)),
             log_str("why", result->why));
    refuse(call, late ? 504 : 502, PROXY_UPSTREAM,
           late ? "the upstream did not answer in time"
                : "the upstream could not be reached or broke off");
}

/* ---- 6. the call goes out with its credential ---- */

static void on_injected(void *arg, enum err_kind kind, const char *why)
{
    struct call *call = arg;
    const struct upstream *u = call->target.upstream;
    if (kind) {
        log_warn("credential_failed", log_str("upstream", u->name), log_str("why", why));
        refuse(call, 502, PROXY_CREDENTIAL, "the upstream's credential cannot be had now");
        return;
    }
    struct scan_set *set CLEANUP(scan_set_unrefp) = injector_scan_set(desk_of(call)->injector);
    scan_stream_init(&call->scan, set);
    call->scanning = true;
    http_request_on_drained(call->request, on_drained, call);
    const struct http_call_spec spec = {
        .method = call->method,
        .url = buf_cstr(&call->outgoing.url),
        .headers = call->outgoing.header,
        .n_headers = call->outgoing.n_headers,
        .body = call->body,
        .body_len = call->body_len,
        .deadline_ms = u->timeout_ms,
        .userpwd = call->outgoing.userpwd,
        .aws_sigv4 = call->outgoing.sigv4,
        .on_head = on_head,
        .on_data = on_data,
    };
    fetch_start(&call->fetch, call->proxy->parts.fetcher, u->host, u->internal, &spec, on_fetched,
                call);
}

/* ---- 5. budgets, rate, cache ---- */

static void on_aborted(struct request_call *budget, const char *why)
{
    struct call *call = (struct call *)(void *)((char *)budget - offsetof(struct call, budget));
    refuse(call, 502, PROXY_ENDED, why);
}

static void answer_cached(struct call *call, const struct cache_entry *entry)
{
    char age[24];
    (void)snprintf(age, sizeof(age), "%" PRIu64, entry->age_ms / 1000);
    const struct http_header headers[] = { { "Age", age },
                                           { "Content-Type", entry->content_type } };
    if (!request_call_count(&call->budget, entry->len)) {
        refuse(call, 429, PROXY_BUDGET, "the request's bytes are used up");
        return;
    }
    struct http_request *request = STEAL(call->request);
    http_request_on_gone(request, NULL, NULL);
    call->record.status = 200;
    call->record.bytes_down = entry->len;
    http_answer(request, &(struct http_answer){ .status = 200,
                                                .headers = headers,
                                                .n_headers = entry->content_type ? 2 : 1,
                                                .body = entry->body,
                                                .body_len = entry->len });
    finish(call, PROXY_CACHED, NULL);
}

/* Everything of the handler's that the upstream sees is in the key: path, query and every header
 * that passes. Called before the credential is put in. */
static void make_cache_key(struct call *call)
{
    static const char *const partial[] = { "range", "if-range", "if-none-match",
                                           "if-modified-since" };
    struct buf key CLEANUP(buf_fini);
    buf_init(&key, CACHE_KEY_MAX);
    for (size_t i = 0; i < ARRAY_LEN(partial); i++) {
        if (http_find(http_request_head(call->request), partial[i]))
            return;
    }
    if (call->head || strcmp(call->method, "GET") != 0 || call->body_len)
        return;
    buf_append_str(&key, buf_cstr(&call->outgoing.url));
    for (size_t i = 0; i < call->outgoing.n_headers; i++)
        buf_printf(&key, "\n%s:%s", call->outgoing.header[i].name, call->outgoing.header[i].value);
    if (key.failed)
        return;
    call->cache_key = xstrdup(buf_cstr(&key));
    buf_init(&call->keep, call->target.upstream->cache_bytes);
}

static bool taken(struct call *call)
{
    struct err err;
    uint32_t retry_s = 0;
    uint64_t now = loop_now_ms(call->proxy->parts.loop);
    call->budget.abort = on_aborted;
    enum err_kind kind = requests_begin_call(call->proxy->parts.requests, &call->token,
                                             call->target.upstream->name, now, &call->budget, &err);
    if (kind) {
        bool spent = kind == ERR_UNAVAILABLE;
        refuse(call, spent ? 429 : 403, spent ? PROXY_BUDGET : PROXY_NOT_OPEN,
               keep_why(call, err.msg));
        return false;
    }
    if (call->body_len && !request_call_count(&call->budget, call->body_len)) {
        refuse(call, 429, PROXY_BUDGET, "the request's bytes are used up");
        return false;
    }
    call->record.bytes_up = call->body_len;
    if (!rate_take(&desk_of(call)->rate, now, &retry_s)) {
        (void)snprintf(call->why_text, sizeof(call->why_text),
                       "the upstream's rate limit is used up, again in %" PRIu32 " s", retry_s);
        refuse(call, 429, PROXY_BUDGET, call->why_text);
        return false;
    }
    return true;
}

static void spend(struct call *call)
{
    struct cache_entry entry;
    struct desk *desk = desk_of(call);
    if (desk->cache)
        make_cache_key(call);
    bool hit = call->cache_key && cache_get(desk->cache, call->cache_key,
                                            loop_now_ms(call->proxy->parts.loop), &entry);
    if (!taken(call))
        return;
    if (hit)
        answer_cached(call, &entry);
    else
        injector_apply(desk->injector, &call->outgoing, &call->inject, on_injected, call);
}

/* ---- 4. the body is read, the outgoing request put together ---- */

static bool copy_headers(struct call *call)
{
    const struct http_head *head = http_request_head(call->request);
    for (size_t i = 0; i < head->n_fields; i++) {
        char *name CLEANUP_FREE = http_str_dup(head->fields[i].name);
        char *value CLEANUP_FREE = http_str_dup(head->fields[i].value);
        if (upstream_header_allowed(call->target.upstream, name) &&
            !outgoing_add(&call->outgoing, name, value))
            return false;
    }
    return outgoing_add(&call->outgoing, "Accept-Encoding", "identity");
}

static bool put_together(struct call *call)
{
    const struct upstream *u = call->target.upstream;
    struct buf *url = &call->outgoing.url;
    buf_printf(url, "%s://%s:%u%s%s", u->tls ? "https" : "http", u->host, u->port, u->base,
               call->target.path);
    if (call->target.query)
        buf_printf(url, "?%s", call->target.query);
    return !url->failed && copy_headers(call);
}

static void on_body(struct http_request *request, enum http_body result, const void *data,
                    size_t len, void *arg)
{
    (void)request;
    struct call *call = arg;
    switch (result) {
    case HTTP_BODY_OK:
        break;
    case HTTP_BODY_TOO_LARGE:
        refuse(call, 413, PROXY_NOT_ALLOWED,
               "the request's body is larger than its upstream's limit");
        return;
    case HTTP_BODY_TIMEOUT:
        refuse(call, 408, PROXY_BAD_REQUEST, "the request's body did not come in time");
        return;
    case HTTP_BODY_BAD:
        refuse(call, 400, PROXY_BAD_REQUEST, "the request's body is not framed as HTTP wants");
        return;
    case HTTP_BODY_GONE:
        refuse(call, 400, PROXY_GONE, "the handler went away");
        return;
    }
    call->body = data;
    call->body_len = len;
    if (!put_together(call)) {
        refuse(call, 431, PROXY_BAD_REQUEST, "too many or too long headers, or too long a URL");
        return;
    }
    spend(call);
}

/* ---- 3. the token, then what of the upstream may be asked ---- */

static bool admitted(struct call *call)
{
    struct proxy *proxy = call->proxy;
    char *text CLEANUP_FREE = NULL;
    struct err err;
    enum err_kind kind = target_token(http_request_head(call->request), &text, &err);
    if (!kind)
        kind = memo_check(&proxy->memo, &proxy->keys, text, strlen(text), proxy->parts.config->slug,
                          time(NULL), &call->token, &err);
    if (text)
        explicit_bzero(text, strlen(text));
    if (kind) {
        refuse(call, 401, PROXY_NO_TOKEN, keep_why(call, err.msg));
        return false;
    }
    memcpy(call->record.request_id, call->token.request_id, sizeof(call->record.request_id));
    /* Asked again with the budgets, once the body is here. */
    if (requests_check(proxy->parts.requests, &call->token, call->target.upstream->name,
                       loop_now_ms(proxy->parts.loop), &err)) {
        refuse(call, 403, PROXY_NOT_OPEN, keep_why(call, err.msg));
        return false;
    }
    return true;
}

static bool allowed(struct call *call)
{
    const struct upstream *u = call->target.upstream;
    if (call->target.query && upstream_query_names_credential(u, call->target.query)) {
        refuse(call, 403, PROXY_NOT_ALLOWED, "the query names the parameter of the credential");
        return false;
    }
    if (upstream_allows(call->target.upstream, call->method, call->target.path))
        return true;
    refuse(call, 403, PROXY_NOT_ALLOWED, "this method and path of the upstream are not allowed");
    return false;
}

/* ---- 2. what is asked ---- */

static bool understood(struct call *call)
{
    struct err err;
    const struct http_head *head = http_request_head(call->request);
    call->method = http_method_name(head->method);
    call->head = head->method == HTTP_HEAD;
    (void)snprintf(call->record.method, sizeof(call->record.method), "%s",
                   call->method ? call->method : "other");
    enum err_kind kind = target_read(call->proxy->parts.config, head, &call->target, &err);
    if (kind) {
        int status = kind == ERR_UNSUPPORTED ? 405 : kind == ERR_NOT_FOUND ? 404 : 400;
        refuse(call, status, PROXY_BAD_REQUEST, keep_why(call, err.msg));
        return false;
    }
    memcpy(call->record.upstream, call->target.upstream->name, sizeof(call->record.upstream));
    return true;
}

/* ---- 1. a handler asks ---- */

/* The handler's two addresses on the slug's network. */
static bool from_handler(const struct config *config, const char *address)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    return !config->peer_net.set ||
           (inet_pton(AF_INET, address, &in.sin_addr) == 1 &&
            address_in_net((const struct sockaddr *)&in, sizeof(in), &config->peer_net));
}

static void on_gone(struct http_request *request, void *arg)
{
    (void)request;
    struct call *call = arg;
    refuse(call, 400, PROXY_GONE, "the handler went away");
}

static struct call *call_new(struct proxy *proxy, struct http_request *request)
{
    struct call *call = xcalloc(1, sizeof(*call));
    call->proxy = proxy;
    call->request = request;
    call->started_ms = http_request_started_ms(request);
    outgoing_init(&call->outgoing);
    call->next = proxy->calls;
    call->prev = &proxy->calls;
    if (proxy->calls)
        proxy->calls->prev = &call->next;
    proxy->calls = call;
    proxy->stats.calls++;
    return call;
}

/* The most that this call can come to hold is set aside before any of it is read. */
static bool reserved(struct call *call)
{
    struct proxy *proxy = call->proxy;
    const struct upstream *u = call->target.upstream;
    const struct http_head *head = http_request_head(call->request);
    size_t need = PENDING_MAX + (u->cache_ms ? u->cache_bytes : 0);
    if (u->cache_ms && u->response_body < u->cache_bytes)
        need = PENDING_MAX + u->response_body;
    if (head->framing == HTTP_FRAMED_LENGTH && head->content_length < u->request_body)
        need += (size_t)head->content_length;
    else if (head->framing != HTTP_FRAMED_NONE)
        need += u->request_body;
    if (need > proxy->parts.config->max_bytes - proxy->reserved) {
        refuse(call, 503, PROXY_BUDGET, "too many bytes under way at once");
        return false;
    }
    call->reserved = need;
    proxy->reserved += need;
    return true;
}

static void on_request(void *arg, struct http_request *request)
{
    struct proxy *proxy = arg;
    struct call *call = call_new(proxy, request);
    char address[HTTP_ADDRESS_MAX];
    http_request_peer_address(request, address);
    if (!from_handler(proxy->parts.config, address)) {
        refuse(call, 403, PROXY_NOT_OPEN, "only this slug's handler is served");
        return;
    }
    if (proxy->stats.calls > proxy->parts.config->max_calls) {
        refuse(call, 503, PROXY_BUDGET, "too many calls at once");
        return;
    }
    if (!understood(call) || !admitted(call) || !allowed(call) || !reserved(call))
        return;
    http_request_on_gone(request, on_gone, call);
    http_request_read_body(request, call->target.upstream->request_body, on_body, call);
}

/* ---- the proxy ---- */

static CHECKED enum err_kind make_desks(struct proxy *proxy, struct err *err)
{
    const struct proxy_parts *parts = &proxy->parts;
    for (size_t i = 0; i < parts->config->n_upstreams; i++) {
        const struct upstream *u = &parts->config->upstream[i];
        struct desk *desk = &proxy->desk[i];
        rate_init(&desk->rate, u->rate_per_minute, u->rate_burst, loop_now_ms(parts->loop));
        if (u->cache_ms)
            desk->cache = cache_new(u->cache_bytes, u->cache_ms);
        enum err_kind kind = injector_new(parts->loop, parts->fetcher, u, &desk->injector, err);
        if (kind)
            return kind;
    }
    return ERR_OK;
}

enum err_kind proxy_new(const struct proxy_parts *parts, struct proxy **out, struct err *err)
{
    struct proxy *proxy CLEANUP(proxy_freep) = xcalloc(1, sizeof(*proxy));
    proxy->parts = *parts;
    const struct http_server_config server = {
        .max_connections = 4 * parts->config->max_calls,
        .allow_connect = true,
        .on_request = on_request,
        .arg = proxy,
    };
    enum err_kind kind = http_server_new(parts->loop, &server, &proxy->server, err);
    if (kind)
        return kind;
    *out = STEAL(proxy);
    return ERR_OK;
}

enum err_kind proxy_start(struct proxy *proxy, struct err *err)
{
    enum err_kind kind = data_keys_load(proxy->parts.config->keys, &proxy->keys, err);
    return kind ? kind : make_desks(proxy, err);
}

void proxy_free(struct proxy *proxy)
{
    if (!proxy)
        return;
    while (proxy->calls)
        refuse(proxy->calls, 503, PROXY_ENDED, "the proxy stops");
    http_server_free(proxy->server);
    for (size_t i = 0; i < CONFIG_UPSTREAMS_MAX; i++) {
        injector_free(proxy->desk[i].injector);
        cache_free(proxy->desk[i].cache);
    }
    data_keys_fini(&proxy->keys);
    free(proxy);
}

enum err_kind proxy_listen(struct proxy *proxy, struct err *err)
{
    return http_server_listen(proxy->server, proxy->parts.config->listen, err);
}

int proxy_port(const struct proxy *proxy)
{
    return http_server_port(proxy->server, 0);
}

enum err_kind proxy_reload_keys(struct proxy *proxy, struct err *err)
{
    struct data_keys keys = { 0 };
    enum err_kind kind = data_keys_load(proxy->parts.config->keys, &keys, err);
    if (kind)
        return kind;
    data_keys_fini(&proxy->keys);
    proxy->keys = keys;
    memo_clear(&proxy->memo);
    return ERR_OK;
}

const char *proxy_key_id(const struct proxy *proxy, size_t n)
{
    for (size_t i = 0; i < n && n < proxy->keys.n; i++) {
        if (strcmp(data_key_id(proxy->keys.key[i]), data_key_id(proxy->keys.key[n])) == 0)
            return "";
    }
    return n < proxy->keys.n ? data_key_id(proxy->keys.key[n]) : NULL;
}

void proxy_stats(const struct proxy *proxy, struct proxy_stats *out)
{
    *out = proxy->stats;
}
