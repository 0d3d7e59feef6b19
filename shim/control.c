#include "shim/control.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "shim/control_wire.h"

#define CONNECT_RETRY_MS 5
#define RECV_SIZE 16384

struct control_conn {
    struct control *control;
    int fd; /* -1: not connected, or no longer */
    struct loop_watch watch;
    struct loop_timer retry;
    struct loop_timer deadline;
    struct loop_timer told; /* tells what was known without asking the sandbox */
    bool dead;
    enum control_outcome dead_outcome; /* what a call on a dead connection is told */
    /* The call in flight. */
    bool busy;
    enum control_call call;
    char *request;
    size_t request_len;
    size_t sent;
    int fds[3]; /* owned */
    size_t n_fds;
    char *container;
    struct control_scan scan;
    struct buf answer;
    control_fn *fn;
    void *arg;
    struct control_reply verdict; /* for `told` */
};

static void on_conn(struct loop_watch *watch, uint32_t events);
static void conn_connect(struct control_conn *conn);

struct control *control_new(struct loop *loop, const char *root,
                            const struct control_state_file *state)
{
    struct control *control = xcalloc(1, sizeof(*control));
    control->loop = loop;
    control->root = xstrdup(root);
    control->sandbox = xstrdup(state->sandbox_id);
    control->socket = xstrdup(state->socket);
    control->uid = state->uid;
    control->gid = state->gid;
    control->short_ms = CONTROL_SHORT_MS;
    return control;
}

void control_free(struct control *control)
{
    if (!control)
        return;
    free(control->root);
    free(control->sandbox);
    free(control->socket);
    free(control);
}

static void call_clear(struct control_conn *conn)
{
    loop_cancel(&conn->deadline);
    loop_cancel(&conn->told);
    free(STEAL(conn->request));
    free(STEAL(conn->container));
    buf_fini(&conn->answer);
    for (size_t i = 0; i < conn->n_fds; i++)
        own_close_(&conn->fds[i]);
    conn->busy = false;
    conn->sent = conn->request_len = conn->n_fds = 0;
}

static void conn_kill(struct control_conn *conn, enum control_outcome outcome)
{
    loop_unwatch(&conn->watch);
    loop_cancel(&conn->retry);
    own_close_(&conn->fd);
    conn->dead = true;
    conn->dead_outcome = outcome;
}

/* Ends the call in flight. The callback may free the connection or start the next call. */
static void call_finish(struct control_conn *conn, const struct control_reply *reply)
{
    control_fn *fn = conn->fn;
    void *arg = conn->arg;
    struct control_reply copy = *reply;
    call_clear(conn);
    fn(arg, &copy);
}

static const char *outcome_text(enum control_outcome outcome)
{
    switch (outcome) {
    case CONTROL_USE_CLI:
        return "sandbox: its control socket cannot be used";
    case CONTROL_GONE:
        return "sandbox: it is exiting or gone";
    case CONTROL_TIMEOUT:
        return "sandbox: no answer in time";
    case CONTROL_BROKEN:
        return "sandbox: malformed answer on the control socket";
    case CONTROL_OK:
    case CONTROL_REFUSED:
        break;
    }
    return "sandbox: refused";
}

static struct control_reply outcome_reply(enum control_outcome outcome)
{
    static const enum err_kind kinds[] = {
        [CONTROL_OK] = ERR_OK,
        [CONTROL_REFUSED] = ERR_INTERNAL,
        [CONTROL_USE_CLI] = ERR_UNSUPPORTED,
        [CONTROL_GONE] = ERR_UNAVAILABLE,
        [CONTROL_TIMEOUT] = ERR_TIMEOUT,
        [CONTROL_BROKEN] = ERR_INTERNAL,
    };
    struct control_reply reply = { .outcome = outcome };
    (void)err_set(&reply.err, kinds[outcome], "%s", outcome_text(outcome));
    return reply;
}

