/* The ledger's rules, one by one, on a real file. Crashes and loss of power are in
 * test_ledger_crash.c. */
#include "tests/test.h"

#include <sys/stat.h>
#include <time.h>

#include "gate/ledger_migrate.h"
#include "tests/gate/ledger_rig.h"

static int set_up(void **state)
{
    struct rig *rig = xcalloc(1, sizeof(*rig));
    rig_init(rig);
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

/* A payment from claim to the released answer, then replays up to the bound. */
static void whole_life(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    assert_false(rig_lookup(rig, 1).held);
    struct ledger_payment *payment = rig_running(rig, &claim);
    assert_int_equal(ledger_payment_attempt(payment), 1);
    assert_true(rig_lookup(rig, 1).held);
    assert_int_equal(rig_seal(rig, payment, "sunny"), LEDGER_SEALED);
    struct ledger_waiter waiter = { 0 };
    assert_true(ledger_wait(payment, &waiter, 5000, rig_on_result, rig));
    struct ledger_call call = { 0 };
    struct rig other = { .loop = rig->loop };
    struct ledger_step step = { .event = PAYMENT_SETTLE, .transaction = "0xAB" };
    ledger_settle_step(payment, &step, &call, rig_on_result, &other);
    while (!rig->done || !other.done)
        assert_int_equal(loop_run(rig->loop, NULL), ERR_OK);
    rig->done = false;
    assert_int_equal(other.verdict, LEDGER_DONE);
    assert_int_equal(rig->verdict, LEDGER_ANSWER);
    assert_memory_equal(rig->body, "sunny", 5);
    assert_string_equal(rig->receipt.transaction, "0xAB");
    assert_string_equal(rig->receipt.payer, RIG_PAYER);
    ledger_payment_unref(payment);
    for (int i = 0; i < 4; i++) { /* five releases in all */
        assert_int_equal(rig_claim(rig, &claim), LEDGER_ANSWER);
        assert_int_equal(rig->body_len, 5);
        assert_string_equal(rig->receipt.transaction, "0xab");
    }
    assert_int_equal(rig_claim(rig, &claim), LEDGER_SPENT);
    assert_int_equal(rig->body_len, 0);
    rig_reopen(rig);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_SPENT);
    assert_string_equal(rig->receipt.network, "eip155:84532");
}

/* Each state is found again after a restart, as the table says. */
static void restart_in_each_state(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claims[8];
    for (uint8_t i = 1; i < 8; i++) {
        claims[i] = rig_claim_of(i, RIG_PAYER);
        memset(claims[i].fingerprint, i, LEDGER_FINGERPRINT_LEN);
    }
    assert_int_equal(rig_claim(rig, &claims[1]), LEDGER_CLAIMED); /* RESERVED: memory only */
    (void)rig_running(rig, &claims[2]);
    struct ledger_payment *uncharged = rig_running(rig, &claims[3]);
    ledger_uncharge(uncharged, "status_500");
    (void)rig_settling(rig, &claims[4], "a");
    struct ledger_payment *unknown = rig_settling(rig, &claims[5], "b");
    assert_int_equal(rig_step(rig, unknown, PAYMENT_DOUBT, NULL), LEDGER_DONE);
    struct ledger_payment *settled = rig_settling(rig, &claims[6], "c");
    assert_int_equal(rig_step(rig, settled, PAYMENT_SETTLE, "0x06"), LEDGER_DONE);
    struct ledger_payment *failed = rig_settling(rig, &claims[7], "d");
    assert_int_equal(rig_step(rig, failed, PAYMENT_REFUSE, NULL), LEDGER_DONE);
    rig_reopen(rig);
    static const enum payment_state want[] = { 0,
                                               PAYMENT_NEW,
                                               PAYMENT_UNCHARGED,
                                               PAYMENT_UNCHARGED,
                                               PAYMENT_UNKNOWN,
                                               PAYMENT_UNKNOWN,
                                               PAYMENT_SETTLED,
                                               PAYMENT_FAILED };
    for (uint8_t i = 1; i < 8; i++)
        assert_int_equal(rig_lookup(rig, i).state, want[i]);
    assert_int_equal(rig_claim(rig, &claims[4]), LEDGER_WAIT);
    ledger_payment_unref(rig->payment);
    assert_int_equal(rig_claim(rig, &claims[6]), LEDGER_ANSWER);
    assert_memory_equal(rig->body, "c", 1);
    assert_int_equal(rig_claim(rig, &claims[7]), LEDGER_FAILED);
    struct ledger_stats stats;
    ledger_stats(rig->ledger, &stats);
    assert_int_equal(stats.unresolved, 2);
}

