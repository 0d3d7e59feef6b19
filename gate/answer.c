/* What a request is answered with: challenges, errors, receipts, sealed answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gate/challenge.h"
#include "gate/request.h"

#define EXPOSED                                                                                    \
    "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, Utter-Request-Id"
#define ALLOWED_REQUEST_HEADERS                                                                    \
    "PAYMENT-SIGNATURE, X-PAYMENT, Utter-Resume, Content-Type, Accept, "                           \
    "Access-Control-Expose-Headers"

struct headers {
    struct http_header h[16];
    size_t n;
    char origin[300];
};

static void add(struct headers *hs, const char *name, const char *value)
{
    if (hs->n < ARRAY_LEN(hs->h))
        hs->h[hs->n++] = (struct http_header){ name, value };
}

/* The value of Access-Control-Allow-Origin, or NULL. */
static const char *allow_origin(const struct request *r, struct headers *hs)
{
    const struct http_field *f = http_find(r->head, "Origin");
    if (!r->config->cors)
        return NULL;
    if (!r->config->cors_origins || !r->config->cors_origins[0])
        return "*";
    for (const char **o = r->config->cors_origins; f && *o; o++) {
        if (http_str_is(f->value, *o)) {
            (void)snprintf(hs->origin, sizeof(hs->origin), "%s", *o);
            return hs->origin;
        }
    }
    return NULL;
}

/* What every answer of the gate carries. */
static void add_common(struct request *r, struct headers *hs)
{
    add(hs, "Utter-Request-Id", r->id);
    const char *origin = allow_origin(r, hs);
    if (origin) {
        add(hs, "Access-Control-Allow-Origin", origin);
        add(hs, "Access-Control-Expose-Headers", EXPOSED);
    }
    /* A shared cache must never give one buyer's answer, or a 402, to another. */
    add(hs, "Vary", "PAYMENT-SIGNATURE, X-PAYMENT, Origin");
}

static enum step end(struct request *r, enum outcome outcome, const struct http_answer *answer,
                     const char *word)
{
    r->outcome = outcome;
    r->status = answer->status;
    r->word = word;
    r->answered = true;
    http_answer(STEAL(r->http), answer);
    return STEP_FINISH;
}

enum step answer_nobody(struct request *r, const char *word)
{
    return end(r, OUTCOME_GONE, &(struct http_answer){ .status = 499, .close = true }, word);
}