/* The connection is of no more use; the call in flight, if any, is told so. */
static void conn_fail(struct control_conn *conn, enum control_outcome outcome)
{
    conn_kill(conn, outcome == CONTROL_USE_CLI ? CONTROL_USE_CLI : CONTROL_GONE);
    if (outcome == CONTROL_BROKEN && !conn->control->cli_only) {
        conn->control->cli_only = true;
        log_warn("control_broken", log_str("sandbox", conn->control->sandbox));
    }
    if (conn->busy) {
        struct control_reply reply = outcome_reply(outcome);
        call_finish(conn, &reply);
    }
}

static void on_deadline(struct loop_timer *timer)
{
    conn_fail(timer->arg, CONTROL_TIMEOUT);
}

static void on_told(struct loop_timer *timer)
{
    struct control_conn *conn = timer->arg;
    struct control_reply reply = conn->verdict;
    call_finish(conn, &reply);
}

/* An answer that needs no question, from the loop like all others. */
static void call_tell(struct control_conn *conn, enum control_outcome outcome)
{
    conn->verdict = outcome_reply(outcome);
    loop_after(conn->control->loop, &conn->told, 0, on_told, conn);
}

/* ---- connecting -------------------------------------------------------------------------- */

/* A socket path of any length: beyond what an address holds it is reached through its descriptor.
 */
static int connect_path(int fd, const char *path)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    int path_fd CLEANUP_FD = -1;
    if (strlen(path) < sizeof(sun.sun_path)) {
        memcpy(sun.sun_path, path, strlen(path) + 1);
    } else {
        path_fd = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
        if (path_fd < 0)
            return -1;
        (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d", path_fd);
    }
    return connect(fd, (const struct sockaddr *)&sun, sizeof(sun));
}

/* Where the state file says; if nothing is there, where the name would be in this root. */
static int connect_any(const struct control *control, int fd)
{
    if (control->socket[0] && connect_path(fd, control->socket) == 0)
        return 0;
    if (control->socket[0] && errno != ENOENT)
        return -1;
    char *path CLEANUP_FREE = xasprintf("%s/runsc-%s.sock", control->root, control->sandbox);
    return connect_path(fd, path);
}

static void on_retry(struct loop_timer *timer)
{
    conn_connect(timer->arg);
}

static void conn_connect(struct control_conn *conn)
{
    struct control *control = conn->control;
    struct err err;
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || control->cli_only) {
        conn_fail(conn, CONTROL_USE_CLI);
        return;
    }
    if (connect_any(control, fd)) {
        if (errno == EAGAIN) /* its backlog is full */
            loop_after(control->loop, &conn->retry, CONNECT_RETRY_MS, on_retry, conn);
        else if (errno == ECONNREFUSED || errno == ECONNRESET)
            conn_fail(conn, CONTROL_GONE);
        else
            conn_fail(conn, CONTROL_USE_CLI);
        return;
    }
    uint32_t events = EPOLLIN | (conn->busy ? (uint32_t)EPOLLOUT : 0);
    if (loop_watch(control->loop, &conn->watch, fd, events, on_conn, conn, &err)) {
        conn_fail(conn, CONTROL_USE_CLI);
        return;
    }
    conn->fd = steal_fd(&fd);
}

struct control_conn *control_conn_new(struct control *control)
{
    struct control_conn *conn = xcalloc(1, sizeof(*conn));
    conn->control = control;
    conn->fd = -1;
    buf_init(&conn->answer, 4096);
    conn_connect(conn);
    return conn;
}

void control_conn_free(struct control_conn *conn)
{
    if (!conn)
        return;
    call_clear(conn);
    conn_kill(conn, CONTROL_GONE);
    free(conn);
}

bool control_conn_busy(const struct control_conn *conn)
{
    return conn->busy;
}

bool control_conn_usable(const struct control_conn *conn)
{
    return !conn->dead;
}

/* ---- one call ---------------------------------------------------------------------------- */

