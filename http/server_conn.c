/* One connection: reading, heads, the order of states, closing. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "http/conn.h"

static void on_event(struct loop_watch *watch, uint32_t events);
static void on_timer(struct loop_timer *timer);

static void count_state(struct conn *conn, enum conn_state state)
{
    bool was = conn->state == CONN_BODY || conn->state == CONN_BUSY;
    bool is = state == CONN_BODY || state == CONN_BUSY;
    if (is && !was)
        conn->server->stats.active++;
    if (was && !is)
        conn->server->stats.active--;
}

static void set_state(struct conn *conn, enum conn_state state)
{
    if (conn->state == state)
        return;
    count_state(conn, state);
    conn->state = state;
    link_remove(&conn->link);
    link_add(state == CONN_HEAD ? &conn->server->idle : &conn->server->rest, &conn->link);
}

void conn_new(struct http_server *server, int fd, const struct sockaddr *peer, socklen_t len)
{
    struct conn *conn = xcalloc(1, sizeof(*conn));
    conn->server = server;
    conn->fd = fd;
    conn->state = CONN_HEAD;
    conn->peer.any.sa_family = peer->sa_family;
    if (peer->sa_family != AF_UNIX && len <= sizeof(conn->peer))
        memcpy(&conn->peer, peer, len);
    buf_init(&conn->in, (size_t)2 * CONN_READ_SIZE);
    buf_init(&conn->out, SIZE_MAX / 2);
    link_add(&server->idle, &conn->link);
    server->stats.accepted++;
    server->stats.connections++;
    conn_deadline(conn, server->config.header_ms);
    int on = 1;
    if (peer->sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    /* The listener defers until there are bytes: read at once. */
    on_event(&(struct loop_watch){ .arg = conn }, EPOLLIN);
}

static void conn_free(struct conn *conn)
{
    count_state(conn, CONN_HEAD);
    conn->server->stats.connections--;
    loop_cancel(&conn->timer);
    link_remove(&conn->link);
    buf_fini(&conn->in);
    buf_fini(&conn->out);
    free(conn->peer_text);
    free(conn);
}

static void tell_sent(struct conn *conn, bool sent)
{
    http_sent_fn *fn = STEAL(conn->sent_fn);
    if (fn)
        fn(conn->sent_arg, sent);
}

static void tell_gone(struct conn *conn)
{
    struct http_request *r = conn->request;
    if (!r || r->gone)
        return;
    r->gone = true;
    if (conn->state == CONN_BODY) {
        body_finish(conn, HTTP_BODY_GONE);
        return;
    }
    http_gone_fn *fn = STEAL(r->gone_fn);
    if (fn)
        fn(r, r->gone_arg);
}

void conn_close(struct conn *conn)
{
    if (conn->fd < 0)
        return;
    conn_enter(conn);
    loop_unwatch(&conn->watch);
    own_close_(&conn->fd);
    conn_deadline(conn, 0);
    conn->view_len = 0;
    buf_clear(&conn->out);
    tell_sent(conn, false);
    tell_gone(conn);
    conn_leave(conn);
}

void conn_reset(struct conn *conn)
{
    struct linger hard = { .l_onoff = 1, .l_linger = 0 };
    if (conn->fd >= 0)
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    conn_close(conn);
}

/* ---- deadlines: the timer is moved only when it would be too late ---- */

void conn_deadline(struct conn *conn, uint64_t ms)
{
    if (ms == 0) {
        conn->deadline_ms = 0;
        return;
    }
    conn->deadline_ms = loop_now_ms(conn->server->loop) + ms;
    if (!conn->timer.heap_index || conn->timer.due_ms > conn->deadline_ms)
        loop_after(conn->server->loop, &conn->timer, ms, on_timer, conn);
}