/* A1: while one request has a payment, every other gets to wait, and all share its end. */
static void copies_share_one_end(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_CLAIMED);
    struct ledger_payment *payment = rig->payment;
    assert_int_equal(rig_claim(rig, &claim), LEDGER_WAIT);
    assert_ptr_equal(rig->payment, payment);
    struct rig waiting[8] = { 0 };
    struct ledger_waiter waiters[8] = { 0 };
    for (int i = 0; i < 8; i++) {
        waiting[i].loop = rig->loop;
        assert_true(ledger_wait(payment, &waiters[i], 5000, rig_on_result, &waiting[i]));
    }
    ledger_payment_unref(payment); /* the second claim's */
    assert_int_equal(rig_run_as(rig, payment, RIG_PAYER), LEDGER_CLAIMED);
    assert_int_equal(rig_seal(rig, payment, "once"), LEDGER_SEALED);
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, "0x01"), LEDGER_DONE);
    int answers = 0;
    for (int i = 0; i < 8; i++) {
        assert_true(waiting[i].done);
        answers += waiting[i].verdict == LEDGER_ANSWER;
        assert_true(waiting[i].verdict == LEDGER_ANSWER || waiting[i].verdict == LEDGER_SPENT);
    }
    assert_int_equal(answers, 5);
    ledger_payment_unref(payment);
}

static void waiters_are_bounded(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    struct ledger_payment *payment = rig_running(rig, &claim);
    struct ledger_waiter waiters[10] = { 0 };
    for (int i = 0; i < 9; i++)
        assert_true(ledger_wait(payment, &waiters[i], 50, rig_on_result, rig));
    assert_false(ledger_wait(payment, &waiters[9], 50, rig_on_result, rig));
    for (int i = 1; i < 9; i++)
        ledger_wait_cancel(&waiters[i]);
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_WAIT); /* the time was over */
    ledger_uncharge(payment, "x");
}

/* First come, first served: the request that ran it waits first, and gets what it paid for however
 * many copies came after it. */
static void who_ran_it_is_served_first(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    struct ledger_payment *payment = rig_running(rig, &claim);
    struct rig waiting[8] = { 0 };
    struct ledger_waiter waiters[8] = { 0 };
    for (int i = 0; i < 8; i++) {
        waiting[i].loop = rig->loop;
        assert_true(ledger_wait(payment, &waiters[i], 5000, rig_on_result, &waiting[i]));
    }
    assert_int_equal(rig_seal(rig, payment, "once"), LEDGER_SEALED);
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, "0x01"), LEDGER_DONE);
    for (int i = 0; i < 8; i++) {
        assert_true(waiting[i].done);
        assert_int_equal(waiting[i].verdict, i < 5 ? LEDGER_ANSWER : LEDGER_SPENT);
    }
    ledger_payment_unref(payment);
}

