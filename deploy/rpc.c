/*
 * See rpc.h. A call is one batch on its own pluck queue; a stream keeps at most one receive
 * pending, so that a timed wait can be taken up again.
 */
#include "deploy/rpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <string.h>

#include "base/text.h"

struct rpc {
    grpc_channel *channel;
};

struct status {
    grpc_status_code code;
    grpc_slice details;
    grpc_metadata_array trailing;
};

struct rpc_stream {
    grpc_completion_queue *queue;
    grpc_call *call;
    grpc_metadata_array initial;
    grpc_byte_buffer *received;
    bool receiving; /* a receive is pending in the queue */
    bool ended;     /* the status has been taken */
};

static int tag_batch, tag_receive; /* their addresses are the queue's tags */

static void drop_log(gpr_log_func_args *args)
{
    (void)args; /* failures come back as statuses; gRPC's own lines would only mix with ours */
}

enum err_kind rpc_open(const char *address, struct rpc **out, struct err *err)
{
    const char *path = text_starts(address, "unix://") ? address + 7 : address;
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "containerd address %s: not an absolute socket path",
                       address);
    gpr_set_log_function(drop_log);
    grpc_init();
    char *target CLEANUP_FREE = xasprintf("unix:%s", path);
    grpc_arg args[] = {
        { .type = GRPC_ARG_INTEGER,
          .key = (char[]){ GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH },
          .value.integer = RPC_MESSAGE_MAX },
        { .type = GRPC_ARG_INTEGER,
          .key = (char[]){ GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL },
          .value.integer = 1 },
    };
    grpc_channel_args list = { .num_args = ARRAY_LEN(args), .args = args };
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    struct rpc *rpc = xcalloc(1, sizeof(*rpc));
    rpc->channel = grpc_channel_create(target, creds, &list);
    grpc_channel_credentials_release(creds);
    *out = rpc;
    return ERR_OK;
}

void rpc_free(struct rpc *rpc)
{
    if (!rpc)
        return;
    grpc_channel_destroy(rpc->channel);
    grpc_shutdown();
    free(rpc);
}

enum err_kind rpc_kind_of_status(int code)
{
    switch (code) {
    case GRPC_STATUS_OK:
        return ERR_OK;
    case GRPC_STATUS_INVALID_ARGUMENT:
    case GRPC_STATUS_OUT_OF_RANGE:
        return ERR_INVALID;
    case GRPC_STATUS_NOT_FOUND:
        return ERR_NOT_FOUND;
    case GRPC_STATUS_ALREADY_EXISTS:
        return ERR_EXISTS;
    case GRPC_STATUS_FAILED_PRECONDITION:
        return ERR_PRECONDITION;
    case GRPC_STATUS_PERMISSION_DENIED:
    case GRPC_STATUS_UNAUTHENTICATED:
        return ERR_DENIED;
    case GRPC_STATUS_UNAVAILABLE:
    case GRPC_STATUS_RESOURCE_EXHAUSTED:
    case GRPC_STATUS_ABORTED:
        return ERR_UNAVAILABLE;
    case GRPC_STATUS_DEADLINE_EXCEEDED:
    case GRPC_STATUS_CANCELLED:
        return ERR_TIMEOUT;
    case GRPC_STATUS_UNIMPLEMENTED:
        return ERR_UNSUPPORTED;
    default:
        return ERR_INTERNAL;
    }
}

static void status_init(struct status *status)
{
    status->code = GRPC_STATUS_UNKNOWN;
    status->details = grpc_empty_slice();
    grpc_metadata_array_init(&status->trailing);
}

static void status_fini(struct status *status)
{
    grpc_slice_unref(status->details);
    grpc_metadata_array_destroy(&status->trailing);
}

/* A failed connect repeats its cause in nested forms; the first line's worth is enough. */
static enum err_kind status_to_err(const struct status *status, const char *method, struct err *err)
{
    enum err_kind kind = rpc_kind_of_status((int)status->code);
    if (kind == ERR_OK)
        return ERR_OK;
    const char *verb = strrchr(method, '/');
    char text[700];
    char *raw CLEANUP_FREE = grpc_slice_to_c_string(status->details);
    if (status->code == GRPC_STATUS_DEADLINE_EXCEEDED)
        return err_set(err, kind, "containerd %s: no answer in time", verb ? verb + 1 : method);
    return err_set(err, kind, "containerd %s: %s", verb ? verb + 1 : method,
                   text_safe(raw, text, sizeof(text)));
}