static void on_timer(struct loop_timer *timer)
{
    struct conn *conn = timer->arg;
    uint64_t now = loop_now_ms(conn->server->loop);
    if (!conn->deadline_ms)
        return;
    if (conn->deadline_ms > now) {
        loop_after(conn->server->loop, &conn->timer, conn->deadline_ms - now, on_timer, conn);
        return;
    }
    conn->server->stats.timeouts++;
    conn->deadline_ms = 0;
    if (conn->state == CONN_BODY) {
        conn_enter(conn);
        body_finish(conn, HTTP_BODY_TIMEOUT);
        conn_leave(conn);
    } else {
        conn_close(conn);
    }
}

/* ---- entering and leaving: input view, watch, freeing ---- */

void conn_enter(struct conn *conn)
{
    if (conn->depth++ == 0 && conn->view_len == 0 && conn->in.len) {
        conn->view = (const char *)conn->in.data;
        conn->view_len = conn->in.len;
        conn->view_is_in = true;
    }
}

static void stash_view(struct conn *conn)
{
    if (conn->view_is_in)
        buf_consume(&conn->in, conn->in.len - conn->view_len);
    else if (conn->view_len)
        buf_append(&conn->in, conn->view, conn->view_len);
    conn->view_is_in = false;
    conn->view_len = 0;
    if (conn->in.len == 0 && conn->in.data) {
        buf_fini(&conn->in);
        buf_init(&conn->in, (size_t)2 * CONN_READ_SIZE);
    }
}

static void update_watch(struct conn *conn)
{
    uint32_t want = conn->out.len ? EPOLLOUT : 0;
    switch (conn->state) {
    case CONN_HEAD:
    case CONN_BODY:
        want |= EPOLLIN | EPOLLRDHUP;
        break;
    case CONN_DRAIN:
    case CONN_LINGER:
        want |= EPOLLIN;
        break;
    case CONN_BUSY:
        if (!conn->half_closed)
            want |= EPOLLRDHUP | (conn->stalled ? 0U : (uint32_t)EPOLLIN);
        break;
    case CONN_FLUSH:
        break;
    }
    if (conn->watch.loop && conn->watch.events == want)
        return;
    if (loop_watch(conn->server->loop, &conn->watch, conn->fd, want, on_event, conn, NULL))
        conn_close(conn);
}

void conn_leave(struct conn *conn)
{
    if (conn->depth > 1) {
        conn->depth--;
        return;
    }
    if (conn->fd >= 0) {
        stash_view(conn);
        update_watch(conn); /* may close */
    }
    conn->depth--;
    if (conn->fd < 0 && !conn->request)
        conn_free(conn);
}

/* ---- heads ---- */

/* Bytes of the view are used up. */
static void use(struct conn *conn, size_t n)
{
    conn->view += n;
    conn->view_len -= n;
}

static void refuse_head(struct conn *conn, struct http_fault fault)
{
    struct http_server *server = conn->server;
    server->stats.refused++;
    if (server->config.on_refused) {
        struct http_request probe = { .conn = conn };
        server->config.on_refused(server->config.arg, http_request_peer(&probe), fault);
    }
    char head[512];
    int n =
        snprintf(head, sizeof(head),
                 "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                 "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s\n",
                 fault.status, http_reason(fault.status), strlen(fault.why) + 1, fault.why);
    conn->view_len = 0;
    conn->close_after = conn->linger = true;
    set_state(conn, CONN_FLUSH);
    conn_write(conn, head, (size_t)n, NULL, 0);
}

static struct http_request *request_new(struct conn *conn, const struct http_head *head)
{
    size_t fields = head->n_fields * sizeof(struct http_field);
    struct http_request *r = xmalloc(sizeof(*r) + fields + head->size);
    memset(r, 0, sizeof(*r));
    char *bytes = (char *)r->fields + fields;
    memcpy(bytes, conn->view, head->size);
    r->head = *head;
    http_head_rebase(&r->head, conn->view, bytes, r->fields);
    r->conn = conn;
    r->started_ms = loop_now_ms(conn->server->loop);
    r->body_left = head->framing == HTTP_FRAMED_LENGTH ? head->content_length : 0;
    buf_init(&r->body, SIZE_MAX / 2);
    chunked_init(&r->chunked);
    return r;
}