/* A3: the same payment for another request: no answer, no second run, in whatever state. */
static void other_request_is_refused(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    struct ledger_claim other = claim;
    other.fingerprint[5] ^= 1;
    struct ledger_payment *payment = rig_running(rig, &claim);
    assert_int_equal(rig_claim(rig, &other), LEDGER_MISMATCH);
    ledger_uncharge(payment, "x");
    rig_pause(rig, 20);
    assert_int_equal(rig_claim(rig, &other), LEDGER_MISMATCH);
    payment = rig_settling(rig, &claim, "a");
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, "0x01"), LEDGER_DONE);
    ledger_payment_unref(payment);
    assert_int_equal(rig_claim(rig, &other), LEDGER_MISMATCH);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_ANSWER);
}

/* A settled payment is public: who repeats one that carried a secret or an identifier must know it.
 */
static void secret_guards_replay(void **state)
{
    struct rig *rig = *state;
    uint8_t secret[LEDGER_SECRET_LEN] = { 7 };
    uint8_t wrong[LEDGER_SECRET_LEN] = { 8 };
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    claim.secret = secret;
    claim.identifier = "order-0000000001";
    struct ledger_payment *payment = rig_settling(rig, &claim, "mine");
    struct ledger_claim bare = claim;
    bare.secret = NULL;
    bare.identifier = NULL;
    struct ledger_claim guess = claim;
    guess.secret = wrong;
    struct ledger_claim half = claim;
    half.identifier = NULL;
    assert_int_equal(rig_claim(rig, &bare), LEDGER_SECRET); /* as a waiter */
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, "0x01"), LEDGER_DONE);
    ledger_payment_unref(payment);
    assert_int_equal(rig_claim(rig, &bare), LEDGER_SECRET);
    assert_int_equal(rig_claim(rig, &guess), LEDGER_SECRET);
    assert_int_equal(rig_claim(rig, &half), LEDGER_SECRET);
    assert_int_equal(rig->body_len, 0);
    rig_reopen(rig);
    assert_int_equal(rig_claim(rig, &guess), LEDGER_SECRET);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_ANSWER);
    assert_memory_equal(rig->body, "mine", 4);
}

/* Buyers that sign again: a new payment of the same payer for the same request waits while the
 * first is open, also after a restart. */
static void new_payment_waits_for_the_first(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim first = rig_claim_of(1, RIG_PAYER);
    struct ledger_claim again = rig_claim_of(2, RIG_PAYER);
    struct ledger_claim stranger = rig_claim_of(3, "0x0000000000000000000000000000000000000001");
    struct ledger_payment *payment = rig_settling(rig, &first, "first");
    assert_int_equal(rig_claim(rig, &again), LEDGER_WAIT);
    assert_ptr_equal(rig->payment, payment);
    ledger_payment_unref(payment);
    assert_int_equal(rig_claim(rig, &stranger), LEDGER_CLAIMED);
    ledger_drop(rig->payment);
    assert_int_equal(rig_step(rig, payment, PAYMENT_DOUBT, NULL), LEDGER_DONE);
    ledger_payment_unref(payment);
    rig_reopen(rig);
    assert_int_equal(rig_claim(rig, &again), LEDGER_WAIT);
    payment = rig->payment;
    struct ledger_waiter waiter = { 0 };
    assert_true(ledger_wait(payment, &waiter, 5000, rig_on_result, rig));
    struct rig settler = { .loop = rig->loop };
    struct ledger_call call = { 0 };
    struct ledger_step step = { .event = PAYMENT_SETTLE, .transaction = "0x01" };
    ledger_settle_step(payment, &step, &call, rig_on_result, &settler);
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_ANSWER);
    assert_memory_equal(rig->body, "first", 5);
    assert_string_equal(rig->receipt.transaction, "0x01");
    ledger_payment_unref(payment);
    assert_int_equal(rig_claim(rig, &again),
                     LEDGER_CLAIMED); /* the first is over: this is a new purchase */
    ledger_drop(rig->payment);
}

/* An unproven payer is held to the same once verify has proven it; nobody can block another by
 * naming him. */
