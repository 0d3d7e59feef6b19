#include "proto/ttrpc_blocking.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <ttrpc.pb-c.h>

#include "base/own.h"
#include "proto/ttrpc_client.h"
#include "proto/ttrpc_connect.h"
#include "proto/ttrpc_frame.h"
#include "proto/ttrpc_out.h"
#include "proto/unpack.h"

static void reader_cleanup(struct ttrpc_reader *r)
{
    ttrpc_reader_fini(r);
}

static void out_cleanup(struct ttrpc_out *out)
{
    ttrpc_out_fini(out);
}

enum err_kind ttrpc_blocking_open(const char *address, struct ttrpc_blocking *out, struct err *err)
{
    char *path CLEANUP_FREE = NULL;
    *out = (struct ttrpc_blocking){ .fd = -1, .next_stream = 1 };
    if (ttrpc_socket_path(address, &path, err))
        return err->kind;
    return ttrpc_connect(path, 0, &out->fd, err);
}

void ttrpc_blocking_close(struct ttrpc_blocking *client)
{
    own_close_(&client->fd);
}

static enum err_kind send_request(struct ttrpc_blocking *client, const char *service,
                                  const char *method, const ProtobufCMessage *message,
                                  uint64_t timeout_ms, struct err *err)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *payload CLEANUP_FREE = xmalloc(len ? len : 1);
    (void)protobuf_c_message_pack(message, payload);
    Ttrpc__Request request = TTRPC__REQUEST__INIT;
    request.service = proto_str(service);
    request.method = proto_str(method);
    request.payload = proto_bytes(payload, len);
    request.timeout_nano = (int64_t)timeout_ms * 1000000;
    struct ttrpc_out out CLEANUP(out_cleanup);
    ttrpc_out_init(&out, (size_t)TTRPC_DATA_MAX + TTRPC_HEADER_SIZE);
    struct ttrpc_header header = { .stream = client->next_stream, .type = TTRPC_REQUEST };
    if (!ttrpc_out_message(&out, header, &request.base))
        return err_set(err, ERR_INVALID, "request over 4 MiB");
    client->next_stream += 2;
    while (ttrpc_out_pending(&out)) {
        ssize_t n = send(client->fd, out.buf.data + out.pos, ttrpc_out_pending(&out), MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return err_sys(err, errno, "send");
        out.pos += n < 0 ? 0 : (size_t)n;
    }
    return ERR_OK;
}

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Waits for more bytes and feeds them. */
static enum err_kind feed(struct ttrpc_blocking *client, struct ttrpc_reader *reader,
                          uint64_t due_ms, struct err *err)
{
    uint8_t bytes[TTRPC_FEED_MAX];
    struct pollfd pfd = { .fd = client->fd, .events = POLLIN };
    uint64_t now = now_ms();
    int wait = due_ms ? (now >= due_ms ? 0 : (int)(due_ms - now)) : -1;
    int ready = poll(&pfd, 1, wait);
    if (ready < 0 && errno == EINTR)
        return ERR_OK;
    if (ready == 0)
        return err_set(err, ERR_TIMEOUT, "no answer in time");
    ssize_t n = recv(client->fd, bytes, sizeof(bytes), 0);
    if (n < 0)
        return err_sys(err, errno, "recv");
    if (n == 0)
        return err_set(err, ERR_UNAVAILABLE, "connection closed before the answer");
    ttrpc_reader_feed(reader, bytes, (size_t)n);
    return ERR_OK;
}

static enum err_kind take_answer(const struct ttrpc_header *header, const uint8_t *data,
                                 const ProtobufCMessageDescriptor *type,
                                 ProtobufCMessage **response, int *code, struct err *err)
{
    Ttrpc__Response *answer CLEANUP_MESSAGE = (Ttrpc__Response *)proto_unpack(
        &ttrpc__response__descriptor, data, header->length, PROTO_UNPACK_MAX);
    if (!answer)
        return err_set(err, ERR_INTERNAL, "answer does not parse");
    if (answer->status && answer->status->code) {
        if (code)
            *code = answer->status->code;
        return err_set(err, ttrpc_code_kind(answer->status->code), "%s", answer->status->message);
    }
    if (!type)
        return ERR_OK;
    *response = proto_unpack(type, answer->payload.data, answer->payload.len, PROTO_UNPACK_MAX);
    return *response ? ERR_OK : err_set(err, ERR_INTERNAL, "payload does not parse");
}

enum err_kind ttrpc_blocking_call(struct ttrpc_blocking *client, const char *service,
                                  const char *method, const ProtobufCMessage *request,
                                  uint64_t timeout_ms, const ProtobufCMessageDescriptor *type,
                                  ProtobufCMessage **response, int *code, struct err *err)
{
    if (code)
        *code = 0;
    uint32_t stream = client->next_stream;
    if (send_request(client, service, method, request, timeout_ms, err))
        return err->kind;
    uint64_t due_ms = timeout_ms ? now_ms() + timeout_ms : 0;
    struct ttrpc_reader reader CLEANUP(reader_cleanup);
    ttrpc_reader_init(&reader);
    for (;;) {
        struct ttrpc_header header;
        const uint8_t *data;
        switch (ttrpc_reader_next(&reader, &header, &data)) {
        case TTRPC_READ_MORE:
            if (feed(client, &reader, due_ms, err))
                return err->kind;
            break;
        case TTRPC_READ_FRAME:
            if (header.type == TTRPC_RESPONSE && header.stream == stream)
                return take_answer(&header, data, type, response, code, err);
            break;
        case TTRPC_READ_TOO_LONG:
        case TTRPC_READ_GARBAGE:
            return err_set(err, ERR_INTERNAL, "peer does not speak ttrpc");
        }
    }
}
