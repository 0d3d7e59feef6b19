#include "proto/unpack.h"

#include <stdlib.h>
#include <string.h>

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

static void drop_unknown(ProtobufCMessage *message);

static void drop_unknown_in_field(const ProtobufCFieldDescriptor *field, void *message)
{
    char *at = message;
    ProtobufCMessage *one = NULL;
    ProtobufCMessage **list = NULL;
    size_t n = 0;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        memcpy(&n, at + field->quantifier_offset, sizeof(n));
        memcpy(&list, at + field->offset, sizeof(list));
    } else {
        memcpy(&one, at + field->offset, sizeof(one));
        list = &one;
        n = one ? 1 : 0;
    }
    for (size_t i = 0; i < n; i++)
        drop_unknown(list[i]);
}

/* As deep as our messages nest, not as deep as the bytes do. */
static void drop_unknown(ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        free(message->unknown_fields[i].data);
    free(message->unknown_fields);
    message->unknown_fields = NULL;
    message->n_unknown_fields = 0;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            drop_unknown_in_field(field, message);
    }
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
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, len, data);
    if (message)
        drop_unknown(message);
    return message;
}
