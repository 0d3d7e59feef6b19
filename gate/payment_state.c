#include "gate/payment_state.h"

#include <assert.h>

/* Rows are states, columns events; a cell that is not named is 0, PAYMENT_INVALID, and refuses. */
static const enum payment_state table[PAYMENT_STATE_N][PAYMENT_EVENT_N] = {
    [PAYMENT_NEW] = {
        [PAYMENT_RESERVE] = PAYMENT_RESERVED,
    },
    [PAYMENT_RESERVED] = {
        [PAYMENT_DROP] = PAYMENT_NEW,
        [PAYMENT_RUN] = PAYMENT_RUNNING,
    },
    [PAYMENT_RUNNING] = {
        [PAYMENT_UNCHARGE] = PAYMENT_UNCHARGED,
        [PAYMENT_SEAL] = PAYMENT_SETTLING,
        [PAYMENT_RESTART] = PAYMENT_UNCHARGED,
    },
    [PAYMENT_UNCHARGED] = {
        [PAYMENT_RESERVE] = PAYMENT_RESERVED_AGAIN,
        [PAYMENT_RESTART] = PAYMENT_UNCHARGED,
    },
    [PAYMENT_RESERVED_AGAIN] = {
        [PAYMENT_DROP] = PAYMENT_UNCHARGED,
        [PAYMENT_RUN] = PAYMENT_RUNNING,
    },
    [PAYMENT_SETTLING] = {
        [PAYMENT_SETTLE] = PAYMENT_SETTLED,
        [PAYMENT_REFUSE] = PAYMENT_FAILED,
        [PAYMENT_DOUBT] = PAYMENT_UNKNOWN,
        [PAYMENT_RESTART] = PAYMENT_UNKNOWN,
    },
    [PAYMENT_UNKNOWN] = {
        [PAYMENT_SETTLE] = PAYMENT_SETTLED,
        [PAYMENT_DOUBT] = PAYMENT_UNKNOWN,
        [PAYMENT_RESTART] = PAYMENT_UNKNOWN,
        [PAYMENT_GIVE_UP] = PAYMENT_ABANDONED,
        [PAYMENT_CONCEDE] = PAYMENT_CONCEDED,
        [PAYMENT_RESOLVE_SETTLED] = PAYMENT_SETTLED,
        [PAYMENT_RESOLVE_UNPAID] = PAYMENT_FAILED,
    },
    [PAYMENT_ABANDONED] = {
        [PAYMENT_SETTLE] = PAYMENT_SETTLED,
        [PAYMENT_RESTART] = PAYMENT_ABANDONED,
        [PAYMENT_RESOLVE_SETTLED] = PAYMENT_SETTLED,
        [PAYMENT_RESOLVE_UNPAID] = PAYMENT_FAILED,
    },
    [PAYMENT_CONCEDED] = {
        [PAYMENT_SETTLE] = PAYMENT_SETTLED,
        [PAYMENT_RESTART] = PAYMENT_CONCEDED,
        [PAYMENT_RESOLVE_SETTLED] = PAYMENT_SETTLED,
        [PAYMENT_RESOLVE_UNPAID] = PAYMENT_FAILED,
    },
    [PAYMENT_SETTLED] = {
        [PAYMENT_RESTART] = PAYMENT_SETTLED,
    },
    [PAYMENT_FAILED] = {
        [PAYMENT_RESTART] = PAYMENT_FAILED,
    },
};

struct state_row {
    const char *name;
    enum payment_meets meets;
    bool durable;
    bool unresolved;
};

static const struct state_row states[PAYMENT_STATE_N] = {
    [PAYMENT_INVALID] = { "?", PAYMENT_MEETS_DOUBT, false, false },
    [PAYMENT_NEW] = { "new", PAYMENT_MEETS_JUDGE, false, false },
    [PAYMENT_RESERVED] = { "reserved", PAYMENT_MEETS_WAIT, false, false },
    [PAYMENT_RUNNING] = { "running", PAYMENT_MEETS_WAIT, true, false },
    [PAYMENT_UNCHARGED] = { "uncharged", PAYMENT_MEETS_JUDGE, true, false },
    [PAYMENT_RESERVED_AGAIN] = { "reserved_again", PAYMENT_MEETS_WAIT, false, false },
    [PAYMENT_SETTLING] = { "settling", PAYMENT_MEETS_WAIT, true, true },
    [PAYMENT_SETTLED] = { "settled", PAYMENT_MEETS_ANSWER, true, false },
    [PAYMENT_FAILED] = { "failed", PAYMENT_MEETS_REFUSAL, true, false },
    [PAYMENT_UNKNOWN] = { "unknown", PAYMENT_MEETS_WAIT, true, true },
    [PAYMENT_ABANDONED] = { "abandoned", PAYMENT_MEETS_DOUBT, true, true },
    [PAYMENT_CONCEDED] = { "conceded", PAYMENT_MEETS_ANSWER, true, true },
};

static const char *const events[PAYMENT_EVENT_N] = {
    [PAYMENT_RESERVE] = "reserve",
    [PAYMENT_DROP] = "drop",
    [PAYMENT_RUN] = "run",
    [PAYMENT_UNCHARGE] = "uncharge",
    [PAYMENT_SEAL] = "seal",
    [PAYMENT_SETTLE] = "settle",
    [PAYMENT_REFUSE] = "refuse",
    [PAYMENT_DOUBT] = "doubt",
    [PAYMENT_RESTART] = "restart",
    [PAYMENT_GIVE_UP] = "give_up",
    [PAYMENT_CONCEDE] = "concede",
    [PAYMENT_RESOLVE_SETTLED] = "resolve_settled",
    [PAYMENT_RESOLVE_UNPAID] = "resolve_unpaid",
};

static const struct state_row *row(enum payment_state state)
{
    return &states[state < PAYMENT_STATE_N ? state : PAYMENT_INVALID];
}

enum err_kind payment_step(enum payment_state *state, enum payment_event event, struct err *err)
{
    assert(event < PAYMENT_EVENT_N);
    enum payment_state from = *state < PAYMENT_STATE_N ? *state : PAYMENT_INVALID;
    enum payment_state next = table[from][event];
    if (next == PAYMENT_INVALID)
        return err_set(err, ERR_PRECONDITION, "payment: %s in state %s", events[event],
                       row(from)->name);
    *state = next;
    return ERR_OK;
}

enum payment_meets payment_state_meets(enum payment_state state)
{
    return row(state)->meets;
}

bool payment_state_durable(enum payment_state state)
{
    return row(state)->durable;
}

bool payment_state_unresolved(enum payment_state state)
{
    return row(state)->unresolved;
}

const char *payment_state_name(enum payment_state state)
{
    return row(state)->name;
}

const char *payment_event_name(enum payment_event event)
{
    return event < PAYMENT_EVENT_N ? events[event] : "?";
}
