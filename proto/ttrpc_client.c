#include "proto/ttrpc_client.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <ttrpc.pb-c.h>

#include "base/text.h"
#include "proto/ttrpc_connect.h"
#include "proto/ttrpc_frame.h"
#include "proto/ttrpc_out.h"
#include "proto/ttrpc_server.h"
#include "proto/unpack.h"

#define STREAM_LAST 0x7ffffffeu

struct pending {
    struct ttrpc_client *client;
    struct pending *prev, *next;
    struct loop_timer timer;
    uint32_t stream;    /* 0: never sent */
    const char *failed; /* why it ends with ERR_UNAVAILABLE; NULL while waiting */
    ttrpc_done_fn *fn;
    void *arg;
};

struct ttrpc_client {
    struct loop *loop;
    char *path;
    int fd;
    struct loop_watch watch;
    struct ttrpc_reader reader;
    struct ttrpc_out out;
    uint32_t next_stream;
    struct pending *pending;
    size_t n_pending;
    bool freeing;
    bool *freed; /* set while callbacks may free us under our own feet */
};

static void on_client(struct loop_watch *watch, uint32_t events);
static void on_due(struct loop_timer *timer);

static void pending_finish(struct pending *p, const struct ttrpc_result *result)
{
    struct ttrpc_client *client = p->client;
    loop_cancel(&p->timer);
    if (p->prev)
        p->prev->next = p->next;
    else
        client->pending = p->next;
    if (p->next)
        p->next->prev = p->prev;
    client->n_pending--;
    ttrpc_done_fn *fn = p->fn;
    void *arg = p->arg;
    free(p);
    fn(arg, result);
}

static void on_due(struct loop_timer *timer)
{
    struct pending *p = timer->arg;
    struct ttrpc_result result = {
        .kind = p->failed ? ERR_UNAVAILABLE : ERR_TIMEOUT,
        .message = p->failed ? p->failed : "no answer in time",
    };
    pending_finish(p, &result);
}

/* Its callback comes from the loop's next turn. */
static void pending_fail(struct pending *p, const char *why)
{
    if (p->failed)
        return;
    p->failed = why;
    loop_after(p->client->loop, &p->timer, 0, on_due, p);
}

/* Drops the connection; every call that was on it fails. */
static void client_break(struct ttrpc_client *client, const char *why)
{
    loop_unwatch(&client->watch);
    own_close_(&client->fd);
    ttrpc_reader_fini(&client->reader);
    ttrpc_out_fini(&client->out);
    for (struct pending *p = client->pending; p; p = p->next)
        pending_fail(p, why);
}

static bool client_connect(struct ttrpc_client *client)
{
    if (client->fd >= 0)
        return true;
    struct err err;
    int fd CLEANUP_FD = -1;
    if (ttrpc_connect(client->path, SOCK_NONBLOCK, &fd, &err))
        return false;
    ttrpc_reader_init(&client->reader);
    ttrpc_out_init(&client->out, TTRPC_OUT_MAX);
    client->next_stream = 1;
    if (loop_watch(client->loop, &client->watch, fd, EPOLLIN, on_client, client, &err))
        return false;
    client->fd = steal_fd(&fd);
    return true;
}

static bool client_flush(struct ttrpc_client *client)
{
    if (client->out.buf.failed || !ttrpc_out_flush(&client->out, client->fd))
        return false;
    uint32_t events = EPOLLIN | (ttrpc_out_pending(&client->out) ? (uint32_t)EPOLLOUT : 0);
    struct err err;
    return events == client->watch.events ||
           !loop_watch(client->loop, &client->watch, client->fd, events, on_client, client, &err);
}

static void pending_answer(struct pending *p, const struct ttrpc_header *header,
                           const uint8_t *data)
{
    struct ttrpc_result result = { .kind = ERR_INTERNAL, .message = "answer does not parse" };
    Ttrpc__Response *response CLEANUP_MESSAGE = NULL;
    if (data)
        response = (Ttrpc__Response *)proto_unpack(&ttrpc__response__descriptor, data,
                                                   header->length, PROTO_UNPACK_MAX);
    if (response) {
        result.code = response->status ? response->status->code : 0;
        result.kind = ttrpc_code_kind(result.code);
        result.message = response->status ? response->status->message : "";
        result.payload = response->payload.data;
        result.payload_len = response->payload.len;
    }
    pending_finish(p, &result);
}

static void client_frame(struct ttrpc_client *client, const struct ttrpc_header *header,
                         const uint8_t *data)
{
    if (header->type != TTRPC_RESPONSE)
        return;
    for (struct pending *p = client->pending; p; p = p->next) {
        if (p->stream == header->stream && !p->failed) {
            pending_answer(p, header, data);
            return;
        }
    }
}

/* False when the connection is to be dropped. Stops at once when a callback freed the client. */
static bool client_frames(struct ttrpc_client *client, const bool *freed)
{
    struct ttrpc_header header;
    const uint8_t *data = NULL;
    while (!*freed && client->fd >= 0) {
        switch (ttrpc_reader_next(&client->reader, &header, &data)) {
        case TTRPC_READ_MORE:
            return true;
        case TTRPC_READ_GARBAGE:
            return false;
        case TTRPC_READ_TOO_LONG:
        case TTRPC_READ_FRAME:
            client_frame(client, &header, data);
            break;
        }
    }
    return true;
}

