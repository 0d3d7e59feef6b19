#include "shim/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

__attribute__((noreturn)) static void child(const char *const *argv, int out_fd)
{
    static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", NULL };
    sigset_t none;
    sigemptyset(&none);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || setpgid(0, 0) || sigprocmask(SIG_SETMASK, &none, NULL) || dup2(null, 0) < 0 ||
        dup2(out_fd, 1) < 0 || dup2(out_fd, 2) < 0 || close_range(3, ~0U, 0) || chdir("/"))
        _exit(127);
    (void)signal(SIGPIPE, SIG_DFL);
    char **argv_plain;
    char **env_plain;
    const char *const *e = env;
    memcpy(&argv_plain, &argv, sizeof(argv));
    memcpy(&env_plain, &e, sizeof(e));
    execve(argv[0], argv_plain, env_plain);
    _exit(127);
}

/* Until the end of the output. */
static enum err_kind read_all(int fd, const struct capture *what, struct buf *out, struct err *err)
{
    uint64_t due = now_ms() + what->deadline_ms;
    for (;;) {
        uint64_t now = now_ms();
        struct pollfd pfd = { .fd = fd, .events = POLLIN };
        int ready = now >= due ? 0 : poll(&pfd, 1, (int)(due - now));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return err_set(err, ERR_TIMEOUT, "%s: no end within %u ms", what->argv[0],
                           what->deadline_ms);
        char bytes[4096];
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n < 0)
            return err_sys(err, errno, "%s: read", what->argv[0]);
        if (n == 0)
            return ERR_OK;
        buf_append(out, bytes, (size_t)n);
        if (out->failed)
            return err_set(err, ERR_INVALID, "%s: prints more than %zu bytes", what->argv[0],
                           what->cap);
    }
}

/* The end of output need not be the end of the process: what still runs then is killed. */
static int reap(pid_t pid, bool failed)
{
    int status = 0;
    for (int i = 0; i < 1000 && !failed; i++) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return 128 + SIGKILL;
}

enum err_kind capture_run(const struct capture *what, struct buf *out, int *code, struct err *err)
{
    buf_init(out, what->cap);
    int fds[2];
    if (pipe2(fds, O_CLOEXEC))
        return err_sys(err, errno, "pipe");
    int read_fd CLEANUP_FD = fds[0];
    int write_fd CLEANUP_FD = fds[1];
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "fork");
    if (pid == 0)
        child(what->argv, write_fd);
    own_close_(&write_fd);
    enum err_kind kind = read_all(read_fd, what, out, err);
    *code = reap(pid, kind != ERR_OK);
    (void)kill(-pid, SIGKILL); /* whatever it started in its group */
    return kind;
}
