#include "proto/ttrpc_server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <google.pb-c.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <ttrpc.pb-c.h>

#include "base/log.h"
#include "base/text.h"
#include "proto/ttrpc_frame.h"
#include "proto/ttrpc_out.h"
#include "proto/unpack.h"

/* Reads stop while so much waits to be sent: a peer that does not read gets no more work done. */
#define OUT_PAUSE ((size_t)1024 * 1024)
#define READS_PER_TURN 4
#define ACCEPT_RETRY_MS 100
#define MESSAGE_MAX 16384

struct conn {
    struct ttrpc_server *server;
    struct conn *prev, *next;
    int fd;
    struct loop_watch watch;
    struct ttrpc_reader reader;
    struct ttrpc_out out;
    uint32_t last_stream;
    struct ttrpc_call *calls;
    size_t n_calls;
    bool reading; /* inside conn_read(): nobody else closes it */
    bool broken;  /* to be closed as soon as nothing is reading */
    bool parked;  /* the reader holds frames that wait until answers have gone out */
};

struct ttrpc_call {
    struct conn *conn; /* NULL once the connection is gone */
    struct ttrpc_call *prev, *next;
    const struct ttrpc_service *service;
    const struct ttrpc_method *method;
    ProtobufCMessage *message;
    uint32_t stream;
    uint64_t timeout_ms;
};

struct ttrpc_server {
    struct loop *loop;
    struct ttrpc_server_options options;
    int listen_fd;
    struct loop_watch listen_watch;
    struct loop_timer accept_timer;
    struct conn *conns;
    size_t n_conns;
    struct loop_timer drain_timer;
    void (*drain_fn)(void *arg);
    void *drain_arg;
};

static void on_listen(struct loop_watch *watch, uint32_t events);
static void on_conn(struct loop_watch *watch, uint32_t events);

static void on_drained(struct loop_timer *timer)
{
    struct ttrpc_server *server = timer->arg;
    void (*fn)(void *) = server->drain_fn;
    server->drain_fn = NULL;
    fn(server->drain_arg);
}

/* Nothing left to send: the drain ends with the next turn rather than with its deadline. */
static void check_drained(struct ttrpc_server *server)
{
    if (!server->drain_fn)
        return;
    for (const struct conn *c = server->conns; c; c = c->next) {
        if (ttrpc_out_pending(&c->out))
            return;
    }
    loop_after(server->loop, &server->drain_timer, 0, on_drained, server);
}

static void conn_free(struct conn *conn)
{
    for (struct ttrpc_call *call = conn->calls; call; call = call->next)
        call->conn = NULL;
    loop_unwatch(&conn->watch);
    own_close_(&conn->fd);
    ttrpc_reader_fini(&conn->reader);
    ttrpc_out_fini(&conn->out);
    free(conn);
}

static void conn_close(struct conn *conn)
{
    struct ttrpc_server *server = conn->server;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    server->n_conns--;
    conn_free(conn);
    check_drained(server);
    if (server->options.on_connections)
        server->options.on_connections(server->options.arg, server->n_conns);
}

static void conn_flush(struct conn *conn)
{
    struct err err;
    if (conn->out.buf.failed || !ttrpc_out_flush(&conn->out, conn->fd)) {
        conn->broken = true;
        return;
    }
    size_t pending = ttrpc_out_pending(&conn->out);
    uint32_t events =
        (pending || conn->parked ? (uint32_t)EPOLLOUT : 0) | (pending < OUT_PAUSE ? EPOLLIN : 0);
    if (events != conn->watch.events &&
        loop_watch(conn->server->loop, &conn->watch, conn->fd, events, on_conn, conn, &err))
        conn->broken = true;
    if (!pending)
        check_drained(conn->server);
}

/* After something was appended to `out`. */
static void conn_kick(struct conn *conn)
{
    if (conn->reading)
        return; /* conn_read() flushes once for all answers of its turn */
    conn_flush(conn);
    if (conn->broken)
        conn_close(conn);
}

static void conn_answer(struct conn *conn, uint32_t stream, const Ttrpc__Response *response)
{
    struct ttrpc_header header = { .stream = stream, .type = TTRPC_RESPONSE };
    if (!ttrpc_out_message(&conn->out, header, &response->base) && !conn->out.buf.failed) {
        Ttrpc__Status status = TTRPC__STATUS__INIT;
        status.code = TTRPC_RESOURCE_EXHAUSTED;
        status.message = (char[]){ "answer over 4 MiB" };
        Ttrpc__Response instead = TTRPC__RESPONSE__INIT;
        instead.status = &status;
        (void)ttrpc_out_message(&conn->out, header, &instead.base);
    }
    conn_kick(conn);
}

