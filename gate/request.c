/*
 * The life of a request, from the first step to the last. Each step returns the next one, or
 * STEP_WAIT when it started something; the completion names the step to go on with. Steps do not
 * call steps, and request_go() alone frees a request.
 *
 * It is longer than other files because that one life is in it, in order.
 *
 * Money rule: from STEP_RUN on a payment ends as settled, not charged, or unresolved in the ledger,
 * whatever happens to the request. What the ledger holds as RUNNING or later is never judged again
 * by today's clock, price, caps or health.
 */
#include "gate/request.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/log.h"
#include "base/text.h"
#include "gate/challenge.h"
#include "gate/path.h"

#define ROUNDS_MAX 4
#define RESUME_MIN 16
#define RESUME_MAX 256
#define HEAD_RESERVE ((uint64_t)16384)
#define PERMIT2_NAME "permit2"

/* ---- step_route ---- */

static bool host_is_ours(const struct request *r)
{
    struct http_str authority = r->head->authority;
    char host[256];
    int port;
    if (!http_authority_parse(authority, host, sizeof(host), &port))
        return false;
    char full[264];
    (void)snprintf(full, sizeof(full), port < 0 ? "%s" : "%s:%d", host, port);
    for (const char **h = r->config->hosts; *h; h++) {
        if (strcmp(*h, full) == 0 || ((port == 80 || port == 443) && strcmp(*h, host) == 0))
            return true;
    }
    return false;
}

static enum step answer_alive(struct request *r)
{
    if (r->head->method != HTTP_GET && r->head->method != HTTP_HEAD)
        return answer_own(r, 405, NULL, NULL, "GET, HEAD");
    bool open = r->gate->ledger && ledger_healthy(r->gate->ledger);
    char body[128];
    (void)snprintf(body, sizeof(body), "{\"instance\":\"%s\",\"ledger\":\"%s\"}\n",
                   r->gate->instance, open ? "open" : "closed");
    return answer_own(r, open ? 200 : 503, "application/json", body, NULL);
}

static bool is_preflight(const struct request *r)
{
    return r->head->method == HTTP_OPTIONS && r->config->cors && http_find(r->head, "Origin") &&
           http_find(r->head, "Access-Control-Request-Method");
}

/* No route for this method: what the gate says itself. HEAD where GET is sold shows the price. */
static enum step other_method(struct request *r)
{
    const struct route *sold = NULL;
    if (r->head->method == HTTP_OPTIONS)
        return is_preflight(r) ? answer_preflight(r)
                               : answer_own(r, 204, NULL, NULL, r->route->allow);
    if (r->head->method == HTTP_HEAD && !http_find(r->head, "PAYMENT-SIGNATURE") &&
        !http_find(r->head, "X-PAYMENT") &&
        route_find(&r->config->routes, "GET", r->path, &sold) == ROUTE_FOUND && !sold->free) {
        r->route = sold;
        return answer_challenge(r, OUTCOME_CHALLENGED, 402, PAYMENT_NONE, NULL);
    }
    return answer_own(r, 405, NULL, NULL, r->route->allow);
}

static enum step step_route(struct request *r)
{
    struct err err = { 0 };
    if (!host_is_ours(r))
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
        return other_method(r);
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

static void collect(const struct http_head *head, struct payment_headers *out)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];
        if (http_str_is_nocase(f->name, "X-PAYMENT")) {
            out->v1 = f->value.len ? f->value.p : "";
            out->v1_len = f->value.len;
            out->v1_count++;
        } else if (http_str_is_nocase(f->name, "PAYMENT-SIGNATURE")) {
            out->v2 = f->value.len ? f->value.p : "";
            out->v2_len = f->value.len;
            out->v2_count++;
        }
    }
}

/* The buyer's secret for getting this answer again; false when malformed. */
static bool read_secret(struct request *r)
{
    const struct http_field *f = http_find(r->head, "Utter-Resume");
    if (!f)
        return true;
    if (http_count(r->head, "Utter-Resume") != 1 || f->value.len < RESUME_MIN ||
        f->value.len > RESUME_MAX)
        return false;
    SHA256((const unsigned char *)f->value.p, f->value.len, r->secret);
    r->has_secret = true;
    return true;
}

static enum step bad_payment(struct request *r, enum payment_fault fault, const struct err *why)
{
    log_info("payment_not_taken", log_str("id", r->id),
             log_str("reason", payment_fault_reason(fault)), log_str("why", why->msg));
    return answer_challenge(r, OUTCOME_BAD_PAYMENT, payment_fault_status(fault), fault, NULL);
}

