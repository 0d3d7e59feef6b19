#include "gate/data_session.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/log.h"

#define DIAL_FIRST_MS 50
#define DIAL_MOST_MS 2000

struct data_session {
    struct loop *loop; /* borrowed */
    char *path;
    int fd; /* -1 while not connected */
    struct loop_watch watch;
    struct loop_timer dial;
    uint64_t dial_ms;
    struct data_pending *pending;
};

static void forget(struct data_pending *pending)
{
    if (!pending->prev)
        return;
    loop_cancel(&pending->timer);
    *pending->prev = pending->next;
    if (pending->next)
        pending->next->prev = pending->prev;
    pending->prev = NULL;
    pending->next = NULL;
}

static void finish(struct data_pending *pending, enum data_result result,
                   const struct data_message *answer)
{
    forget(pending);
    pending->fn(pending->arg, result, answer);
}

static void on_dial(struct loop_timer *timer);

static void dial_later(struct data_session *session)
{
    loop_after(session->loop, &session->dial, session->dial_ms, on_dial, session);
    session->dial_ms = session->dial_ms * 2 > DIAL_MOST_MS ? DIAL_MOST_MS : session->dial_ms * 2;
}

static void hang_up(struct data_session *session, const char *why)
{
    static const struct data_message none = { 0 };
    if (session->fd < 0)
        return;
    log_warn("data_session_lost", log_str("why", why));
    loop_unwatch(&session->watch);
    own_close_(&session->fd);
    dial_later(session);
    while (session->pending)
        finish(session->pending, DATA_RESULT_LOST, &none);
}

static void on_message(struct data_session *session, const struct data_message *message)
{
    struct data_pending *p = session->pending;
    while (p && strcmp(p->id, message->id) != 0)
        p = p->next;
    if (!p)
        return; /* the answer to something cancelled or timed out */
    if (message->op == p->awaited)
        finish(p, DATA_RESULT_OK, message);
    else if (message->op == DATA_REFUSED)
        finish(p, DATA_RESULT_REFUSED, message);
}

static void on_readable(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct data_session *session = watch->arg;
    while (session->fd >= 0) {
        char packet[DATA_PACKET_MAX + 1];
        struct data_message message;
        ssize_t n = recv(session->fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            hang_up(session, n == 0 ? "closed by the proxy" : strerror(errno));
        else if ((size_t)n > DATA_PACKET_MAX ||
                 data_message_decode(packet, (size_t)n, &message, NULL))
            hang_up(session, "not a message");
        else
            on_message(session, &message);
    }
}

static bool dial(struct data_session *session)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(at.sun_path, session->path, strlen(session->path) + 1);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) ||
        loop_watch(session->loop, &session->watch, fd, EPOLLIN, on_readable, session, NULL))
        return false;
    session->fd = steal_fd(&fd);
    session->dial_ms = DIAL_FIRST_MS;
    log_info("data_session_up", log_str("path", session->path));
    return true;
}

static void on_dial(struct loop_timer *timer)
{
    struct data_session *session = timer->arg;
    if (!dial(session))
        dial_later(session);
}

enum err_kind data_session_new(struct loop *loop, const char *path, struct data_session **out,
                               struct err *err)
{
    struct sockaddr_un at;
    if (path[0] != '/' || strlen(path) >= sizeof(at.sun_path))
        return err_set(err, ERR_INVALID, "%s: must be an absolute path of at most %zu bytes", path,
                       sizeof(at.sun_path) - 1);
    struct data_session *session = xcalloc(1, sizeof(*session));
    session->loop = loop;
    session->path = xstrdup(path);
    session->fd = -1;
    session->dial_ms = DIAL_FIRST_MS;
    if (!dial(session))
        dial_later(session);
    *out = session;
    return ERR_OK;
}

void data_session_free(struct data_session *session)
{
    if (!session)
        return;
    while (session->pending)
        forget(session->pending);
    loop_cancel(&session->dial);
    loop_unwatch(&session->watch);
    own_close_(&session->fd);
    free(session->path);
    free(session);
}

bool data_session_up(const struct data_session *session)
{
    return session->fd >= 0;
}

static bool send_message(struct data_session *session, const struct data_message *message)
{
    char packet[DATA_PACKET_MAX];
    size_t len = data_message_encode(message, packet);
    return session->fd >= 0 &&
           send(session->fd, packet, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

/* Whatever became of it: it shall not stay open. */
static void send_end(struct data_session *session, const char *id)
{
    struct data_message end = { .op = DATA_END };
    memcpy(end.id, id, strlen(id) + 1);
    if (!send_message(session, &end))
        hang_up(session, "does not take messages");
}

static void on_timeout(struct loop_timer *timer)
{
    static const struct data_message none = { 0 };
    struct data_pending *pending = timer->arg;
    struct data_session *session = pending->session;
    bool opening = pending->awaited == DATA_OPENED;
    char id[sizeof(pending->id)];
    memcpy(id, pending->id, sizeof(id));
    finish(pending, DATA_RESULT_LOST, &none);
    if (opening)
        send_end(session, id);
}

/* The result of an operation that could not be sent comes on the next turn, like every result. */
static void on_unsent(struct loop_timer *timer)
{
    static const struct data_message none = { 0 };
    finish(timer->arg, DATA_RESULT_LOST, &none);
}

static void start(struct data_session *session, const struct data_message *message,
                  enum data_op awaited, struct data_pending *pending)
{
    pending->session = session;
    pending->awaited = awaited;
    memcpy(pending->id, message->id, sizeof(pending->id));
    bool sent = send_message(session, message);
    pending->next = session->pending;
    pending->prev = &session->pending;
    if (session->pending)
        session->pending->prev = &pending->next;
    session->pending = pending;
    loop_after(session->loop, &pending->timer, sent ? DATA_ANSWER_MS : 0,
               sent ? on_timeout : on_unsent, pending);
}

void data_session_open(struct data_session *session, const struct data_message *message,
                       struct data_pending *pending, data_result_fn *fn, void *arg)
{
    *pending = (struct data_pending){ .fn = fn, .arg = arg };
    start(session, message, DATA_OPENED, pending);
}

void data_session_end(struct data_session *session, const char *id, struct data_pending *pending,
                      data_result_fn *fn, void *arg)
{
    struct data_message end = { .op = DATA_END };
    (void)snprintf(end.id, sizeof(end.id), "%s", id);
    *pending = (struct data_pending){ .fn = fn, .arg = arg };
    start(session, &end, DATA_ENDED, pending);
}

void data_pending_cancel(struct data_pending *pending)
{
    if (!pending->prev)
        return;
    struct data_session *session = pending->session;
    bool opening = pending->awaited == DATA_OPENED;
    forget(pending);
    if (opening)
        send_end(session, pending->id);
}
