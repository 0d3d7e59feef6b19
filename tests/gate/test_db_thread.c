/* gate/db_thread: one batch for what one turn submits, order, failures one by one, what is queued
 * at the end. */
#include "gate/db_thread.h"

#include <string.h>

#include "base/own.h"
#include "tests/test.h"

#define JOBS 40

struct fake_db {
    int begun, committed, rolled_back;
    int applied[4 * JOBS];
    int n_applied;
    int poison; /* the job of this number fails */
};

struct job {
    struct db_job job; /* first */
    int number;
    struct loop *loop;
    int *order;
    int *n_order;
    int last; /* stops the loop */
};

static enum err_kind begin(void *arg, struct err *err)
{
    struct fake_db *db = arg;
    (void)err;
    db->begun++;
    return ERR_OK;
}

static enum err_kind commit(void *arg, struct err *err)
{
    struct fake_db *db = arg;
    (void)err;
    db->committed++;
    return ERR_OK;
}

static void rollback(void *arg)
{
    struct fake_db *db = arg;
    db->rolled_back++;
}

static enum err_kind apply(struct db_job *job, void *arg, struct err *err)
{
    struct fake_db *db = arg;
    int number = ((struct job *)job)->number;
    if (number == db->poison)
        return err_set(err, ERR_UNAVAILABLE, "job %d", number);
    db->applied[db->n_applied++] = number;
    return ERR_OK;
}

static void done(struct db_job *base)
{
    struct job *job = (struct job *)base;
    job->order[(*job->n_order)++] = job->number;
    if (job->number == job->last)
        loop_stop(job->loop);
}

struct bench {
    struct loop *loop;
    struct db_thread *thread;
    struct fake_db db;
    struct job jobs[JOBS];
    int order[JOBS];
    int n_order;
    struct loop_timer timer;
};

static const struct db_thread_ops ops = { begin, commit, rollback };

static int set_up(void **state)
{
    struct bench *b = xcalloc(1, sizeof(*b));
    b->db.poison = -1;
    assert_int_equal(loop_new(&b->loop, NULL), 0);
    assert_int_equal(db_thread_new(b->loop, &b->db, &ops, "test", &b->thread, NULL), 0);
    for (int i = 0; i < JOBS; i++)
        b->jobs[i] = (struct job){ .job = { .apply = apply, .done = done },
                                   .number = i,
                                   .loop = b->loop,
                                   .order = b->order,
                                   .n_order = &b->n_order,
                                   .last = JOBS - 1 };
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    db_thread_free(b->thread);
    loop_free(b->loop);
    free(b);
    return 0;
}

static void submit_all(struct loop_timer *timer)
{
    struct bench *b = timer->arg;
    for (int i = 0; i < JOBS; i++)
        db_thread_submit(b->thread, &b->jobs[i].job);
}

static void check_order(const struct bench *b)
{
    assert_int_equal(b->n_order, JOBS);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(b->order[i], i);
}

/* However the threads are scheduled: one turn, one transaction. */
static void test_a_turn_is_a_batch(void **state)
{
    struct bench *b = *state;
    struct db_thread_stats stats;
    loop_after(b->loop, &b->timer, 1, submit_all, b);
    assert_int_equal(loop_run(b->loop, NULL), 0);
    db_thread_stats(b->thread, &stats);
    check_order(b);
    assert_int_equal(stats.jobs, JOBS);
    assert_int_equal(stats.batches, 1);
    assert_int_equal(b->db.committed, 1);
}

/* Also what was submitted before the loop ran. */
static void test_before_the_loop(void **state)
{
    struct bench *b = *state;
    struct db_thread_stats stats;
    submit_all(&(struct loop_timer){ .arg = b });
    db_thread_stats(b->thread, &stats);
    assert_int_equal(stats.queued, JOBS);
    assert_int_equal(loop_run(b->loop, NULL), 0);
    check_order(b);
}

/* One that fails fails alone; the others are applied once more, each by itself. */
static void test_one_fails_alone(void **state)
{
    struct bench *b = *state;
    b->db.poison = 7;
    loop_after(b->loop, &b->timer, 1, submit_all, b);
    assert_int_equal(loop_run(b->loop, NULL), 0);
    check_order(b);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(b->jobs[i].job.failed, i == 7 ? ERR_UNAVAILABLE : ERR_OK);
    assert_int_equal(b->db.committed, JOBS - 1);
    assert_int_equal(b->db.rolled_back, 2);
    assert_false(db_thread_broken(b->thread));
}

/* Submitted in the very turn in which all ends: applied, and told. */
static void test_free_applies(void **state)
{
    struct bench *b = *state;
    submit_all(&(struct loop_timer){ .arg = b });
    db_thread_free(STEAL(b->thread));
    check_order(b);
    assert_int_equal(b->db.n_applied, JOBS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_turn_is_a_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_before_the_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_fails_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_free_applies, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