static void conn_refuse(struct conn *conn, uint32_t stream, enum ttrpc_code code,
                        const char *message)
{
    /* Go's protobuf drops a whole answer for one string that is not UTF-8. */
    char text[MESSAGE_MAX];
    size_t len = strnlen(message, sizeof(text) - 1);
    if (text_utf8_valid(message, len)) {
        memcpy(text, message, len);
        text[len] = 0;
    } else {
        (void)text_safe(message, text, sizeof(text));
    }
    Ttrpc__Status status = TTRPC__STATUS__INIT;
    status.code = (int32_t)code;
    status.message = text;
    Ttrpc__Response response = TTRPC__RESPONSE__INIT;
    response.status = &status;
    conn_answer(conn, stream, &response);
}

static void conn_refuse_named(struct conn *conn, uint32_t stream, enum ttrpc_code code,
                              const char *what, const char *name)
{
    char safe[160];
    char text[200];
    (void)snprintf(text, sizeof(text), "%s %s", what, text_safe(name, safe, sizeof(safe)));
    conn_refuse(conn, stream, code, text);
}

static void call_free(struct ttrpc_call *call)
{
    if (call->conn) {
        if (call->prev)
            call->prev->next = call->next;
        else
            call->conn->calls = call->next;
        if (call->next)
            call->next->prev = call->prev;
        call->conn->n_calls--;
    }
    if (call->message)
        protobuf_c_message_free_unpacked(call->message, NULL);
    free(call);
}

static uint64_t timeout_ms(int64_t nano)
{
    if (nano == 0)
        return 0;
    return nano < 1000000 ? 1 : (uint64_t)nano / 1000000;
}

/* Makes the call and hands it out. */
static void conn_dispatch(struct conn *conn, uint32_t stream, const struct ttrpc_service *service,
                          const struct ttrpc_method *method, const Ttrpc__Request *request)
{
    ProtobufCMessage *message = proto_unpack(method->request, request->payload.data,
                                             request->payload.len, PROTO_UNPACK_MAX);
    if (!message) {
        conn_refuse_named(conn, stream, TTRPC_INTERNAL, "payload does not parse:", method->name);
        return;
    }
    struct ttrpc_call *call = xcalloc(1, sizeof(*call));
    *call = (struct ttrpc_call){
        .conn = conn,
        .next = conn->calls,
        .service = service,
        .method = method,
        .message = message,
        .stream = stream,
        .timeout_ms = timeout_ms(request->timeout_nano),
    };
    if (conn->calls)
        conn->calls->prev = call;
    conn->calls = call;
    conn->n_calls++;
    method->fn(service->arg, call, message);
}

static const struct ttrpc_service *find_service(const struct ttrpc_server *server, const char *name)
{
    for (size_t i = 0; i < server->options.n_services; i++) {
        if (!strcmp(server->options.services[i].name, name))
            return &server->options.services[i];
    }
    return NULL;
}

static const struct ttrpc_method *find_method(const struct ttrpc_service *service, const char *name)
{
    for (size_t i = 0; i < service->n_methods; i++) {
        if (!strcmp(service->methods[i].name, name))
            return &service->methods[i];
    }
    return NULL;
}

static void conn_request(struct conn *conn, const struct ttrpc_header *header, const uint8_t *data)
{
    Ttrpc__Request *request CLEANUP_MESSAGE = (Ttrpc__Request *)proto_unpack(
        &ttrpc__request__descriptor, data, header->length, PROTO_UNPACK_MAX);
    if (!request) {
        conn_refuse(conn, header->stream, TTRPC_INVALID_ARGUMENT, "request does not parse");
        return;
    }
    const struct ttrpc_service *service = find_service(conn->server, request->service);
    if (!service) {
        conn_refuse_named(conn, header->stream, TTRPC_UNIMPLEMENTED, "service", request->service);
        return;
    }
    const struct ttrpc_method *method = find_method(service, request->method);
    if (!method) {
        conn_refuse_named(conn, header->stream, TTRPC_UNIMPLEMENTED, "method", request->method);
        return;
    }
    /* Calls that wait for ever leave room for those that end what they wait for. */
    size_t room = method->lasting ? TTRPC_CALLS_MAX / 2 : TTRPC_CALLS_MAX;
    if (conn->n_calls >= room) {
        conn_refuse(conn, header->stream, TTRPC_RESOURCE_EXHAUSTED, "too many calls pending");
        return;
    }
    conn_dispatch(conn, header->stream, service, method, request);
}

