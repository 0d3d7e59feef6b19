/* Starting programs and waiting for them: known descriptors, known environment, exact statuses. */
#include "shim/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "shim/children.h"
#include "tests/test.h"

static void run(const char *script, char *out, size_t size, int *wstatus)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const char *argv[] = { "/bin/sh", "-c", script, NULL };
    struct spawn what = { .argv = argv, .fds = { -1, ends[1], -1 }, .n_fds = 3 };
    pid_t pid = 0;
    struct err err = { 0 };
    if (spawn(&what, &pid, &err))
        fail_msg("%s", err.msg);
    (void)close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n + 1 < size && (got = read(ends[0], out + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, wstatus, 0), pid);
}

static void test_environment_is_ours(void **ctx)
{
    (void)ctx;
    assert_int_equal(setenv("SECRET", "x", 1), 0);
    char out[1024];
    int wstatus = 0;
    run("/usr/bin/env", out, sizeof(out), &wstatus);
    assert_null(strstr(out, "SECRET"));
    assert_non_null(strstr(out, "PATH="));
    assert_non_null(strstr(out, "LANG=C.UTF-8"));
}

static void test_no_other_descriptor(void **ctx)
{
    (void)ctx;
    int leak CLEANUP_FD = open("/dev/null", O_RDONLY); /* inheritable on purpose */
    char out[1024];
    int wstatus = 0;
    run("for f in /proc/self/fd/*; do [ -e $f ] && echo ${f##*/}; done", out, sizeof(out),
        &wstatus);
    char number[16];
    (void)snprintf(number, sizeof(number), "\n%d\n", leak);
    if (leak > 3)
        assert_null(strstr(out, number));
}

static void test_status_and_failure(void **ctx)
{
    (void)ctx;
    char out[64];
    int wstatus = 0;
    run("exit 7", out, sizeof(out), &wstatus);
    assert_int_equal(children_exit_code(wstatus), 7);
    run("kill -KILL $$", out, sizeof(out), &wstatus);
    assert_int_equal(children_exit_code(wstatus), 137);
    const char *argv[] = { "/nonexistent/program", NULL };
    struct spawn what = { .argv = argv, .fds = { -1, -1, -1 }, .n_fds = 3 };
    pid_t pid = 0;
    struct err err = { 0 };
    assert_int_equal(spawn(&what, &pid, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/nonexistent/program"));
}

static void test_membarrier_filter_keeps_the_rest(void **ctx)
{
    (void)ctx;
    if (geteuid() != 0)
        skip();
    const char *argv[] = { "/bin/sh", "-c", "exit 5", NULL };
    struct spawn what = {
        .argv = argv, .fds = { -1, -1, -1 }, .n_fds = 3, .skip_membarrier = true
    };
    pid_t pid = 0;
    struct err err = { 0 };
    assert_int_equal(spawn(&what, &pid, &err), ERR_OK);
    int wstatus = 0;
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(children_exit_code(wstatus), 5);
}

struct seen {
    int n;
    int wstatus;
};

static void on_child(struct child *child, int wstatus)
{
    struct seen *seen = child->arg;
    seen->n++;
    seen->wstatus = wstatus;
}

static void test_children_are_told_once_each(void **ctx)
{
    (void)ctx;
    struct children all = { 0 };
    struct child rows[3];
    struct seen seen[3] = { 0 };
    pid_t pids[4];
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(10 + i);
    }
    for (int i = 0; i < 3; i++) /* the fourth is nobody's: reaped all the same */
        children_watch(&all, &rows[i], pids[i], on_child, &seen[i]);
    children_unwatch(&rows[1]);
    for (int round = 0; round < 200 && (seen[0].n + seen[2].n < 2 || kill(pids[3], 0) == 0);
         round++) {
        (void)usleep(10000);
        children_reap(&all);
    }
    assert_int_equal(seen[0].n, 1);
    assert_int_equal(children_exit_code(seen[0].wstatus), 10);
    assert_int_equal(seen[1].n, 0);
    assert_int_equal(children_exit_code(seen[2].wstatus), 12);
    assert_null(all.first);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment_is_ours),
        cmocka_unit_test(test_no_other_descriptor),
        cmocka_unit_test(test_status_and_failure),
        cmocka_unit_test(test_membarrier_filter_keeps_the_rest),
        cmocka_unit_test(test_children_are_told_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
