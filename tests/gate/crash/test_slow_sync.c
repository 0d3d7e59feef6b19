/* A disk whose every sync takes 100 ms: paid calls wait for it, in groups; the loop and look-ups do
 * not. */
#include "tests/test.h"

#include <time.h>

#include "tests/gate/crash/power_vfs.h"
#include "tests/gate/ledger_rig.h"

#define SYNC_MS 100
#define CALLS 32

struct tick {
    struct loop_timer timer;
    struct loop *loop;
    uint64_t last_us, worst_us, queued_us;
};

static uint64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* How long this thread was ready and had no CPU, by the scheduler: other programs' doing, not ours.
 */
static uint64_t queued_us(void)
{
    unsigned long long ran, queued = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "re");
    if (f && fscanf(f, "%llu %llu", &ran, &queued) != 2)
        queued = 0;
    if (f)
        (void)fclose(f);
    return queued / 1000;
}

static void on_tick(struct loop_timer *timer)
{
    struct tick *tick = timer->arg;
    uint64_t now = now_us();
    uint64_t queued = queued_us();
    uint64_t gap = now - tick->last_us, elsewhere = queued - tick->queued_us;
    if (tick->last_us && gap > elsewhere && gap - elsewhere > tick->worst_us)
        tick->worst_us = gap - elsewhere;
    tick->last_us = now;
    tick->queued_us = queued;
    loop_after(tick->loop, timer, 1, on_tick, tick);
}

struct paid {
    struct rig *rig;
    struct ledger_call call;
    struct ledger_payment *payment;
    int *left;
};

static void on_run(void *arg, const struct ledger_result *result)
{
    struct paid *paid = arg;
    assert_int_equal(result->verdict, LEDGER_CLAIMED);
    if (--*paid->left == 0) {
        paid->rig->done = true;
        loop_stop(paid->rig->loop);
    }
}

static void loop_never_waits_for_the_disk(void **state)
{
    (void)state;
    struct rig rig;
    struct paid paid[CALLS];
    int left = CALLS;
    power_vfs_register(POWER_DROP, 1);
    rig_init(&rig);
    rig.setup.vfs = "power";
    rig.setup.tidy_ms = 60000;
    rig_open(&rig);
    for (uint8_t i = 0; i < CALLS; i++) {
        struct ledger_claim claim = rig_claim_of((uint8_t)(i + 1), "");
        assert_int_equal(rig_claim(&rig, &claim), LEDGER_CLAIMED);
        paid[i] = (struct paid){ .rig = &rig, .payment = rig.payment, .left = &left };
    }
    power_vfs_slow(SYNC_MS);
    struct tick tick = { .loop = rig.loop };
    loop_after(rig.loop, &tick.timer, 1, on_tick, &tick);
    struct ledger_terms terms = rig_terms();
    terms.payer = "";
    uint64_t from = now_us();
    for (int i = 0; i < CALLS; i++)
        ledger_run(paid[i].payment, &terms, &paid[i].call, on_run, &paid[i]);
    uint64_t asked = now_us();
    assert_false(rig_lookup(&rig, 200).held); /* the reader is another thread */
    uint64_t looked = now_us() - asked;
    rig_run(&rig);
    uint64_t all = now_us() - from;
    struct ledger_stats stats;
    ledger_stats(rig.ledger, &stats);
    print_message("worst gap of the loop %llu us, look-up %llu us, %d durable runs in %llu ms, "
                  "%llu writes in %llu commits\n",
                  (unsigned long long)tick.worst_us, (unsigned long long)looked, CALLS,
                  (unsigned long long)all / 1000, (unsigned long long)stats.writes,
                  (unsigned long long)stats.commits);
    assert_true(all >= SYNC_MS * 1000);            /* durable means synced */
    assert_true(all < CALLS * SYNC_MS * 1000 / 4); /* in groups, not one by one */
    assert_true(tick.worst_us < SYNC_MS * 1000 / 2);
    assert_true(looked < SYNC_MS * 1000 / 2);
    loop_cancel(&tick.timer);
    power_vfs_slow(0);
    for (int i = 0; i < CALLS; i++)
        ledger_uncharge(paid[i].payment, "x");
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(loop_never_waits_for_the_disk) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
