#include "gate/ledger_loop.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "gate/fault.h"

static enum err_kind apply_settlement(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    return store_settlement(store, op->key, &op->settlement, err);
}

static void done_settlement(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (op->call && !op->ledger->closing) {
        op->call->op = NULL;
        op->call = NULL;
        op->settlement_fn(op->arg, job->failed ? NULL : &op->settlement);
    }
    ledger_op_free(op);
}

void ledger_settlement(struct ledger_payment *payment, struct ledger_call *call,
                       ledger_settlement_fn *fn, void *arg)
{
    struct ledger_op *op = ledger_op_new(payment->ledger, call, payment);
    op->settlement_fn = fn;
    op->arg = arg;
    memcpy(op->key, payment->claim.key, LEDGER_KEY_LEN);
    ledger_read(op, apply_settlement, done_settlement);
}

static enum err_kind apply_step(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct store_step step = {
        .key = op->key,
        .event = op->event,
        .transaction = op->has_transaction ? op->transaction : NULL,
        .charged = op->charged[0] ? op->charged : NULL,
        .reason = op->reason[0] ? op->reason : NULL,
        .why = op->why[0] ? op->why : NULL,
        .nonce_first = op->nonce_first,
        .now = op->now,
    };
    if (store_by_key(store, op->key, &op->row, err))
        return err->kind;
    return store_step(store, &step, &op->refused, err);
}

static void note_end(struct ledger_op *op, struct ledger_payment *p)
{
    if (op->has_transaction)
        (void)snprintf(p->receipt.transaction, sizeof(p->receipt.transaction), "%s",
                       op->transaction);
    if (op->charged[0])
        (void)snprintf(p->receipt.amount, sizeof(p->receipt.amount), "%s", op->charged);
    if (op->reason[0])
        (void)snprintf(p->receipt.reason, sizeof(p->receipt.reason), "%s", op->reason);
    /* Verified, run, and then refused: the work was done for nothing. */
    if (op->event == PAYMENT_REFUSE && p->payer)
        payer_charge_budget(p->payer, op->now.clock_ms, 2);
}

static void count_end(struct ledger *ledger, enum payment_state from, enum payment_state to)
{
    if (payment_state_unresolved(from) && !payment_state_unresolved(to) &&
        ledger->room.unresolved > 0)
        ledger->room.unresolved--;
    ledger->settled_total += to == PAYMENT_SETTLED;
    ledger->failed_total += to == PAYMENT_FAILED;
}

/* In memory, as the row says by now. */
static void follow_row(struct ledger_op *op, struct ledger_payment *p)
{
    enum payment_state from = p->state;
    ledger_payment_step(p, op->event);
    count_end(op->ledger, from, p->state);
    note_end(op, p);
    fault_point(p->state == PAYMENT_SETTLED ? "settled.durable" : "step.durable");
    if (payment_state_meets(p->state) != PAYMENT_MEETS_WAIT)
        ledger_payment_end(p);
    else
        ledger_payment_shed(p);
}

static void done_step(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (job->failed) {
        ledger_op_finish(op, LEDGER_UNAVAILABLE, NULL, 1);
        return;
    }
    if (op->refused) {
        ledger_op_finish(op, op->row.found ? LEDGER_MISMATCH : LEDGER_NEW, NULL, 0);
        return;
    }
    struct ledger_payment *p =
        op->payment ? op->payment : ledger_index_find(&op->ledger->index, op->key);
    if (p && !op->ledger->closing) {
        (void)ledger_payment_ref(p);
        follow_row(op, p);
        ledger_payment_unref(p);
    } else if (!p) {
        enum payment_state to = op->row.state;
        if (!payment_step(&to, op->event, NULL))
            count_end(op->ledger, op->row.state, to);
    }
    ledger_op_finish(op, LEDGER_DONE, NULL, 0);
}

static void fill_step(struct ledger_op *op, const uint8_t *key, const struct ledger_step *step)
{
    memcpy(op->key, key, LEDGER_KEY_LEN);
    op->event = step->event;
    op->nonce_first = step->nonce_first;
    op->has_transaction = step->transaction != NULL;
    op->now = ledger_now(op->ledger);
    (void)snprintf(op->transaction, sizeof(op->transaction), "%s",
                   step->transaction ? step->transaction : "");
    (void)snprintf(op->charged, sizeof(op->charged), "%s", step->charged ? step->charged : "");
    (void)snprintf(op->reason, sizeof(op->reason), "%s", step->reason ? step->reason : "");
    (void)snprintf(op->why, sizeof(op->why), "%s", step->why ? step->why : "");
}

void ledger_settle_step(struct ledger_payment *payment, const struct ledger_step *step,
                        struct ledger_call *call, ledger_result_fn *fn, void *arg)
{
    struct ledger_op *op = ledger_op_new(payment->ledger, call, payment);
    op->fn = fn;
    op->arg = arg;
    fill_step(op, payment->claim.key, step);
    ledger_write(op, apply_step, done_step);
}

void ledger_settle_key(struct ledger *ledger, const uint8_t *key, const struct ledger_step *step,
                       struct ledger_call *call, ledger_result_fn *fn, void *arg)
{
    struct ledger_op *op = ledger_op_new(ledger, call, NULL);
    op->fn = fn;
    op->arg = arg;
    fill_step(op, key, step);
    ledger_write(op, apply_step, done_step);
}

void ledger_each_unknown(struct ledger *ledger,
                         void (*fn)(void *arg, struct ledger_payment *payment), void *arg)
{
    for (size_t i = 0; i < ledger->index.cap_payments; i++) {
        for (struct ledger_payment *p = ledger->index.payments[i]; p; p = p->hash_next) {
            if (p->state == PAYMENT_UNKNOWN || p->state == PAYMENT_SETTLING)
                fn(arg, p);
        }
    }
}

const char *ledger_generation(const struct ledger *ledger)
{
    return ledger->generation;
}

uint32_t ledger_settle_hold_s(const struct ledger *ledger)
{
    return ledger->setup.settle_hold_s;
}

void *ledger_payment_settling(const struct ledger_payment *payment)
{
    return payment->settling;
}

void ledger_payment_set_settling(struct ledger_payment *payment, void *settling)
{
    payment->settling = settling;
}
