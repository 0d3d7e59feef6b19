#include "proto/ttrpc_out.h"

#include <errno.h>
#include <sys/socket.h>

#define KEEP_MAX 4096
#define COMPACT_AT ((size_t)256 * 1024)

void ttrpc_out_init(struct ttrpc_out *out, size_t max)
{
    *out = (struct ttrpc_out){ 0 };
    buf_init(&out->buf, max);
}

void ttrpc_out_fini(struct ttrpc_out *out)
{
    buf_fini(&out->buf);
    out->pos = 0;
}

bool ttrpc_out_message(struct ttrpc_out *out, struct ttrpc_header header,
                       const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    if (len > TTRPC_DATA_MAX)
        return false;
    header.length = (uint32_t)len;
    if (!buf_reserve(&out->buf, TTRPC_HEADER_SIZE + len))
        return false;
    ttrpc_header_append(&out->buf, &header);
    (void)protobuf_c_message_pack(message, out->buf.data + out->buf.len);
    out->buf.len += len;
    return true;
}

bool ttrpc_out_flush(struct ttrpc_out *out, int fd)
{
    while (ttrpc_out_pending(out)) {
        ssize_t n =
            send(fd, out->buf.data + out->pos, ttrpc_out_pending(out), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        out->pos += (size_t)n;
        if (out->pos >= COMPACT_AT) {
            buf_consume(&out->buf, out->pos);
            out->pos = 0;
        }
    }
    buf_clear(&out->buf);
    out->pos = 0;
    if (out->buf.cap > KEEP_MAX)
        buf_fini(&out->buf);
    return true;
}
