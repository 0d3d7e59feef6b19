#include "proto/unpack.h"

#include <stdlib.h>

/* Counts down from the limit; memory itself comes from malloc, so the default allocator frees it.
 */
static void *limited_alloc(void *arg, size_t size)
{
    size_t *left = arg;
    /* What malloc adds per block counts too, or a million one-byte strings would be free. */
    size_t cost;
    if (__builtin_add_overflow(size, 2 * sizeof(void *), &cost) || cost > *left)
        return NULL;
    *left -= cost;
    return malloc(size);
}

static void limited_free(void *arg, void *p)
{
    (void)arg;
    free(p);
}

ProtobufCMessage *proto_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                               size_t max)
{
    size_t left = max;
    ProtobufCAllocator allocator = {
        .alloc = limited_alloc,
        .free = limited_free,
        .allocator_data = &left,
    };
    return protobuf_c_message_unpack(type, &allocator, len, data);
}
