/* Lookup, claim, run, uncharge, seal: who may do what with a payment next. */
#include "gate/ledger_loop.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "gate/fault.h"

#define RETRY_AFTER_S 1
#define REWRITE_MS 1000 /* a write that must happen and failed is tried again after so long */

static uint32_t seconds_up(int64_t ms)
{
    return ms <= 0 ? 1 : (uint32_t)((ms + 999) / 1000);
}

/* ---- lookup ---- */

static enum err_kind apply_by_key(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (store_by_key(store, op->key, &op->row, err))
        return err->kind;
    if (!op->want_identifier)
        return ERR_OK;
    return store_by_identifier(store, op->payment->payer_text, op->payment->identifier, &op->bound,
                               err);
}

static void found_finish(struct ledger_op *op, struct ledger_found found)
{
    if (op->call && !op->ledger->closing) {
        op->call->op = NULL;
        op->call = NULL;
        op->found_fn(op->arg, &found);
    }
    ledger_op_free(op);
}

static void done_lookup(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct ledger_payment *live = ledger_index_find(&op->ledger->index, op->key);
    struct ledger_found found = { .failed = job->failed != ERR_OK, .state = PAYMENT_NEW };
    if (live)
        found.state = live->state;
    else if (op->row.found)
        found.state = op->row.state;
    found.held = payment_state_meets(found.state) != PAYMENT_MEETS_JUDGE;
    found_finish(op, found);
}

void ledger_lookup(struct ledger *ledger, const uint8_t key[LEDGER_KEY_LEN],
                   struct ledger_call *call, ledger_found_fn *fn, void *arg)
{
    struct ledger_op *op = ledger_op_new(ledger, call, NULL);
    op->found_fn = fn;
    op->arg = arg;
    memcpy(op->key, key, LEDGER_KEY_LEN);
    ledger_read(op, apply_by_key, done_lookup);
}

/* ---- claim ---- */

/* What an earlier payment and its request demand of one that wants to share its end. */
struct first {
    enum payment_state state;
    const uint8_t *key, *fingerprint;
    const uint8_t *secret;  /* or NULL */
    const char *identifier; /* or NULL */
};

static struct first first_of_row(const struct store_row *row)
{
    return (struct first){ row->state, row->key, row->fingerprint,
                           row->has_secret ? row->secret : NULL,
                           row->identifier[0] ? row->identifier : NULL };
}

static struct first first_of_payment(const struct ledger_payment *p)
{
    return (struct first){ p->state, p->claim.key, p->claim.fingerprint, p->claim.secret,
                           p->claim.identifier };
}

static bool fingerprint_differs(const struct first *first, const struct ledger_claim *claim)
{
    return memcmp(first->fingerprint, claim->fingerprint, LEDGER_FINGERPRINT_LEN) != 0;
}

/* A payment is public once it is settled: whoever repeats one whose request carried a secret or an
 * identifier must know it too. */
static bool secret_lacks(const struct first *first, const struct ledger_claim *claim)
{
    if (first->secret &&
        (!claim->secret || !text_equal_secret(first->secret, claim->secret, LEDGER_SECRET_LEN)))
        return true;
    return first->identifier &&
           (!claim->identifier || strcmp(first->identifier, claim->identifier) != 0);
}

/* The end of an earlier payment, or the wait for it. */
static void share_first(struct ledger_op *op, const struct first *first)
{
    switch (payment_state_meets(first->state)) {
    case PAYMENT_MEETS_WAIT: {
        struct ledger_payment *live = ledger_index_find(&op->ledger->index, first->key);
        ledger_op_finish(op, live ? LEDGER_WAIT : LEDGER_BLOCKED, live, RETRY_AFTER_S);
        return;
    }
    case PAYMENT_MEETS_ANSWER:
    case PAYMENT_MEETS_REFUSAL:
    case PAYMENT_MEETS_DOUBT:
        ledger_op_release(op, first->key, first->state);
        return;
    case PAYMENT_MEETS_JUDGE:
    default:
        ledger_op_finish(op, LEDGER_NEW, NULL, 0);
        return;
    }
}

/* The same payment is known. True when the op was ended by that. */
static bool meet_same(struct ledger_op *op, const struct first *first)
{
    const struct ledger_claim *claim = &op->payment->claim;
    if (fingerprint_differs(first, claim)) {
        ledger_op_finish(op, LEDGER_MISMATCH, NULL, 0);
        return true;
    }
    if (payment_state_meets(first->state) == PAYMENT_MEETS_JUDGE)
        return false;
    if (secret_lacks(first, claim))
        ledger_op_finish(op, LEDGER_SECRET, NULL, 0);
    else
        share_first(op, first);
    return true;
}