static grpc_byte_buffer *encode(const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    grpc_slice slice = grpc_slice_malloc(len);
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

static enum err_kind decode(grpc_byte_buffer *buffer, const ProtobufCMessageDescriptor *type,
                            ProtobufCMessage **out, struct err *err)
{
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return err_set(err, ERR_INTERNAL, "containerd: unreadable answer");
    grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    *out = protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(slice),
                                     GRPC_SLICE_START_PTR(slice));
    grpc_slice_unref(slice);
    if (!*out)
        return err_set(err, ERR_INTERNAL, "containerd: answer is not a %s", type->name);
    return ERR_OK;
}

static size_t metadata_fill(const struct rpc_context *ctx, grpc_metadata md[2])
{
    size_t n = 0;
    memset(md, 0, 2 * sizeof(md[0]));
    if (ctx->ns) {
        md[n].key = grpc_slice_from_static_string("containerd-namespace");
        md[n++].value = grpc_slice_from_copied_string(ctx->ns);
    }
    if (ctx->lease) {
        md[n].key = grpc_slice_from_static_string("containerd-lease");
        md[n++].value = grpc_slice_from_copied_string(ctx->lease);
    }
    return n;
}

static void metadata_drop(grpc_metadata *md, size_t n)
{
    for (size_t i = 0; i < n; i++)
        grpc_slice_unref(md[i].value);
}

static gpr_timespec deadline_in(int ms)
{
    if (ms < 0)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

static grpc_call *call_new(struct rpc *rpc, const struct rpc_context *ctx, const char *method,
                           grpc_completion_queue *queue)
{
    grpc_slice path = grpc_slice_from_copied_string(method);
    grpc_call *call =
        grpc_channel_create_call(rpc->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, path, NULL,
                                 deadline_in(ctx->timeout_ms > 0 ? ctx->timeout_ms : -1), NULL);
    grpc_slice_unref(path);
    return call;
}

/* Starts a batch and waits for it; false when the call is over or the batch could not start. */
static bool batch(grpc_call *call, grpc_completion_queue *queue, const grpc_op *ops, size_t n)
{
    if (grpc_call_start_batch(call, ops, n, &tag_batch, NULL) != GRPC_CALL_OK)
        return false;
    grpc_event event = grpc_completion_queue_pluck(queue, &tag_batch, deadline_in(-1), NULL);
    return event.type == GRPC_OP_COMPLETE && event.success;
}

enum err_kind rpc_call(struct rpc *rpc, const struct rpc_context *ctx, const char *method,
                       const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
                       ProtobufCMessage **answer, struct err *err)
{
    grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_call *call = call_new(rpc, ctx, method, queue);
    grpc_metadata md[2];
    size_t n_md = metadata_fill(ctx, md);
    grpc_byte_buffer *sent = encode(request), *received = NULL;
    grpc_metadata_array initial;
    grpc_metadata_array_init(&initial);
    struct status status;
    status_init(&status);
    grpc_op ops[6] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA,
          .data.send_initial_metadata = { .count = n_md, .metadata = md } },
        { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
        { .op = GRPC_OP_RECV_INITIAL_METADATA,
          .data.recv_initial_metadata.recv_initial_metadata = &initial },
        { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &received },
        { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
          .data.recv_status_on_client = { .trailing_metadata = &status.trailing,
                                          .status = &status.code,
                                          .status_details = &status.details } },
    };
    (void)batch(call, queue, ops, ARRAY_LEN(ops)); /* the status tells what happened */
    enum err_kind kind = status_to_err(&status, method, err);
    if (!kind && !received)
        kind = err_set(err, ERR_INTERNAL, "%s: no answer came with an OK status", method);
    if (!kind && type)
        kind = decode(received, type, answer, err);
    status_fini(&status);
    grpc_metadata_array_destroy(&initial);
    grpc_byte_buffer_destroy(sent);
    grpc_byte_buffer_destroy(received);
    metadata_drop(md, n_md);
    grpc_call_unref(call);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_destroy(queue);
    return kind;
}

