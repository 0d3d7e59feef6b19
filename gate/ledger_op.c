/* The calls under way: made, handed to a thread or to a later turn, finished once. */
#include "gate/ledger_loop.h"

#include <string.h>

struct ledger_op *ledger_op_new(struct ledger *ledger, struct ledger_call *call,
                                struct ledger_payment *payment)
{
    struct ledger_op *op = xcalloc(1, sizeof(*op));
    op->ledger = ledger;
    op->call = call;
    if (call)
        call->op = op;
    op->payment = payment ? ledger_payment_ref(payment) : NULL;
    op->next = ledger->ops;
    op->link = &ledger->ops;
    if (op->next)
        op->next->link = &op->next;
    ledger->ops = op;
    return op;
}

void ledger_op_free(struct ledger_op *op)
{
    if (op->call)
        op->call->op = NULL;
    *op->link = op->next;
    if (op->next)
        op->next->link = op->link;
    loop_cancel(&op->timer);
    for (size_t i = 0; i < op->n_texts; i++)
        free(op->texts[i]);
    buf_wipe(&op->head);
    buf_wipe(&op->body);
    buf_wipe(&op->settle_body);
    store_release_fini(&op->release);
    store_settlement_fini(&op->settlement);
    ledger_payment_unref(op->payment);
    free(op);
}

const char *ledger_op_text(struct ledger_op *op, const char *s)
{
    op->texts[op->n_texts] = xstrdup(s);
    return op->texts[op->n_texts++];
}

static void on_later(struct loop_timer *timer)
{
    struct ledger_op *op = timer->arg;
    op->later(op);
}

void ledger_op_defer(struct ledger_op *op, uint64_t ms, void (*later)(struct ledger_op *op))
{
    op->later = later;
    loop_after(op->ledger->loop, &op->timer, ms, on_later, op);
}

void ledger_op_finish(struct ledger_op *op, enum ledger_verdict verdict,
                      struct ledger_payment *with, uint32_t retry_after_s)
{
    struct ledger_call *call = op->call;
    if (call && !op->ledger->closing) {
        struct ledger_result result = {
            .verdict = verdict,
            .payment = with ? ledger_payment_ref(with) : NULL,
            .retry_after_s = retry_after_s,
        };
        call->op = NULL;
        op->call = NULL;
        op->fn(op->arg, &result);
    }
    ledger_op_free(op);
}

void ledger_cancel(struct ledger_call *call)
{
    struct ledger_op *op = call->op;
    if (!op)
        return;
    op->call = NULL;
    call->op = NULL;
}

void ledger_write(struct ledger_op *op,
                  enum err_kind (*apply)(struct db_job *, void *, struct err *),
                  void (*done)(struct db_job *))
{
    op->now = ledger_now(op->ledger);
    op->job.apply = apply;
    op->job.done = done;
    db_thread_submit(op->ledger->writer, &op->job);
}

void ledger_read(struct ledger_op *op,
                 enum err_kind (*apply)(struct db_job *, void *, struct err *),
                 void (*done)(struct db_job *))
{
    op->job.apply = apply;
    op->job.done = done;
    db_thread_submit(op->ledger->reader, &op->job);
}

const char *ledger_verdict_name(enum ledger_verdict verdict)
{
    static const char *const names[] = {
        [LEDGER_UNAVAILABLE] = "unavailable",
        [LEDGER_NEW] = "new",
        [LEDGER_CLAIMED] = "claimed",
        [LEDGER_SEALED] = "sealed",
        [LEDGER_DONE] = "done",
        [LEDGER_WAIT] = "wait",
        [LEDGER_BLOCKED] = "blocked",
        [LEDGER_ANSWER] = "answer",
        [LEDGER_FAILED] = "failed",
        [LEDGER_UNPROVEN] = "unproven",
        [LEDGER_SPENT] = "spent",
        [LEDGER_MISMATCH] = "mismatch",
        [LEDGER_ID_CONFLICT] = "id_conflict",
        [LEDGER_SECRET] = "secret",
        [LEDGER_BUDGET] = "budget",
        [LEDGER_IN_FLIGHT] = "in_flight",
        [LEDGER_FULL] = "full",
    };
    return verdict < ARRAY_LEN(names) ? names[verdict] : "?";
}
