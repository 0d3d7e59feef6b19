#include "shim/streams.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "shim/nulldev.h"
#include "shim/pump.h"
#include "shim/spawn.h"

#define LOGGER_READY_MS 10000U

struct logger {
    struct child child;
    int ready; /* read end of the wait pipe; -1 when none or done */
    struct loop_watch ready_watch;
    struct loop_timer timer;
};

struct streams {
    struct loop *loop;
    struct children *children;
    bool terminal;
    int null; /* what stands for none */
    bool null_shared;
    int fds[3];  /* what the child gets; -1 none or handed over */
    int in_hold; /* a writer of stdin's FIFO, until CloseIO */
    int master;  /* of the console: a duplicate for resizing */
    int tty_in;  /* FIFO ends of a terminal, until the console is there */
    int tty_out;
    struct pump pumps[2]; /* terminal: to the master, from the master; else file logs of 1 and 2 */
    struct logger logger;
    streams_ready_fn *ready_fn;
    void *ready_arg;
};

bool streams_terminal(const struct streams *s)
{
    return s->terminal;
}

/* Where it really is: a link in the middle of the path may lead to what the rules keep away. */
static CHECKED enum err_kind judge_fifo(const struct streams_rules *rules, const char *name,
                                        struct err *err)
{
    char real[PATH_MAX];
    ssize_t n = readlink(name, real, sizeof(real) - 1);
    if (n < 0)
        return err_sys(err, errno, "%s", name);
    real[n] = '\0';
    struct stream_uri uri = { .kind = STREAM_FIFO, .path = real };
    return rules->allowed(rules->arg, &uri, err);
}

/* Looked at before it is opened: opening alone does something to some devices. */
static CHECKED enum err_kind open_fifo(const struct streams_rules *rules, const char *path,
                                       const char *which, int flags, int *out, struct err *err)
{
    int place CLEANUP_FD = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0)
        return err_set(err, ERR_INVALID, "%s %s: cannot be opened as a FIFO: %s", which, path,
                       strerror(errno));
    struct stat st;
    if (fstat(place, &st) != 0 || !S_ISFIFO(st.st_mode))
        return err_set(err, ERR_INVALID, "%s %s: not a FIFO", which, path);
    char name[32];
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
    enum err_kind kind = judge_fifo(rules, name, err);
    if (kind)
        return kind;
    int fd = open(name, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_set(err, ERR_INVALID, "%s %s: cannot be opened as a FIFO: %s", which, path,
                       strerror(errno));
    *out = fd;
    return ERR_OK;
}

/* The guest must find a descriptor that waits, not one that says EAGAIN. */
static CHECKED enum err_kind make_blocking(int fd, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return err_sys(err, errno, "fcntl");
    return ERR_OK;
}

static CHECKED enum err_kind open_stdin(struct streams *s, const struct streams_rules *rules,
                                        const char *text, struct err *err)
{
    struct stream_uri uri CLEANUP_STREAM_URI;
    enum err_kind kind = stream_uri_parse(text, "stdin", &uri, err);
    if (kind || uri.kind == STREAM_NONE)
        return kind;
    if (uri.kind != STREAM_FIFO)
        return err_set(err, ERR_INVALID, "stdin: must be a FIFO");
    int fd CLEANUP_FD = -1;
    if ((kind = open_fifo(rules, uri.path, "stdin", O_RDONLY, &fd, err)))
        return kind;
    if (s->terminal) {
        s->tty_in = steal_fd(&fd);
        return open_fifo(rules, uri.path, "stdin", O_WRONLY, &s->in_hold, err);
    }
    if ((kind = open_fifo(rules, uri.path, "stdin", O_WRONLY, &s->in_hold, err)))
        return kind;
    if ((kind = make_blocking(fd, err)))
        return kind;
    s->fds[0] = steal_fd(&fd);
    return ERR_OK;
}

