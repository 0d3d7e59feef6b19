/*
 * Protobuf messages from outside, unpacked within a memory limit.
 *
 * A small message can unpack into a large one (two bytes on the wire become a whole struct in a
 * repeated field), so the limit is on what unpacking allocates, not on what came in.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

#include "base/own.h"

#define PROTO_UNPACK_MAX ((size_t)8 * 1024 * 1024)

/* A fresh message, to be freed with protobuf_c_message_free_unpacked(message, NULL); NULL if the
 * bytes do not parse or need more than `max` bytes of memory. */
ProtobufCMessage *proto_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                               size_t max);

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
