/* base/loop: order of timers, removal inside a callback, signals. */
#include "base/loop.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/test.h"

static int order[64];
static int n_order;

struct job {
    struct loop_timer timer;
    int number;
};

static void note(struct loop_timer *timer)
{
    struct job *job = timer->arg;
    order[n_order++] = job->number;
    if (job->number == 9)
        loop_stop(timer->loop);
}

static void test_timers_in_order(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct job jobs[10] = { 0 };
    static const int shuffled[] = { 7, 2, 9, 0, 4, 1, 8, 3, 6, 5 };
    for (size_t k = 0; k < 10; k++) {
        int n = shuffled[k];
        jobs[n].number = n;
        loop_after(loop, &jobs[n].timer, (uint64_t)n * 4, note, &jobs[n]);
    }
    loop_cancel(&jobs[3].timer);
    loop_cancel(&jobs[3].timer);
    n_order = 0;
    assert_int_equal(loop_run(loop, NULL), 0);
    static const int expected[] = { 0, 1, 2, 4, 5, 6, 7, 8, 9 };
    assert_int_equal(n_order, 9);
    assert_memory_equal(order, expected, sizeof(expected));
}

struct pair {
    struct loop_watch watch[2];
    int called;
};

static void drop_both(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct pair *pair = watch->arg;
    struct loop *loop = watch->loop;
    pair->called++;
    loop_unwatch(&pair->watch[0]);
    loop_unwatch(&pair->watch[1]);
    loop_stop(loop);
}

static void test_unwatch_other_ready_one(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct pair pair = { 0 };
    int pipes[2][2];
    for (int k = 0; k < 2; k++) {
        assert_int_equal(pipe(pipes[k]), 0);
        assert_int_equal(write(pipes[k][1], "x", 1), 1);
        assert_int_equal(
            loop_watch(loop, &pair.watch[k], pipes[k][0], EPOLLIN, drop_both, &pair, NULL), 0);
    }
    assert_int_equal(loop_run(loop, NULL), 0);
    assert_int_equal(pair.called, 1);
    for (int k = 0; k < 4; k++)
        close(pipes[k / 2][k % 2]);
}

static void got_signal(void *arg, const struct signalfd_siginfo *info)
{
    struct loop *loop = arg;
    assert_int_equal(info->ssi_signo, SIGUSR1);
    loop_stop(loop);
}

static void test_signal(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    assert_int_equal(loop_signals(loop, &set, got_signal, loop, NULL), 0);
    raise(SIGUSR1);
    assert_int_equal(loop_run(loop, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers_in_order),
        cmocka_unit_test(test_unwatch_other_ready_one),
        cmocka_unit_test(test_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
