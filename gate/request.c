/*
 * The life of a request, from the first step to the last. Each step returns the next one, or
 * STEP_WAIT when it started something; the completion names the step to go on with. Steps do not
 * call steps, and request_go() alone frees a request.
 *
 * What a step needs to know and to say is beside it: request_self.c (what the gate answers itself),
 * request_payment.c (the payment in a head), request_record.c (what the ledger and the facilitator
 * are told), request_verdict.c (what their verdicts are answered with).
 *
 * Money rule: from STEP_RUN on a payment ends as settled, not charged, or unresolved in the ledger,
 * whatever happens to the request. What the ledger holds as RUNNING or later is never judged again
 * by today's clock, price, caps or health.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/text.h"
#include "gate/path.h"
#include "gate/request_parts.h"

#define ROUNDS_MAX 4

/* ---- step_route ---- */

static enum step step_route(struct request *r)
{
    struct err err = { 0 };
    if (!request_is_ours(r))
        return answer_error(r, OUTCOME_NOT_FOUND, 421, "wrong_host", 0);
    if (r->head->form == HTTP_FORM_ASTERISK)
        return answer_own(r, 204, NULL, NULL, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    r->path = xmalloc(r->head->path.len + 1);
    r->path[0] = '\0';
    if (path_canonical(r->head->path, r->path, &err))
        return answer_error(r, OUTCOME_BAD_REQUEST, 400, "bad_path", 0);
    if (strcmp(r->path, "/.well-known/utter/alive") == 0)
        return answer_alive(r);
    switch (route_find(&r->config->routes, r->method, r->path, &r->route)) {
    case ROUTE_NO_PATH:
        return answer_error(r, OUTCOME_NOT_FOUND, 404, "not_found", 0);
    case ROUTE_NO_METHOD:
        return answer_other_method(r);
    case ROUTE_FOUND:
    default:
        break;
    }
    const struct http_field *coding = http_find(r->head, "Content-Encoding");
    if (coding && !http_str_is_nocase(coding->value, "identity"))
        return answer_error(r, OUTCOME_BAD_REQUEST, 415, "encoded_body", 0);
    return r->route->free ? STEP_BODY : STEP_PAYMENT;
}

/* ---- step_payment ---- */

static enum step bad_payment(struct request *r, enum payment_fault fault, const struct err *why)
{
    log_info("payment_not_taken", log_str("id", r->id),
             log_str("reason", payment_fault_reason(fault)), log_str("why", why->msg));
    return answer_challenge(r, OUTCOME_BAD_PAYMENT, payment_fault_status(fault), fault, NULL);
}

static enum step step_payment(struct request *r)
{
    struct payment_headers headers = { 0 };
    struct err why = { 0 };
    request_payment_headers(r->head, &headers);
    if (headers.v1_count + headers.v2_count == 0)
        return answer_challenge(r, OUTCOME_CHALLENGED, 402, PAYMENT_NONE, NULL);
    if (!request_read_secret(r))
        return answer_error(r, OUTCOME_BAD_REQUEST, 400, "bad_resume_secret", 0);
    enum payment_fault fault = payment_read(&headers, &r->payment, &why);
    r->paying = fault == PAYMENT_OK;
    if (!fault)
        fault = request_bind(r, &why);
    if (fault)
        return bad_payment(r, fault, &why);
    return STEP_LOOKUP;
}

/* ---- step_lookup ---- */

static void on_found(void *arg, const struct ledger_found *found)
{
    struct request *r = arg;
    if (found->failed) {
        request_go(r, answer_error(r, OUTCOME_UNAVAILABLE, 503, "ledger_unavailable", 2));
        return;
    }
    r->held = found->held;
    request_go(r, found->held ? STEP_BODY : STEP_JUDGE);
}

static enum step step_lookup(struct request *r)
{
    if (!r->gate->ledger)
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "standing_by", 1);
    ledger_lookup(r->gate->ledger, r->payment.key.hash, &r->ledger_call, on_found, r);
    return STEP_WAIT;
}

/* ---- step_judge: new payments only ---- */

