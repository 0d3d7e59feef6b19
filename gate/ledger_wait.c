/* Payments in memory, who waits for them, and how an end is handed out. */
#include "gate/ledger_loop.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/text.h"
#include "gate/fault.h"

#define RETRY_AFTER_UNRESOLVED_S 5

struct ledger_payment *ledger_payment_new(struct ledger *ledger, const struct ledger_claim *claim)
{
    struct ledger_payment *p = xcalloc(1, sizeof(*p));
    p->ledger = ledger;
    p->refs = 1;
    p->state = PAYMENT_NEW;
    p->claim = *claim;
    (void)snprintf(p->payer_text, sizeof(p->payer_text), "%s", claim->payer ? claim->payer : "");
    p->claim.payer = p->payer_text;
    if (claim->identifier && claim->identifier[0]) {
        (void)snprintf(p->identifier, sizeof(p->identifier), "%s", claim->identifier);
        p->claim.identifier = p->identifier;
    } else {
        p->claim.identifier = NULL;
    }
    if (claim->secret) {
        memcpy(p->secret, claim->secret, LEDGER_SECRET_LEN);
        p->claim.secret = p->secret;
    }
    return p;
}

struct ledger_payment *ledger_payment_from_row(struct ledger *ledger, const struct store_row *row)
{
    struct ledger_claim claim = {
        .payer = row->payer,
        .payer_proven = true, /* verified before it ran */
        .identifier = row->identifier,
        .secret = row->has_secret ? row->secret : NULL,
        .replays_max = row->replays_max,
        .replay_window_s = row->replay_window_s,
    };
    memcpy(claim.key, row->key, LEDGER_KEY_LEN);
    memcpy(claim.fingerprint, row->fingerprint, LEDGER_FINGERPRINT_LEN);
    struct ledger_payment *p = ledger_payment_new(ledger, &claim);
    p->state = row->state;
    p->runs = row->runs;
    struct payer *payer = ledger_index_payer(&ledger->index, p->payer_text, true);
    if (payer)
        payer_link(payer, p);
    ledger_index_add(&ledger->index, p);
    return p;
}

/* In these states a payment stays in memory whoever refers to it. */
static bool state_active(enum payment_state state)
{
    return state == PAYMENT_RESERVED || state == PAYMENT_RESERVED_AGAIN ||
           state == PAYMENT_RUNNING || state == PAYMENT_SETTLING || state == PAYMENT_UNKNOWN;
}

static bool state_in_flight(enum payment_state state)
{
    return state_active(state) && state != PAYMENT_UNKNOWN;
}

static int64_t window_ms(const struct ledger *ledger)
{
    return (int64_t)ledger->setup.payer_window_s * 1000;
}

static void payment_forget(struct ledger_payment *p)
{
    struct ledger *ledger = p->ledger;
    loop_cancel(&p->end_timer);
    ledger->reserved_bytes -= p->reserved_bytes;
    if (p->counted)
        p->payer->in_flight--;
    payer_unlink(&ledger->index, p, ledger_now(ledger).clock_ms, window_ms(ledger));
    ledger_index_remove(&ledger->index, p);
    buf_fini(&p->head);
    buf_fini(&p->body);
    free(p);
}

struct ledger_payment *ledger_payment_ref(struct ledger_payment *payment)
{
    payment->refs++;
    return payment;
}

void ledger_payment_unref(struct ledger_payment *payment)
{
    if (!payment)
        return;
    assert(payment->refs > 0);
    payment->refs--;
    if (payment->refs == 0 && (payment->ledger->closing || !state_active(payment->state)))
        payment_forget(payment);
}

static void count_in_flight(struct ledger_payment *p)
{
    bool should = p->payer && state_in_flight(p->state);
    if (should == p->counted)
        return;
    p->payer->in_flight += should ? 1 : (uint32_t)-1;
    p->counted = should;
}

void ledger_payment_step(struct ledger_payment *payment, enum payment_event event)
{
    struct err err;
    enum err_kind kind = payment_step(&payment->state, event, &err);
    assert(kind == ERR_OK);
    count_in_flight(payment);
    if (!state_in_flight(payment->state)) {
        payment->ledger->reserved_bytes -= payment->reserved_bytes;
        payment->reserved_bytes = 0;
    }
}

void ledger_payment_set_payer(struct ledger_payment *payment, const char *name)
{
    if (payment->payer || !name[0])
        return;
    if (name != payment->payer_text)
        (void)snprintf(payment->payer_text, sizeof(payment->payer_text), "%s", name);
    payer_link(ledger_index_payer(&payment->ledger->index, payment->payer_text, true), payment);
    count_in_flight(payment);
}

const uint8_t *ledger_payment_key(const struct ledger_payment *payment)
{
    return payment->claim.key;
}