static bool refused_method(const struct http_server *server, const struct http_head *head)
{
    return !server->config.allow_connect &&
           (head->method == HTTP_CONNECT || head->method == HTTP_TRACE);
}

/* Parses one head off the view. False: nothing more to do for now. */
static bool take_head(struct conn *conn)
{
    struct http_field fields[HTTP_FIELDS_MAX];
    struct http_head head;
    struct http_fault fault = { 0 };
    if (conn->view_len == 0) {
        conn->was_partial = false;
        return false;
    }
    switch (http_parse_request(conn->view, conn->view_len, fields, &head, &fault)) {
    case HTTP_PARTIAL:
        if (!conn->was_partial)
            conn_deadline(conn, conn->server->config.header_ms);
        conn->was_partial = true;
        return false;
    case HTTP_REFUSED:
        refuse_head(conn, fault);
        return true;
    case HTTP_PARSED:
    default:
        break;
    }
    if (refused_method(conn->server, &head)) {
        refuse_head(conn, (struct http_fault){ 405, "method not allowed" });
        return true;
    }
    conn->was_partial = false;
    conn->request = request_new(conn, &head);
    conn->close_after = !head.keep_alive || conn->server->draining;
    conn->linger = conn->stalled = false;
    use(conn, head.size);
    conn_deadline(conn, 0);
    set_state(conn, CONN_BUSY);
    conn->server->stats.requests++;
    conn->server->config.on_request(conn->server->config.arg, conn->request);
    return true;
}

static void drain(struct conn *conn)
{
    uint64_t n = conn->view_len < conn->drain_left ? conn->view_len : conn->drain_left;
    use(conn, (size_t)n);
    conn->drain_left -= n;
    if (conn->drain_left == 0)
        set_state(conn, CONN_HEAD);
}

/* Between two requests: what the last answer left to do. */
static void next_request(struct conn *conn)
{
    if (conn->close_after && conn->linger) {
        (void)shutdown(conn->fd, SHUT_WR);
        conn->view_len = 0;
        set_state(conn, CONN_LINGER);
        conn_deadline(conn, CONN_LINGER_MS);
    } else if (conn->close_after) {
        conn_close(conn);
    } else if (conn->drain_left) {
        set_state(conn, CONN_DRAIN);
        conn_deadline(conn, conn->server->config.body_ms);
    } else {
        set_state(conn, CONN_HEAD);
        conn_deadline(conn, conn->server->config.idle_ms);
    }
}

/* Goes through the states as far as the bytes at hand allow. */
void conn_advance(struct conn *conn)
{
    while (conn->fd >= 0) {
        switch (conn->state) {
        case CONN_HEAD:
            if (!take_head(conn))
                return;
            break;
        case CONN_BODY:
            body_pump(conn);
            if (conn->state == CONN_BODY)
                return;
            break;
        case CONN_FLUSH:
            if (conn->out.len)
                return;
            tell_sent(conn, true);
            next_request(conn);
            break;
        case CONN_DRAIN:
            drain(conn);
            if (conn->state == CONN_DRAIN)
                return;
            break;
        case CONN_LINGER:
            conn->view_len = 0;
            return;
        case CONN_BUSY:
        default:
            return;
        }
    }
}

void conn_request_done(struct conn *conn)
{
    struct http_request *r = conn->request;
    conn->drain_left = body_unread(conn);
    conn->request = NULL;
    if (conn->drain_left == UINT64_MAX) {
        conn->drain_left = 0;
        conn->close_after = conn->linger = true;
    }
    buf_fini(&r->body);
    free(r);
    conn->stalled = false;
    if (conn->fd >= 0)
        set_state(conn, CONN_FLUSH);
    else
        tell_sent(conn, false);
}

/* ---- events ---- */

