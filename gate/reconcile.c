#include "gate/reconcile.h"

#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "gate/fault.h"
#include "gate/ledger_settle.h"

#define REWRITE_MS 1000         /* a write that failed is tried again after so long */
#define BUSY_MS 200             /* no slot for a repeat: look again */
#define SETTLED_LATE_S 600      /* this long after validBefore nothing can newly move */
#define LATE_REPEAT_MS 3600000u /* back-off's cap from then on */

struct settler {
    struct settler_setup setup;
    struct loop *loop;
    struct settling *all;
    uint32_t repeating; /* repeats that are out */
    bool operators_fault;
};

/* One payment on its way to an end. */
struct settling {
    struct settler *settler;
    struct settling *next;
    struct settling **link;
    struct ledger_payment *payment; /* counted */
    struct ledger_call ledger_call;
    struct facilitator_call facilitator_call;
    struct evm_rpc_call rpc_call;
    struct claims_call claims_call;
    struct loop_timer timer;
    void (*later)(struct settling *s);
    bool restarted;     /* UNKNOWN when taken up: an earlier run may have sent */
    uint32_t sends;     /* that may have left, in this run */
    bool pending_again; /* settlement_pending was repeated at once */
    bool counted;       /* in settler->repeating */
    bool waiting;       /* for the next repeat: may be nudged */
    uint64_t sent_ms;
    uint32_t repeat_ms;
    bool nonce_first; /* the first send of this run got the nonce reason */
    /* what to send and hold the answer against */
    struct facilitator *facilitator;
    char *body;
    size_t body_len;
    struct store_settlement facts; /* without its body */
    /* what is to be written */
    enum payment_event event;
    struct settle_outcome outcome;
    const char *why;
};

void settler_setup_defaults(struct settler_setup *setup)
{
    *setup = (struct settler_setup){ .first_repeat_ms = 1000,
                                     .last_repeat_ms = 300000,
                                     .parallel_max = 8 };
}

static void key_text(const struct settling *s, char out[2 * LEDGER_KEY_LEN + 1])
{
    text_hex(ledger_payment_key(s->payment), LEDGER_KEY_LEN, out);
}

static void settling_free(struct settling *s)
{
    ledger_cancel(&s->ledger_call);
    facilitator_cancel(&s->facilitator_call);
    evm_rpc_cancel(&s->rpc_call);
    claims_cancel(&s->claims_call);
    loop_cancel(&s->timer);
    if (s->counted)
        s->settler->repeating--;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    ledger_payment_set_settling(s->payment, NULL);
    ledger_payment_unref(s->payment);
    free(s->body);
    free(s);
}

/* Somebody else (an operator) may have ended the payment while a call was out. */
static bool ended(const struct settling *s)
{
    enum payment_state state = ledger_payment_state(s->payment);
    return state != PAYMENT_SETTLING && state != PAYMENT_UNKNOWN;
}

static void on_later(struct loop_timer *timer)
{
    struct settling *s = timer->arg;
    s->waiting = false;
    if (ended(s))
        settling_free(s);
    else
        s->later(s);
}

static void settle_later(struct settling *s, uint64_t ms, void (*later)(struct settling *s))
{
    s->later = later;
    loop_after(s->settler->loop, &s->timer, ms, on_later, s);
}

static void repeat(struct settling *s);
static void send(struct settling *s);

/* ---- after a send without an end ---- */

static bool time_is_over(const struct settling *s)
{
    int64_t now = (int64_t)time(NULL);
    int64_t hold = s->facts.sealed_s + (int64_t)ledger_settle_hold_s(s->settler->setup.ledger);
    int64_t valid = s->facts.valid_before > INT64_MAX - SETTLED_LATE_S
                        ? 0
                        : s->facts.valid_before + SETTLED_LATE_S;
    return now > hold && now > valid;
}

static void schedule(struct settling *s)
{
    if (s->counted)
        s->settler->repeating--;
    s->counted = false;
    bool late =
        time(NULL) > s->facts.valid_before && time(NULL) - s->facts.valid_before > SETTLED_LATE_S;
    uint32_t cap = late && s->settler->setup.last_repeat_ms >= 300000
                       ? LATE_REPEAT_MS
                       : s->settler->setup.last_repeat_ms;
    uint32_t wait = s->repeat_ms;
    s->repeat_ms = wait > cap / 2 ? cap : wait * 2;
    s->waiting = true;
    settle_later(s, wait < cap ? wait : cap, repeat);
}

