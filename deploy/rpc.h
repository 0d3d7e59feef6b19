/*
 * gRPC as this project needs it: one channel over a unix socket, blocking calls and streams of
 * protobuf-c messages, each with a deadline. The only place that includes grpc.
 *
 * A status of the peer becomes an error kind here and nowhere else; the peer's text is kept, cut to
 * fit. Not thread-safe; a stream is used by one thread. gRPC runs threads of its own: a child made
 * while a channel is open may only call async-signal-safe functions before it execs.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/own.h"

#define RPC_MESSAGE_MAX (16 * 1024 * 1024) /* bytes of one received message */

struct rpc;
struct rpc_stream;

/* What goes with a call. Strings are borrowed for the call; NULL ones are not sent. */
struct rpc_context {
    const char *ns;    /* containerd-namespace */
    const char *lease; /* containerd-lease */
    int timeout_ms;    /* of the whole call; <= 0: none (streams of events only) */
};

/* `address` is an absolute socket path, with or without unix://. Nothing is connected yet. */
CHECKED enum err_kind rpc_open(const char *address, struct rpc **out, struct err *err);
void rpc_free(struct rpc *rpc);
DEFINE_CLEANUP(struct rpc, rpc_free, rpc_freep)

/* One request, one answer. `method` is "/package.Service/Method". *answer is the caller's
 * (protobuf_c_message_free_unpacked); `type` NULL drops the answer. */
CHECKED enum err_kind rpc_call(struct rpc *rpc, const struct rpc_context *ctx, const char *method,
                               const ProtobufCMessage *request,
                               const ProtobufCMessageDescriptor *type, ProtobufCMessage **answer,
                               struct err *err);

CHECKED enum err_kind rpc_stream_open(struct rpc *rpc, const struct rpc_context *ctx,
                                      const char *method, struct rpc_stream **out, struct err *err);
CHECKED enum err_kind rpc_stream_send(struct rpc_stream *stream, const ProtobufCMessage *message,
                                      struct err *err);
/* No more will be sent. */
CHECKED enum err_kind rpc_stream_half_close(struct rpc_stream *stream, struct err *err);
/* The next message, the caller's; NULL with ERR_OK when the peer ended the stream well. wait_ms <
 * 0: as long as the stream lives; else ERR_TIMEOUT after it, and the stream can be read on. */
CHECKED enum err_kind rpc_stream_recv(struct rpc_stream *stream, int wait_ms,
                                      const ProtobufCMessageDescriptor *type,
                                      ProtobufCMessage **message, struct err *err);
/* Cancels what still runs, waits until gRPC let go of it, frees. */
void rpc_stream_free(struct rpc_stream *stream);
DEFINE_CLEANUP(struct rpc_stream, rpc_stream_free, rpc_stream_freep)

/* The kind that a gRPC status code stands for; pure, for the table's test. */
enum err_kind rpc_kind_of_status(int code);