/* Another payment of the same payer with the same identifier. */
static bool meet_identifier(struct ledger_op *op, const struct first *first)
{
    const struct ledger_claim *claim = &op->payment->claim;
    if (fingerprint_differs(first, claim))
        ledger_op_finish(op, LEDGER_ID_CONFLICT, NULL, 0);
    else if (secret_lacks(first, claim))
        ledger_op_finish(op, LEDGER_BLOCKED, NULL, RETRY_AFTER_S);
    else
        share_first(op, first);
    return true;
}

static bool is_unsettled(enum payment_state state)
{
    return state == PAYMENT_SETTLING || state == PAYMENT_UNKNOWN;
}

/* What this payer has in hand already: by identifier, then by request whose settlement is open. */
static bool meet_payers_own(struct ledger_op *op, const struct payer *payer)
{
    const struct ledger_claim *claim = &op->payment->claim;
    for (struct ledger_payment *p = payer->payments; claim->identifier && p; p = p->payer_next) {
        bool other = p != op->payment && payment_state_meets(p->state) == PAYMENT_MEETS_WAIT;
        struct first first = first_of_payment(p);
        if (other && first.identifier && !strcmp(first.identifier, claim->identifier))
            return meet_identifier(op, &first);
    }
    for (struct ledger_payment *p = payer->payments; p; p = p->payer_next) {
        struct first first = first_of_payment(p);
        if (p == op->payment || !is_unsettled(p->state) || fingerprint_differs(&first, claim))
            continue;
        if (secret_lacks(&first, claim))
            ledger_op_finish(op, LEDGER_BLOCKED, NULL, RETRY_AFTER_S);
        else
            ledger_op_finish(op, LEDGER_WAIT, p, RETRY_AFTER_S);
        return true;
    }
    return false;
}

static bool meet_bounds(struct ledger_op *op, struct payer *payer)
{
    const struct ledger_setup *setup = &op->ledger->setup;
    int64_t now = ledger_now(op->ledger).clock_ms;
    int64_t wait =
        payer_budget_wait(payer, now, (int64_t)setup->payer_window_s * 1000, setup->payer_runs_max);
    if (wait > 0) {
        ledger_op_finish(op, LEDGER_BUDGET, NULL, seconds_up(wait));
        return true;
    }
    uint32_t others = payer->in_flight - (op->payment->counted ? 1 : 0);
    if (others >= setup->payer_in_flight_max) {
        ledger_op_finish(op, LEDGER_IN_FLIGHT, NULL, RETRY_AFTER_S);
        return true;
    }
    return false;
}

/* The rules per payer, once the payer is proven. True when the op was ended by one. */
static bool meet_payer(struct ledger_op *op)
{
    if (op->bound.found && memcmp(op->bound.key, op->payment->claim.key, LEDGER_KEY_LEN) != 0) {
        struct ledger_payment *live = ledger_index_find(&op->ledger->index, op->bound.key);
        struct first first = live ? first_of_payment(live) : first_of_row(&op->bound);
        if (payment_state_meets(first.state) != PAYMENT_MEETS_JUDGE &&
            payment_state_meets(first.state) != PAYMENT_MEETS_REFUSAL)
            return meet_identifier(op, &first);
    }
    struct payer *payer = ledger_index_payer(&op->ledger->index, op->payment->payer_text, false);
    if (!payer)
        return false;
    return meet_payers_own(op, payer) || meet_bounds(op, payer);
}

static bool has_room(struct ledger *ledger, uint64_t want)
{
    uint64_t taken = ledger->room.sealed_bytes + ledger->reserved_bytes;
    uint64_t max = ledger->setup.sealed_max_bytes;
    bool room = want <= max && taken <= max - want;
    if (!room || taken > max / 10 * 9)
        ledger->evict_wanted = true;
    return room;
}

static void take_claim(struct ledger_op *op)
{
    struct ledger_payment *p = op->payment;
    if (!op->call) { /* cancelled: nobody would end it */
        ledger_op_finish(op, LEDGER_NEW, NULL, 0);
        return;
    }
    p->state = op->row.found ? PAYMENT_UNCHARGED : PAYMENT_NEW;
    p->runs = op->row.found ? op->row.runs : 0;
    p->reserved_bytes = p->claim.reserve_bytes;
    op->ledger->reserved_bytes += p->reserved_bytes;
    ledger_index_add(&op->ledger->index, p);
    ledger_payment_step(p, PAYMENT_RESERVE);
    if (p->claim.payer_proven)
        ledger_payment_set_payer(p, p->payer_text);
    ledger_op_finish(op, LEDGER_CLAIMED, p, 0);
}