static void conn_frame(struct conn *conn, const struct ttrpc_header *header, const uint8_t *data)
{
    if (header->type == TTRPC_DATA) {
        conn_refuse(conn, header->stream, TTRPC_INVALID_ARGUMENT, "data on an unknown stream");
        return;
    }
    if (header->type != TTRPC_REQUEST)
        return;
    if (header->stream % 2 == 0) {
        conn_refuse(conn, header->stream, TTRPC_INVALID_ARGUMENT, "stream id must be odd");
        return;
    }
    if (header->stream <= conn->last_stream) {
        conn_refuse(conn, header->stream, TTRPC_INVALID_ARGUMENT, "stream id must increase");
        return;
    }
    conn->last_stream = header->stream;
    if (header->flags & TTRPC_REMOTE_OPEN) {
        conn_refuse(conn, header->stream, TTRPC_UNIMPLEMENTED, "streaming is not offered");
        return;
    }
    conn_request(conn, header, data);
}

/* What the fed bytes hold, as long as the answers do not pile up. */
static void conn_frames(struct conn *conn)
{
    struct ttrpc_header header;
    const uint8_t *data;
    conn->parked = true;
    while (!conn->broken && ttrpc_out_pending(&conn->out) < OUT_PAUSE) {
        switch (ttrpc_reader_next(&conn->reader, &header, &data)) {
        case TTRPC_READ_MORE:
            conn->parked = false;
            return;
        case TTRPC_READ_GARBAGE:
            conn->broken = true;
            return;
        case TTRPC_READ_TOO_LONG:
            conn_refuse(conn, header.stream, TTRPC_RESOURCE_EXHAUSTED, "message over 4 MiB");
            break;
        case TTRPC_READ_FRAME:
            conn_frame(conn, &header, data);
            break;
        }
        if (conn->out.buf.failed)
            conn->broken = true;
    }
}

static void conn_read(struct conn *conn)
{
    uint8_t bytes[TTRPC_FEED_MAX];
    for (int i = 0; i < READS_PER_TURN && !conn->broken && !conn->parked; i++) {
        ssize_t n = recv(conn->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0) {
            conn_flush(conn); /* a peer that closed only its half still reads */
            conn->broken = true;
            break;
        }
        ttrpc_reader_feed(&conn->reader, bytes, (size_t)n);
        conn_frames(conn);
        if ((size_t)n < sizeof(bytes))
            break;
    }
}

static void on_conn(struct loop_watch *watch, uint32_t events)
{
    struct conn *conn = watch->arg;
    if (!(events & (EPOLLIN | EPOLLOUT)))
        conn->broken = true; /* hung up */
    if (!conn->broken)
        conn_flush(conn);
    while (!conn->broken && (conn->parked || events & EPOLLIN) &&
           ttrpc_out_pending(&conn->out) < OUT_PAUSE) {
        conn->reading = true;
        if (conn->parked)
            conn_frames(conn);
        if (events & EPOLLIN)
            conn_read(conn);
        events = 0;
        conn->reading = false;
        if (!conn->broken)
            conn_flush(conn);
    }
    if (conn->broken)
        conn_close(conn);
}

static bool peer_allowed(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
        return false;
    if (cred.uid == geteuid() && cred.gid == getegid())
        return true;
    log_warn("peer_refused", log_int("uid", cred.uid), log_int("gid", cred.gid),
             log_int("pid", cred.pid));
    return false;
}

static void conn_add(struct ttrpc_server *server, int take_fd)
{
    int fd CLEANUP_FD = take_fd;
    if (server->n_conns >= TTRPC_CONNECTIONS_MAX || !peer_allowed(fd))
        return;
    struct conn *conn = xcalloc(1, sizeof(*conn));
    conn->server = server;
    conn->fd = -1;
    ttrpc_reader_init(&conn->reader);
    ttrpc_out_init(&conn->out, TTRPC_OUT_MAX);
    struct err err;
    if (loop_watch(server->loop, &conn->watch, fd, EPOLLIN, on_conn, conn, &err)) {
        log_warn("accept_failed", log_str("error", err.msg));
        conn_free(conn);
        return;
    }
    conn->fd = steal_fd(&fd);
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    server->n_conns++;
    if (server->options.on_connections)
        server->options.on_connections(server->options.arg, server->n_conns);
}