enum payment_state ledger_payment_state(const struct ledger_payment *payment)
{
    return payment->state;
}

uint32_t ledger_payment_attempt(const struct ledger_payment *payment)
{
    return payment->runs;
}

void ledger_payment_id(const struct ledger_payment *payment, char out[LEDGER_PAYMENT_ID_TEXT])
{
    uint8_t mac[32];
    unsigned len = sizeof(mac);
    HMAC(EVP_sha256(), payment->ledger->secret, sizeof(payment->ledger->secret), payment->claim.key,
         LEDGER_KEY_LEN, mac, &len);
    text_hex(mac, sizeof(mac), out);
}

/* ---- waiting ---- */

static void waiter_remove(struct ledger_waiter *waiter)
{
    struct ledger_waiter **w = &waiter->payment->waiters;
    while (*w != waiter)
        w = &(*w)->next;
    *w = waiter->next;
    waiter->payment->n_waiters--;
    loop_cancel(&waiter->timer);
}

/* Takes the waiter off its payment, then calls it: it may be reused or freed from within. */
static void waiter_call(struct ledger_waiter *waiter, const struct ledger_result *result)
{
    struct ledger_payment *payment = waiter->payment;
    waiter_remove(waiter);
    waiter->payment = NULL;
    waiter->fn(waiter->arg, result);
    ledger_payment_shed(payment);
    ledger_payment_unref(payment);
}

static void on_wait_over(struct loop_timer *timer)
{
    struct ledger_result result = { .verdict = LEDGER_WAIT,
                                    .retry_after_s = RETRY_AFTER_UNRESOLVED_S };
    waiter_call(timer->arg, &result);
}

static void on_end_timer(struct loop_timer *timer)
{
    struct ledger_payment *payment = timer->arg;
    ledger_payment_end(payment);
}

bool ledger_wait(struct ledger_payment *payment, struct ledger_waiter *waiter, uint64_t ms,
                 ledger_result_fn *fn, void *arg)
{
    assert(!waiter->payment);
    struct ledger *ledger = payment->ledger;
    if (payment->n_waiters > ledger->setup.waiters_max)
        return false;
    *waiter =
        (struct ledger_waiter){ .payment = ledger_payment_ref(payment), .fn = fn, .arg = arg };
    struct ledger_waiter **last = &payment->waiters;
    while (*last)
        last = &(*last)->next;
    *last = waiter; /* first come, first served: whoever ran it waits first */
    payment->n_waiters++;
    loop_after(ledger->loop, &waiter->timer, ms, on_wait_over, waiter);
    if (!state_active(payment->state) && !payment->ending)
        loop_after(ledger->loop, &payment->end_timer, 0, on_end_timer, payment);
    return true;
}

void ledger_wait_cancel(struct ledger_waiter *waiter)
{
    struct ledger_payment *payment = waiter->payment;
    if (!payment)
        return;
    waiter_remove(waiter);
    waiter->payment = NULL;
    ledger_payment_shed(payment);
    ledger_payment_unref(payment);
}

void ledger_payment_shed(struct ledger_payment *payment)
{
    bool needed = payment->n_waiters > 0 || payment->state == PAYMENT_SETTLING || payment->ending;
    if (!payment->has_answer || needed)
        return;
    payment->has_answer = false;
    buf_fini(&payment->head);
    buf_fini(&payment->body);
}

/* ---- handing out an end ---- */

static uint32_t releases_allowed(const struct ledger_payment *payment)
{
    return payment->claim.replays_max > 0 ? payment->claim.replays_max : 1;
}

/* All that wait now get `result`; ANSWER only as often as allowed, the rest SPENT. Returns how
 * often it went out. */
static uint32_t call_waiters(struct ledger_payment *payment, struct ledger_result result)
{
    uint32_t given = 0;
    uint32_t allowed = releases_allowed(payment);
    bool answer = result.verdict == LEDGER_ANSWER;
    uint32_t n = payment->n_waiters; /* those that come during the calls wait for the next round */
    for (; n > 0 && payment->waiters; n--) {
        result.verdict = answer && given == allowed ? LEDGER_SPENT : result.verdict;
        given += result.verdict == LEDGER_ANSWER;
        waiter_call(payment->waiters, &result);
    }
    return given;
}

static enum err_kind apply_add_releases(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    return store_add_releases(store, op->key, op->releases, err);
}

static void done_quietly(struct db_job *job)
{
    ledger_op_free((struct ledger_op *)job);
}

static void count_releases(struct ledger_payment *payment, uint32_t n)
{
    struct ledger_op *op = ledger_op_new(payment->ledger, NULL, payment);
    op->releases = n;
    memcpy(op->key, payment->claim.key, LEDGER_KEY_LEN);
    ledger_write(op, apply_add_releases, done_quietly);
}