/* ---- writing what came of it ---- */

static void write_step(struct settling *s);

static void after_doubt(struct settling *s)
{
    bool concede = s->facts.unproven_release && !s->nonce_first && !s->facts.nonce_first &&
                   s->outcome.nonce_used && s->sends > 1;
    s->event = concede            ? PAYMENT_CONCEDE
               : !time_is_over(s) ? PAYMENT_EVENT_N
               : s->facts.unproven_release && !s->nonce_first && !s->facts.nonce_first
                   ? PAYMENT_CONCEDE
                   : PAYMENT_GIVE_UP;
    if (s->event == PAYMENT_EVENT_N)
        schedule(s);
    else
        write_step(s);
}

static void log_end(const struct settling *s)
{
    char key[2 * LEDGER_KEY_LEN + 1];
    key_text(s, key);
    bool bad = s->event == PAYMENT_GIVE_UP || s->event == PAYMENT_CONCEDE;
    log_write(bad ? LOG_ERROR : LOG_INFO, "payment_settle",
              (const struct log_field[]){
                  log_str("payment", key), log_str("event", payment_event_name(s->event)),
                  log_str("reason", s->outcome.reason), log_str("why", s->why),
                  log_str("transaction", s->outcome.transaction), log_int("sends", s->sends) },
              6);
}

static void on_written(void *arg, const struct ledger_result *result)
{
    struct settling *s = arg;
    if (result->verdict == LEDGER_UNAVAILABLE) {
        settle_later(s, REWRITE_MS, write_step);
        return;
    }
    if (result->verdict != LEDGER_DONE && s->event == PAYMENT_SETTLE && !ended(s)) {
        /* The transaction is another payment's: whoever said so proved nothing about this one. */
        log_error("settle_transaction_taken", log_str("transaction", s->outcome.transaction));
        s->outcome = (struct settle_outcome){ .lied = true };
        s->why = "transaction of another payment";
        s->event = PAYMENT_DOUBT;
        write_step(s);
        return;
    }
    if (result->verdict == LEDGER_DONE)
        log_end(s);
    if (s->event == PAYMENT_DOUBT && !ended(s))
        after_doubt(s);
    else
        settling_free(s);
}

static void write_step(struct settling *s)
{
    bool settle = s->event == PAYMENT_SETTLE;
    const struct ledger_step step = {
        .event = s->event,
        .transaction = settle || s->outcome.transaction[0] ? s->outcome.transaction : NULL,
        .charged = settle && s->outcome.amount[0] ? s->outcome.amount : NULL,
        .reason = s->outcome.reason[0] ? s->outcome.reason : NULL,
        .why = s->why,
        .nonce_first = s->nonce_first,
    };
    ledger_settle_step(s->payment, &step, &s->ledger_call, on_written, s);
}

/* UNKNOWN is written when it is news: the first time, a transaction that was seen, the nonce reason
 * on the first send. */
static void doubt(struct settling *s)
{
    bool news =
        ledger_payment_state(s->payment) == PAYMENT_SETTLING ||
        (s->outcome.transaction[0] && strcmp(s->outcome.transaction, s->facts.transaction) != 0) ||
        (s->nonce_first && !s->facts.nonce_first);
    s->facts.nonce_first |= s->nonce_first;
    if (s->outcome.transaction[0])
        memcpy(s->facts.transaction, s->outcome.transaction, sizeof(s->outcome.transaction));
    s->event = PAYMENT_DOUBT;
    if (news)
        write_step(s);
    else
        after_doubt(s);
}

/* ---- a proven transfer ---- */

static void bind_transaction(struct settling *s);

static void on_bound(void *arg, enum claims_verdict verdict)
{
    struct settling *s = arg;
    if (verdict == CLAIMS_UNAVAILABLE) {
        settle_later(s, REWRITE_MS, bind_transaction);
    } else if (verdict == CLAIMS_OTHERS) {
        log_error("settle_transaction_taken", log_str("transaction", s->outcome.transaction));
        s->outcome = (struct settle_outcome){ .lied = true };
        s->why = "transaction of another gate's payment";
        doubt(s);
    } else {
        write_step(s);
    }
}