/* Terms that a reload replaced are tried where today's do not match. */
static enum payment_fault bind_any(struct request *r, struct err *why)
{
    enum payment_fault fault = payment_bind(&r->payment, r->route, why);
    uint64_t now = loop_now_ms(r->gate->loop);
    if (fault == PAYMENT_OK && r->payment.offer)
        return fault;
    for (size_t i = r->gate->n_previous; i-- > 0;) {
        struct gate_terms *terms = &r->gate->previous[i];
        const struct route *route = NULL;
        struct err ignored;
        if (terms->until_ms < now ||
            route_find(&terms->config->routes, r->method, r->path, &route) != ROUTE_FOUND ||
            route->free || payment_bind(&r->payment, route, &ignored) || !r->payment.offer)
            continue;
        config_unref(r->config);
        r->config = config_ref(terms->config);
        r->route = route;
        return PAYMENT_OK;
    }
    return payment_bind(&r->payment, r->route, why);
}

static enum step step_payment(struct request *r)
{
    struct payment_headers headers = { 0 };
    struct err why = { 0 };
    collect(r->head, &headers);
    if (headers.v1_count + headers.v2_count == 0)
        return answer_challenge(r, OUTCOME_CHALLENGED, 402, PAYMENT_NONE, NULL);
    if (!read_secret(r))
        return answer_error(r, OUTCOME_BAD_REQUEST, 400, "bad_resume_secret", 0);
    enum payment_fault fault = payment_read(&headers, &r->payment, &why);
    r->paying = fault == PAYMENT_OK;
    if (!fault)
        fault = bind_any(r, &why);
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

static void digest_part(EVP_MD_CTX *ctx, const void *data, size_t len)
{
    uint64_t n = len; /* lengths keep parts apart */
    EVP_DigestUpdate(ctx, &n, sizeof(n));
    EVP_DigestUpdate(ctx, data, len);
}

/* What this request asks for: method, path, query, body. Not the price: a retry after a reload is
 * the same request. */
static void make_fingerprint(struct request *r)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned len = LEDGER_FINGERPRINT_LEN;
    if (!ctx || !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL))
        abort();
    digest_part(ctx, r->head->method_name.p, r->head->method_name.len);
    digest_part(ctx, r->path, strlen(r->path));
    digest_part(ctx, r->head->query.p ? "?" : "", r->head->query.p ? 1 : 0);
    digest_part(ctx, r->head->query.p ? r->head->query.p : "", r->head->query.len);
    digest_part(ctx, r->body, r->body_len);
    EVP_DigestFinal_ex(ctx, r->fingerprint, &len);
    EVP_MD_CTX_free(ctx);
}

static uint32_t retry_after(const struct ledger_result *result, uint32_t otherwise)
{
    return result->retry_after_s ? result->retry_after_s : otherwise;
}

/* Verdicts that end a request wherever they come. */
static enum step end_by_verdict(struct request *r, const struct ledger_result *result)
{
    switch (result->verdict) {
    case LEDGER_ANSWER:
        return answer_release(r, r->owner ? OUTCOME_SOLD : OUTCOME_REPLAYED, result->answer,
                              result->receipt);
    case LEDGER_FAILED:
        return answer_refused(r, 402, result->receipt);
    case LEDGER_UNPROVEN:
        return answer_error(r, OUTCOME_UNPROVEN, 409, "settlement_unproven", 0);
    case LEDGER_SPENT:
        return answer_refused(r, 409, result->receipt);
    case LEDGER_MISMATCH:
        return answer_error(r, OUTCOME_CONFLICT, 409, "payment_used_for_another_request", 0);
    case LEDGER_ID_CONFLICT:
        return answer_error(r, OUTCOME_CONFLICT, 409, "payment_identifier_conflict", 0);
    case LEDGER_SECRET:
        return answer_error(r, OUTCOME_CONFLICT, 403, "resume_secret_required", 0);
    case LEDGER_BUDGET:
        return answer_error(r, OUTCOME_LIMITED, 429, "too_many_uncharged_runs",
                            retry_after(result, 60));
    case LEDGER_IN_FLIGHT:
        return answer_error(r, OUTCOME_LIMITED, 429, "too_many_payments_in_flight",
                            retry_after(result, 2));
    case LEDGER_FULL:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "no_room_for_answers",
                            retry_after(result, 30));
    case LEDGER_WAIT:
    case LEDGER_BLOCKED:
        return answer_error(r, OUTCOME_UNRESOLVED, 503, "settlement_unresolved",
                            retry_after(result, 2));
    case LEDGER_NEW:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "try_again", 1);
    case LEDGER_UNAVAILABLE:
    case LEDGER_CLAIMED:
    case LEDGER_SEALED:
    case LEDGER_DONE:
    default:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "ledger_unavailable", 2);
    }
}