static void on_accept_again(struct loop_timer *timer)
{
    struct ttrpc_server *server = timer->arg;
    struct err err;
    if (loop_watch(server->loop, &server->listen_watch, server->listen_fd, EPOLLIN, on_listen,
                   server, &err))
        loop_after(server->loop, &server->accept_timer, ACCEPT_RETRY_MS, on_accept_again, server);
}

static void on_listen(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct ttrpc_server *server = watch->arg;
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        conn_add(server, fd);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ECONNABORTED) {
        /* Out of descriptors or memory: the socket stays readable, so look away for a while. */
        log_warn("accept_failed", log_str("error", strerror(errno)));
        loop_unwatch(&server->listen_watch);
        loop_after(server->loop, &server->accept_timer, ACCEPT_RETRY_MS, on_accept_again, server);
    }
}

enum err_kind ttrpc_server_new(struct loop *loop, int take_listen_fd,
                               const struct ttrpc_server_options *options,
                               struct ttrpc_server **out, struct err *err)
{
    struct ttrpc_server *server CLEANUP(ttrpc_server_freep) = xcalloc(1, sizeof(*server));
    server->loop = loop;
    server->options = *options;
    server->listen_fd = take_listen_fd;
    if (fcntl(take_listen_fd, F_SETFL, O_NONBLOCK) || fcntl(take_listen_fd, F_SETFD, FD_CLOEXEC))
        return err_sys(err, errno, "listening socket");
    if (loop_watch(loop, &server->listen_watch, take_listen_fd, EPOLLIN, on_listen, server, err))
        return err_prefix(err, "listening socket");
    *out = STEAL(server);
    return ERR_OK;
}

void ttrpc_server_free(struct ttrpc_server *server)
{
    if (!server)
        return;
    loop_cancel(&server->accept_timer);
    loop_cancel(&server->drain_timer);
    loop_unwatch(&server->listen_watch);
    own_close_(&server->listen_fd);
    while (server->conns) {
        struct conn *conn = server->conns;
        assert(!conn->reading); /* not from inside a handler */
        server->conns = conn->next;
        conn_free(conn);
    }
    free(server);
}

size_t ttrpc_server_connections(const struct ttrpc_server *server)
{
    return server->n_conns;
}

void ttrpc_server_drain(struct ttrpc_server *server, uint64_t ms, void (*fn)(void *arg), void *arg)
{
    loop_cancel(&server->accept_timer);
    loop_unwatch(&server->listen_watch);
    server->drain_fn = fn;
    server->drain_arg = arg;
    loop_after(server->loop, &server->drain_timer, ms, on_drained, server);
    check_drained(server);
}

const char *ttrpc_call_service(const struct ttrpc_call *call)
{
    return call->service->name;
}

const char *ttrpc_call_method(const struct ttrpc_call *call)
{
    return call->method->name;
}

uint64_t ttrpc_call_timeout_ms(const struct ttrpc_call *call)
{
    return call->timeout_ms;
}

bool ttrpc_call_connected(const struct ttrpc_call *call)
{
    return call->conn != NULL;
}

void ttrpc_reply_bytes(struct ttrpc_call *call, const void *payload, size_t len)
{
    struct conn *conn = call->conn;
    uint32_t stream = call->stream;
    call_free(call);
    if (!conn)
        return;
    Ttrpc__Response response = TTRPC__RESPONSE__INIT;
    response.payload = proto_bytes(payload, len);
    conn_answer(conn, stream, &response);
}

void ttrpc_reply(struct ttrpc_call *call, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *payload CLEANUP_FREE = xmalloc(len ? len : 1);
    (void)protobuf_c_message_pack(message, payload);
    ttrpc_reply_bytes(call, payload, len);
}

void ttrpc_reply_empty(struct ttrpc_call *call)
{
    ttrpc_reply_bytes(call, NULL, 0);
}

void ttrpc_reply_error(struct ttrpc_call *call, enum ttrpc_code code, const char *message)
{
    assert(code != TTRPC_OK);
    struct conn *conn = call->conn;
    uint32_t stream = call->stream;
    call_free(call);
    if (conn)
        conn_refuse(conn, stream, code, message);
}