static bool client_read(struct ttrpc_client *client, const bool *freed)
{
    uint8_t bytes[TTRPC_FEED_MAX];
    ssize_t n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    ttrpc_reader_feed(&client->reader, bytes, (size_t)n);
    return client_frames(client, freed);
}

static void on_client(struct loop_watch *watch, uint32_t events)
{
    struct ttrpc_client *client = watch->arg;
    bool freed = false;
    client->freed = &freed;
    bool fine = true;
    if (events & EPOLLIN)
        fine = client_read(client, &freed);
    else if (events & (EPOLLHUP | EPOLLERR))
        fine = false;
    if (freed)
        return;
    client->freed = NULL;
    if (client->fd >= 0 && (!fine || !client_flush(client)))
        client_break(client, "connection closed");
}

enum err_kind ttrpc_client_new(struct loop *loop, const char *address, struct ttrpc_client **out,
                               struct err *err)
{
    char *path CLEANUP_FREE = NULL;
    if (ttrpc_socket_path(address, &path, err))
        return err->kind;
    struct ttrpc_client *client = xcalloc(1, sizeof(*client));
    client->loop = loop;
    client->path = STEAL(path);
    client->fd = -1;
    *out = client;
    return ERR_OK;
}

void ttrpc_client_free(struct ttrpc_client *client)
{
    if (!client)
        return;
    client->freeing = true;
    struct ttrpc_result result = { .kind = ERR_UNAVAILABLE, .message = "client closed" };
    while (client->pending)
        pending_finish(client->pending, &result);
    if (client->freed)
        *client->freed = true;
    client_break(client, "client closed");
    free(client->path);
    free(client);
}

/* Puts the request on the wire; false if it cannot be. */
static bool client_send(struct ttrpc_client *client, struct pending *p, const char *service,
                        const char *method, const ProtobufCMessage *message, uint64_t timeout_ms)
{
    if (client->n_pending > TTRPC_CLIENT_CALLS_MAX || !client_connect(client) ||
        client->next_stream > STREAM_LAST)
        return false;
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *payload CLEANUP_FREE = xmalloc(len ? len : 1);
    (void)protobuf_c_message_pack(message, payload);
    Ttrpc__Request request = TTRPC__REQUEST__INIT;
    request.service = proto_str(service);
    request.method = proto_str(method);
    request.payload = proto_bytes(payload, len);
    request.timeout_nano = timeout_ms > INT64_MAX / 1000000 ? 0 : (int64_t)timeout_ms * 1000000;
    struct ttrpc_header header = { .stream = client->next_stream, .type = TTRPC_REQUEST };
    if (!ttrpc_out_message(&client->out, header, &request.base) || client->out.buf.failed)
        return false;
    p->stream = client->next_stream;
    client->next_stream += 2;
    return true;
}

void ttrpc_client_call(struct ttrpc_client *client, const char *service, const char *method,
                       const ProtobufCMessage *request, uint64_t timeout_ms, ttrpc_done_fn *fn,
                       void *arg)
{
    assert(!client->freeing);
    struct pending *p = xcalloc(1, sizeof(*p));
    *p = (struct pending){ .client = client, .next = client->pending, .fn = fn, .arg = arg };
    if (client->pending)
        client->pending->prev = p;
    client->pending = p;
    client->n_pending++;
    if (timeout_ms)
        loop_after(client->loop, &p->timer, timeout_ms, on_due, p);
    if (!client_send(client, p, service, method, request, timeout_ms))
        pending_fail(p, "cannot be sent: no connection, or too much is pending");
    else if (!client_flush(client))
        client_break(client, "connection closed");
}

bool ttrpc_client_connected(const struct ttrpc_client *client)
{
    return client->fd >= 0;
}

enum err_kind ttrpc_code_kind(int code)
{
    static const enum err_kind kinds[] = {
        [TTRPC_OK] = ERR_OK,
        [TTRPC_CANCELED] = ERR_UNAVAILABLE,
        [TTRPC_UNKNOWN] = ERR_INTERNAL,
        [TTRPC_INVALID_ARGUMENT] = ERR_INVALID,
        [TTRPC_DEADLINE_EXCEEDED] = ERR_TIMEOUT,
        [TTRPC_NOT_FOUND] = ERR_NOT_FOUND,
        [TTRPC_ALREADY_EXISTS] = ERR_EXISTS,
        [TTRPC_PERMISSION_DENIED] = ERR_DENIED,
        [TTRPC_RESOURCE_EXHAUSTED] = ERR_UNAVAILABLE,
        [TTRPC_FAILED_PRECONDITION] = ERR_PRECONDITION,
        [TTRPC_ABORTED] = ERR_UNAVAILABLE,
        [TTRPC_OUT_OF_RANGE] = ERR_INVALID,
        [TTRPC_UNIMPLEMENTED] = ERR_UNSUPPORTED,
        [TTRPC_INTERNAL] = ERR_INTERNAL,
        [TTRPC_UNAVAILABLE] = ERR_UNAVAILABLE,
    };
    return code < 0 || (size_t)code >= ARRAY_LEN(kinds) ? ERR_INTERNAL : kinds[code];
}