/* The key is free again (its first run ended uncharged): from the judge on, a few times. */
static enum step judge_again(struct request *r)
{
    ledger_payment_unref(STEAL(r->paid_by));
    r->held = false;
    if (++r->rounds > ROUNDS_MAX)
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "try_again", 1);
    return STEP_JUDGE;
}

static void on_waited(void *arg, const struct ledger_result *result)
{
    struct request *r = arg;
    if (r->owner && r->part_ms)
        histogram_add(&r->gate->metrics.settle, loop_now_ms(r->gate->loop) - r->part_ms);
    if (result->verdict == LEDGER_NEW && !r->owner)
        request_go(r, judge_again(r));
    else
        request_go(r, end_by_verdict(r, result));
}

static enum step wait_for_end(struct request *r)
{
    r->at = STEP_SETTLE;
    if (ledger_wait(r->paid_by, &r->waiter, r->config->deadlines.settle_hold, on_waited, r))
        return STEP_WAIT;
    return answer_error(r, OUTCOME_UNRESOLVED, 503, "too_many_waiting", 1);
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
        if (r->paid_by && ledger_payment_state(r->paid_by) == PAYMENT_UNKNOWN)
            settler_start(r->gate->settler, r->paid_by); /* somebody waits: ask sooner */
        request_go(r, r->paid_by ? STEP_SETTLE : end_by_verdict(r, result));
        return;
    case LEDGER_NEW:
        request_go(r, judge_again(r));
        return;
    default:
        request_go(r, end_by_verdict(r, result));
        return;
    }
}

static enum step step_claim(struct request *r)
{
    const struct route *route = r->route;
    make_fingerprint(r);
    struct ledger_claim claim = {
        .payer = r->payment.payer,
        .payer_proven = r->judged && r->payment.proof == PAYER_PROVEN,
        .identifier = r->payment.identifier[0] ? r->payment.identifier : NULL,
        .secret = r->has_secret ? r->secret : NULL,
        .held = r->held,
        .reserve_bytes = r->config->limits.response_body + HEAD_RESERVE,
        .replays_max = route->replay == REPLAY_OFF ? 0 : route->replay_max,
        .replay_window_s = route->replay_s,
    };
    memcpy(claim.key, r->payment.key.hash, sizeof(claim.key));
    memcpy(claim.fingerprint, r->fingerprint, sizeof(claim.fingerprint));
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

static void facilitator_bytes(const struct request *r, const struct u256 *charge, struct buf *out)
{
    struct buf resource;
    buf_init(&resource, HTTP_HEAD_MAX);
    challenge_resource(r->route, r->config->origin, r->path, &resource);
    payment_facilitator_body(&r->payment, r->payment.offer, buf_cstr(&resource),
                             r->config->facilitator.payload, charge, out);
    buf_fini(&resource);
}

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
    switch (outcome->verdict) {
    case VERIFY_INVALID:
        if (forgotten)
            return answer_error(r, OUTCOME_UNPROVEN, 409, "settlement_unproven", 0);
        return answer_challenge(r, OUTCOME_INVALID, 402, PAYMENT_BAD_SIGNATURE, outcome->reason);
    case VERIFY_ALLOWANCE:
        return answer_challenge(r, OUTCOME_INVALID, 412, PAYMENT_BAD_SIGNATURE, outcome->reason);
    case VERIFY_OPERATORS:
        r->gate->operators_fault = true;
        log_error("facilitator_refuses_us", log_str("id", r->id), log_str("why", outcome->why),
                  log_str("do", "check the facilitator's token and what it supports"));
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "facilitator_unavailable", 30);
    case VERIFY_UNAVAILABLE:
    case VERIFY_VALID:
    default:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "facilitator_unavailable", 2);
    }
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
    facilitator_bytes(r, NULL, &body);
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
    r->paid_by = NULL;
    if (r->shared)
        claims_release(r->gate->claims, r->payment.key.hash);
    r->shared = false;
    request_go(r, end_by_verdict(r, result));
}

