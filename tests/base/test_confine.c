/* base/confine: what is denied is attempted, what is served lives on. Each case in its own child.
 */
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/confine.h"

enum { FINE = 0, WRONG = 1, NO_FILTER = 2 };

/* Runs fn behind the filter in a child; returns the wait status. */
static int confined(int (*fn)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err = { 0 };
        confine_limits();
        if (confine_drop(geteuid() == 0 ? "nobody" : NULL, false, &err) ||
            confine_filter(confine_common, confine_common_n, &err)) {
            (void)fprintf(stderr, "%s\n", err.msg);
            _exit(NO_FILTER);
        }
        _exit(fn());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int try_execve(void)
{
    char *argv[] = { NULL };
    execve("/bin/true", argv, argv);
    return WRONG;
}
static int try_fork(void)
{
    return syscall(SYS_fork) == 0 ? WRONG : WRONG;
}
static int try_clone_process(void)
{
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0 ? WRONG : WRONG;
}
static int try_ptrace(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    return WRONG;
}
static int try_unshare(void)
{
    unshare(CLONE_NEWUSER);
    return WRONG;
}
static int try_setuid(void)
{
    (void)!setuid(0);
    return WRONG;
}
static int try_mount(void)
{
    mount("none", "/tmp", "tmpfs", 0, NULL);
    return WRONG;
}
static int try_kill(void)
{
    kill(getppid(), 0);
    return WRONG;
}
static int try_packet_socket(void)
{
    socket(AF_PACKET, SOCK_RAW, 0);
    return WRONG;
}
static int try_bpf(void)
{
    syscall(SYS_bpf, 0, NULL, 0);
    return WRONG;
}
static int try_io_uring(void)
{
    syscall(SYS_io_uring_setup, 1, NULL);
    return WRONG;
}
static int try_memfd(void)
{
    syscall(SYS_memfd_create, "x", 0);
    return WRONG;
}
static int try_vm_readv(void)
{
    syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
    return WRONG;
}
static int try_new_dumpable(void)
{
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return WRONG;
}

static void test_denied_calls_kill(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int (*fn)(void);
    } cases[] = {
        { "execve", try_execve },
        { "fork", try_fork },
        { "clone", try_clone_process },
        { "ptrace", try_ptrace },
        { "unshare", try_unshare },
        { "setuid", try_setuid },
        { "mount", try_mount },
        { "kill", try_kill },
        { "packet socket", try_packet_socket },
        { "bpf", try_bpf },
        { "io_uring", try_io_uring },
        { "memfd_create", try_memfd },
        { "process_vm_readv", try_vm_readv },
        { "dumpable", try_new_dumpable },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = confined(cases[i].fn);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
            fail_msg("%s: status %x", cases[i].name, status);
    }
}

static int code_cannot_be_made(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0 || errno != EACCES)
        return WRONG;
    if (mmap(NULL, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return WRONG;
    return FINE;
}

static void *in_thread(void *arg)
{
    *(int *)arg = 1;
    return NULL;
}

static int the_served_path_lives(void)
{
    pthread_t thread;
    int ran = 0;
    struct addrinfo *found = NULL;
    if (pthread_create(&thread, NULL, in_thread, &ran) || pthread_join(thread, NULL) || !ran)
        return WRONG;
    if (getaddrinfo("localhost", "80", NULL, &found))
        return WRONG;
    freeaddrinfo(found);
    int fd = open("/etc/hosts", O_RDONLY | O_CLOEXEC);
    char byte;
    if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd))
        return WRONG;
    return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static int nothing_is_left(void)
{
    char line[256];
    struct rlimit core;
    FILE *f = fopen("/proc/self/status", "re");
    unsigned seen = 0;
    if (!f || geteuid() == 0)
        return WRONG;
    while (fgets(line, sizeof(line), f)) {
        static const char *const want[] = { "CapInh:\t0000000000000000\n",
                                            "CapPrm:\t0000000000000000\n",
                                            "CapEff:\t0000000000000000\n",
                                            "CapAmb:\t0000000000000000\n",
                                            "NoNewPrivs:\t1\n",
                                            "Seccomp:\t2\n" };
        for (size_t i = 0; i < 6; i++)
            seen |= (unsigned)(strcmp(line, want[i]) == 0) << i;
    }
    fclose(f);
    if (getrlimit(RLIMIT_CORE, &core) || core.rlim_max != 0)
        return WRONG;
    return seen == 63 ? FINE : WRONG;
}

static void test_what_is_needed_works(void **state)
{
    (void)state;
    assert_int_equal(confined(code_cannot_be_made), 0);
    assert_int_equal(confined(the_served_path_lives), 0);
    assert_int_equal(confined(nothing_is_left), 0);
}

static void test_root_is_refused(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(confine_drop("no-such-user-here", false, &err), ERR_NOT_FOUND);
    if (geteuid() == 0)
        assert_int_equal(confine_drop(NULL, false, &err), ERR_PRECONDITION);
}

int main(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 77; /* the sanitizer's own calls are not on the list */
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    return 77;
#endif
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_denied_calls_kill),
        cmocka_unit_test(test_what_is_needed_works),
        cmocka_unit_test(test_root_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
