/* A full disk: nothing runs, nothing is lost, and it goes on when there is room again. Needs the
 * right to mount. */
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "tests/gate/ledger_rig.h"

static void fill(const char *dir)
{
    char path[128];
    static const char zeros[4096];
    snprintf(path, sizeof(path), "%s/ballast", dir);
    int fd CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) > 0)
        continue;
    assert_int_equal(errno, ENOSPC);
}

static void make_room(const char *dir)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/ballast", dir);
    assert_int_equal(unlink(path), 0);
}

static void full_disk(void **state)
{
    struct rig rig;
    (void)state;
    rig_init(&rig);
    rig.setup.tidy_ms = 60000;
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("utter", rig.dir, "tmpfs", 0, "size=2m")) {
        rig_fini(&rig);
        skip();
    }
    rig_open(&rig);
    struct ledger_claim before = rig_claim_of(1, RIG_PAYER);
    struct ledger_claim during = rig_claim_of(2, RIG_PAYER);
    before.fingerprint[0] = 1;
    char large[120000];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    struct ledger_payment *payment = rig_running(&rig, &before);
    fill(rig.dir);
    /* the handler must not run */
    assert_int_equal(rig_claim(&rig, &during), LEDGER_CLAIMED);
    assert_int_equal(rig_run_as(&rig, rig.payment, RIG_PAYER), LEDGER_UNAVAILABLE);
    assert_false(rig_lookup(&rig, 2).held);
    /* an answer that cannot be sealed is not settled */
    assert_int_equal(rig_seal(&rig, payment, large), LEDGER_UNAVAILABLE);
    assert_int_equal(ledger_payment_state(payment), PAYMENT_RUNNING);
    assert_true(ledger_healthy(rig.ledger));
    make_room(rig.dir);
    assert_int_equal(rig_seal(&rig, payment, large), LEDGER_SEALED);
    fill(rig.dir);
    /* settled, and not releasable before that is written */
    struct ledger_waiter waiter = { 0 };
    struct rig buyer = { .loop = rig.loop };
    assert_true(ledger_wait(payment, &waiter, 10000, rig_on_result, &buyer));
    enum ledger_verdict verdict = rig_step(&rig, payment, PAYMENT_SETTLE, "0x01");
    for (int i = 0; i < 50 && verdict == LEDGER_DONE && !buyer.done; i++)
        rig_pause(&rig, 10);
    if (verdict == LEDGER_UNAVAILABLE) {
        assert_false(buyer.done);
        make_room(rig.dir);
        assert_int_equal(rig_step(&rig, payment, PAYMENT_SETTLE, "0x01"), LEDGER_DONE);
    }
    assert_true(buyer.done);
    assert_int_equal(buyer.verdict, LEDGER_ANSWER);
    ledger_payment_unref(payment);
    rig_reopen(&rig);
    assert_int_equal(rig_lookup(&rig, 1).state, PAYMENT_SETTLED);
    ledger_free(rig.ledger);
    rig.ledger = NULL;
    assert_int_equal(umount2(rig.dir, MNT_DETACH), 0);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(full_disk) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