static void write_nonce(const struct payment *p, char *out, size_t size)
{
    out[0] = '\0';
    if (p->kind == PAY_EIP3009) {
        char hex[65];
        text_hex(p->evm.nonce, sizeof(p->evm.nonce), hex);
        (void)snprintf(out, size, "0x%s", hex);
    } else if (p->kind != PAY_OPAQUE) {
        struct u256 n = u256_from_be(p->evm.nonce);
        char text[U256_TEXT_MAX];
        (void)snprintf(out, size, "%s", u256_text(&n, text));
    }
}

static const char *proof_method(const struct payment *p)
{
    switch (p->kind) {
    case PAY_EIP3009:
        return "eip3009";
    case PAY_PERMIT2:
    case PAY_UPTO:
        return PERMIT2_NAME;
    case PAY_OPAQUE:
    default:
        return "opaque";
    }
}

static enum step step_run(struct request *r)
{
    const struct offer *offer = r->payment.offer;
    char nonce[96];
    if (r->gone_early) {
        drop(r);
        return answer_nobody(r, "client_left");
    }
    write_nonce(&r->payment, nonce, sizeof(nonce));
    struct buf resource;
    buf_init(&resource, LEDGER_TEXT_MAX);
    challenge_resource(r->route, r->config->origin, r->path, &resource);
    char amount[U256_TEXT_MAX];
    struct ledger_terms terms = {
        .x402_version = (uint8_t)r->payment.version,
        .scheme = offer->scheme,
        .network = offer->network,
        .network_raw = r->payment.network,
        .asset = offer->asset,
        .pay_to = offer->pay_to,
        .amount =
            r->payment.kind == PAY_OPAQUE ? offer->amount_text : u256_text(&offer->amount, amount),
        .payer = r->payer,
        .nonce = nonce,
        .method = proof_method(&r->payment),
        .valid_before = r->payment.valid_before == INT64_MAX ? 0 : r->payment.valid_before,
        .route = r->route->path,
        .resource = resource.failed ? r->config->origin : buf_cstr(&resource),
    };
    ledger_run(r->paid_by, &terms, &r->ledger_call, on_running, r);
    buf_fini(&resource);
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
    struct u256 charge = handler_charge(r);
    char charge_text[U256_TEXT_MAX];
    struct buf body, lines;
    buf_init(&body, (size_t)1 << 20);
    buf_init(&lines, (size_t)4 * HTTP_HEAD_MAX);
    bool upto = r->payment.kind == PAY_UPTO;
    facilitator_bytes(r, upto ? &charge : NULL, &body);
    passage_write(&r->reply.head, &lines);
    struct ledger_seal seal = {
        .answer = { .status = (uint16_t)r->reply.status,
                    .head = buf_cstr(&lines),
                    .head_len = lines.len,
                    .body = r->reply.body,
                    .body_len = r->reply.body_len },
        .facilitator = facilitator_url(r->gate->facilitator),
        .settle_body = buf_cstr(&body),
        .settle_len = body.len,
        .charge = upto ? u256_text(&charge, charge_text) : r->payment.offer->amount_text,
        .empty_transaction = upto && u256_is_zero(&charge),
        .unproven_release = r->config->ledger.unproven_release,
    };
    ledger_seal(r->paid_by, &seal, &r->ledger_call, on_sealed, r);
    buf_wipe(&body);
    buf_fini(&lines);
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

void request_begin(void *arg, struct http_request *http)
{
    struct gate *gate = arg;
    struct request *r = xcalloc(1, sizeof(*r));
    r->gate = gate;
    r->config = config_ref(gate->config);
    r->http = http;
    r->head = http_request_head(http);
    r->began_ms = loop_now_ms(gate->loop);
    (void)snprintf(r->id, sizeof(r->id), "%.16s%012llx", gate->instance,
                   (unsigned long long)++gate->serial);
    r->ring.prev = gate->requests.prev;
    r->ring.next = &gate->requests;
    gate->requests.prev->next = &r->ring;
    gate->requests.prev = &r->ring;
    gate->n_requests++;
    (void)snprintf(r->method, sizeof(r->method), "%.*s", (int)r->head->method_name.len,
                   r->head->method_name.p);
    gate_client_address(gate, http, r->peer);
    http_request_on_gone(http, on_gone, r);
    request_go(r, STEP_ROUTE);
}