static void on_readable(struct conn *conn)
{
    struct http_server *server = conn->server;
    ssize_t n;
    if (conn->in.len) {
        size_t room = conn->in.max - conn->in.len;
        uint8_t *to = buf_reserve(&conn->in, room < 16384 ? room : 16384);
        n = to ? recv(conn->fd, to, room < 16384 ? room : 16384, 0) : -1;
        if (n > 0)
            conn->in.len += (size_t)n;
    } else {
        n = recv(conn->fd, server->read_buffer, sizeof(server->read_buffer), 0);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        conn_enter(conn);
        conn_leave(conn);
        return;
    }
    if (n <= 0) {
        conn->half_closed = true;
        conn_close(conn);
        return;
    }
    bool first = conn->in.len == 0;
    if (first) {
        conn->view = server->read_buffer;
        conn->view_len = (size_t)n;
        conn->view_is_in = false;
    } else if (conn->state == CONN_HEAD && conn->in.len < HTTP_HEAD_MAX &&
               !memchr(conn->in.data + conn->in.len - (size_t)n, '\n', (size_t)n)) {
        return; /* no new line is complete: parsing again would be work for nothing */
    }
    conn_enter(conn);
    conn_advance(conn);
    conn_leave(conn);
}

static void on_busy(struct conn *conn, uint32_t events)
{
    if (events & (EPOLLERR | EPOLLHUP)) {
        conn_close(conn);
        return;
    }
    conn_enter(conn);
    if (events & EPOLLRDHUP) {
        conn->half_closed = true;
        tell_gone(conn);
    } else if (events & EPOLLIN) {
        conn->stalled = true;
    }
    conn_leave(conn);
}

static void on_event(struct loop_watch *watch, uint32_t events)
{
    struct conn *conn = watch->arg;
    if (events & EPOLLOUT) {
        conn_enter(conn);
        conn_flush(conn);
        conn_advance(conn);
        events &= ~(uint32_t)EPOLLOUT;
        bool over = conn->fd < 0;
        conn_leave(conn);
        if (over || !events)
            return;
    }
    if (conn->state == CONN_BUSY)
        on_busy(conn, events);
    else if (conn->state == CONN_FLUSH) {
        if (events & (EPOLLERR | EPOLLHUP))
            conn_close(conn);
    } else
        on_readable(conn);
}

/* ---- what a user may ask about a request ---- */

const struct http_head *http_request_head(const struct http_request *request)
{
    return &request->head;
}

static char *format_peer(const struct conn *conn)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (conn->peer.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &conn->peer.in4.sin_addr, text, sizeof(text));
        return xasprintf("%s:%u", text, ntohs(conn->peer.in4.sin_port));
    }
    if (conn->peer.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &conn->peer.in6.sin6_addr, text, sizeof(text));
        return xasprintf("[%s]:%u", text, ntohs(conn->peer.in6.sin6_port));
    }
    return xstrdup("unix");
}

const char *http_request_peer(const struct http_request *request)
{
    struct conn *conn = request->conn;
    if (!conn->peer_text)
        conn->peer_text = format_peer(conn);
    return conn->peer_text;
}

void http_request_peer_address(const struct http_request *request, char out[HTTP_ADDRESS_MAX])
{
    const struct conn *conn = request->conn;
    out[0] = '\0';
    if (conn->peer.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &conn->peer.in4.sin_addr, out, HTTP_ADDRESS_MAX);
    else if (conn->peer.any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &conn->peer.in6.sin6_addr, out, HTTP_ADDRESS_MAX);
}

int64_t http_request_peer_uid(const struct http_request *request)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    const struct conn *conn = request->conn;
    if (conn->peer.any.sa_family != AF_UNIX || conn->fd < 0 ||
        getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
        return -1;
    return (int64_t)cred.uid;
}

uint64_t http_request_started_ms(const struct http_request *request)
{
    return request->started_ms;
}

void http_request_set_arg(struct http_request *request, void *arg)
{
    request->arg = arg;
}

void *http_request_arg(const struct http_request *request)
{
    return request->arg;
}

void http_request_on_gone(struct http_request *request, http_gone_fn *fn, void *arg)
{
    request->gone_fn = fn;
    request->gone_arg = arg;
}

bool http_request_gone(const struct http_request *request)
{
    return request->gone;
}