/* Signatures that only the facilitator can judge cost it a call each: a bounded number a minute. */
static bool wallet_calls_left(struct gate *gate, const struct gate_config *config)
{
    uint64_t minute = loop_now_ms(gate->loop) / 60000;
    if (gate->wallet_minute != minute) {
        gate->wallet_minute = minute;
        gate->wallet_calls = 0;
    }
    return gate->wallet_calls++ < config->limits.contract_wallet_per_minute;
}

static enum step step_judge(struct request *r)
{
    struct gate *gate = r->gate;
    struct err why = { 0 };
    struct payment_limits limits = config_payment_limits(r->config, r->route, (int64_t)time(NULL));
    if (r->gone_early)
        return answer_nobody(r, "client_left");
    enum payment_fault fault = payment_check(&r->payment, r->route, &limits, &why);
    if (fault)
        return bad_payment(r, fault, &why);
    r->judged = true;
    if (gate->draining)
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "restarting", 2);
    if (gate->unsellable)
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "facilitator_unsupported", 60);
    if (route_has_upstreams(r->route) && !data_session_up(gate->data))
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "upstreams_unavailable", 2);
    uint32_t retry = facilitator_retry_after_s(gate->facilitator);
    if (retry)
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "facilitator_unavailable", retry);
    if (r->payment.to_facilitator && !wallet_calls_left(gate, r->config))
        return answer_error(r, OUTCOME_LIMITED, 429, "too_many_unchecked_signatures", 60);
    if (!r->counted && gate->paid >= r->config->limits.concurrent)
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "busy", 1);
    if (!r->counted)
        gate->paid++;
    r->counted = true;
    return r->body_read ? STEP_CLAIM : STEP_BODY;
}

/* ---- step_body ---- */

static void on_body(struct http_request *http, enum http_body result, const void *data, size_t len,
                    void *arg)
{
    struct request *r = arg;
    (void)http;
    r->body_read = true;
    r->body = data;
    r->body_len = len;
    switch (result) {
    case HTTP_BODY_OK:
        request_go(r, r->route->free ? STEP_OPEN : STEP_CLAIM);
        return;
    case HTTP_BODY_TOO_LARGE:
        request_go(r, answer_error(r, OUTCOME_BAD_REQUEST, 413, "body_too_large", 0));
        return;
    case HTTP_BODY_TIMEOUT:
        request_go(r, answer_error(r, OUTCOME_BAD_REQUEST, 408, "body_too_slow", 0));
        return;
    case HTTP_BODY_BAD:
        request_go(r, answer_error(r, OUTCOME_BAD_REQUEST, 400, "broken_body", 0));
        return;
    case HTTP_BODY_GONE:
    default:
        request_go(r, answer_nobody(r, "client_left"));
        return;
    }
}

static enum step step_body(struct request *r)
{
    /* May complete before it returns: on_body then has gone on with this very request. */
    r->at = STEP_BODY;
    http_request_read_body(r->http, r->config->limits.request_body, on_body, r);
    return STEP_WAIT;
}

/* ---- step_claim ---- */

/* The key is free again (its first run ended uncharged): from the judge on, a few times. */
static enum step judge_again(struct request *r)
{
    ledger_payment_unref(STEAL(r->paid_by));
    r->held = false;
    if (++r->rounds > ROUNDS_MAX)
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "try_again", 1);
    return STEP_JUDGE;
}

/* A new payment that waited for an earlier one of its payer was itself never tried: where it cannot
 * have that one's answer, it buys its own. */
static bool buys_its_own(const struct request *r, const struct ledger_result *result)
{
    bool another = memcmp(ledger_payment_key(r->paid_by), r->payment.key.hash, LEDGER_KEY_LEN) != 0;
    return another && (result->verdict == LEDGER_SPENT || result->verdict == LEDGER_FAILED);
}

static void on_waited(void *arg, const struct ledger_result *result)
{
    struct request *r = arg;
    if (r->owner && r->part_ms)
        histogram_add(&r->gate->metrics.settle, loop_now_ms(r->gate->loop) - r->part_ms);
    if ((result->verdict == LEDGER_NEW && !r->owner) || buys_its_own(r, result))
        request_go(r, judge_again(r));
    else
        request_go(r, answer_verdict(r, result));
}

