#include "dataproxy/session.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "base/text.h"

#define EXPIRE_MS 250

struct peer {
    struct session_server *server;
    struct loop_watch watch;
    int fd; /* -1: free */
};

struct session_server {
    struct loop *loop;         /* borrowed */
    struct requests *requests; /* borrowed */
    int64_t gate_uid;
    char *path;
    int fd;
    struct loop_watch watch;
    struct loop_timer expire;
    struct peer peer[SESSION_PEERS_MAX];
};

static void drop_peer(struct peer *peer, const char *why)
{
    log_info("gate_gone", log_str("why", why));
    loop_unwatch(&peer->watch);
    own_close_(&peer->fd);
    requests_end_owner(peer->server->requests, peer, "the gate is gone");
}

/* One packet back. A peer that does not take it is dropped: it could not learn what it must know.
 */
static void send_message(struct peer *peer, const struct data_message *message)
{
    char packet[DATA_PACKET_MAX];
    size_t len = data_message_encode(message, packet);
    if (send(peer->fd, packet, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len)
        drop_peer(peer, "does not take answers");
}

static void refuse(struct peer *peer, const struct data_message *message, const struct err *err)
{
    struct data_message refused = { .op = DATA_REFUSED };
    char shown[sizeof(refused.why)];
    memcpy(refused.id, message->id, sizeof(refused.id));
    strcpy(refused.why, text_safe(err->msg, shown, sizeof(shown)));
    send_message(peer, &refused);
}

static void on_open(struct peer *peer, const struct data_message *message)
{
    struct err err;
    struct data_message opened = { .op = DATA_OPENED };
    memcpy(opened.id, message->id, sizeof(opened.id));
    if (requests_open(peer->server->requests, message, peer, loop_now_ms(peer->server->loop), &err))
        refuse(peer, message, &err);
    else
        send_message(peer, &opened);
}

static void on_end(struct peer *peer, const struct data_message *message)
{
    struct err err;
    struct data_message ended;
    if (requests_end(peer->server->requests, message->id, peer, &ended, &err))
        refuse(peer, message, &err);
    else
        send_message(peer, &ended);
}

static void on_packet(struct peer *peer, const char *packet, size_t len)
{
    struct data_message message;
    struct err err;
    if (data_message_decode(packet, len, &message, &err)) {
        drop_peer(peer, err.msg);
        return;
    }
    if (message.op == DATA_OPEN)
        on_open(peer, &message);
    else if (message.op == DATA_END)
        on_end(peer, &message);
    else
        drop_peer(peer, "sent a message that only the proxy sends");
}

static void on_peer(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct peer *peer = watch->arg;
    while (peer->fd >= 0) {
        char packet[DATA_PACKET_MAX + 1];
        ssize_t n = recv(peer->fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            drop_peer(peer, n == 0 ? "closed" : strerror(errno));
        else if ((size_t)n > DATA_PACKET_MAX)
            drop_peer(peer, "packet too long");
        else
            on_packet(peer, packet, (size_t)n);
    }
}

static bool peer_is_gate(const struct session_server *server, int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
        return false;
    if ((int64_t)cred.uid == server->gate_uid)
        return true;
    log_warn("session_refused", log_int("uid", cred.uid), log_int("gate_uid", server->gate_uid));
    return false;
}

static void on_accept(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct session_server *server = watch->arg;
    int fd CLEANUP_FD = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !peer_is_gate(server, fd))
        return;
    for (size_t i = 0; i < SESSION_PEERS_MAX; i++) {
        struct peer *peer = &server->peer[i];
        if (peer->fd >= 0)
            continue;
        peer->fd = steal_fd(&fd);
        if (loop_watch(server->loop, &peer->watch, peer->fd, EPOLLIN, on_peer, peer, NULL))
            own_close_(&peer->fd);
        else
            log_info("gate_connected", log_int("peers", (int64_t)session_server_peers(server)));
        return;
    }
    log_warn("session_full", log_int("peers", SESSION_PEERS_MAX));
}

static void on_expire(struct loop_timer *timer)
{
    struct session_server *server = timer->arg;
    requests_expire(server->requests, loop_now_ms(server->loop));
    loop_after(server->loop, timer, EXPIRE_MS, on_expire, server);
}

/* A socket file that nobody listens on is a leftover of a killed proxy. */
static CHECKED enum err_kind clear_stale(const struct sockaddr_un *at, struct err *err)
{
    struct stat st;
    if (lstat(at->sun_path, &st))
        return errno == ENOENT ? ERR_OK : err_sys(err, errno, "%s", at->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_PRECONDITION, "%s: exists and is no socket", at->sun_path);
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0)
        return err_set(err, ERR_EXISTS, "%s: another proxy listens there", at->sun_path);
    if (unlink(at->sun_path))
        return err_sys(err, errno, "%s", at->sun_path);
    return ERR_OK;
}

static CHECKED enum err_kind listen_at(struct session_server *server, struct err *err)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    if (strlen(server->path) >= sizeof(at.sun_path))
        return err_set(err, ERR_INVALID, "%s: longer than %zu bytes", server->path,
                       sizeof(at.sun_path) - 1);
    strcpy(at.sun_path, server->path);
    enum err_kind kind = clear_stale(&at, err);
    if (kind)
        return kind;
    server->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->fd < 0 || bind(server->fd, (const struct sockaddr *)&at, sizeof(at)) ||
        chmod(at.sun_path, 0666) || listen(server->fd, SESSION_PEERS_MAX))
        return err_sys(err, errno, "%s", at.sun_path);
    return loop_watch(server->loop, &server->watch, server->fd, EPOLLIN, on_accept, server, err);
}

enum err_kind session_server_new(struct loop *loop, const char *path, int64_t gate_uid,
                                 struct requests *requests, struct session_server **out,
                                 struct err *err)
{
    struct session_server *server CLEANUP(session_server_freep) = xcalloc(1, sizeof(*server));
    server->loop = loop;
    server->requests = requests;
    server->gate_uid = gate_uid;
    server->path = xstrdup(path);
    server->fd = -1;
    for (size_t i = 0; i < SESSION_PEERS_MAX; i++)
        server->peer[i] = (struct peer){ .server = server, .fd = -1 };
    enum err_kind kind = listen_at(server, err);
    if (kind)
        return kind;
    loop_after(loop, &server->expire, EXPIRE_MS, on_expire, server);
    *out = STEAL(server);
    return ERR_OK;
}

void session_server_free(struct session_server *server)
{
    if (!server)
        return;
    loop_cancel(&server->expire);
    for (size_t i = 0; i < SESSION_PEERS_MAX; i++) {
        if (server->peer[i].fd >= 0)
            drop_peer(&server->peer[i], "the proxy stops");
    }
    if (server->watch.loop)
        (void)unlink(server->path);
    loop_unwatch(&server->watch);
    own_close_(&server->fd);
    free(server->path);
    free(server);
}

size_t session_server_peers(const struct session_server *server)
{
    size_t n = 0;
    for (size_t i = 0; i < SESSION_PEERS_MAX; i++)
        n += server->peer[i].fd >= 0;
    return n;
}