static void done_claim(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    const struct ledger_claim *claim = &op->payment->claim;
    if (job->failed || !ledger_healthy(op->ledger)) {
        ledger_op_finish(op, LEDGER_UNAVAILABLE, NULL, RETRY_AFTER_S);
        return;
    }
    struct ledger_payment *live = ledger_index_find(&op->ledger->index, claim->key);
    struct first first = live ? first_of_payment(live) : first_of_row(&op->row);
    if ((live || op->row.found) && meet_same(op, &first))
        return;
    if (live) { /* ended uncharged while somebody still refers to it: that one has to let go first
                 */
        ledger_op_finish(op, LEDGER_BLOCKED, NULL, RETRY_AFTER_S);
        return;
    }
    if (claim->held) {
        ledger_op_finish(op, LEDGER_NEW, NULL, 0);
        return;
    }
    if (claim->payer_proven && meet_payer(op))
        return;
    if (op->row.found && op->row.runs >= op->ledger->setup.payment_runs_max)
        ledger_op_finish(op, LEDGER_BUDGET, NULL, op->ledger->setup.payer_window_s);
    else if (!has_room(op->ledger, claim->reserve_bytes))
        ledger_op_finish(op, LEDGER_FULL, NULL, RETRY_AFTER_S);
    else
        take_claim(op);
}

void ledger_claim(struct ledger *ledger, const struct ledger_claim *claim, struct ledger_call *call,
                  ledger_result_fn *fn, void *arg)
{
    struct ledger_payment *payment = ledger_payment_new(ledger, claim);
    struct ledger_op *op = ledger_op_new(ledger, call, payment);
    ledger_payment_unref(payment); /* the op holds it */
    op->fn = fn;
    op->arg = arg;
    op->want_identifier = payment->claim.identifier && payment->payer_text[0];
    memcpy(op->key, claim->key, LEDGER_KEY_LEN);
    ledger_read(op, apply_by_key, done_claim);
}

void ledger_drop(struct ledger_payment *payment)
{
    ledger_payment_drop(payment);
}

/* ---- run ---- */

static enum err_kind apply_run(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct store_run run = { .claim = &op->payment->claim, .terms = &op->terms, .now = op->now };
    return store_run(store, &run, &op->runs, &op->refused, err);
}

static void done_run(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct ledger_payment *p = op->payment;
    if (job->failed || op->refused) {
        enum ledger_verdict verdict = job->failed ? LEDGER_UNAVAILABLE : LEDGER_NEW;
        ledger_payment_drop(p);
        ledger_op_finish(op, verdict, NULL, RETRY_AFTER_S);
        return;
    }
    fault_point("run.durable");
    p->runs = op->runs;
    ledger_payment_step(p, PAYMENT_RUN);
    if (!op->call) { /* nobody is there to run it */
        ledger_uncharge(p, "abandoned");
        ledger_op_free(op);
        return;
    }
    ledger_op_finish(op, LEDGER_CLAIMED, p, 0);
    ledger_payment_unref(p); /* the caller's old reference: the result carried a new one */
}

/* An unproven payer is proven by now: the rules that claim left out. */
static void run_proven(struct ledger_op *op)
{
    struct ledger_payment *p = op->payment;
    if (!p->claim.payer_proven) {
        ledger_payment_set_payer(p, p->payer_text);
        if (meet_payer(op)) {
            ledger_payment_drop(p);
            return;
        }
    }
    ledger_write(op, apply_run, done_run);
}

static void done_run_identifier(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (!job->failed) {
        run_proven(op);
        return;
    }
    ledger_payment_drop(op->payment);
    ledger_op_finish(op, LEDGER_UNAVAILABLE, NULL, RETRY_AFTER_S);
}

static void copy_terms(struct ledger_op *op, const struct ledger_terms *terms)
{
    op->terms = *terms;
    const char **const texts[] = { &op->terms.scheme, &op->terms.network, &op->terms.network_raw,
                                   &op->terms.asset,  &op->terms.pay_to,  &op->terms.amount,
                                   &op->terms.payer,  &op->terms.nonce,   &op->terms.method,
                                   &op->terms.route,  &op->terms.resource };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        *texts[i] = ledger_op_text(op, *texts[i] ? *texts[i] : "");
}

static void note_receipt(struct ledger_payment *p, const struct ledger_terms *terms)
{
    (void)snprintf(p->receipt.network, sizeof(p->receipt.network), "%s",
                   terms->network_raw ? terms->network_raw : "");
    (void)snprintf(p->receipt.payer, sizeof(p->receipt.payer), "%s",
                   terms->payer ? terms->payer : "");
    (void)snprintf(p->receipt.amount, sizeof(p->receipt.amount), "%s",
                   terms->amount ? terms->amount : "");
    p->receipt.x402_version = terms->x402_version;
}