static enum step wait_for_end(struct request *r)
{
    r->at = STEP_SETTLE;
    if (ledger_wait(r->paid_by, &r->waiter, r->config->deadlines.settle_hold, on_waited, r))
        return STEP_WAIT;
    return answer_error(r, OUTCOME_UNRESOLVED, 503, "too_many_waiting", 1);
}

/* Somebody is at it already: r->paid_by is that payment. */
static enum step join(struct request *r, const struct ledger_result *result)
{
    if (!r->paid_by)
        return answer_verdict(r, result);
    if (ledger_payment_state(r->paid_by) == PAYMENT_UNKNOWN)
        settler_start(r->gate->settler, r->paid_by); /* somebody waits: ask sooner */
    return STEP_SETTLE;
}

static void on_claimed(void *arg, const struct ledger_result *result)
{
    struct request *r = arg;
    r->paid_by = result->payment;
    switch ((int)result->verdict) {
    case LEDGER_CLAIMED:
        r->owner = true;
        request_go(r, STEP_VERIFY);
        return;
    case LEDGER_WAIT:
        request_go(r, join(r, result));
        return;
    case LEDGER_NEW:
        request_go(r, judge_again(r));
        return;
    default:
        request_go(r, answer_verdict(r, result));
        return;
    }
}

static enum step step_claim(struct request *r)
{
    struct ledger_claim claim;
    if (!r->gate->ledger) /* let go while the body came */
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "standing_by", 1);
    request_claim(r, &claim);
    ledger_claim(r->gate->ledger, &claim, &r->ledger_call, on_claimed, r);
    return STEP_WAIT;
}

/* Before the handler ran: the key is free again and nobody was asked for money. */
static void drop(struct request *r)
{
    if (r->shared)
        claims_release(r->gate->claims, r->payment.key.hash);
    r->shared = r->owner = false;
    ledger_drop(STEAL(r->paid_by));
}

/* ---- step_verify ---- */

/* A payment this young ledger may have known before: not one to ask money for again. */
static bool may_be_forgotten(const struct request *r, const struct verify_outcome *outcome)
{
    uint64_t validity = (uint64_t)r->payment.offer->max_timeout_s + r->config->max_ahead_s;
    return outcome->nonce_used && ledger_is_young(r->gate->ledger, (int64_t)time(NULL), validity);
}

static enum step verify_said_no(struct request *r, const struct verify_outcome *outcome)
{
    bool forgotten = may_be_forgotten(r, outcome);
    drop(r);
    log_info("verify_refused", log_str("id", r->id), log_str("reason", outcome->reason),
             log_str("why", outcome->why));
    return answer_unverified(r, outcome, forgotten);
}

static void on_verified(void *arg, const struct verify_outcome *outcome)
{
    struct request *r = arg;
    histogram_add(&r->gate->metrics.verify, loop_now_ms(r->gate->loop) - r->part_ms);
    if (outcome->verdict != VERIFY_VALID) {
        request_go(r, verify_said_no(r, outcome));
        return;
    }
    r->gate->operators_fault = false;
    (void)snprintf(r->payer, sizeof(r->payer), "%s",
                   r->payment.payer[0] ? r->payment.payer : outcome->payer);
    request_go(r, STEP_SHARE);
}

static enum step step_verify(struct request *r)
{
    struct buf body;
    if (r->gone_early) {
        drop(r);
        return answer_nobody(r, "client_left");
    }
    buf_init(&body, (size_t)1 << 20);
    request_facilitator_bytes(r, NULL, &body);
    r->part_ms = loop_now_ms(r->gate->loop);
    facilitator_verify(r->gate->facilitator, buf_cstr(&body), body.len, r->payment.payer,
                       &r->verify_call, on_verified, r);
    buf_wipe(&body);
    return STEP_WAIT;
}

/* ---- step_share ---- */