enum err_kind rpc_stream_open(struct rpc *rpc, const struct rpc_context *ctx, const char *method,
                              struct rpc_stream **out, struct err *err)
{
    struct rpc_stream *stream CLEANUP(rpc_stream_freep) = xcalloc(1, sizeof(*stream));
    stream->queue = grpc_completion_queue_create_for_pluck(NULL);
    stream->call = call_new(rpc, ctx, method, stream->queue);
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata md[2];
    size_t n_md = metadata_fill(ctx, md);
    grpc_op op = { .op = GRPC_OP_SEND_INITIAL_METADATA,
                   .data.send_initial_metadata = { .count = n_md, .metadata = md } };
    bool ok = batch(stream->call, stream->queue, &op, 1);
    metadata_drop(md, n_md);
    if (!ok)
        return err_set(err, ERR_UNAVAILABLE, "containerd %s: cannot open the stream", method);
    *out = STEAL(stream);
    return ERR_OK;
}

/* Takes the final status; once. */
static enum err_kind stream_end(struct rpc_stream *stream, struct err *err)
{
    if (stream->ended)
        return err_set(err, ERR_INTERNAL, "containerd: the stream is over");
    stream->ended = true;
    struct status status;
    status_init(&status);
    grpc_op op = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                   .data.recv_status_on_client = { .trailing_metadata = &status.trailing,
                                                   .status = &status.code,
                                                   .status_details = &status.details } };
    (void)batch(stream->call, stream->queue, &op, 1);
    enum err_kind kind = status_to_err(&status, "stream", err);
    status_fini(&status);
    return kind;
}

enum err_kind rpc_stream_send(struct rpc_stream *stream, const ProtobufCMessage *message,
                              struct err *err)
{
    grpc_byte_buffer *bytes = encode(message);
    grpc_op op = { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = bytes };
    bool ok = batch(stream->call, stream->queue, &op, 1);
    grpc_byte_buffer_destroy(bytes);
    if (ok)
        return ERR_OK;
    enum err_kind kind = stream_end(stream, err);
    return kind ? kind : err_set(err, ERR_UNAVAILABLE, "containerd closed the stream");
}

enum err_kind rpc_stream_half_close(struct rpc_stream *stream, struct err *err)
{
    grpc_op op = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
    if (batch(stream->call, stream->queue, &op, 1))
        return ERR_OK;
    enum err_kind kind = stream_end(stream, err);
    return kind ? kind : err_set(err, ERR_UNAVAILABLE, "containerd closed the stream");
}

static bool receive_start(struct rpc_stream *stream)
{
    grpc_op ops[2] = {
        { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &stream->received },
        { .op = GRPC_OP_RECV_INITIAL_METADATA,
          .data.recv_initial_metadata.recv_initial_metadata = &stream->initial },
    };
    /* The peer's initial metadata comes with the first message and only then. */
    size_t n = stream->initial.capacity == 0 && stream->initial.metadata == NULL ? 2 : 1;
    if (grpc_call_start_batch(stream->call, ops, n, &tag_receive, NULL) != GRPC_CALL_OK)
        return false;
    stream->receiving = true;
    return true;
}

enum err_kind rpc_stream_recv(struct rpc_stream *stream, int wait_ms,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **message,
                              struct err *err)
{
    *message = NULL;
    if (!stream->receiving && !receive_start(stream))
        return stream_end(stream, err);
    grpc_event event =
        grpc_completion_queue_pluck(stream->queue, &tag_receive, deadline_in(wait_ms), NULL);
    if (event.type == GRPC_QUEUE_TIMEOUT)
        return err_set(err, ERR_TIMEOUT, "containerd: nothing came within %d ms", wait_ms);
    stream->receiving = false;
    if (!event.success || !stream->received)
        return stream_end(stream, err);
    enum err_kind kind = decode(stream->received, type, message, err);
    grpc_byte_buffer_destroy(stream->received);
    stream->received = NULL;
    return kind;
}

void rpc_stream_free(struct rpc_stream *stream)
{
    if (!stream)
        return;
    if (!stream->ended)
        (void)grpc_call_cancel(stream->call, NULL);
    if (stream->receiving)
        (void)grpc_completion_queue_pluck(stream->queue, &tag_receive, deadline_in(-1), NULL);
    if (!stream->ended)
        (void)!stream_end(stream, ERR_IGNORED);
    grpc_byte_buffer_destroy(stream->received);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_call_unref(stream->call);
    grpc_completion_queue_shutdown(stream->queue);
    grpc_completion_queue_destroy(stream->queue);
    free(stream);
}