void ledger_run(struct ledger_payment *payment, const struct ledger_terms *terms,
                struct ledger_call *call, ledger_result_fn *fn, void *arg)
{
    assert(payment->state == PAYMENT_RESERVED || payment->state == PAYMENT_RESERVED_AGAIN);
    struct ledger_op *op = ledger_op_new(payment->ledger, call, payment);
    op->fn = fn;
    op->arg = arg;
    op->now = ledger_now(payment->ledger);
    copy_terms(op, terms);
    note_receipt(payment, terms);
    memcpy(op->key, payment->claim.key, LEDGER_KEY_LEN);
    if (!payment->payer_text[0])
        (void)snprintf(payment->payer_text, sizeof(payment->payer_text), "%s", op->terms.payer);
    op->want_identifier = payment->claim.identifier && payment->payer_text[0];
    if (!payment->claim.payer_proven && op->want_identifier)
        ledger_read(op, apply_by_key, done_run_identifier);
    else
        ledger_op_defer(op, 0, run_proven);
}

/* ---- uncharge ---- */

static enum err_kind apply_uncharge(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct store_step step = {
        .key = op->key, .event = PAYMENT_UNCHARGE, .why = op->why, .now = op->now
    };
    return store_step(store, &step, &op->refused, err);
}

static void done_uncharge(struct db_job *job);

static void write_uncharge(struct ledger_op *op)
{
    ledger_write(op, apply_uncharge, done_uncharge);
}

static void done_uncharge(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (job->failed && !op->ledger->closing) {
        ledger_op_defer(op, REWRITE_MS, write_uncharge);
        return;
    }
    if (!job->failed) {
        ledger_payment_step(op->payment, PAYMENT_UNCHARGE);
        ledger_index_remove(&op->ledger->index, op->payment); /* the row decides from here on */
        op->ledger->uncharged_total++;
        if (!op->ledger->closing)
            ledger_payment_end(op->payment);
    }
    ledger_op_free(op);
}

void ledger_uncharge(struct ledger_payment *payment, const char *why)
{
    assert(payment->state == PAYMENT_RUNNING);
    struct ledger_op *op = ledger_op_new(payment->ledger, NULL, payment);
    (void)snprintf(op->why, sizeof(op->why), "%s", why);
    memcpy(op->key, payment->claim.key, LEDGER_KEY_LEN);
    op->now = ledger_now(payment->ledger);
    if (payment->payer)
        payer_charge_budget(payment->payer, op->now.clock_ms, 1);
    ledger_payment_unref(payment);
    write_uncharge(op);
}

/* ---- seal ---- */

static enum err_kind apply_seal(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct store_seal seal = { .key = op->key, .seal = &op->seal, .now = op->now };
    return store_seal(store, &seal, &op->refused, err);
}

static void done_seal(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct ledger_payment *p = op->payment;
    if (job->failed || op->refused) {
        ledger_op_finish(op, LEDGER_UNAVAILABLE, NULL, RETRY_AFTER_S);
        return;
    }
    fault_point("seal.durable");
    op->ledger->room.sealed_bytes += op->head.len + op->body.len;
    op->ledger->room.unresolved++;
    p->status = op->seal.answer.status;
    p->head = op->head;
    p->body = op->body;
    buf_init(&op->head, 0);
    buf_init(&op->body, 0);
    p->has_answer = true;
    ledger_payment_step(p, PAYMENT_SEAL);
    ledger_op_finish(op, LEDGER_SEALED, NULL, 0);
}

static void copy_bytes(struct buf *out, const void *data, size_t len)
{
    buf_init(out, len + 1);
    if (len)
        buf_append(out, data, len);
}

void ledger_seal(struct ledger_payment *payment, const struct ledger_seal *seal,
                 struct ledger_call *call, ledger_result_fn *fn, void *arg)
{
    assert(payment->state == PAYMENT_RUNNING);
    struct ledger_op *op = ledger_op_new(payment->ledger, call, payment);
    op->fn = fn;
    op->arg = arg;
    op->now = ledger_now(payment->ledger);
    memcpy(op->key, payment->claim.key, LEDGER_KEY_LEN);
    op->seal = *seal;
    copy_bytes(&op->head, seal->answer.head, seal->answer.head_len);
    copy_bytes(&op->body, seal->answer.body, seal->answer.body_len);
    copy_bytes(&op->settle_body, seal->settle_body, seal->settle_len);
    op->seal.answer.head = (const char *)op->head.data;
    op->seal.answer.body = op->body.data;
    op->seal.settle_body = (const char *)op->settle_body.data;
    op->seal.facilitator = ledger_op_text(op, seal->facilitator);
    op->seal.charge = ledger_op_text(op, seal->charge);
    (void)snprintf(payment->receipt.amount, sizeof(payment->receipt.amount), "%s", seal->charge);
    ledger_write(op, apply_seal, done_seal);
}
