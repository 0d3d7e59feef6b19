/* Listeners, accepting, caps and figures of the server. */
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/text.h"
#include "http/conn.h"

#define ACCEPTS_PER_TURN 64
#define BACKLOG 1024
#define ACCEPT_AGAIN_MS 50

void link_init(struct link *head)
{
    head->prev = head->next = head;
}

void link_add(struct link *head, struct link *item)
{
    item->prev = head->prev;
    item->next = head;
    head->prev->next = item;
    head->prev = item;
}

void link_remove(struct link *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    link_init(item);
}

static void set_defaults(struct http_server_config *c)
{
    c->header_ms = c->header_ms ? c->header_ms : 5000;
    c->body_ms = c->body_ms ? c->body_ms : 15000;
    c->write_ms = c->write_ms ? c->write_ms : 15000;
    c->idle_ms = c->idle_ms ? c->idle_ms : 75000;
    c->max_connections = c->max_connections ? c->max_connections : 20000;
}

enum err_kind http_server_new(struct loop *loop, const struct http_server_config *config,
                              struct http_server **out, struct err *err)
{
    if (!config->on_request)
        return err_set(err, ERR_INVALID, "http server without on_request");
    struct http_server *server = xcalloc(1, sizeof(*server));
    server->loop = loop;
    server->config = *config;
    set_defaults(&server->config);
    link_init(&server->idle);
    link_init(&server->rest);
    buf_init(&server->scratch, (size_t)4 * HTTP_HEAD_MAX);
    *out = server;
    return ERR_OK;
}

void http_server_reconfigure(struct http_server *server, const struct http_server_config *config)
{
    struct http_server_config fresh = *config;
    fresh.on_request = server->config.on_request;
    fresh.on_refused = server->config.on_refused;
    fresh.arg = server->config.arg;
    set_defaults(&fresh);
    server->config = fresh;
}

static void listener_free(struct listener *l)
{
    loop_unwatch(&l->watch);
    own_close_(&l->fd);
    if (l->path)
        (void)unlink(l->path);
    free(l->path);
    free(l);
}

static void listeners_free(struct http_server *server)
{
    loop_cancel(&server->accept_again);
    for (size_t i = 0; i < server->n_listeners; i++)
        listener_free(server->listeners[i]);
    free(server->listeners);
    server->listeners = NULL;
    server->n_listeners = 0;
}

static void close_ring(struct link *ring)
{
    while (ring->next != ring) {
        struct conn *conn = (struct conn *)ring->next;
        conn->sent_fn = NULL; /* the users are gone with the program */
        conn_enter(conn);
        if (conn->request)
            buf_fini(&conn->request->body);
        free(STEAL(conn->request));
        conn_close(conn);
        conn_leave(conn);
    }
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    listeners_free(server);
    close_ring(&server->idle);
    close_ring(&server->rest);
    buf_fini(&server->scratch);
    free(server);
}

void http_server_drain(struct http_server *server)
{
    server->draining = true;
    while (server->idle.next != &server->idle)
        conn_close((struct conn *)server->idle.next);
}

int http_server_port(const struct http_server *server, size_t n)
{
    return n < server->n_listeners ? server->listeners[n]->port : -1;
}

void http_server_stats(const struct http_server *server, struct http_server_stats *out)
{
    *out = server->stats;
}

/* Frees one place: the longest idle connection, or the oldest that has no complete head. */
static bool make_room(struct http_server *server)
{
    if (server->idle.next == &server->idle)
        return false;
    server->stats.rejected++;
    conn_close((struct conn *)server->idle.next);
    return true;
}

static void on_accept_again(struct loop_timer *timer);

/* Out of descriptors: level-triggered listening would spin, so look away for a moment. */
static void pause_accepting(struct http_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        loop_unwatch(&server->listeners[i]->watch);
    loop_after(server->loop, &server->accept_again, ACCEPT_AGAIN_MS, on_accept_again, server);
}

static void on_listener(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct listener *l = watch->arg;
    struct http_server *server = l->server;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (full && !make_room(server))
                pause_accepting(server);
            return;
        }
        if (server->stats.connections >= server->config.max_connections && !make_room(server)) {
            server->stats.rejected++;
            (void)close(fd);
            continue;
        }
        conn_new(server, fd, (struct sockaddr *)&peer, len);
    }
}

void http_server_stop_listening(struct http_server *server)
{
    for (size_t i = 0; i < server->n_listeners; i++) /* who has connected is not reset */
        on_listener(&server->listeners[i]->watch, EPOLLIN);
    listeners_free(server);
}

static void watch_listener(struct listener *l)
{
    /* Failing to watch an open listener means that the kernel is out of memory: try again. */
    if (loop_watch(l->server->loop, &l->watch, l->fd, EPOLLIN, on_listener, l, NULL))
        loop_after(l->server->loop, &l->server->accept_again, ACCEPT_AGAIN_MS, on_accept_again,
                   l->server);
}

