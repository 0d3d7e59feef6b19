/* Gates of one wallet share claims: one payment is run by one of them. */
#include "tests/test.h"

#include <sys/wait.h>
#include <time.h>

#include "gate/claims.h"
#include "tests/gate/ledger_rig.h"

struct shop {
    struct rig rig;
    char path[128];
    enum claims_verdict verdict;
};

static int set_up(void **state)
{
    struct shop *shop = xcalloc(1, sizeof(*shop));
    rig_init(&shop->rig);
    snprintf(shop->path, sizeof(shop->path), "%s/claims", shop->rig.dir);
    *state = shop;
    return 0;
}

static int tear_down(void **state)
{
    struct shop *shop = *state;
    rig_fini(&shop->rig);
    free(shop);
    return 0;
}

static struct claims *gate(struct shop *shop, const char *name)
{
    struct claims *claims = NULL;
    struct err err;
    assert_int_equal(claims_open(shop->path, name, true, shop->rig.loop, &claims, &err), ERR_OK);
    return claims;
}

static void on_verdict(void *arg, enum claims_verdict verdict)
{
    struct shop *shop = arg;
    shop->verdict = verdict;
    shop->rig.done = true;
    loop_stop(shop->rig.loop);
}

static enum claims_verdict take(struct shop *shop, struct claims *claims, uint8_t n,
                                int64_t keep_until)
{
    uint8_t key[LEDGER_KEY_LEN];
    struct claims_call call = { 0 };
    memset(key, n, sizeof(key));
    claims_take(claims, key, keep_until, &call, on_verdict, shop);
    rig_run(&shop->rig);
    return shop->verdict;
}

static enum claims_verdict bind_tx(struct shop *shop, struct claims *claims, uint8_t n,
                                   const char *tx)
{
    uint8_t key[LEDGER_KEY_LEN];
    struct claims_call call = { 0 };
    memset(key, n, sizeof(key));
    claims_bind(claims, "eip155:8453", tx, key, &call, on_verdict, shop);
    rig_run(&shop->rig);
    return shop->verdict;
}

static void one_holder(void **state)
{
    struct shop *shop = *state;
    struct claims *a CLEANUP(claims_freep) = gate(shop, "a");
    struct claims *b CLEANUP(claims_freep) = gate(shop, "b");
    int64_t later = time(NULL) + 1000;
    assert_int_equal(take(shop, a, 1, later), CLAIMS_MINE);
    assert_int_equal(take(shop, b, 1, later), CLAIMS_OTHERS);
    assert_int_equal(take(shop, a, 1, later), CLAIMS_MINE); /* a retry at the same gate */
    uint8_t key[LEDGER_KEY_LEN];
    memset(key, 1, sizeof(key));
    claims_release(b, key); /* not b's to give back */
    assert_int_equal(take(shop, b, 1, later), CLAIMS_OTHERS);
    claims_release(a, key);
    assert_int_equal(take(shop, a, 2, later), CLAIMS_MINE); /* in order: the release is through */
    assert_int_equal(take(shop, b, 1, later), CLAIMS_MINE);
}

static void survives_its_gate(void **state)
{
    struct shop *shop = *state;
    struct claims *a = gate(shop, "a");
    assert_int_equal(take(shop, a, 1, time(NULL) + 1000), CLAIMS_MINE);
    claims_free(a);
    struct claims *b CLEANUP(claims_freep) = gate(shop, "b");
    assert_int_equal(take(shop, b, 1, time(NULL) + 1000), CLAIMS_OTHERS);
}

static void old_claims_are_forgotten(void **state)
{
    struct shop *shop = *state;
    struct claims *a CLEANUP(claims_freep) = gate(shop, "a");
    struct claims *b CLEANUP(claims_freep) = gate(shop, "b");
    assert_int_equal(take(shop, a, 1, time(NULL) - 1), CLAIMS_MINE);
    assert_int_equal(take(shop, b, 1, time(NULL) + 1000), CLAIMS_MINE);
}

static void one_transaction_one_key(void **state)
{
    struct shop *shop = *state;
    struct claims *a CLEANUP(claims_freep) = gate(shop, "a");
    struct claims *b CLEANUP(claims_freep) = gate(shop, "b");
    assert_int_equal(bind_tx(shop, a, 1, "0xAB"), CLAIMS_MINE);
    assert_int_equal(bind_tx(shop, a, 1, "0xab"), CLAIMS_MINE);
    assert_int_equal(bind_tx(shop, b, 2, "0xaB"), CLAIMS_OTHERS);
    assert_int_equal(bind_tx(shop, b, 2, "0xcd"), CLAIMS_MINE);
}

/* Three gates in three processes, 50 payments at once: each is taken by exactly one. */
static void three_gates_at_once(void **state)
{
    struct shop *shop = *state;
    claims_free(gate(shop, "first")); /* the file is there */
    int fds[3][2];
    pid_t pids[3];
    for (int g = 0; g < 3; g++) {
        assert_int_equal(pipe(fds[g]), 0);
        pids[g] = fork();
        if (pids[g] > 0)
            continue;
        struct rig rig = { .setup = shop->rig.setup };
        struct shop child = { .rig = rig };
        char name[2] = { (char)('a' + g), 0 };
        uint8_t mine[50];
        memcpy(child.path, shop->path, sizeof(child.path));
        if (loop_new(&child.rig.loop, NULL))
            _exit(1);
        struct claims *claims = gate(&child, name);
        for (uint8_t n = 0; n < 50; n++)
            mine[n] = take(&child, claims, n, time(NULL) + 1000) == CLAIMS_MINE;
        _exit(write(fds[g][1], mine, sizeof(mine)) != (ssize_t)sizeof(mine));
    }
    int holders[50] = { 0 };
    for (int g = 0; g < 3; g++) {
        uint8_t mine[50];
        int status;
        assert_int_equal(read(fds[g][0], mine, sizeof(mine)), sizeof(mine));
        assert_int_equal(waitpid(pids[g], &status, 0), pids[g]);
        assert_int_equal(status, 0);
        for (int n = 0; n < 50; n++)
            holders[n] += mine[n];
        close(fds[g][0]);
        close(fds[g][1]);
    }
    for (int n = 0; n < 50; n++)
        assert_int_equal(holders[n], 1);
}

static void unreachable_is_no(void **state)
{
    struct shop *shop = *state;
    struct claims *a CLEANUP(claims_freep) = gate(shop, "a");
    assert_int_equal(take(shop, a, 1, time(NULL) + 1000), CLAIMS_MINE);
    assert_int_equal(unlink(shop->path), 0); /* a new file would know nothing of the others */
    assert_int_equal(take(shop, a, 2, time(NULL) + 1000), CLAIMS_UNAVAILABLE);
    struct claims *b = NULL;
    struct err err;
    assert_int_equal(claims_open("/dev/shm/ut-claims-never", "b", false, shop->rig.loop, &b, &err),
                     ERR_PRECONDITION);
    struct err other;
    rig_open(&shop->rig);
    assert_int_equal(claims_open(shop->rig.path, "b", true, shop->rig.loop, &b, &other),
                     ERR_PRECONDITION);
    assert_non_null(strstr(other.msg, "not a claims store"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(one_holder),
        T(survives_its_gate),
        T(old_claims_are_forgotten),
        T(one_transaction_one_key),
        T(three_gates_at_once),
        T(unreachable_is_no),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