static void unproven_payer(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim first = rig_claim_of(1, RIG_PAYER);
    struct ledger_payment *payment = rig_settling(rig, &first, "first");
    struct ledger_claim again = rig_claim_of(2, RIG_PAYER);
    again.payer_proven = false;
    assert_int_equal(rig_claim(rig, &again), LEDGER_CLAIMED);
    struct ledger_payment *second = rig->payment;
    assert_int_equal(rig_run_as(rig, second, RIG_PAYER), LEDGER_WAIT);
    assert_ptr_equal(rig->payment, payment);
    ledger_payment_unref(payment);
    assert_false(rig_lookup(rig, 2).held);
    ledger_payment_unref(payment);
}

/* payment-identifier: the first answer at any time in retention; another request under it is a
 * conflict. A20: another payer's is another. */
static void identifier(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim first = rig_claim_of(1, RIG_PAYER);
    first.identifier = "order-0000000001";
    struct ledger_payment *payment = rig_running(rig, &first);
    struct ledger_claim again = rig_claim_of(2, RIG_PAYER);
    again.identifier = first.identifier;
    assert_int_equal(rig_claim(rig, &again), LEDGER_WAIT);
    ledger_payment_unref(rig->payment);
    struct ledger_claim conflict = again;
    conflict.fingerprint[0] ^= 1;
    assert_int_equal(rig_claim(rig, &conflict), LEDGER_ID_CONFLICT);
    assert_int_equal(rig_seal(rig, payment, "first"), LEDGER_SEALED);
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, "0x01"), LEDGER_DONE);
    ledger_payment_unref(payment);
    rig_reopen(rig);
    assert_int_equal(rig_claim(rig, &again), LEDGER_ANSWER);
    assert_memory_equal(rig->body, "first", 5);
    assert_string_equal(rig->receipt.transaction, "0x01");
    assert_int_equal(rig_claim(rig, &conflict), LEDGER_ID_CONFLICT);
    struct ledger_claim stranger = rig_claim_of(4, "0x0000000000000000000000000000000000000001");
    stranger.identifier = first.identifier;
    assert_int_equal(rig_claim(rig, &stranger), LEDGER_CLAIMED);
    ledger_drop(rig->payment);
    assert_false(rig_lookup(rig, 2).held);
}

/* Three uncharged runs of one payment, durable; then 429 with nothing reserved. */
static void budget_of_a_payment(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    for (uint32_t i = 1; i <= 3; i++) {
        struct ledger_payment *payment = rig_running(rig, &claim);
        assert_int_equal(ledger_payment_attempt(payment), i);
        if (i < 3)
            ledger_uncharge(payment, "status_500");
        else
            rig_reopen(rig); /* a crash while it ran counts as a run */
        rig_pause(rig, 20);
    }
    assert_int_equal(rig_claim(rig, &claim), LEDGER_BUDGET);
    assert_true(rig->retry_after_s > 0);
    struct ledger_stats stats;
    ledger_stats(rig->ledger, &stats);
    assert_int_equal(stats.reserved_bytes, 0);
}

static void budget_of_a_payer(void **state)
{
    struct rig *rig = *state;
    for (uint8_t i = 1; i <= 18; i++) {
        struct ledger_claim claim = rig_claim_of(i, RIG_PAYER);
        ledger_uncharge(rig_running(rig, &claim), "status_500");
        rig_pause(rig, 5);
    }
    /* verified but refused counts double: 18 + 2 */
    struct ledger_claim refused = rig_claim_of(19, RIG_PAYER);
    struct ledger_payment *payment = rig_settling(rig, &refused, "a");
    assert_int_equal(rig_step(rig, payment, PAYMENT_REFUSE, NULL), LEDGER_DONE);
    ledger_payment_unref(payment);
    struct ledger_claim next = rig_claim_of(20, RIG_PAYER);
    assert_int_equal(rig_claim(rig, &next), LEDGER_BUDGET);
    assert_in_range(rig->retry_after_s, 1, 600);
    struct ledger_claim other = rig_claim_of(21, "0x0000000000000000000000000000000000000001");
    assert_int_equal(rig_claim(rig, &other), LEDGER_CLAIMED);
    ledger_drop(rig->payment);
}

