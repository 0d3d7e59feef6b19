#include "shim/runsc.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "shim/procinfo.h"
#include "shim/spawn.h"

#define LOG_MAX (256U * 1024)

/* What every call says, in this order, as far as the binary knows the flag. */
static const struct {
    const char *name;
    const char *value;
} PINNED[] = {
    { "platform", "systrap" },
    { "oci-seccomp", "true" },
    { "host-uds", "none" },
    { "host-fifo", "none" },
    { "directfs", "false" },
    { "overlay2", "none" },
    { "file-access", "exclusive" },
    { "file-access-mounts", "shared" },
    { "net-raw", "false" },
    { "allow-flag-override", "false" },
    { "rootless", "false" },
    { "ignore-cgroups", "false" },
    { "debug", "false" },
    { "strace", "false" },
    { "profile", "false" },
    { "watchdog-action", "panic" },
    { "allow-suid", "false" },
    { "allow-rootfs-tar-annotation", "false" },
    { "allow-packet-socket-write", "false" },
    { "character-device-policy", "emulated-only" },
    /* "null" would leave a mount, null-netns, behind for ever. */
    { "gofer-network-namespace", "new" },
    { "control-rpc-stop-timeout", "2s" },
    { "host-settings", "ignore" },
    { "nvproxy", "false" },
    { "tpuproxy", "false" },
    { "rdmaproxy", "false" },
};

void runsc_fini(struct runsc *runsc)
{
    free(runsc->root);
    free(runsc->log_dir);
    *runsc = (struct runsc){ 0 };
}

char **runsc_argv(const struct runsc *runsc, const char *log, const char *const *verb)
{
    char **argv = xcalloc(RUNSC_ARGS_MAX + ARRAY_LEN(PINNED), sizeof(*argv));
    size_t n = 0;
    argv[n++] = xstrdup(runsc->binary->path);
    argv[n++] = xasprintf("--root=%s", runsc->root);
    argv[n++] = xasprintf("--log=%s", log);
    argv[n++] = xstrdup("--log-format=json");
    if (runsc_has_flag(runsc->binary, "panic-log"))
        argv[n++] = xasprintf("--panic-log=%s/panic.log", runsc->log_dir);
    argv[n++] = xasprintf("--network=%s", runsc->network_sandbox ? "sandbox" : "none");
    if (runsc->systemd_cgroup)
        argv[n++] = xstrdup("--systemd-cgroup=true");
    for (size_t i = 0; i < ARRAY_LEN(PINNED); i++)
        if (runsc_has_flag(runsc->binary, PINNED[i].name))
            argv[n++] = xasprintf("--%s=%s", PINNED[i].name, PINNED[i].value);
    for (size_t i = 0; verb[i] && i < 24; i++)
        argv[n++] = xstrdup(verb[i]);
    return argv;
}

void runsc_argv_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

bool runsc_log_error(const char *text, size_t len, char *out, size_t out_size)
{
    bool found = false;
    while (len > 0) {
        const char *nl = memchr(text, '\n', len);
        size_t n = nl ? (size_t)(nl - text) : len;
        json_t *line CLEANUP_JSON = NULL;
        struct err ignored;
        if (n > 0 && json_strict_load(text, n, LOG_MAX, 0, &line, &ignored) == ERR_OK) {
            const char *level = json_string_value(json_object_get(line, "level"));
            const char *msg = json_string_value(json_object_get(line, "msg"));
            if (level && msg && (strcmp(level, "error") == 0 || strcmp(level, "fatal") == 0)) {
                (void)text_safe(msg, out, out_size);
                found = true;
            }
        }
        if (!nl)
            break;
        text += n + 1;
        len -= n + 1;
    }
    return found;
}

/* What a finished call's status and log amount to. */
static enum err_kind judge_text(const char *verb, const char *text, size_t len, int wstatus,
                                bool killed, struct err *err)
{
    char line[600];
    if (killed)
        return err_set(err, ERR_TIMEOUT, "runsc %s: no end within its deadline, killed", verb);
    if (WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0)
        return ERR_OK;
    if (runsc_log_error(text, len, line, sizeof(line))) {
        bool absent = strstr(line, "file does not exist") || strstr(line, "container not found");
        return err_set(err, absent ? ERR_NOT_FOUND : ERR_INTERNAL, "runsc %s: %s", verb, line);
    }
    return err_set(err, ERR_INTERNAL, "runsc %s: exit status %u", verb,
                   children_exit_code(wstatus));
}

static enum err_kind judge(const char *verb, const char *log, int wstatus, bool killed,
                           struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    struct err ignored;
    bool fine = !killed && WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0;
    if (!fine && fs_read(log, LOG_MAX, &text, &len, &ignored))
        len = 0;
    return judge_text(verb, text ? text : "", len, wstatus, killed, err);
}

static CHECKED enum err_kind launch(const struct runsc *runsc, const struct runsc_call *call,
                                    const char *log, pid_t *pid, struct err *err)
{
    char **argv = runsc_argv(runsc, log, call->verb);
    struct spawn what = {
        .argv = (const char *const *)argv,
        .fds = { call->fds[0], call->fds[1], call->fds[2] },
        .n_fds = 3,
        .die_with_parent = true,
        .new_session = true,
        .mask_proc_sys_net = call->start_mask,
        .skip_membarrier = runsc->binary->membarrier_slow,
    };
    enum err_kind kind = spawn(&what, pid, err);
    runsc_argv_free(argv);
    return kind;
}

/* One call in flight. */
struct job {
    struct child child;
    struct loop_timer timer;
    char *log;
    char *verb;
    bool killed;
    runsc_done_fn *fn;
    void *arg;
};