enum step answer_challenge(struct request *r, enum outcome outcome, int status,
                           enum payment_fault fault, const char *reason)
{
    struct headers hs = { 0 };
    struct challenge challenge;
    struct buf scratch, page;
    buf_init(&scratch, (size_t)256 * 1024);
    buf_init(&page, (size_t)256 * 1024);
    challenge_make(r->route, r->config->origin, r->path, fault, reason, &scratch, &challenge);
    bool html = fault == PAYMENT_NONE && wants_page(r->head);
    if (html)
        paywall_page(r, &page);
    add_common(r, &hs);
    add(&hs, "Cache-Control", "no-store");
    add(&hs, "PAYMENT-REQUIRED", challenge.header);
    add(&hs, "Content-Type", html ? "text/html; charset=utf-8" : "application/json");
    if (html) {
        add(&hs, "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
        add(&hs, "X-Content-Type-Options", "nosniff");
        add(&hs, "Referrer-Policy", "no-referrer");
    }
    enum step step = end(r, outcome,
                         &(struct http_answer){
                             .status = status,
                             .headers = hs.h,
                             .n_headers = hs.n,
                             .body = html ? (const char *)page.data : challenge.body,
                             .body_len = html ? page.len : challenge.body_len,
                         },
                         reason ? "facilitator" : payment_fault_reason(fault));
    buf_fini(&scratch);
    buf_fini(&page);
    return step;
}

enum step answer_error(struct request *r, enum outcome outcome, int status, const char *word,
                       uint32_t retry_after_s)
{
    struct headers hs = { 0 };
    char retry[16], body[256];
    add_common(r, &hs);
    add(&hs, "Cache-Control", "no-store");
    add(&hs, "Content-Type", "application/json");
    (void)snprintf(retry, sizeof(retry), "%" PRIu32, retry_after_s);
    if (retry_after_s)
        add(&hs, "Retry-After", retry);
    bool resume = outcome == OUTCOME_UNRESOLVED || (r->paying && status == 503);
    int n = snprintf(body, sizeof(body), "{\"error\":\"%s\"%s,\"request\":\"%s\"}\n", word,
                     resume ? ",\"retry\":\"same-payment\"" : "", r->id);
    return end(r, outcome,
               &(struct http_answer){ .status = status,
                                      .headers = hs.h,
                                      .n_headers = hs.n,
                                      .body = body,
                                      .body_len = (size_t)n },
               word);
}

/* The network as this request's protocol version spells it. */
static const char *receipt_network(const struct request *r, const struct ledger_receipt *receipt)
{
    return r->payment.offer ? offer_network(r->payment.offer, r->payment.version)
                            : receipt->network;
}

static void write_receipt(const struct request *r, const struct ledger_receipt *receipt,
                          bool success, struct buf *out)
{
    receipt_make(&(struct receipt){ .success = success,
                                    .transaction = receipt->transaction,
                                    .network = receipt_network(r, receipt),
                                    .payer = receipt->payer[0] ? receipt->payer : NULL,
                                    .amount = receipt->amount[0] && r->payment.kind == PAY_UPTO
                                                  ? receipt->amount
                                                  : NULL,
                                    .error_reason = success              ? NULL
                                                    : receipt->reason[0] ? receipt->reason
                                                                         : "settlement_failed" },
                 out);
}

enum step answer_refused(struct request *r, int status, const struct ledger_receipt *receipt)
{
    struct headers hs = { 0 };
    struct buf value, scratch;
    char body[256];
    struct challenge challenge = { 0 };
    bool spent = status == 409; /* settled, and its answer is no longer to be had */
    buf_init(&value, HTTP_HEAD_MAX);
    buf_init(&scratch, (size_t)256 * 1024);
    write_receipt(r, receipt, spent, &value);
    add_common(r, &hs);
    add(&hs, "Cache-Control", "no-store");
    add(&hs, "Content-Type", "application/json");
    add(&hs, receipt_header_name(r->payment.version), buf_cstr(&value));
    if (!spent) {
        challenge_make(r->route, r->config->origin, r->path, PAYMENT_NONE, receipt->reason,
                       &scratch, &challenge);
        add(&hs, "PAYMENT-REQUIRED", challenge.header);
    }
    int n =
        snprintf(body, sizeof(body), "{\"error\":\"payment_spent\",\"request\":\"%s\"}\n", r->id);
    enum step step =
        end(r, spent ? OUTCOME_CONFLICT : OUTCOME_REFUSED,
            &(struct http_answer){ .status = status,
                                   .headers = hs.h,
                                   .n_headers = hs.n,
                                   .body = spent ? body : challenge.body,
                                   .body_len = spent ? (size_t)n : challenge.body_len },
            spent ? "payment_spent" : "settlement_refused");
    buf_fini(&value);
    buf_fini(&scratch);
    return step;
}

/* The handler's fields and the gate's own after them. */
static enum step send_with(struct request *r, enum outcome outcome, int status,
                           struct passage *fields, const struct headers *hs, const void *body,
                           size_t len, const char *word)
{
    for (size_t i = 0; i < hs->n; i++)
        passage_put(fields, hs->h[i].name, hs->h[i].value);
    passage_seal(fields);
    return end(r, outcome,
               &(struct http_answer){ .status = status,
                                      .headers = fields->fields,
                                      .n_headers = fields->n,
                                      .body = body,
                                      .body_len = len },
               word);
}

enum step answer_release(struct request *r, enum outcome outcome,
                         const struct ledger_answer *answer, const struct ledger_receipt *receipt)
{
    struct headers hs = { 0 };
    struct passage fields;
    struct buf value;
    passage_init(&fields);
    buf_init(&value, HTTP_HEAD_MAX);
    write_receipt(r, receipt, true, &value);
    add_common(r, &hs);
    add(&hs, "Cache-Control", "private, no-store");
    add(&hs, receipt_header_name(r->payment.version), buf_cstr(&value));
    enum step step;
    if (passage_read(&fields, answer->head, answer->head_len))
        step = send_with(r, outcome, answer->status, &fields, &hs, answer->body, answer->body_len,
                         "sold");
    else
        step = answer_error(r, OUTCOME_UNAVAILABLE, 503, "stored_answer_unreadable", 5);
    passage_fini(&fields);
    buf_fini(&value);
    return step;
}

enum step answer_uncharged(struct request *r, enum outcome outcome)
{
    struct reply *reply = &r->reply;
    struct headers hs = { 0 };
    if (reply->own)
        return answer_error(r, outcome, reply->status, reply->why, reply->status == 503 ? 2 : 0);
    add_common(r, &hs);
    add(&hs, "Cache-Control", "no-store");
    return send_with(r, outcome, reply->status, &reply->head, &hs, reply->body, reply->body_len,
                     reply->why ? reply->why : "free");
}

enum step answer_own(struct request *r, int status, const char *type, const char *body,
                     const char *allow)
{
    struct headers hs = { 0 };
    add_common(r, &hs);
    add(&hs, "Cache-Control", "no-store");
    if (type)
        add(&hs, "Content-Type", type);
    if (allow)
        add(&hs, "Allow", allow);
    return end(r, status == 405 ? OUTCOME_NOT_FOUND : OUTCOME_OWN,
               &(struct http_answer){ .status = status,
                                      .headers = hs.h,
                                      .n_headers = hs.n,
                                      .body = body,
                                      .body_len = body ? strlen(body) : 0 },
               "own");
}

/* A list of field names that can be sent back. */
static bool is_name_list(struct http_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || c == ',' || c == ' ';
        if (!fine)
            return false;
    }
    return s.len > 0 && s.len < 512;
}

enum step answer_preflight(struct request *r)
{
    struct headers hs = { 0 };
    char names[512] = ALLOWED_REQUEST_HEADERS;
    const struct http_field *asked = http_find(r->head, "Access-Control-Request-Headers");
    add_common(r, &hs);
    if (asked && is_name_list(asked->value)) {
        memcpy(names, asked->value.p, asked->value.len);
        names[asked->value.len] = '\0';
    }
    add(&hs, "Access-Control-Allow-Methods", r->route->allow);
    add(&hs, "Access-Control-Allow-Headers", names);
    add(&hs, "Access-Control-Max-Age", "600");
    return end(r, OUTCOME_OWN,
               &(struct http_answer){ .status = 204, .headers = hs.h, .n_headers = hs.n },
               "preflight");
}