/* The operator's prefixes were judged on the text; here the file itself is. */
static CHECKED enum err_kind open_log_file(const char *path, int *out, struct err *err)
{
    int fd CLEANUP_FD = -1;
    enum err_kind kind = fs_open_real(AT_FDCWD, path, O_WRONLY | O_APPEND | O_NONBLOCK, &fd, err);
    if (kind == ERR_NOT_FOUND) {
        char *slash = strrchr(path, '/');
        char *parent CLEANUP_FREE = xstrndup(path, (size_t)(slash - path) + 1);
        int dir CLEANUP_FD = -1;
        if ((kind = fs_open_real(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, &dir, err)))
            return kind;
        fd = openat(dir, slash + 1, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0644);
        if (fd < 0)
            return err_sys(err, errno, "%s", path);
    } else if (kind) {
        return kind;
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(err, ERR_INVALID, "%s: not a regular file with one link", path);
    *out = steal_fd(&fd);
    return ERR_OK;
}

/* The guest writes into a pipe; the shim appends to the file. */
static CHECKED enum err_kind open_file_log(struct streams *s, int i, const char *path,
                                           struct err *err)
{
    int file CLEANUP_FD = -1;
    enum err_kind kind = open_log_file(path, &file, err);
    if (kind)
        return kind;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, errno, "pipe");
    s->fds[i] = ends[1];
    return pump_start_take(&s->pumps[i - 1], s->loop, ends[0], steal_fd(&file), NULL, NULL, err);
}

static CHECKED enum err_kind open_output(struct streams *s, const struct streams_rules *rules,
                                         int i, const struct stream_uri *uri, struct err *err)
{
    const char *which = i == 1 ? "stdout" : "stderr";
    if (uri->kind == STREAM_NONE)
        return ERR_OK;
    if (uri->kind == STREAM_FIFO) {
        int *slot = s->terminal ? &s->tty_out : &s->fds[i];
        enum err_kind kind = open_fifo(rules, uri->path, which, O_RDWR, slot, err);
        return kind || s->terminal ? kind : make_blocking(*slot, err);
    }
    enum err_kind kind = rules->allowed(rules->arg, uri, err);
    if (kind)
        return kind;
    if (s->terminal)
        return err_set(err, ERR_INVALID, "%s: a terminal needs a FIFO", which);
    return open_file_log(s, i, uri->path, err);
}

static void on_logger_exit(struct child *child, int wstatus)
{
    log_info("logger_exited", log_int("status", children_exit_code(wstatus)));
    (void)child;
}

static void logger_settle(struct streams *s, const struct err *why)
{
    loop_unwatch(&s->logger.ready_watch);
    loop_cancel(&s->logger.timer);
    if (s->logger.ready >= 0)
        (void)close(steal_fd(&s->logger.ready));
    streams_ready_fn *fn = s->ready_fn;
    s->ready_fn = NULL;
    if (fn)
        fn(s->ready_arg, why);
}

static void on_logger_ready(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct streams *s = watch->arg;
    struct err ok = { 0 };
    logger_settle(s, &ok);
}

static void on_logger_late(struct loop_timer *timer)
{
    struct err late = { 0 };
    (void)err_set(&late, ERR_TIMEOUT, "the logging program was not ready within 10 s");
    logger_settle(timer->arg, &late);
}

static CHECKED enum err_kind logger_spawn(struct streams *s, const struct streams_env *env,
                                          const struct stream_uri *uri, const int fds[3],
                                          pid_t *pid, struct err *err)
{
    const char *argv[STREAM_ARGS_MAX + 2] = { uri->path };
    for (size_t i = 0; i < uri->n_args; i++)
        argv[i + 1] = uri->args[i];
    char *id CLEANUP_FREE = xasprintf("CONTAINER_ID=%s", env->id);
    char *ns CLEANUP_FREE = xasprintf("CONTAINER_NAMESPACE=%s", env->ns);
    const char *envp[] = { id, ns, SPAWN_ENV[0], NULL };
    struct spawn what = {
        .argv = argv,
        .envp = envp,
        .fds = { -1, -1, -1, fds[0], fds[1], fds[2] },
        .n_fds = 6,
        .new_session = true,
    };
    (void)s;
    return spawn(&what, pid, err);
}