/* Descriptors travel with the first byte. */
static ssize_t send_some(struct control_conn *conn)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(conn->fds))];
    } control = { 0 };
    struct iovec iov = { .iov_base = conn->request + conn->sent,
                         .iov_len = conn->request_len - conn->sent };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    if (conn->sent == 0 && conn->n_fds) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(conn->n_fds * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(conn->n_fds * sizeof(int));
        memcpy(CMSG_DATA(cmsg), conn->fds, conn->n_fds * sizeof(int));
    }
    return sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void conn_send(struct control_conn *conn)
{
    struct err err;
    while (conn->sent < conn->request_len) {
        ssize_t n = send_some(conn);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            conn_fail(conn, CONTROL_GONE);
            return;
        }
        conn->sent += (size_t)n;
    }
    uint32_t events = EPOLLIN | (conn->sent < conn->request_len ? (uint32_t)EPOLLOUT : 0);
    if (events != conn->watch.events &&
        loop_watch(conn->control->loop, &conn->watch, conn->fd, events, on_conn, conn, &err))
        conn_fail(conn, CONTROL_GONE);
}

static void conn_answered(struct control_conn *conn)
{
    struct control_answer answer;
    struct control *control = conn->control;
    control_answer_parse(conn->call, buf_cstr(&conn->answer), conn->answer.len, conn->container,
                         &answer);
    if (answer.reply.outcome == CONTROL_BROKEN) {
        control_answer_fini(&answer);
        conn_fail(conn, CONTROL_BROKEN);
        return;
    }
    control->has_pgid |= answer.has_pgid;
    if (conn->call == CONTROL_CALL_IDENTIFY)
        control->has_state = answer.state_known;
    call_finish(conn, &answer.reply);
    control_answer_fini(&answer);
}

static void conn_take(struct control_conn *conn, const char *data, size_t len)
{
    size_t used = 0;
    enum control_scan_result found = control_scan(&conn->scan, data, len, &used);
    buf_append(&conn->answer, data, used);
    /* Nothing may follow the answer, and nothing may come before the question is out. */
    if (found == CONTROL_SCAN_BAD || used != len || conn->answer.failed ||
        conn->sent < conn->request_len)
        conn_fail(conn, CONTROL_BROKEN);
    else if (found == CONTROL_SCAN_END)
        conn_answered(conn);
}

