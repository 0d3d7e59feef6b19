/*
 * What server and client share about the way out: a bounded queue of bytes in front of a socket
 * that does not block. Private to proto/.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "proto/ttrpc_frame.h"

struct ttrpc_out {
    struct buf buf;
    size_t pos; /* sent already */
};

void ttrpc_out_init(struct ttrpc_out *out, size_t max);
void ttrpc_out_fini(struct ttrpc_out *out);
static inline size_t ttrpc_out_pending(const struct ttrpc_out *out)
{
    return out->buf.len - out->pos;
}

/* Appends a frame whose data is `message` packed. False if it is over TTRPC_DATA_MAX (nothing is
 * appended) or the queue is full (buf.failed is set). */
bool ttrpc_out_message(struct ttrpc_out *out, struct ttrpc_header header,
                       const ProtobufCMessage *message);

/* Sends what the socket takes now. False when the peer is gone. */
bool ttrpc_out_flush(struct ttrpc_out *out, int fd);
