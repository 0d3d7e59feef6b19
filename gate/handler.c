/* One call of the handler: what it is sent, and what is made of its answer. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/log.h"
#include "gate/classify.h"
#include "gate/request.h"
#include "gate/tripwire.h"

void reply_fini(struct reply *reply)
{
    if (reply->head.text.max)
        passage_fini(&reply->head);
    free(STEAL(reply->body));
}

void reply_own(struct request *r, int status, const char *why)
{
    r->reply.sold = false;
    r->reply.own = true;
    r->reply.status = status;
    r->reply.why = why;
}

/* ---- the answer ---- */

/* {"amount": "<atomic>"} from an `upto` handler, on routes that let it. */
static void read_override(struct request *r, const struct http_result *result)
{
    const struct http_field *f = http_result_find(result, "Settlement-Overrides");
    const char *amount = NULL;
    json_t *root CLEANUP_JSON = NULL;
    if (!f || !r->paying || r->payment.kind != PAY_UPTO || !r->route->upto_handler_charge)
        return;
    if (json_strict_load(f->value.p, f->value.len, 1024, 0, &root, NULL) ||
        json_get_string(root, "amount", true, &amount, NULL))
        return;
    (void)snprintf(r->reply.override, sizeof(r->reply.override), "%s", amount);
}

struct u256 handler_charge(const struct request *r)
{
    const struct offer *offer = r->payment.offer;
    struct u256 charge = offer->upto_max;
    if (r->payment.kind != PAY_UPTO)
        return offer->amount;
    if (r->reply.override[0] && !u256_parse(r->reply.override, &charge))
        charge = offer->upto_max;
    if (u256_compare(&charge, &offer->upto_min) < 0)
        charge = offer->upto_min;
    if (u256_compare(&charge, &offer->upto_max) > 0)
        charge = offer->upto_max;
    return charge;
}

/* The handler must not hand its way to the upstreams to the buyer: see gate/tripwire.h. */
static bool leaks_token(const struct request *r, const struct http_result *result)
{
    if (!r->data_token)
        return false;
    if (tripwire_hit(r->data_token, result->body, result->body_len))
        return true;
    for (size_t i = 0; i < result->n_fields; i++) {
        if (tripwire_hit(r->data_token, result->fields[i].value.p, result->fields[i].value.len))
            return true;
    }
    return false;
}

static void take_answer(struct request *r, const struct http_result *result)
{
    struct classified c = classify(result, &r->route->answer, r->head->method);
    if (c.sale != SALE_REPLACE && leaks_token(r, result))
        c = (struct classified){ SALE_REPLACE, 502, "data_token_in_answer" };
    if (c.sale == SALE_REPLACE) {
        reply_own(r, c.status, c.why);
        return;
    }
    passage_to_buyer(&r->reply.head, result->fields, result->n_fields, r->route, r->config->origin);
    if (r->reply.head.text.failed) {
        reply_own(r, 502, "handler_header_too_large");
        return;
    }
    r->reply.sold = c.sale == SALE_SOLD;
    r->reply.status = c.status;
    r->reply.why = c.why;
    r->reply.body_len = result->body_len;
    r->reply.body = xmalloc(result->body_len ? result->body_len : 1);
    memcpy(r->reply.body, result->body, result->body_len);
    read_override(r, result);
}

static void on_answer(void *arg, const struct http_result *result)
{
    struct request *r = arg;
    r->handler_call = NULL;
    histogram_add(&r->gate->metrics.handler, result->ms);
    if (r->body_read) { /* read for this call; what follows needs the answer alone */
        http_request_drop_body(r->http);
        r->body = NULL;
        r->body_len = 0;
    }
    take_answer(r, result);
    if (r->reply.own)
        log_info("handler_answer_not_sold", log_str("id", r->id), log_str("why", r->reply.why),
                 log_int("status", result->status), log_str("detail", result->why));
    request_go(r, STEP_CLOSE);
}

/* ---- the call ---- */

