/* Time: what expires, what does not, and what a wall clock that steps by an hour changes (nothing
 * but a pause of deletion). */
#include "tests/test.h"

#include <sys/syscall.h>
#include <time.h>

#include "tests/gate/ledger_rig.h"

static int64_t step_s; /* how far the wall clock is off; the boot clock is never touched */

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    long rc = syscall(SYS_clock_gettime, clock, ts);
    if (clock == CLOCK_REALTIME)
        ts->tv_sec += step_s;
    return (int)rc;
}

static int set_up(void **state)
{
    struct rig *rig = xcalloc(1, sizeof(*rig));
    step_s = 0;
    rig_init(rig);
    rig->setup.tidy_ms = 50;
    rig->setup.sealed_ttl_s = 1;
    rig_open(rig);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    rig_fini(*state);
    free(*state);
    return 0;
}

static struct ledger_claim claim_of(uint8_t n)
{
    struct ledger_claim claim = rig_claim_of(n, RIG_PAYER);
    claim.fingerprint[0] = n;
    return claim;
}

static void settle(struct rig *rig, uint8_t n)
{
    struct ledger_claim claim = claim_of(n);
    char tx[8];
    snprintf(tx, sizeof(tx), "0x%02x", n);
    struct ledger_payment *payment = rig_settling(rig, &claim, "answer");
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, tx), LEDGER_DONE);
    ledger_payment_unref(payment);
}

static uint64_t sealed_bytes(struct rig *rig)
{
    struct ledger_stats stats;
    ledger_stats(rig->ledger, &stats);
    return stats.sealed_bytes;
}

/* A sealed answer lives for its time from settlement on; one that is unresolved lives until it is
 * resolved, and then as long. */
static void answers_expire_from_settlement(void **state)
{
    struct rig *rig = *state;
    settle(rig, 1);
    struct ledger_claim claim = claim_of(2);
    struct ledger_payment *payment = rig_settling(rig, &claim, "answer");
    assert_int_equal(rig_step(rig, payment, PAYMENT_DOUBT, NULL), LEDGER_DONE);
    rig_pause(rig, 1300);
    struct ledger_claim first = claim_of(1);
    assert_int_equal(rig_claim(rig, &first), LEDGER_SPENT);
    assert_string_equal(rig->receipt.transaction, "0x01"); /* the receipt stays */
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, "0x02"), LEDGER_DONE);
    ledger_payment_unref(payment);
    rig_pause(rig, 300);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_ANSWER);
    rig_pause(rig, 1300);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_SPENT);
    assert_int_equal(sealed_bytes(rig), 0);
}

/* An hour that the gate was down does not count: the buyer had no chance to come. */
static void downtime_does_not_expire(void **state)
{
    struct rig *rig = *state;
    settle(rig, 1);
    ledger_free(rig->ledger);
    step_s = 3600;
    rig_open(rig);
    rig_pause(rig, 200);
    struct ledger_claim claim = claim_of(1);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_ANSWER);
    assert_true(ledger_is_young(rig->ledger, time(NULL) + 3600,
                                60)); /* but it cannot vouch for that hour */
}

/* ±1 h in each state, in a run and across a restart. */
static void wall_clock_steps(void **state)
{
    struct rig *rig = *state;
    static const int64_t steps[] = { 3600, -3600 };
    static const enum payment_state want[] = { PAYMENT_UNCHARGED, PAYMENT_UNCHARGED,
                                               PAYMENT_UNKNOWN, PAYMENT_UNKNOWN, PAYMENT_SETTLED };
    uint8_t n = 1;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++, n = (uint8_t)(n + 5)) {
        struct ledger_claim claims[5];
        for (uint8_t k = 0; k < 5; k++)
            claims[k] = claim_of((uint8_t)(n + k));
        step_s = 0;
        rig_reopen(rig);
        (void)rig_running(rig, &claims[0]);
        ledger_uncharge(rig_running(rig, &claims[1]), "x");
        (void)rig_settling(rig, &claims[2], "answer");
        struct ledger_payment *unknown = rig_settling(rig, &claims[3], "answer");
        assert_int_equal(rig_step(rig, unknown, PAYMENT_DOUBT, NULL), LEDGER_DONE);
        settle(rig, (uint8_t)(n + 4));
        step_s = steps[i];
        rig_pause(rig, 1300); /* past the answer's time to live */
        struct ledger_stats stats;
        ledger_stats(rig->ledger, &stats);
        assert_true(stats.deletion_paused);
        assert_int_equal(rig_claim(rig, &claims[4]), LEDGER_ANSWER); /* nothing is deleted */
        assert_int_equal(rig_lookup(rig, n).state, PAYMENT_RUNNING);
        step_s = 0;
        rig_pause(rig, 150);
        ledger_stats(rig->ledger, &stats);
        assert_false(stats.deletion_paused);
        step_s = steps[i];
        rig_reopen(rig);
        for (uint8_t k = 0; k < 5; k++)
            assert_int_equal(rig_lookup(rig, (uint8_t)(n + k)).state, want[k]);
    }
}

/* Rows of ended payments go after retention; those without an end never, and never before
 * validBefore + 1 h. */
static void rows_are_kept_as_long_as_they_must(void **state)
{
    struct rig *rig = *state;
    rig->setup.retention_s = 1; /* raised to a day */
    rig_reopen(rig);
    settle(rig, 1);
    rig_pause(rig, 1500);
    assert_int_equal(rig_lookup(rig, 1).state, PAYMENT_SETTLED);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(answers_expire_from_settlement),
        T(downtime_does_not_expire),
        T(wall_clock_steps),
        T(rows_are_kept_as_long_as_they_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
