/* What a peer can put into a frame: the request, and each of the task service's payloads. */
#include <bootstrap.pb-c.h>
#include <google.pb-c.h>
#include <runtime.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <task.pb-c.h>
#include <ttrpc.pb-c.h>

#include "proto/unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unpacks, packs again and unpacks that: what we read is what we would write. */
static void round_trip(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
    ProtobufCMessage *message CLEANUP_MESSAGE = proto_unpack(type, data, size, PROTO_UNPACK_MAX);
    if (!message)
        return;
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed CLEANUP_FREE = xmalloc(len ? len : 1);
    if (protobuf_c_message_pack(message, packed) != len)
        abort();
    ProtobufCMessage *again CLEANUP_MESSAGE = proto_unpack(type, packed, len, PROTO_UNPACK_MAX);
    if (!again)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Ttrpc__Request *request CLEANUP_MESSAGE =
        (Ttrpc__Request *)proto_unpack(&ttrpc__request__descriptor, data, size, PROTO_UNPACK_MAX);
    if (request) {
        round_trip(&task__create_task_request__descriptor, request->payload.data,
                   request->payload.len);
        round_trip(&task__exec_process_request__descriptor, request->payload.data,
                   request->payload.len);
        round_trip(&task__update_task_request__descriptor, request->payload.data,
                   request->payload.len);
    }
    round_trip(&google__protobuf__any__descriptor, data, size);
    round_trip(&bootstrap__bootstrap_params__descriptor, data, size);
    round_trip(&runtime__options__descriptor, data, size);
    round_trip(&ttrpc__response__descriptor, data, size);
    return 0;
}