/* No room for ancillary data: descriptors that the peer sends are dropped by the kernel. */
static void conn_receive(struct control_conn *conn)
{
    char data[RECV_SIZE];
    ssize_t n = recv(conn->fd, data, sizeof(data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0)
        conn_fail(conn, CONTROL_GONE);
    else if (!conn->busy)
        conn_fail(conn, CONTROL_BROKEN);
    else
        conn_take(conn, data, (size_t)n);
}

static void on_conn(struct loop_watch *watch, uint32_t events)
{
    struct control_conn *conn = watch->arg;
    if (events & EPOLLIN) {
        conn_receive(conn); /* may have freed it: nothing after this */
        return;
    }
    if (events & (EPOLLHUP | EPOLLERR))
        conn_fail(conn, CONTROL_GONE);
    else if (events & EPOLLOUT)
        conn_send(conn);
}

/* Takes the request; NULL where it could not be built. */
static void call_start(struct control_conn *conn, enum control_call call, char *take_request,
                       const char *container, uint64_t ms, control_fn *fn, void *arg)
{
    assert(!conn->busy);
    conn->busy = true;
    conn->call = call;
    conn->fn = fn;
    conn->arg = arg;
    conn->request = take_request;
    conn->request_len = take_request ? strlen(take_request) : 0;
    conn->sent = 0;
    conn->container = xstrdup(container);
    conn->scan = (struct control_scan){ 0 };
    buf_init(&conn->answer, control_answer_max(call));
    if (!take_request) {
        call_tell(conn, CONTROL_REFUSED);
        (void)err_set(&conn->verdict.err, ERR_INVALID, "a text in the request is not UTF-8");
        return;
    }
    if (conn->dead) {
        call_tell(conn, conn->control->cli_only ? CONTROL_USE_CLI : conn->dead_outcome);
        return;
    }
    if (ms)
        loop_after(conn->control->loop, &conn->deadline, ms, on_deadline, conn);
    struct err err;
    if (conn->fd >= 0 && loop_watch(conn->control->loop, &conn->watch, conn->fd, EPOLLIN | EPOLLOUT,
                                    on_conn, conn, &err))
        call_tell(conn, CONTROL_USE_CLI);
}

void control_wait(struct control_conn *conn, const char *container, control_fn *fn, void *arg)
{
    call_start(conn, CONTROL_CALL_WAIT,
               control_request_container("containerManager.Wait", container), container, 0, fn,
               arg);
}

void control_wait_pid(struct control_conn *conn, const char *container, int32_t pid, control_fn *fn,
                      void *arg)
{
    call_start(conn, CONTROL_CALL_WAIT, control_request_wait_pid(container, pid), container, 0, fn,
               arg);
}

void control_signal(struct control_conn *conn, const char *container, int32_t pid, int signo,
                    enum control_signal_mode mode, control_fn *fn, void *arg)
{
    if (mode == CONTROL_SIGNAL_GROUP && !conn->control->has_pgid) {
        /* Older sandboxes panic on it. */
        call_start(conn, CONTROL_CALL_SIGNAL, NULL, container, 0, fn, arg);
        call_tell(conn, CONTROL_USE_CLI);
        return;
    }
    call_start(conn, CONTROL_CALL_SIGNAL, control_request_signal(container, pid, signo, (int)mode),
               container, conn->control->short_ms, fn, arg);
}

void control_event(struct control_conn *conn, const char *container, control_fn *fn, void *arg)
{
    call_start(conn, CONTROL_CALL_EVENT,
               control_request_container("containerManager.Event", container), container,
               conn->control->short_ms, fn, arg);
}

void control_processes(struct control_conn *conn, const char *container, control_fn *fn, void *arg)
{
    call_start(conn, CONTROL_CALL_PROCESSES,
               control_request_container("containerManager.Processes", container), container,
               conn->control->short_ms, fn, arg);
}

void control_runtime_state(struct control_conn *conn, const char *container, control_fn *fn,
                           void *arg)
{
    call_start(conn, CONTROL_CALL_STATE,
               control_request_container("containerManager.ContainerRuntimeState", container),
               container, conn->control->short_ms, fn, arg);
}

void control_identify(struct control_conn *conn, const char *container, control_fn *fn, void *arg)
{
    call_start(conn, CONTROL_CALL_IDENTIFY,
               control_request_container("containerManager.ContainerRuntimeState", container),
               container, conn->control->short_ms, fn, arg);
}

void control_network_config(struct control_conn *conn, control_fn *fn, void *arg)
{
    call_start(conn, CONTROL_CALL_NETWORK,
               control_request_null("containerManager.GetNetworkConfig"), "",
               conn->control->short_ms, fn, arg);
}

/* As runsc does, so that the guest's user owns its terminal and pipes. Never a device node:
 * /dev/null is the host's. */
static void give_to_sandbox(const struct control *control, int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || isatty(fd)))
        (void)!fchown(fd, control->uid, control->gid);
}

void control_exec(struct control_conn *conn, const struct control_exec *exec, control_fn *fn,
                  void *arg)
{
    bool have_fds = true;
    for (size_t i = 0; i < 3; i++) {
        int fd = exec->terminal ? exec->fds[0] : exec->fds[i];
        give_to_sandbox(conn->control, fd);
        conn->fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        have_fds &= conn->fds[i] >= 0;
    }
    conn->n_fds = 3;
    call_start(conn, CONTROL_CALL_EXEC, have_fds ? control_request_exec(exec) : NULL,
               exec->container, conn->control->short_ms, fn, arg);
    if (!have_fds)
        (void)err_set(&conn->verdict.err, ERR_INTERNAL, "exec: a stdio descriptor is not usable");
}