static void bind_transaction(struct settling *s)
{
    claims_bind(s->settler->setup.claims, s->facts.network, s->outcome.transaction,
                ledger_payment_key(s->payment), &s->claims_call, on_bound, s);
}

static void settled(struct settling *s)
{
    s->event = PAYMENT_SETTLE;
    if (s->settler->setup.claims && s->outcome.transaction[0])
        bind_transaction(s);
    else
        write_step(s);
}

/* ---- sending ---- */

static void note_operators(struct settling *s)
{
    bool fault = s->outcome.operators;
    if (fault && !s->settler->operators_fault)
        log_error("facilitator_refuses_us", log_str("facilitator", facilitator_url(s->facilitator)),
                  log_str("operation", "settle"), log_str("why", s->outcome.why));
    s->settler->operators_fault = fault;
}

static void on_reply(void *arg, const struct facilitator_reply *reply)
{
    struct settling *s = arg;
    fault_point("settle.after_reply");
    const struct settle_asked asked = {
        .network = s->facts.network_raw,
        .network2 = s->facts.network,
        .payer = s->facts.payer,
        .amount = s->facts.charge,
        .empty_transaction = s->facts.empty_transaction,
        .first_send = !s->restarted && s->sends == 0,
        .delivered_once = true, /* http/client.h: no request is sent twice */
    };
    settle_outcome_read(&asked, reply, &s->outcome);
    bool left = reply->transport != FACILITATOR_NOT_SENT;
    s->nonce_first |= left && s->sends == 0 && s->outcome.nonce_used;
    s->sends += left;
    s->why = s->outcome.why;
    if (reply->transport == FACILITATOR_ANSWERED)
        note_operators(s);
    if (s->outcome.lied)
        log_error("facilitator_lied", log_str("facilitator", facilitator_url(s->facilitator)),
                  log_str("why", s->outcome.why));
    if (ended(s)) {
        settling_free(s);
    } else if (s->outcome.verdict == SETTLE_SETTLED) {
        settled(s);
    } else if (s->outcome.verdict == SETTLE_REFUSED) {
        s->event = PAYMENT_REFUSE;
        write_step(s);
    } else if (s->outcome.pending && !s->pending_again) {
        s->pending_again = true;
        send(s);
    } else {
        doubt(s);
    }
}

static void send(struct settling *s)
{
    s->sent_ms = loop_now_ms(s->settler->loop);
    fault_point("settle.before_send");
    facilitator_settle(s->facilitator, s->body, s->body_len, &s->facilitator_call, on_reply, s);
    fault_point("settle.sent");
}

static void send_or_wait(struct settling *s)
{
    if (s->facilitator) {
        s->pending_again = false;
        send(s);
        return;
    }
    /* The configuration no longer has the facilitator that was asked: only the chain or an operator
     * can tell. */
    s->outcome = (struct settle_outcome){ 0 };
    s->why = "facilitator not configured any more";
    doubt(s);
}

static void on_evidence(void *arg, enum evm_evidence evidence, const char *transaction)
{
    struct settling *s = arg;
    if (ended(s)) {
        settling_free(s);
    } else if (evidence == EVM_MOVED) {
        s->outcome = (struct settle_outcome){ .verdict = SETTLE_SETTLED };
        (void)snprintf(s->outcome.transaction, sizeof(s->outcome.transaction), "%s", transaction);
        s->why = "seen on the chain";
        settled(s);
    } else {
        send_or_wait(s);
    }
}

static struct evm_rpc *rpc_for(const struct settling *s)
{
    const struct settler_setup *setup = &s->settler->setup;
    for (size_t i = 0; i < setup->rpcs_n && !strcmp(s->facts.method, "eip3009"); i++) {
        if (!strcmp(evm_rpc_network(setup->rpcs[i]), s->facts.network))
            return setup->rpcs[i];
    }
    return NULL;
}