static void on_runsc_exit(struct child *child, int wstatus)
{
    struct job *job = child->arg;
    loop_cancel(&job->timer);
    struct err err = { 0 };
    enum err_kind kind = judge(job->verb, job->log, wstatus, job->killed, &err);
    if (!kind)
        err = (struct err){ 0 };
    (void)unlink(job->log);
    job->fn(job->arg, &err);
    free(job->log);
    free(job->verb);
    free(job);
}

static void on_deadline(struct loop_timer *timer)
{
    struct job *job = timer->arg;
    job->killed = true;
    (void)kill(-job->child.pid, SIGKILL); /* it leads its own session */
    (void)kill(job->child.pid, SIGKILL);
}

static char *log_path(const struct runsc *runsc, const char *verb)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return xasprintf("%s/%s-%d-%lld%09ld.log", runsc->log_dir, verb, (int)getpid(),
                     (long long)now.tv_sec, now.tv_nsec);
}

enum err_kind runsc_start(const struct runsc *runsc, const struct runsc_call *call,
                          runsc_done_fn *fn, void *arg, struct err *err)
{
    char *log CLEANUP_FREE = log_path(runsc, call->verb[0]);
    pid_t pid = 0;
    enum err_kind kind = launch(runsc, call, log, &pid, err);
    if (kind)
        return kind;
    struct job *job = xcalloc(1, sizeof(*job));
    *job = (struct job){ .log = STEAL(log), .verb = xstrdup(call->verb[0]), .fn = fn, .arg = arg };
    children_watch(runsc->children, &job->child, pid, on_runsc_exit, job);
    loop_after(runsc->loop, &job->timer, call->deadline_ms, on_deadline, job);
    return ERR_OK;
}

/* ---- a call ahead of its time ------------------------------------------------------------------
 */

struct runsc_held {
    struct child child;
    struct loop_timer timer;
    struct loop *loop;
    char *log; /* a FIFO: runsc waits in opening it until there is a reader */
    char *verb;
    int log_fd; /* its reading end, once released; -1 */
    unsigned deadline_ms;
    bool killed;
    runsc_done_fn *fn; /* NULL until released */
    void *arg;
};

static void held_kill(struct runsc_held *held)
{
    held->killed = true;
    (void)kill(-held->child.pid, SIGKILL);
    (void)kill(held->child.pid, SIGKILL);
}

void runsc_held_free(struct runsc_held *held)
{
    if (!held)
        return;
    if (held->child.pid != 0)
        held_kill(held);
    children_unwatch(&held->child); /* reaped as one of nobody's */
    loop_cancel(&held->timer);
    if (held->log_fd >= 0)
        (void)close(held->log_fd);
    (void)unlink(held->log);
    free(held->log);
    free(held->verb);
    free(held);
}

static void on_held_exit(struct child *child, int wstatus)
{
    struct runsc_held *held = child->arg;
    loop_cancel(&held->timer);
    if (!held->fn)
        return; /* before its time: found when it is wanted */
    char text[65536];
    ssize_t n = read(held->log_fd, text, sizeof(text));
    struct err err = { 0 };
    if (!judge_text(held->verb, text, n > 0 ? (size_t)n : 0, wstatus, held->killed, &err))
        err = (struct err){ 0 };
    held->fn(held->arg, &err);
    runsc_held_free(held);
}

static void on_held_timer(struct loop_timer *timer)
{
    held_kill(timer->arg);
}

enum err_kind runsc_hold(const struct runsc *runsc, const struct runsc_call *call,
                         struct runsc_held **out, struct err *err)
{
    char *log CLEANUP_FREE = log_path(runsc, call->verb[0]);
    if (mkfifo(log, 0600) != 0)
        return err_sys(err, errno, "%s", log);
    pid_t pid = 0;
    enum err_kind kind = launch(runsc, call, log, &pid, err);
    if (kind) {
        (void)unlink(log);
        return kind;
    }
    struct runsc_held *held = xcalloc(1, sizeof(*held));
    *held = (struct runsc_held){ .loop = runsc->loop,
                                 .log = STEAL(log),
                                 .verb = xstrdup(call->verb[0]),
                                 .log_fd = -1,
                                 .deadline_ms = call->deadline_ms };
    children_watch(runsc->children, &held->child, pid, on_held_exit, held);
    loop_after(runsc->loop, &held->timer, RUNSC_HELD_MS, on_held_timer, held);
    *out = held;
    return ERR_OK;
}

bool runsc_release(struct runsc_held *held, runsc_done_fn *fn, void *arg)
{
    bool there = held->child.pid != 0 && !held->killed;
    if (there)
        held->log_fd = open(held->log, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (!there || held->log_fd < 0) {
        runsc_held_free(held);
        return false;
    }
    held->fn = fn;
    held->arg = arg;
    loop_after(held->loop, &held->timer, held->deadline_ms, on_held_timer, held);
    return true;
}

enum err_kind runsc_run_waiting(const struct runsc *runsc, const struct runsc_call *call,
                                struct err *err)
{
    char *log CLEANUP_FREE = log_path(runsc, call->verb[0]);
    pid_t pid = 0;
    enum err_kind kind = launch(runsc, call, log, &pid, err);
    if (kind)
        return kind;
    int pidfd CLEANUP_FD = -1;
    bool killed = false;
    struct err ignored;
    if (pidfd_get(pid, &pidfd, &ignored) == ERR_OK) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        int n = poll(&p, 1, (int)call->deadline_ms);
        killed = n == 0;
        if (killed) {
            (void)kill(-pid, SIGKILL);
            (void)kill(pid, SIGKILL);
        }
    }
    int wstatus = 0;
    while (waitpid(pid, &wstatus, 0) < 0 && errno == EINTR)
        continue;
    kind = judge(call->verb[0], log, wstatus, killed, err);
    (void)unlink(log);
    return kind;
}