static void in_flight_of_a_payer(void **state)
{
    struct rig *rig = *state;
    struct ledger_payment *held[16];
    for (uint8_t i = 0; i < 16; i++) {
        struct ledger_claim claim = rig_claim_of((uint8_t)(i + 1), RIG_PAYER);
        assert_int_equal(rig_claim(rig, &claim), LEDGER_CLAIMED);
        held[i] = rig->payment;
    }
    struct ledger_claim next = rig_claim_of(99, RIG_PAYER);
    assert_int_equal(rig_claim(rig, &next), LEDGER_IN_FLIGHT);
    ledger_drop(held[0]);
    assert_int_equal(rig_claim(rig, &next), LEDGER_CLAIMED);
    ledger_drop(rig->payment);
    for (uint8_t i = 1; i < 16; i++)
        ledger_drop(held[i]);
}

/* Room is reserved before the handler runs; delivered answers make way, undelivered ones never. */
static void sealed_room(void **state)
{
    struct rig *rig = *state;
    ledger_free(rig->ledger);
    rig->setup.sealed_max_bytes = 2000;
    rig_open(rig);
    struct ledger_claim first = rig_claim_of(1, RIG_PAYER);
    first.reserve_bytes = 1500;
    struct ledger_claim second = rig_claim_of(2, RIG_PAYER);
    second.reserve_bytes = 1500;
    struct ledger_payment *payment = rig_running(rig, &first);
    assert_int_equal(rig_claim(rig, &second), LEDGER_FULL);
    char body[1400];
    memset(body, 'x', sizeof(body) - 1);
    body[sizeof(body) - 1] = '\0';
    assert_int_equal(rig_seal(rig, payment, body), LEDGER_SEALED);
    assert_int_equal(rig_step(rig, payment, PAYMENT_SETTLE, "0x01"), LEDGER_DONE);
    ledger_payment_unref(payment);
    assert_int_equal(rig_claim(rig, &second), LEDGER_FULL); /* undelivered: stays */
    rig_pause(rig, 300);
    assert_int_equal(rig_claim(rig, &first), LEDGER_ANSWER); /* now it is delivered */
    assert_int_equal(rig_claim(rig, &second), LEDGER_FULL);
    rig_reopen(rig);
    assert_int_equal(rig_claim(rig, &second), LEDGER_FULL);
    rig_pause(rig, 500); /* the tidier's turn */
    assert_int_equal(rig_claim(rig, &second), LEDGER_CLAIMED);
    ledger_drop(rig->payment);
    assert_int_equal(rig_claim(rig, &first), LEDGER_SPENT);
}

/* (network, transaction) belongs to one payment. */
static void one_transaction_one_payment(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim first = rig_claim_of(1, RIG_PAYER);
    struct ledger_claim second = rig_claim_of(2, RIG_PAYER);
    second.fingerprint[0] ^= 1;
    struct ledger_payment *a = rig_settling(rig, &first, "a");
    struct ledger_payment *b = rig_settling(rig, &second, "b");
    assert_int_equal(rig_step(rig, a, PAYMENT_SETTLE, "0xAAbb"), LEDGER_DONE);
    assert_int_equal(rig_step(rig, b, PAYMENT_SETTLE, "0xaabB"), LEDGER_MISMATCH);
    assert_int_equal(ledger_payment_state(b), PAYMENT_SETTLING);
    assert_int_equal(rig_step(rig, b, PAYMENT_SETTLE, "0xcc"), LEDGER_DONE);
    ledger_payment_unref(a);
    ledger_payment_unref(b);
}