static void on_accept_again(struct loop_timer *timer)
{
    struct http_server *server = timer->arg;
    for (size_t i = 0; i < server->n_listeners; i++)
        watch_listener(server->listeners[i]);
}

/* ---- addresses ---- */

static enum err_kind parse_tcp(const char *address, struct sockaddr_storage *out, socklen_t *len,
                               struct err *err)
{
    const char *colon = strrchr(address, ':');
    uint64_t port = 0;
    if (!colon || !text_u64(colon + 1, &port) || port > 65535)
        return err_set(err, ERR_INVALID, "listen address \"%s\": want ADDRESS:PORT or unix:PATH",
                       address);
    char host[64];
    size_t n = (size_t)(colon - address);
    if (n >= sizeof(host))
        return err_set(err, ERR_INVALID, "listen address \"%s\" is too long", address);
    memcpy(host, address, n);
    host[n] = '\0';
    memset(out, 0, sizeof(*out));
    struct sockaddr_in *in4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = '\0';
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        *len = sizeof(*in6);
        if (inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1)
            return ERR_OK;
    } else {
        in4->sin_family = AF_INET;
        in4->sin_port = htons((uint16_t)port);
        *len = sizeof(*in4);
        if (inet_pton(AF_INET, host, &in4->sin_addr) == 1)
            return ERR_OK;
    }
    return err_set(err, ERR_INVALID, "listen address \"%s\": the address must be numeric", address);
}

/* While several listen, the first of them gets every connection; when it closes, the next. */
static void first_takes_all(int fd)
{
    struct sock_filter first = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = { .len = 1, .filter = &first };
    /* Where the kernel cannot (gVisor), connections are shared out. */
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

static enum err_kind open_tcp(struct http_server *server, const char *address, struct listener *l,
                              struct err *err)
{
    struct sockaddr_storage sa;
    socklen_t len;
    if (parse_tcp(address, &sa, &len, err))
        return err->kind;
    l->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return err_sys(err, errno, "socket");
    int on = 1, defer = 5;
    (void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (server->config.reuse_port)
        (void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (sa.ss_family == AF_INET6)
        (void)setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof(defer));
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(l->fd, (struct sockaddr *)&sa, len) || listen(l->fd, BACKLOG))
        return err_sys(err, errno, "listen on %s", address);
    if (server->config.reuse_port)
        first_takes_all(l->fd);
    len = sizeof(sa);
    if (getsockname(l->fd, (struct sockaddr *)&sa, &len))
        return err_sys(err, errno, "getsockname");
    l->port = ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
                                             : ((struct sockaddr_in *)&sa)->sin_port);
    return ERR_OK;
}

/* A socket file that nobody answers on is left over from a killed process. */
static enum err_kind clear_stale(const struct sockaddr_un *sun, struct err *err)
{
    struct stat st;
    if (lstat(sun->sun_path, &st))
        return ERR_OK;
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_EXISTS, "%s exists and is no socket", sun->sun_path);
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    if (connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0)
        return err_set(err, ERR_EXISTS, "another process listens on %s", sun->sun_path);
    if (unlink(sun->sun_path) && errno != ENOENT)
        return err_sys(err, errno, "remove %s", sun->sun_path);
    return ERR_OK;
}

static enum err_kind open_unix(const char *path, struct listener *l, struct err *err)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(sun.sun_path) || path[0] != '/')
        return err_set(err, ERR_INVALID,
                       "listen address unix:%s: want an absolute path below %zu bytes", path,
                       sizeof(sun.sun_path));
    memcpy(sun.sun_path, path, strlen(path) + 1);
    if (clear_stale(&sun, err))
        return err->kind;
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return err_sys(err, errno, "socket");
    (void)fchmod(l->fd, 0660); /* decides the mode of the file that bind makes */
    if (bind(l->fd, (struct sockaddr *)&sun, sizeof(sun)) || listen(l->fd, BACKLOG))
        return err_sys(err, errno, "listen on %s", path);
    l->port = -1;
    l->path = xstrdup(path);
    return ERR_OK;
}

enum err_kind http_server_listen(struct http_server *server, const char *address, struct err *err)
{
    struct listener *l = xcalloc(1, sizeof(*l));
    struct err mine = { 0 };
    struct err *e = err ? err : &mine;
    l->server = server;
    l->fd = -1;
    enum err_kind kind = text_starts(address, "unix:") ? open_unix(address + 5, l, e)
                                                       : open_tcp(server, address, l, e);
    if (kind == ERR_OK)
        kind = loop_watch(server->loop, &l->watch, l->fd, EPOLLIN, on_listener, l, e);
    if (kind) {
        listener_free(l);
        return kind;
    }
    server->listeners =
        xreallocarray(server->listeners, server->n_listeners + 1, sizeof(*server->listeners));
    server->listeners[server->n_listeners++] = l;
    return ERR_OK;
}
