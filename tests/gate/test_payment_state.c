/* The whole table, cell by cell, written down a second time by hand: state, event, next. What is
 * not here must refuse. */
#include "tests/test.h"

#include "base/own.h"
#include "gate/payment_state.h"

static const struct {
    enum payment_state from;
    enum payment_event event;
    enum payment_state to;
} cells[] = {
    { PAYMENT_NEW, PAYMENT_RESERVE, PAYMENT_RESERVED },
    { PAYMENT_RESERVED, PAYMENT_DROP, PAYMENT_NEW },
    { PAYMENT_RESERVED, PAYMENT_RUN, PAYMENT_RUNNING },
    { PAYMENT_RUNNING, PAYMENT_UNCHARGE, PAYMENT_UNCHARGED },
    { PAYMENT_RUNNING, PAYMENT_SEAL, PAYMENT_SETTLING },
    { PAYMENT_RUNNING, PAYMENT_RESTART, PAYMENT_UNCHARGED },
    { PAYMENT_UNCHARGED, PAYMENT_RESERVE, PAYMENT_RESERVED_AGAIN },
    { PAYMENT_UNCHARGED, PAYMENT_RESTART, PAYMENT_UNCHARGED },
    { PAYMENT_RESERVED_AGAIN, PAYMENT_DROP, PAYMENT_UNCHARGED },
    { PAYMENT_RESERVED_AGAIN, PAYMENT_RUN, PAYMENT_RUNNING },
    { PAYMENT_SETTLING, PAYMENT_SETTLE, PAYMENT_SETTLED },
    { PAYMENT_SETTLING, PAYMENT_REFUSE, PAYMENT_FAILED },
    { PAYMENT_SETTLING, PAYMENT_DOUBT, PAYMENT_UNKNOWN },
    { PAYMENT_SETTLING, PAYMENT_RESTART, PAYMENT_UNKNOWN },
    { PAYMENT_UNKNOWN, PAYMENT_SETTLE, PAYMENT_SETTLED },
    { PAYMENT_UNKNOWN, PAYMENT_DOUBT, PAYMENT_UNKNOWN },
    { PAYMENT_UNKNOWN, PAYMENT_RESTART, PAYMENT_UNKNOWN },
    { PAYMENT_UNKNOWN, PAYMENT_GIVE_UP, PAYMENT_ABANDONED },
    { PAYMENT_UNKNOWN, PAYMENT_CONCEDE, PAYMENT_CONCEDED },
    { PAYMENT_UNKNOWN, PAYMENT_RESOLVE_SETTLED, PAYMENT_SETTLED },
    { PAYMENT_UNKNOWN, PAYMENT_RESOLVE_UNPAID, PAYMENT_FAILED },
    { PAYMENT_ABANDONED, PAYMENT_SETTLE, PAYMENT_SETTLED },
    { PAYMENT_ABANDONED, PAYMENT_RESTART, PAYMENT_ABANDONED },
    { PAYMENT_ABANDONED, PAYMENT_RESOLVE_SETTLED, PAYMENT_SETTLED },
    { PAYMENT_ABANDONED, PAYMENT_RESOLVE_UNPAID, PAYMENT_FAILED },
    { PAYMENT_CONCEDED, PAYMENT_SETTLE, PAYMENT_SETTLED },
    { PAYMENT_CONCEDED, PAYMENT_RESTART, PAYMENT_CONCEDED },
    { PAYMENT_CONCEDED, PAYMENT_RESOLVE_SETTLED, PAYMENT_SETTLED },
    { PAYMENT_CONCEDED, PAYMENT_RESOLVE_UNPAID, PAYMENT_FAILED },
    { PAYMENT_SETTLED, PAYMENT_RESTART, PAYMENT_SETTLED },
    { PAYMENT_FAILED, PAYMENT_RESTART, PAYMENT_FAILED },
};

static enum payment_state expected(enum payment_state from, enum payment_event event)
{
    for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
        if (cells[i].from == from && cells[i].event == event)
            return cells[i].to;
    }
    return PAYMENT_INVALID;
}

static void every_cell(void **unused)
{
    (void)unused;
    for (int s = 0; s < PAYMENT_STATE_N; s++) {
        for (int e = 0; e < PAYMENT_EVENT_N; e++) {
            enum payment_state state = (enum payment_state)s;
            enum payment_state want = expected(state, (enum payment_event)e);
            struct err err;
            enum err_kind kind = payment_step(&state, (enum payment_event)e, &err);
            if (want == PAYMENT_INVALID) {
                assert_int_equal(kind, ERR_PRECONDITION);
                assert_int_equal(state, s);
            } else {
                assert_int_equal(kind, ERR_OK);
                assert_int_equal(state, want);
            }
        }
    }
}

/* From a state in which money may have moved no chain of events leads to a state that runs the
 * handler. */
static void no_way_back(void **unused)
{
    (void)unused;
    bool reach[PAYMENT_STATE_N] = { [PAYMENT_SETTLING] = true };
    for (int round = 0; round < PAYMENT_STATE_N; round++) {
        for (int s = 0; s < PAYMENT_STATE_N; s++) {
            for (int e = 0; reach[s] && e < PAYMENT_EVENT_N; e++) {
                enum payment_state state = (enum payment_state)s;
                if (!payment_step(&state, (enum payment_event)e, NULL))
                    reach[state] = true;
            }
        }
    }
    for (int s = 0; s < PAYMENT_STATE_N; s++) {
        enum payment_meets meets = payment_state_meets((enum payment_state)s);
        assert_false(reach[s] && meets == PAYMENT_MEETS_JUDGE);
        assert_false(reach[s] && (s == PAYMENT_RUNNING || s == PAYMENT_RESERVED ||
                                  s == PAYMENT_RESERVED_AGAIN));
    }
    assert_true(reach[PAYMENT_SETTLED] && reach[PAYMENT_FAILED] && reach[PAYMENT_ABANDONED]);
}

/* A 402 is only met where nothing moved; every unresolved state is durable. */
static void what_a_retry_meets(void **unused)
{
    (void)unused;
    for (int s = 0; s < PAYMENT_STATE_N; s++) {
        enum payment_state state = (enum payment_state)s;
        assert_int_equal(payment_state_meets(state) == PAYMENT_MEETS_REFUSAL,
                         state == PAYMENT_FAILED);
        if (payment_state_unresolved(state))
            assert_true(payment_state_durable(state));
        assert_string_not_equal(payment_state_name(state), "");
    }
    assert_int_equal(payment_state_meets(PAYMENT_ABANDONED), PAYMENT_MEETS_DOUBT);
    assert_int_equal(payment_state_meets(PAYMENT_UNKNOWN), PAYMENT_MEETS_WAIT);
    assert_int_equal(payment_state_meets((enum payment_state)99), PAYMENT_MEETS_DOUBT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell),
        cmocka_unit_test(no_way_back),
        cmocka_unit_test(what_a_retry_meets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