static void operator_resolves(void **state)
{
    struct rig *rig = *state;
    uint8_t key[LEDGER_KEY_LEN];
    for (uint8_t n = 1; n <= 2; n++) {
        struct ledger_claim claim = rig_claim_of(n, RIG_PAYER);
        claim.fingerprint[0] = n;
        struct ledger_payment *payment = rig_settling(rig, &claim, "late");
        assert_int_equal(rig_step(rig, payment, PAYMENT_DOUBT, NULL), LEDGER_DONE);
        assert_int_equal(rig_step(rig, payment, PAYMENT_GIVE_UP, NULL), LEDGER_DONE);
        ledger_payment_unref(payment);
        assert_int_equal(rig_claim(rig, &claim), LEDGER_UNPROVEN);
    }
    struct ledger_call call = { 0 };
    memset(key, 1, sizeof(key));
    struct ledger_step settled = { .event = PAYMENT_RESOLVE_SETTLED,
                                   .transaction = "0x01",
                                   .why = "seen on chain" };
    ledger_settle_key(rig->ledger, key, &settled, &call, rig_on_result, rig);
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_DONE);
    memset(key, 2, sizeof(key));
    struct ledger_step unpaid = { .event = PAYMENT_RESOLVE_UNPAID, .why = "cancelled" };
    ledger_settle_key(rig->ledger, key, &unpaid, &call, rig_on_result, rig);
    rig_run(rig);
    ledger_settle_key(rig->ledger, key, &unpaid, &call, rig_on_result, rig);
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_MISMATCH);
    memset(key, 3, sizeof(key));
    ledger_settle_key(rig->ledger, key, &unpaid, &call, rig_on_result, rig);
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_NEW);
    struct ledger_claim one = rig_claim_of(1, RIG_PAYER);
    one.fingerprint[0] = 1;
    assert_int_equal(rig_claim(rig, &one), LEDGER_ANSWER);
    assert_memory_equal(rig->body, "late", 4);
    struct ledger_claim two = rig_claim_of(2, RIG_PAYER);
    two.fingerprint[0] = 2;
    assert_int_equal(rig_claim(rig, &two), LEDGER_FAILED);
}

static void payment_id_is_stable_and_keyed(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    char first[LEDGER_PAYMENT_ID_TEXT];
    char second[LEDGER_PAYMENT_ID_TEXT];
    struct ledger_payment *payment = rig_running(rig, &claim);
    ledger_payment_id(payment, first);
    rig_reopen(rig);
    payment = rig_running(rig, &claim);
    ledger_payment_id(payment, second);
    assert_string_equal(first, second);
    assert_int_equal(strlen(first), 64);
    ledger_uncharge(payment, "x");
}

static void dropped_claim_is_free(void **state)
{
    struct rig *rig = *state;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_CLAIMED);
    ledger_drop(rig->payment);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_CLAIMED);
    struct ledger_waiter waiter = { 0 };
    struct ledger_payment *payment = rig->payment;
    assert_true(ledger_wait(payment, &waiter, 5000, rig_on_result, rig));
    ledger_drop(payment);
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_NEW);
    struct ledger_claim held = claim;
    held.held = true;
    assert_int_equal(rig_claim(rig, &held), LEDGER_NEW);
}

/* ---- the file ---- */

static enum err_kind open_again(struct rig *rig, struct err *err)
{
    struct ledger *second = NULL;
    enum err_kind kind = ledger_open(&rig->setup, rig->loop, &second, err);
    ledger_free(second);
    return kind;
}

static void one_gate_per_ledger(void **state)
{
    struct rig *rig = *state;
    struct err err;
    assert_int_equal(open_again(rig, &err), ERR_EXISTS);
}

static void on_taken(void *arg, struct ledger *taken, const struct err *err)
{
    struct rig *rig = arg;
    assert_null(err);
    rig->ledger = taken;
    rig->done = true;
    loop_stop(rig->loop);
}