static void on_taken(void *arg, enum claims_verdict verdict)
{
    struct request *r = arg;
    r->shared = verdict == CLAIMS_MINE;
    if (r->shared) {
        request_go(r, STEP_RUN);
        return;
    }
    drop(r);
    request_go(r, verdict == CLAIMS_OTHERS
                      ? answer_error(r, OUTCOME_CONFLICT, 409, "payment_used_at_another_gate", 0)
                      : answer_error(r, OUTCOME_UNAVAILABLE, 503, "claims_unavailable", 2));
}

static enum step step_share(struct request *r)
{
    if (!r->gate->claims)
        return STEP_RUN;
    int64_t until =
        r->payment.valid_before == INT64_MAX ? INT64_MAX : r->payment.valid_before + 86400;
    claims_take(r->gate->claims, r->payment.key.hash, until, &r->claims_call, on_taken, r);
    return STEP_WAIT;
}

/* ---- step_run ---- */

static void on_running(void *arg, const struct ledger_result *result)
{
    struct request *r = arg;
    if (result->verdict == LEDGER_CLAIMED) {
        request_go(r, STEP_OPEN);
        return;
    }
    r->owner = false; /* consumed */
    r->paid_by = result->payment;
    if (r->shared)
        claims_release(r->gate->claims, r->payment.key.hash);
    r->shared = false;
    request_go(r, result->verdict == LEDGER_WAIT ? join(r, result) : answer_verdict(r, result));
}

static enum step step_run(struct request *r)
{
    struct request_terms terms;
    if (r->gone_early) {
        drop(r);
        return answer_nobody(r, "client_left");
    }
    request_terms_make(r, &terms);
    ledger_run(r->paid_by, &terms.terms, &r->ledger_call, on_running, r);
    request_terms_fini(&terms);
    return STEP_WAIT;
}

/* From here on the run is on record: what ends it without charge says so to the ledger. */
static enum step uncharge(struct request *r, const char *word)
{
    ledger_uncharge(STEAL(r->paid_by), word);
    r->owner = false; /* the claim among gates stays: its budget of runs is counted here */
    return answer_uncharged(r, OUTCOME_UNCHARGED);
}

/* ---- step_handler ---- */

static enum step step_handler(struct request *r)
{
    r->part_ms = loop_now_ms(r->gate->loop);
    return handler_start(r);
}

/* ---- step_seal ---- */

static void on_sealed(void *arg, const struct ledger_result *result)
{
    struct request *r = arg;
    if (result->verdict == LEDGER_SEALED) {
        settler_start(r->gate->settler, r->paid_by);
        request_go(r, STEP_SETTLE);
        return;
    }
    reply_own(r, 503, "ledger_unavailable");
    request_go(r, uncharge(r, "ledger_unavailable"));
}

static enum step step_seal(struct request *r)
{
    if (!r->paid_by)
        return answer_uncharged(r, OUTCOME_FREE);
    if (!r->reply.sold)
        return uncharge(r, r->reply.why);
    struct request_seal seal;
    request_seal_make(r, &seal);
    ledger_seal(r->paid_by, &seal.seal, &r->ledger_call, on_sealed, r);
    request_seal_fini(&seal);
    free(STEAL(r->reply.body)); /* the ledger has its copy, and what is released comes from it */
    r->reply.body_len = 0;
    r->part_ms = loop_now_ms(r->gate->loop);
    return STEP_WAIT;
}

/* ---- step_settle ---- */

static enum step step_settle(struct request *r)
{
    return wait_for_end(r);
}

/* ---- step_finish: the only way out ---- */

static void step_finish(struct request *r)
{
    assert(r->answered);
    uint64_t ms = loop_now_ms(r->gate->loop) - r->began_ms;
    metrics_count(&r->gate->metrics, r->outcome, r->status, ms);
    char payment[17] = "";
    if (r->paying)
        text_hex(r->payment.key.hash, 8, payment);
    log_info("request", log_str("id", r->id), log_str("outcome", outcome_name(r->outcome)),
             log_int("status", r->status), log_str("why", r->word), log_int("ms", (int64_t)ms),
             log_str("method", r->method), log_str("path", r->path), log_str("peer", r->peer),
             log_str("payment", payment));
}

