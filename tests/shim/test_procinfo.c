/* shim/procinfo: of ourselves, of a child with an odd name, of one that is gone. */
#include "shim/procinfo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "tests/test.h"

static ino_t inode(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static void test_self(void **state)
{
    (void)state;
    struct procinfo p;
    struct err err;
    assert_int_equal(procinfo_read("/proc", getpid(), &p, &err), 0);
    assert_int_equal(p.pid, getpid());
    assert_int_equal(p.ppid, getppid());
    assert_int_equal(p.uid[0], getuid());
    assert_int_equal(p.uid[1], geteuid());
    assert_int_equal(p.gid[1], getegid());
    assert_int_equal(p.state, 'R');
    assert_int_equal(p.ns[PROCINFO_NS_NET], inode("/proc/self/ns/net"));
    assert_int_equal(p.ns[PROCINFO_NS_USER], inode("/proc/self/ns/user"));
    assert_int_not_equal(p.ns[PROCINFO_NS_MNT], p.ns[PROCINFO_NS_PID]);
    assert_true(p.start_ticks > 0);
}

static pid_t child_with(const char *name, bool nnp)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        if (nnp)
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        (void)!write(fds[1], "x", 1);
        pause();
        _exit(0);
    }
    char c;
    assert_int_equal(read(fds[0], &c, 1), 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static void test_child_with_odd_name(void **state)
{
    (void)state;
    struct procinfo p;
    struct err err;
    pid_t pid = child_with("a) R 1 (b\n", true);
    int fd CLEANUP_FD = -1;
    assert_int_equal(pidfd_get(pid, &fd, &err), 0);
    assert_int_equal(procinfo_read("/proc", pid, &p, &err), 0);
    assert_int_equal(p.ppid, getpid());
    assert_int_equal(p.no_new_privs, 1);
    assert_int_equal(p.seccomp, 0);
    uint64_t start = p.start_ticks;
    assert_int_equal(procinfo_read("/proc", getpid(), &p, &err), 0);
    assert_true(start >= p.start_ticks);
    assert_int_equal(p.no_new_privs, 0);
    assert_true(pidfd_alive(fd));
    assert_int_equal(pidfd_kill(fd, SIGKILL, &err), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(pidfd_alive(fd)); /* a zombie has exited */
    assert_int_equal(procinfo_read("/proc", pid, &p, &err), 0);
    assert_int_equal(p.state, 'Z');
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(pidfd_kill(fd, SIGKILL, &err), ERR_NOT_FOUND);
    assert_int_equal(procinfo_read("/proc", pid, &p, &err), ERR_NOT_FOUND);
    int again = -1;
    assert_int_equal(pidfd_get(pid, &again, &err), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_child_with_odd_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
