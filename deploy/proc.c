#include "deploy/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own.h"
#include "base/text.h"

#define SAID_MAX 2000
#define ENV_MAX 40

struct child {
    pid_t pid;
    int out; /* read ends */
    int err;
};

static void child_fini(struct child *c)
{
    own_close_(&c->out);
    own_close_(&c->err);
    if (c->pid > 0) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
    }
}

/* Only async-signal-safe calls: other threads of ours may hold any lock. */
static void child_exec(const struct proc *proc, char *const *env, const int fds[3])
{
    static const char *const places[] = { "/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/",
                                          "/usr/bin/",        "/sbin/",          "/bin/" };
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) < 0)
            _exit(127);
    }
    (void)syscall(SYS_close_range, 3U, ~0U, 0U);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    char *const *argv = (char *const *)(uintptr_t)proc->argv;
    if (argv[0][0] == '/')
        (void)execve(argv[0], argv, env);
    for (size_t i = 0; argv[0][0] != '/' && i < ARRAY_LEN(places); i++) {
        char path[256];
        size_t n = strlen(places[i]), m = strlen(argv[0]);
        if (n + m >= sizeof(path))
            _exit(127);
        memcpy(path, places[i], n);
        memcpy(path + n, argv[0], m + 1);
        (void)execve(path, argv, env);
    }
    _exit(127);
}

static void fill_env(const struct proc *proc, char *env[ENV_MAX])
{
    static const char *const base[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
        "LC_ALL=C.UTF-8", "HOME=/root"
    };
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(base); i++)
        env[n++] = (char *)(uintptr_t)base[i];
    for (size_t i = 0; proc->env && proc->env[i] && n + 1 < ENV_MAX; i++)
        env[n++] = (char *)(uintptr_t)proc->env[i];
    env[n] = NULL;
}

static enum err_kind input_open(const char *input, int *fd, struct err *err)
{
    if (!input) {
        *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return *fd < 0 ? err_sys(err, errno, "/dev/null") : ERR_OK;
    }
    *fd = memfd_create("utter-input", MFD_CLOEXEC);
    if (*fd < 0)
        return err_sys(err, errno, "memfd");
    if (fs_write_fd(*fd, input, strlen(input), err))
        return err->kind;
    return lseek(*fd, 0, SEEK_SET) < 0 ? err_sys(err, errno, "memfd") : ERR_OK;
}

static enum err_kind child_start(const struct proc *proc, struct child *c, struct err *err)
{
    int in CLEANUP_FD = -1;
    int out[2], say[2];
    char *env[ENV_MAX];
    fill_env(proc, env);
    if (input_open(proc->input, &in, err))
        return err->kind;
    if (pipe2(out, O_CLOEXEC))
        return err_sys(err, errno, "pipe");
    c->out = out[0];
    int out_write CLEANUP_FD = out[1];
    if (pipe2(say, O_CLOEXEC))
        return err_sys(err, errno, "pipe");
    c->err = say[0];
    int err_write CLEANUP_FD = say[1];
    int fds[3] = { in, out_write, err_write };
    c->pid = fork();
    if (c->pid < 0)
        return err_sys(err, errno, "fork");
    if (c->pid == 0)
        child_exec(proc, env, fds);
    return ERR_OK;
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Reads what is there; closes the fd at its end. Over the buffer's limit it is read and dropped. */
static void drain(int *fd, struct buf *into)
{
    char piece[4096];
    ssize_t n = read(*fd, piece, sizeof(piece));
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        own_close_(fd);
        return;
    }
    if (into && into->len + (size_t)n <= into->max)
        buf_append(into, piece, (size_t)n);
}

static enum err_kind collect(struct child *c, const struct proc *proc, struct buf *out,
                             struct buf *said, struct err *err)
{
    int64_t until = now_ms() + (proc->timeout_ms > 0 ? proc->timeout_ms : 30000);
    while (c->out >= 0 || c->err >= 0) {
        struct pollfd fds[2] = { { .fd = c->out, .events = POLLIN },
                                 { .fd = c->err, .events = POLLIN } };
        int64_t left = until - now_ms();
        if (left <= 0)
            return err_set(err, ERR_TIMEOUT, "%s: not done in time", proc->argv[0]);
        if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
            return err_sys(err, errno, "poll");
        if (fds[0].revents)
            drain(&c->out, out);
        if (fds[1].revents)
            drain(&c->err, said);
    }
    return ERR_OK;
}

static enum err_kind run(const struct proc *proc, int *status, struct buf *out, struct buf *said,
                         struct err *err)
{
    struct child c CLEANUP(child_fini) = { .pid = -1, .out = -1, .err = -1 };
    if (child_start(proc, &c, err) || collect(&c, proc, out, said, err))
        return err->kind;
    int raw = 0;
    while (waitpid(c.pid, &raw, 0) < 0) {
        if (errno != EINTR)
            return err_sys(err, errno, "wait for %s", proc->argv[0]);
    }
    c.pid = -1;
    *status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    if (*status == 127 && (!out || out->len == 0) && said->len == 0)
        return err_set(err, ERR_NOT_FOUND, "%s: no such program", proc->argv[0]);
    return ERR_OK;
}

enum err_kind proc_status(const struct proc *proc, int *status, struct buf *out, struct err *err)
{
    struct buf said CLEANUP(buf_fini);
    buf_init(&said, SAID_MAX);
    return run(proc, status, out, &said, err);
}

enum err_kind proc_run(const struct proc *proc, struct buf *out, struct err *err)
{
    struct buf said CLEANUP(buf_fini);
    struct buf own CLEANUP(buf_fini);
    buf_init(&said, SAID_MAX);
    buf_init(&own, SAID_MAX);
    int status = 0;
    if (run(proc, &status, out ? out : &own, &said, err))
        return err->kind;
    if (status == 0)
        return ERR_OK;
    struct buf *words = said.len ? &said : out ? out : &own;
    char safe[600];
    char *text CLEANUP_FREE = xstrdup(buf_cstr(words));
    for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
        text[n - 1] = '\0';
    return err_set(err, ERR_INTERNAL, "%s: status %d: %s", proc->argv[0], status,
                   text_safe(text, safe, sizeof(safe)));
}
