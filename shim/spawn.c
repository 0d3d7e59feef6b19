#include "shim/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"

const char *const SPAWN_ENV[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
    NULL,
};

/* What the child reports through the close-on-exec pipe when it cannot get as far as exec. */
struct failure {
    int errnum;
    char step[24];
};

static void child_fail(int report, const char *step)
{
    struct failure f = { .errnum = errno };
    for (size_t i = 0; step[i] && i + 1 < sizeof(f.step); i++)
        f.step[i] = step[i];
    ssize_t n = write(report, &f, sizeof(f));
    _exit(n < 0 ? 126 : 127);
}

static void child_reset_signals(void)
{
    for (int sig = 1; sig < NSIG; sig++)
        (void)signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* First everything out of the way of the low numbers, then into place. */
static void child_place_fds(const struct spawn *what, int *report)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high[SPAWN_FDS_MAX];
    for (size_t i = 0; i < what->n_fds; i++) {
        high[i] = fcntl(what->fds[i] < 0 ? null : what->fds[i], F_DUPFD_CLOEXEC, 64);
        if (high[i] < 0)
            child_fail(*report, "dup");
    }
    *report = fcntl(*report, F_DUPFD_CLOEXEC, 64);
    for (size_t i = 0; i < what->n_fds; i++)
        if (dup2(high[i], (int)i) < 0)
            child_fail(*report, "dup2");
    if (close_range((unsigned)what->n_fds, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
        child_fail(*report, "close_range");
}

static void child_mask_net(int report)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0 ||
        mount("none", "/proc/sys/net", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=4k") != 0)
        child_fail(report, "mask /proc/sys/net");
}

static void child_skip_membarrier(int report)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
#if defined(__x86_64__)
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xC000003EU, 0, 5),
#elif defined(__aarch64__)
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xC00000B7U, 0, 5),
#else
#error "name this architecture's audit number"
#endif
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = ARRAY_LEN(code), .filter = code };
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        child_fail(report, "seccomp");
}

static void child_run(const struct spawn *what, int report, pid_t parent)
{
    child_reset_signals();
    if (what->new_session)
        (void)setsid();
    if (what->die_with_parent) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
    }
    child_place_fds(what, &report);
    if (chdir(what->cwd ? what->cwd : "/") != 0)
        child_fail(report, "chdir");
    (void)umask(022);
    if (what->mask_proc_sys_net)
        child_mask_net(report);
    if (what->skip_membarrier)
        child_skip_membarrier(report);
    const char *const *envp = what->envp ? what->envp : SPAWN_ENV;
    execve(what->argv[0], (char *const *)(uintptr_t)what->argv, (char *const *)(uintptr_t)envp);
    child_fail(report, "execve");
}

enum err_kind spawn(const struct spawn *what, pid_t *pid, struct err *err)
{
    assert(what->n_fds >= 3 && what->n_fds <= SPAWN_FDS_MAX);
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return err_sys(err, errno, "pipe");
    int in CLEANUP_FD = report[0];
    int out CLEANUP_FD = report[1];
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0)
        return err_sys(err, errno, "fork");
    if (child == 0)
        child_run(what, out, parent);
    (void)close(steal_fd(&out));
    struct failure f = { 0 };
    ssize_t n = 0;
    do {
        n = read(in, &f, sizeof(f));
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(f)) {
        *pid = child;
        return ERR_OK;
    }
    (void)waitpid(child, NULL, 0);
    f.step[sizeof(f.step) - 1] = '\0';
    return err_sys(err, f.errnum, "%s: %s", what->argv[0], f.step);
}