static void standby_takes_over(void **state)
{
    struct rig *rig = *state;
    struct ledger *old = rig->ledger;
    struct ledger_standby *standby = NULL;
    struct err err;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    struct ledger_payment *payment = rig_settling(rig, &claim, "a");
    ledger_payment_unref(payment);
    assert_int_equal(ledger_standby_new(&rig->setup, rig->loop, on_taken, rig, &standby, &err),
                     ERR_OK);
    rig_pause(rig, 250);
    assert_ptr_equal(rig->ledger, old);
    ledger_free(old);
    rig->ledger = NULL;
    rig_run(rig);
    assert_non_null(rig->ledger);
    assert_int_equal(rig_lookup(rig, 1).state, PAYMENT_UNKNOWN);
    ledger_standby_free(standby);
}

static void deleted_ledger_is_not_replaced(void **state)
{
    struct rig *rig = *state;
    struct err err;
    ledger_free(rig->ledger);
    rig->ledger = NULL;
    assert_int_equal(unlink(rig->path), 0);
    rig->setup.create = false;
    assert_int_equal(open_again(rig, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "ledger init"));
    assert_int_equal(ledger_init(&rig->setup, &err), ERR_OK);
    assert_int_equal(ledger_init(&rig->setup, &err), ERR_EXISTS);
    rig_open(rig);
    assert_true(ledger_is_young(rig->ledger, time(NULL), 300));
    assert_true(ledger_is_young(rig->ledger, time(NULL) + 200, 300));
    assert_false(ledger_is_young(rig->ledger, time(NULL) + 400, 300));
}

static void shell(const char *command)
{
    assert_int_equal(system(command), 0);
}

/* Changes a closed ledger behind the gate's back. */
static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void truncated_ledger_is_refused(void **state)
{
    struct rig *rig = *state;
    struct err err;
    for (uint8_t i = 1; i < 40; i++) {
        struct ledger_claim claim = rig_claim_of(i, "");
        ledger_uncharge(rig_running(rig, &claim), "x");
    }
    ledger_free(rig->ledger);
    rig->ledger = NULL;
    struct stat st;
    assert_int_equal(stat(rig->path, &st), 0);
    assert_int_equal(truncate(rig->path, st.st_size / 2), 0);
    assert_int_equal(open_again(rig, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, rig->path));
    assert_int_equal(truncate(rig->path, 0), 0);
    assert_int_equal(open_again(rig, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "empty"));
}

static void copied_ledger_is_refused_until_adopted(void **state)
{
    struct rig *rig = *state;
    struct err err;
    char before[33];
    snprintf(before, sizeof(before), "%s", ledger_generation(rig->ledger));
    ledger_free(rig->ledger);
    rig->ledger = NULL;
    char *copy CLEANUP_FREE =
        xasprintf("cp %s %s.copy && mv %s.copy %s", rig->path, rig->path, rig->path, rig->path);
    shell(copy);
    assert_int_equal(open_again(rig, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "copied or restored"));
    rig->setup.adopt = true;
    rig_open(rig);
    assert_string_not_equal(before, ledger_generation(rig->ledger));
    assert_true(ledger_is_young(rig->ledger, time(NULL), 60));
}

/* A ledger that was not open for ten minutes cannot vouch for them. */
static void old_ledger_is_young(void **state)
{
    struct rig *rig = *state;
    ledger_free(rig->ledger);
    rig->ledger = NULL;
    sql(rig->path, "UPDATE meta SET value = value - 600 WHERE name IN"
                   " ('seen_s', 'complete_since_s', 'created_s')");
    rig_open(rig);
    assert_true(ledger_is_young(rig->ledger, time(NULL), 60));
    rig_reopen(rig);
    assert_true(ledger_is_young(rig->ledger, time(NULL) + 30, 60));
    assert_false(ledger_is_young(rig->ledger, time(NULL) + 120, 60));
}

