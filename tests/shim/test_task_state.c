/* The whole table: every state with every event, by name. */
#include "shim/task_state.h"

#include <string.h>

#include "tests/test.h"

/* What each pair must give: the state it leads to, '!' refused, '-' refused as not found. */
static const char *const WANT[TASK_STATE_N][TASK_EVENT_N] = {
    /*                start      exec      pause     resume     kill       update     exit delete */
    [TASK_CREATED] = { "running", "!", "!", "!", "created", "created", "stopped", "deleted" },
    [TASK_RUNNING] = { "!", "running", "paused", "!", "running", "running", "stopped", "!" },
    [TASK_PAUSED] = { "!", "!", "!", "running", "paused", "paused", "stopped", "!" },
    [TASK_STOPPED] = { "!", "!", "!", "!", "-", "!", "!", "deleted" },
    [TASK_DELETED] = { "!", "!", "!", "!", "-", "!", "!", "-" },
};

static void test_every_cell(void **ctx)
{
    (void)ctx;
    for (enum task_state s = 0; s < TASK_STATE_N; s++) {
        for (enum task_event e = 0; e < TASK_EVENT_N; e++) {
            enum task_state state = s;
            struct err err = { 0 };
            enum err_kind kind = task_step(&state, e, &err);
            const char *want = WANT[s][e];
            if (*want == '!' || *want == '-') {
                assert_int_equal(kind, *want == '-' ? ERR_NOT_FOUND : ERR_PRECONDITION);
                assert_int_equal(state, s);
                continue;
            }
            assert_int_equal(kind, ERR_OK);
            assert_string_equal(task_state_name(state), want);
        }
    }
}

static void test_refusal_names_both(void **ctx)
{
    (void)ctx;
    struct err err = { 0 };
    assert_int_equal(task_may(TASK_PAUSED, TASK_EXEC, &err), ERR_PRECONDITION);
    assert_string_equal(err.msg, "cannot exec a process that is paused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_refusal_names_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