/* fds 3 and 4 are the read ends of stdout and stderr, 5 is closed by the logger when it is ready.
 */
static CHECKED enum err_kind open_logger(struct streams *s, const struct streams_env *env,
                                         const struct stream_uri *uri, struct err *err)
{
    enum err_kind kind = env->rules.allowed(env->rules.arg, uri, err);
    if (kind)
        return kind;
    int out[2];
    int errs[2];
    int wait[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        return err_sys(err, errno, "pipe");
    int out_read CLEANUP_FD = out[0];
    s->fds[1] = out[1];
    if (pipe2(errs, O_CLOEXEC) != 0)
        return err_sys(err, errno, "pipe");
    int err_read CLEANUP_FD = errs[0];
    s->fds[2] = errs[1];
    if (pipe2(wait, O_CLOEXEC) != 0)
        return err_sys(err, errno, "pipe");
    s->logger.ready = wait[0];
    int wait_write CLEANUP_FD = wait[1];
    pid_t pid = 0;
    kind = logger_spawn(s, env, uri, (const int[]){ out_read, err_read, wait_write }, &pid, err);
    if (kind)
        return kind;
    children_watch(s->children, &s->logger.child, pid, on_logger_exit, s);
    loop_after(s->loop, &s->logger.timer, LOGGER_READY_MS, on_logger_late, s);
    return loop_watch(s->loop, &s->logger.ready_watch, s->logger.ready, EPOLLIN, on_logger_ready, s,
                      err);
}

static CHECKED enum err_kind open_outputs(struct streams *s, const struct streams_env *env,
                                          const struct streams_request *request, struct err *err)
{
    struct stream_uri out CLEANUP_STREAM_URI = { 0 };
    struct stream_uri errs CLEANUP_STREAM_URI = { 0 };
    enum err_kind kind = stream_uri_parse(request->out, "stdout", &out, err);
    if (kind)
        return kind;
    if ((kind = stream_uri_parse(request->err, "stderr", &errs, err)))
        return kind;
    if (out.kind == STREAM_BINARY) {
        if (s->terminal)
            return err_set(err, ERR_INVALID, "stdout: a terminal needs a FIFO");
        bool same = errs.kind == STREAM_NONE || strcmp(request->out, request->err) == 0;
        return same ? open_logger(s, env, &out, err)
                    : err_set(err, ERR_INVALID, "stderr: must be the logger of stdout or empty");
    }
    if (errs.kind == STREAM_BINARY)
        return err_set(err, ERR_INVALID, "stderr: a logger must be stdout's too");
    if ((kind = open_output(s, &env->rules, 1, &out, err)))
        return kind;
    /* A terminal has one output; callers leave stderr empty or repeat stdout. */
    return s->terminal ? ERR_OK : open_output(s, &env->rules, 2, &errs, err);
}

enum err_kind streams_open(const struct streams_env *env, const struct streams_request *request,
                           struct streams **out, struct err *err)
{
    struct streams *s CLEANUP(streams_freep) = xcalloc(1, sizeof(*s));
    *s = (struct streams){
        .loop = env->loop,
        .children = env->children,
        .terminal = request->terminal,
        .null = -1,
        .fds = { -1, -1, -1 },
        .in_hold = -1,
        .master = -1,
        .tty_in = -1,
        .tty_out = -1,
        .logger = { .ready = -1 },
    };
    enum err_kind kind = nulldev_open(&s->null, &s->null_shared, err);
    if (!kind)
        kind = open_stdin(s, &env->rules, request->in, err);
    if (!kind)
        kind = open_outputs(s, env, request, err);
    if (!kind)
        *out = STEAL(s);
    return kind;
}

void streams_child_fds(const struct streams *s, int fds[3])
{
    for (size_t i = 0; i < 3; i++)
        fds[i] = s->fds[i] >= 0 ? s->fds[i] : s->null;
}

static void close_slot(int *fd)
{
    if (*fd >= 0)
        (void)close(steal_fd(fd));
}

void streams_handed_over(struct streams *s)
{
    for (size_t i = 0; i < 3; i++)
        close_slot(&s->fds[i]);
    if (s->null_shared && s->null >= 0)
        nulldev_restore(s->null);
    close_slot(&s->null);
}

void streams_when_ready(struct streams *s, streams_ready_fn *fn, void *arg)
{
    if (s->logger.ready < 0) {
        struct err ok = { 0 };
        fn(arg, &ok);
        return;
    }
    s->ready_fn = fn;
    s->ready_arg = arg;
}

enum err_kind streams_open_pty(struct streams *s, int *slave, struct err *err)
{
    int master CLEANUP_FD = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return err_sys(err, errno, "terminal");
    int fd CLEANUP_FD = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "terminal");
    enum err_kind kind = streams_take_console(s, steal_fd(&master), err);
    if (!kind)
        *slave = steal_fd(&fd);
    return kind;
}