static void add_own_fields(struct request *r, struct passage *p)
{
    const char *slashes = strstr(r->config->origin, "://");
    char attempt[16];
    passage_put(p, "Host", r->config->handler.host);
    passage_put(p, "Accept-Encoding", "identity");
    if (r->peer[0])
        passage_put(p, "X-Forwarded-For", r->peer);
    passage_put(p, "X-Forwarded-Proto",
                strncmp(r->config->origin, "https", 5) == 0 ? "https" : "http");
    passage_put(p, "X-Forwarded-Host", slashes ? slashes + 3 : r->config->origin);
    passage_put(p, "Utter-Request-Id", r->id);
    if (r->data_token)
        passage_put(p, "Utter-Data-Token", r->data_token);
    if (!r->paid_by)
        return;
    char id[LEDGER_PAYMENT_ID_TEXT];
    ledger_payment_id(r->paid_by, id);
    (void)snprintf(attempt, sizeof(attempt), "%u", ledger_payment_attempt(r->paid_by));
    passage_put(p, "Utter-Payment-Id", id);
    passage_put(p, "Utter-Attempt", attempt);
}

/* The route's time, or what remains of the payment's validity once settling is provided for. */
static uint32_t time_for_handler(const struct request *r)
{
    uint32_t ms = r->route->handler_ms;
    if (!r->paying || r->payment.valid_before == INT64_MAX)
        return ms;
    int64_t left = (r->payment.valid_before - (int64_t)time(NULL)) * 1000 -
                   (int64_t)r->config->deadlines.settle;
    if (left < 1)
        return 0;
    return left < (int64_t)ms ? (uint32_t)left : ms;
}

static char *handler_url(const struct request *r)
{
    const struct endpoint *at = &r->config->handler.at;
    struct http_str query = r->head->query;
    bool v6 = strchr(at->host, ':') != NULL;
    if (at->kind == ENDPOINT_UNIX)
        return xasprintf("http://localhost%s%s%.*s", r->path, query.p ? "?" : "", (int)query.len,
                         query.p ? query.p : "");
    return xasprintf(v6 ? "http://[%s]:%u%s%s%.*s" : "http://%s:%u%s%s%.*s", at->host, at->port,
                     r->path, query.p ? "?" : "", (int)query.len, query.p ? query.p : "");
}

enum step handler_start(struct request *r)
{
    struct passage fields;
    struct err err = { 0 };
    char *url CLEANUP_FREE = handler_url(r);
    uint32_t ms = time_for_handler(r);
    passage_init(&r->reply.head);
    if (ms == 0) {
        reply_own(r, 503, "payment_expires_too_soon");
        return STEP_CLOSE;
    }
    passage_init(&fields);
    passage_to_handler(&fields, r->head, r->route);
    add_own_fields(r, &fields);
    passage_seal(&fields);
    const struct endpoint *at = &r->config->handler.at;
    struct http_call_spec spec = {
        .method = r->method,
        .url = url,
        .headers = fields.fields,
        .n_headers = fields.n,
        .body = r->body,
        .body_len = r->body_len,
        .has_body = r->head->framing != HTTP_FRAMED_NONE,
        .unix_socket = at->kind == ENDPOINT_UNIX ? at->path : NULL,
        .deadline_ms = ms,
        .response_max = r->config->limits.response_body,
        .flags = HTTP_CALL_STRICT,
        .done = on_answer,
        .arg = r,
    };
    enum err_kind kind = fields.text.failed
                             ? err_set(&err, ERR_INVALID, "header fields do not fit")
                             : http_call_start(r->gate->client, &spec, &r->handler_call, &err);
    passage_fini(&fields);
    if (kind) {
        log_error("handler_call_not_made", log_str("id", r->id), log_str("why", err.msg));
        reply_own(r, 502, "handler_unreachable");
        return STEP_CLOSE;
    }
    r->gate->metrics.handler_calls++;
    return STEP_WAIT;
}

void handler_stop(struct request *r)
{
    if (r->handler_call)
        http_call_cancel(STEAL(r->handler_call));
}