static void request_free(struct request *r)
{
    struct gate *gate = r->gate;
    upstreams_abandon(r);
    ledger_cancel(&r->ledger_call);
    ledger_wait_cancel(&r->waiter);
    facilitator_cancel(&r->verify_call);
    claims_cancel(&r->claims_call);
    assert(!r->owner || !r->paid_by || ledger_payment_state(r->paid_by) >= PAYMENT_SETTLING);
    ledger_payment_unref(STEAL(r->paid_by));
    if (r->counted)
        gate->paid--;
    payment_fini(&r->payment);
    reply_fini(&r->reply);
    free(r->path);
    config_unref(r->config);
    r->ring.prev->next = r->ring.next;
    r->ring.next->prev = r->ring.prev;
    gate->n_requests--;
    free(r);
    gate_request_ended(gate);
}

void request_abandon(struct request *r)
{
    handler_stop(r);
    r->owner = false;
    request_free(r);
}

/* ---- the engine ---- */

typedef enum step step_fn(struct request *r);

static step_fn *const GATE_STEPS[STEP_N] = {
    [STEP_ROUTE] = step_route,    [STEP_PAYMENT] = step_payment, [STEP_LOOKUP] = step_lookup,
    [STEP_JUDGE] = step_judge,    [STEP_BODY] = step_body,       [STEP_CLAIM] = step_claim,
    [STEP_VERIFY] = step_verify,  [STEP_SHARE] = step_share,     [STEP_RUN] = step_run,
    [STEP_OPEN] = upstreams_open, [STEP_HANDLER] = step_handler, [STEP_CLOSE] = upstreams_close,
    [STEP_SEAL] = step_seal,      [STEP_SETTLE] = step_settle,
};

void request_go(struct request *r, enum step step)
{
    while (step != STEP_WAIT && step != STEP_FINISH) {
        r->at = step;
        step = GATE_STEPS[step](r);
    }
    if (step == STEP_FINISH) {
        step_finish(r);
        request_free(r);
    }
}

/* Until the handler has started, a client that leaves takes its request with it. Later its payment
 * is carried to its end, and the answer waits for a retry. */
static void on_gone(struct http_request *http, void *arg)
{
    struct request *r = arg;
    (void)http;
    r->gone_early = true;
    if (r->at == STEP_VERIFY && r->verify_call.op) {
        facilitator_cancel(&r->verify_call);
        drop(r);
        request_go(r, answer_nobody(r, "client_left"));
    } else if (r->route && r->route->free && r->handler_call) {
        handler_stop(r);
        request_go(r, answer_nobody(r, "client_left"));
    }
}

/* 16 digits of the instance and 12 of the serial number; without printf, as each 402 pays for it.
 */
static void write_id(struct request *r, uint64_t serial)
{
    static const char digits[] = "0123456789abcdef";
    static_assert(sizeof(r->id) > 28, "an id fits");
    memcpy(r->id, r->gate->instance, 16);
    for (size_t i = 28; i-- > 16; serial >>= 4)
        r->id[i] = digits[serial & 15];
    r->id[28] = '\0';
}

void request_begin(void *arg, struct http_request *http)
{
    struct gate *gate = arg;
    struct request *r = xcalloc(1, sizeof(*r));
    r->gate = gate;
    r->config = config_ref(gate->config);
    r->http = http;
    r->head = http_request_head(http);
    r->began_ms = loop_now_ms(gate->loop);
    write_id(r, ++gate->serial);
    r->ring.prev = gate->requests.prev;
    r->ring.next = &gate->requests;
    gate->requests.prev->next = &r->ring;
    gate->requests.prev = &r->ring;
    gate->n_requests++;
    size_t method = r->head->method_name.len;
    memcpy(r->method, r->head->method_name.p,
           method < sizeof(r->method) ? method : sizeof(r->method) - 1);
    gate_client_address(gate, http, r->peer);
    http_request_on_gone(http, on_gone, r);
    request_go(r, STEP_ROUTE);
}