static void end_from_memory(struct ledger_payment *payment)
{
    const struct ledger_answer answer = {
        .status = payment->status,
        .head = buf_cstr(&payment->head),
        .head_len = payment->head.len,
        .body = payment->body.data,
        .body_len = payment->body.len,
    };
    struct ledger_result result = { LEDGER_ANSWER, NULL, 0, &answer, &payment->receipt };
    fault_point("release.before");
    uint32_t given = call_waiters(payment, result);
    fault_point("release.after");
    if (given > 0)
        count_releases(payment, given);
}

static enum err_kind apply_release(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (store_release(store, op->key, op->now, &op->release, err))
        return err->kind;
    if (op->release.granted && op->releases > 1)
        return store_add_releases(store, op->key, op->releases - 1, err);
    return ERR_OK;
}

static struct ledger_answer release_answer(struct ledger_op *op)
{
    return (struct ledger_answer){
        .status = op->release.status,
        .head = buf_cstr(&op->release.head),
        .head_len = op->release.head.len,
        .body = op->release.body.data,
        .body_len = op->release.body.len,
    };
}

static void done_end_from_disk(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct ledger_payment *payment = op->payment;
    payment->ending = false;
    struct ledger_answer answer = release_answer(op);
    struct ledger_result result = { .verdict = LEDGER_WAIT, .retry_after_s = 1 };
    if (!job->failed) {
        result.verdict = op->release.granted ? LEDGER_ANSWER : LEDGER_SPENT;
        result.answer = op->release.granted ? &answer : NULL;
        result.receipt = &op->release.receipt;
    }
    if (!op->ledger->closing)
        (void)call_waiters(payment, result);
    ledger_op_free(op);
}

static void end_from_disk(struct ledger_payment *payment)
{
    struct ledger_op *op = ledger_op_new(payment->ledger, NULL, payment);
    memcpy(op->key, payment->claim.key, LEDGER_KEY_LEN);
    uint32_t allowed = releases_allowed(payment);
    op->releases = payment->n_waiters < allowed ? payment->n_waiters : allowed;
    payment->ending = true;
    ledger_write(op, apply_release, done_end_from_disk);
}

void ledger_payment_end(struct ledger_payment *payment)
{
    (void)ledger_payment_ref(payment);
    struct ledger_result result = { .verdict = LEDGER_NEW };
    enum payment_meets meets = payment_state_meets(payment->state);
    if (meets == PAYMENT_MEETS_ANSWER && payment->n_waiters > 0 && !payment->has_answer) {
        end_from_disk(payment);
    } else if (meets == PAYMENT_MEETS_ANSWER) {
        end_from_memory(payment);
    } else {
        result.receipt = &payment->receipt;
        if (meets == PAYMENT_MEETS_REFUSAL)
            result.verdict = LEDGER_FAILED;
        else if (meets == PAYMENT_MEETS_DOUBT)
            result.verdict = LEDGER_UNPROVEN;
        (void)call_waiters(payment, result);
    }
    ledger_payment_shed(payment);
    ledger_payment_unref(payment);
}

void ledger_payment_drop(struct ledger_payment *payment)
{
    ledger_payment_step(payment, PAYMENT_DROP);
    ledger_index_remove(&payment->ledger->index, payment);
    ledger_payment_end(payment);
    ledger_payment_unref(payment);
}

/* ---- one release for a request that came later ---- */

static void done_release(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct ledger_answer answer = release_answer(op);
    struct ledger_result result = { .verdict = LEDGER_UNAVAILABLE,
                                    .receipt = &op->release.receipt };
    if (!job->failed && op->verdict == LEDGER_ANSWER) {
        result.verdict = op->release.granted ? LEDGER_ANSWER : LEDGER_SPENT;
        result.answer = op->release.granted ? &answer : NULL;
        op->ledger->replayed_total += op->release.granted;
    } else if (!job->failed) {
        result.verdict = op->verdict;
    }
    if (op->call && !op->ledger->closing) {
        op->call->op = NULL;
        op->call = NULL;
        op->fn(op->arg, &result);
    }
    ledger_op_free(op);
}

static enum err_kind apply_receipt(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    return store_receipt(store, op->key, &op->release.receipt, err);
}

void ledger_op_release(struct ledger_op *op, const uint8_t *key, enum payment_state state)
{
    memmove(op->key, key, LEDGER_KEY_LEN);
    op->releases = 1;
    enum payment_meets meets = payment_state_meets(state);
    op->verdict = meets == PAYMENT_MEETS_ANSWER    ? LEDGER_ANSWER
                  : meets == PAYMENT_MEETS_REFUSAL ? LEDGER_FAILED
                                                   : LEDGER_UNPROVEN;
    if (op->verdict == LEDGER_ANSWER)
        ledger_write(op, apply_release, done_release);
    else
        ledger_read(op, apply_receipt, done_release);
}