static void repeat(struct settling *s)
{
    if (s->settler->repeating >= s->settler->setup.parallel_max) {
        settle_later(s, BUSY_MS, repeat);
        return;
    }
    s->counted = true;
    s->settler->repeating++;
    struct evm_rpc *rpc = rpc_for(s);
    const struct evm_question question = {
        .asset = s->facts.asset,
        .payer = s->facts.payer,
        .pay_to = s->facts.pay_to,
        .nonce = s->facts.nonce,
        .amount = s->facts.charge,
    };
    if (rpc)
        evm_rpc_ask(rpc, &question, &s->rpc_call, on_evidence, s);
    else
        send_or_wait(s);
}

/* ---- taking a payment up ---- */

static struct facilitator *facilitator_for(const struct settler *settler, const char *url)
{
    for (size_t i = 0; i < settler->setup.facilitators_n; i++) {
        if (!strcmp(facilitator_url(settler->setup.facilitators[i]), url))
            return settler->setup.facilitators[i];
    }
    return NULL;
}

static void load(struct settling *s);

static void on_loaded(void *arg, const struct store_settlement *settlement)
{
    struct settling *s = arg;
    if (!settlement) {
        settle_later(s, REWRITE_MS, load);
        return;
    }
    if (!settlement->found || ended(s)) {
        settling_free(s);
        return;
    }
    s->facts = *settlement;
    s->facts.body = (struct buf){ 0 };
    s->body_len = settlement->body.len;
    s->body = xcalloc(1, s->body_len + 1);
    if (s->body_len)
        memcpy(s->body, settlement->body.data, s->body_len);
    s->facilitator = facilitator_for(s->settler, settlement->facilitator);
    if (!s->facilitator)
        log_error("settle_facilitator_gone", log_str("facilitator", settlement->facilitator));
    if (s->restarted)
        repeat(s);
    else
        send_or_wait(s);
}

static void load(struct settling *s)
{
    ledger_settlement(s->payment, &s->ledger_call, on_loaded, s);
}

/* A buyer waits for it: the next send comes forward. */
static void nudge(struct settling *s)
{
    uint64_t now = loop_now_ms(s->settler->loop);
    if (!s->waiting || now - s->sent_ms < s->settler->setup.first_repeat_ms)
        return;
    s->repeat_ms = s->settler->setup.first_repeat_ms;
    settle_later(s, 0, repeat);
}

void settler_start(struct settler *settler, struct ledger_payment *payment)
{
    struct settling *s = ledger_payment_settling(payment);
    if (s) {
        nudge(s);
        return;
    }
    s = xcalloc(1, sizeof(*s));
    s->settler = settler;
    s->payment = ledger_payment_ref(payment);
    s->restarted = ledger_payment_state(payment) == PAYMENT_UNKNOWN;
    s->repeat_ms = settler->setup.first_repeat_ms;
    s->next = settler->all;
    s->link = &settler->all;
    if (s->next)
        s->next->link = &s->next;
    settler->all = s;
    ledger_payment_set_settling(payment, s);
    if (ended(s))
        settling_free(s);
    else
        load(s);
}

static void take_up(void *arg, struct ledger_payment *payment)
{
    settler_start(arg, payment);
}

enum err_kind settler_new(const struct settler_setup *setup, struct loop *loop,
                          struct settler **out, struct err *err)
{
    (void)err;
    struct settler *settler = xcalloc(1, sizeof(*settler));
    settler->setup = *setup;
    settler->loop = loop;
    ledger_each_unknown(setup->ledger, take_up, settler);
    *out = settler;
    return ERR_OK;
}

void settler_free(struct settler *settler)
{
    if (!settler)
        return;
    while (settler->all)
        settling_free(settler->all);
    free(settler);
}

bool settler_operators_fault(const struct settler *settler)
{
    return settler->operators_fault;
}

void settler_resolve(struct settler *settler, const uint8_t key[LEDGER_KEY_LEN],
                     const char *transaction, const char *reason, struct ledger_call *call,
                     ledger_result_fn *fn, void *arg)
{
    const struct ledger_step step = {
        .event = transaction ? PAYMENT_RESOLVE_SETTLED : PAYMENT_RESOLVE_UNPAID,
        .transaction = transaction,
        .why = reason,
    };
    ledger_settle_key(settler->setup.ledger, key, &step, call, fn, arg);
}
