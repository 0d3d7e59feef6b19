/*
 * Protobuf messages from outside, unpacked within a memory limit.
 *
 * A small message can unpack into a large one (two bytes on the wire become a whole struct in a
 * repeated field), so the limit is on what unpacking allocates, not on what came in. Fields that we
 * do not know are dropped: packing a message again (a mount of Create goes into an event) must not
 * carry them on, and protobuf-c 1.4 miscounts those with a number of 2^29 and more.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <string.h>

#include "base/own.h"

#define PROTO_UNPACK_MAX ((size_t)8 * 1024 * 1024)

/* A fresh message, to be freed with protobuf_c_message_free_unpacked(message, NULL); NULL if the
 * bytes do not parse or need more than `max` bytes of memory. */
ProtobufCMessage *proto_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                               size_t max);

/* protobuf-c's structs have no const: these hand a borrowed string or bytes to a message that is only
 * going to be packed. */
static inline char *proto_str(const char *s)
{
    char *plain;
    memcpy(&plain, &s, sizeof(plain));
    return plain;
}

static inline ProtobufCBinaryData proto_bytes(const void *data, size_t len)
{
    ProtobufCBinaryData bytes = { .len = len };
    memcpy(&bytes.data, &data, sizeof(bytes.data));
    return bytes;
}

static inline void proto_message_freep(ProtobufCMessage **message)
{
    if (*message)
        protobuf_c_message_free_unpacked(*message, NULL);
    *message = NULL;
}

/* For any pointer to an unpacked message: `Task__KillRequest *r CLEANUP_MESSAGE = …`. */
static inline void proto_any_message_freep(void *p)
{
    proto_message_freep((ProtobufCMessage **)p);
}
#define CLEANUP_MESSAGE CLEANUP(proto_any_message_freep)