static void on_tty_out_done(void *arg)
{
    struct streams *s = arg;
    close_slot(&s->master);
    pump_stop(&s->pumps[0]);
}

enum err_kind streams_take_console(struct streams *s, int master, struct err *err)
{
    int own CLEANUP_FD = master;
    if (s->master >= 0)
        return err_set(err, ERR_PRECONDITION, "the terminal has its console already");
    s->master = fcntl(own, F_DUPFD_CLOEXEC, 3);
    int in_copy = fcntl(own, F_DUPFD_CLOEXEC, 3);
    if (s->master < 0 || in_copy < 0)
        return err_sys(err, errno, "console");
    enum err_kind kind = ERR_OK;
    if (s->tty_in >= 0)
        kind =
            pump_start_take(&s->pumps[0], s->loop, steal_fd(&s->tty_in), in_copy, NULL, NULL, err);
    else
        (void)close(in_copy);
    if (!kind && s->tty_out < 0)
        s->tty_out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (!kind)
        kind = pump_start_take(&s->pumps[1], s->loop, steal_fd(&own), steal_fd(&s->tty_out),
                               on_tty_out_done, s, err);
    return kind;
}

enum err_kind streams_resize(struct streams *s, unsigned width, unsigned height, struct err *err)
{
    if (!s->terminal || s->master < 0)
        return ERR_OK;
    if (width > 0xffff || height > 0xffff)
        return err_set(err, ERR_INVALID, "terminal size %ux%u", width, height);
    struct winsize size = { .ws_col = (unsigned short)width, .ws_row = (unsigned short)height };
    if (ioctl(s->master, TIOCSWINSZ, &size) != 0)
        return err_sys(err, errno, "terminal size");
    return ERR_OK;
}

void streams_close_stdin(struct streams *s)
{
    close_slot(&s->in_hold);
}

void streams_process_gone(struct streams *s)
{
    close_slot(&s->in_hold);
    if (s->terminal)
        pump_stop(&s->pumps[0]);
}

void streams_free(struct streams *s)
{
    if (!s)
        return;
    streams_handed_over(s);
    close_slot(&s->in_hold);
    close_slot(&s->tty_in);
    close_slot(&s->tty_out);
    close_slot(&s->master);
    for (size_t i = 0; i < ARRAY_LEN(s->pumps); i++)
        pump_stop(&s->pumps[i]);
    loop_unwatch(&s->logger.ready_watch);
    loop_cancel(&s->logger.timer);
    close_slot(&s->logger.ready);
    /* The logger ends by itself when the last writer of its pipes is gone. */
    children_unwatch(&s->logger.child);
    free(s);
}
