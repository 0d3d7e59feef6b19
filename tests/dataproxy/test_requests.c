/* dataproxy/requests: only what is open is served, exactly as often and as long as it was opened
 * for. */
#include "dataproxy/requests.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static int owner_a, owner_b;

static struct data_message opening(const char *id, int64_t calls, int64_t bytes)
{
    struct data_message m = { .op = DATA_OPEN,
                              .n_scope = 1,
                              .scope = { "api" },
                              .calls = calls,
                              .bytes = bytes,
                              .ms = 1000 };
    strcpy(m.id, id);
    return m;
}

static struct data_token token_for(const char *id)
{
    struct data_token t = {
        .slug = "s", .calls = 1000, .bytes = 1 << 30, .n_scope = 2, .scope = { "api", "other" }
    };
    strcpy(t.request_id, id);
    return t;
}

struct flight {
    struct request_call call; /* first: aborted() finds its flight by it */
    int aborted;
};

static void aborted(struct request_call *call, const char *why)
{
    assert_non_null(why);
    ((struct flight *)call)->aborted++;
}

static enum err_kind begin(struct requests *rs, const char *id, const char *upstream, uint64_t now,
                           struct flight *f)
{
    struct data_token t = token_for(id);
    *f = (struct flight){ .call.abort = aborted };
    return requests_begin_call(rs, &t, upstream, now, &f->call, NULL);
}

static void test_not_open(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    static struct flight f;
    assert_int_equal(begin(rs, "r1", "api", 0, &f), ERR_DENIED);
}

static void test_exactly_the_budget(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    struct data_message open = opening("r1", 10, 1000);
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), 0);
    static struct flight flights[100];
    int served = 0;
    for (int i = 0; i < 100; i++)
        served += begin(rs, "r1", "api", 1, &flights[i]) == ERR_OK;
    assert_int_equal(served, 10);
    struct data_message ended;
    assert_int_equal(requests_end(rs, "r1", &owner_a, &ended, NULL), 0);
    assert_int_equal(ended.calls, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(flights[i].aborted, 1);
}

static void test_bytes(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    struct data_message open = opening("r1", 10, 100);
    static struct flight f;
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), 0);
    assert_int_equal(begin(rs, "r1", "api", 1, &f), 0);
    assert_true(request_call_count(&f.call, 60));
    assert_false(request_call_count(&f.call, 41));
    assert_true(request_call_count(&f.call, 40));
    request_call_end(&f.call);
    assert_int_equal(begin(rs, "r1", "api", 1, &f), ERR_UNAVAILABLE);
    assert_false(request_call_count(&f.call, 1));
}

static void test_scope_is_the_lesser(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    struct data_message open = opening("r1", 10, 100);
    static struct flight f;
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), 0);
    assert_int_equal(begin(rs, "r1", "other", 1, &f), ERR_DENIED);
    struct data_token narrow = token_for("r1");
    narrow.n_scope = 1;
    strcpy(narrow.scope[0], "other");
    f = (struct flight){ .call.abort = aborted };
    assert_int_equal(requests_begin_call(rs, &narrow, "api", 1, &f.call, NULL), ERR_DENIED);
}

static void test_ended_stays_ended(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    struct data_message open = opening("r1", 10, 100);
    struct data_message ended;
    static struct flight f;
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), 0);
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), ERR_EXISTS);
    assert_int_equal(requests_end(rs, "r1", &owner_b, &ended, NULL), ERR_NOT_FOUND);
    assert_int_equal(requests_end(rs, "r1", &owner_a, &ended, NULL), 0);
    assert_int_equal(requests_end(rs, "r1", &owner_a, &ended, NULL), ERR_NOT_FOUND);
    assert_int_equal(begin(rs, "r1", "api", 1, &f), ERR_DENIED);
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), ERR_EXISTS);
}

static void test_owner_gone(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    struct data_message a = opening("a", 10, 100);
    struct data_message b = opening("b", 10, 100);
    static struct flight fa, fb, again;
    assert_int_equal(requests_open(rs, &a, &owner_a, 0, NULL), 0);
    assert_int_equal(requests_open(rs, &b, &owner_b, 0, NULL), 0);
    assert_int_equal(begin(rs, "a", "api", 1, &fa), 0);
    assert_int_equal(begin(rs, "b", "api", 1, &fb), 0);
    requests_end_owner(rs, &owner_a, "gate gone");
    assert_int_equal(fa.aborted, 1);
    assert_int_equal(fb.aborted, 0);
    assert_int_equal(begin(rs, "a", "api", 1, &again), ERR_DENIED);
    struct requests_stats stats;
    requests_stats(rs, &stats);
    assert_int_equal(stats.open, 1);
    assert_int_equal(stats.calls, 1);
}

static void test_deadline(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    struct data_message open = opening("r1", 10, 100);
    static struct flight f, late;
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), 0);
    assert_int_equal(begin(rs, "r1", "api", 999, &f), 0);
    assert_int_equal(begin(rs, "r1", "api", 1000, &late), ERR_DENIED);
    requests_expire(rs, 1000);
    assert_int_equal(f.aborted, 1);
    assert_int_equal(requests_open(rs, &open, &owner_a, 1000, NULL), 0);
}

static void test_taint(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    struct data_message open = opening("r1", 10, 100);
    struct data_message ended;
    static struct flight f;
    assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL), 0);
    assert_int_equal(begin(rs, "r1", "api", 1, &f), 0);
    request_call_taint(&f.call);
    request_call_end(&f.call);
    assert_int_equal(requests_end(rs, "r1", &owner_a, &ended, NULL), 0);
    assert_true(ended.tainted);
    assert_int_equal(f.aborted, 0);
}

static void test_full(void **state)
{
    (void)state;
    struct requests *rs CLEANUP(requests_freep) = requests_new();
    for (int i = 0; i <= REQUESTS_MAX; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "r%d", i);
        struct data_message open = opening(id, 1, 1);
        assert_int_equal(requests_open(rs, &open, &owner_a, 0, NULL),
                         i < REQUESTS_MAX ? ERR_OK : ERR_UNAVAILABLE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_open),
        cmocka_unit_test(test_exactly_the_budget),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_scope_is_the_lesser),
        cmocka_unit_test(test_ended_stays_ended),
        cmocka_unit_test(test_owner_gone),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_taint),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