static void newer_schema_is_refused_by_name(void **state)
{
    struct rig *rig = *state;
    struct err err;
    ledger_free(rig->ledger);
    rig->ledger = NULL;
    sql(rig->path, "PRAGMA user_version = 2");
    assert_int_equal(open_again(rig, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "schema 2"));
    sql(rig->path, "PRAGMA user_version = 1; PRAGMA application_id = 5");
    assert_int_equal(open_again(rig, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "not a ledger"));
}

static int64_t pragma(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return value;
}

/* Steps of a later version, on a ledger of this one: a copy first, all or nothing, the same file.
 */
static void migration_copies_first(void **state)
{
    struct rig *rig = *state;
    struct err err;
    static const char *const good[] = { "ALTER TABLE payment ADD COLUMN extra TEXT" };
    static const char *const bad[] = {
        "ALTER TABLE payment ADD COLUMN other TEXT; SELECT nothing FROM nowhere"
    };
    ledger_free(rig->ledger);
    rig->ledger = NULL;
    char copy[128];
    snprintf(copy, sizeof(copy), "%s.before-2", rig->path);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    assert_int_equal(ledger_migrate(db, rig->path, bad, 1, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "schema 2"));
    assert_int_equal(pragma(rig->path, "PRAGMA user_version"), 1);
    assert_int_equal(
        pragma(rig->path, "SELECT count(*) FROM pragma_table_info('payment') WHERE name = 'other'"),
        0);
    assert_int_equal(ledger_migrate(db, rig->path, good, 1, &err),
                     ERR_EXISTS); /* the copy is there */
    assert_int_equal(unlink(copy), 0);
    assert_int_equal(ledger_migrate(db, rig->path, good, 1, &err), ERR_OK);
    assert_int_equal(ledger_migrate(db, rig->path, good, 1, &err), ERR_OK); /* nothing left to do */
    sqlite3_close(db);
    assert_int_equal(pragma(rig->path, "PRAGMA user_version"), 2);
    assert_int_equal(pragma(copy, "PRAGMA user_version"), 1);
    assert_int_equal(pragma(copy, "SELECT count(*) FROM meta WHERE name = 'generation'"), 1);
    assert_int_equal(open_again(rig, &err), ERR_PRECONDITION); /* the older gate refuses by name */
    assert_non_null(strstr(err.msg, "schema 2"));
}

static void tmpfs_is_refused(void **state)
{
    struct rig *rig = *state;
    struct err err;
    struct ledger_setup setup = rig->setup;
    struct ledger *ledger = NULL;
    setup.path = "/dev/shm/ut-ledger-never";
    setup.force_fs = false;
    assert_int_equal(ledger_open(&setup, rig->loop, &ledger, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "tmpfs"));
}

/* A file that is taken away under the gate: no claim, no answer. */
static void file_gone(void **state)
{
    struct rig *rig = *state;
    assert_true(ledger_healthy(rig->ledger));
    assert_int_equal(unlink(rig->path), 0);
    rig_pause(rig, 300);
    assert_false(ledger_healthy(rig->ledger));
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_UNAVAILABLE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(whole_life),
        T(restart_in_each_state),
        T(copies_share_one_end),
        T(waiters_are_bounded),
        T(who_ran_it_is_served_first),
        T(other_request_is_refused),
        T(secret_guards_replay),
        T(new_payment_waits_for_the_first),
        T(unproven_payer),
        T(identifier),
        T(budget_of_a_payment),
        T(budget_of_a_payer),
        T(in_flight_of_a_payer),
        T(sealed_room),
        T(one_transaction_one_payment),
        T(operator_resolves),
        T(payment_id_is_stable_and_keyed),
        T(dropped_claim_is_free),
        T(one_gate_per_ledger),
        T(standby_takes_over),
        T(deleted_ledger_is_not_replaced),
        T(truncated_ledger_is_refused),
        T(copied_ledger_is_refused_until_adopted),
        T(old_ledger_is_young),
        T(newer_schema_is_refused_by_name),
        T(migration_copies_first),
        T(tmpfs_is_refused),
        T(file_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
