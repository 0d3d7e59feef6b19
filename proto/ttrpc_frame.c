#include "proto/ttrpc_frame.h"

#include <assert.h>

/* An empty reader keeps no more than this between frames. */
#define KEEP_MAX 4096

void ttrpc_reader_init(struct ttrpc_reader *r)
{
    *r = (struct ttrpc_reader){ 0 };
    buf_init(&r->in, TTRPC_HEADER_SIZE + (size_t)TTRPC_DATA_MAX + TTRPC_FEED_MAX);
}

void ttrpc_reader_fini(struct ttrpc_reader *r)
{
    buf_fini(&r->in);
}

void ttrpc_reader_feed(struct ttrpc_reader *r, const void *data, size_t len)
{
    assert(len <= TTRPC_FEED_MAX);
    if (r->skip >= len && r->in.len == 0) { /* all of it belongs to a frame being skipped */
        r->skip -= len;
        return;
    }
    buf_append(&r->in, data, len);
    /* A frame still incomplete holds less than header and data; one feed more always fits. */
    assert(!r->in.failed);
}

static void compact(struct ttrpc_reader *r)
{
    buf_consume(&r->in, r->pos);
    r->pos = 0;
    if (r->in.len == 0 && r->in.cap > KEEP_MAX)
        buf_fini(&r->in);
}

static void skip_data(struct ttrpc_reader *r)
{
    size_t have = r->in.len - r->pos;
    size_t n = r->skip < have ? r->skip : have;
    r->pos += n;
    r->skip -= n;
}

enum ttrpc_read ttrpc_reader_next(struct ttrpc_reader *r, struct ttrpc_header *header,
                                  const uint8_t **data)
{
    skip_data(r);
    if (r->in.len == r->pos) {
        compact(r);
        return TTRPC_READ_MORE;
    }
    struct in in = in_make(r->in.data + r->pos, r->in.len - r->pos);
    if (*in.p != 0) /* 16 MiB and more: no client of ours says that, but every HTTP client does */
        return TTRPC_READ_GARBAGE;
    *header = (struct ttrpc_header){
        .length = in_be32(&in), .stream = in_be32(&in), .type = in_u8(&in), .flags = in_u8(&in)
    };
    if (!in.failed && header->length > TTRPC_DATA_MAX) {
        r->pos += TTRPC_HEADER_SIZE;
        r->skip = header->length;
        *data = NULL;
        return TTRPC_READ_TOO_LONG;
    }
    *data = in_bytes(&in, header->length);
    if (in.failed) {
        compact(r);
        return TTRPC_READ_MORE;
    }
    r->pos += TTRPC_HEADER_SIZE + header->length;
    return TTRPC_READ_FRAME;
}

static void put_be32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

void ttrpc_header_append(struct buf *out, const struct ttrpc_header *header)
{
    assert(header->length <= TTRPC_DATA_MAX);
    uint8_t bytes[TTRPC_HEADER_SIZE];
    put_be32(bytes, header->length);
    put_be32(bytes + 4, header->stream);
    bytes[8] = header->type;
    bytes[9] = header->flags;
    buf_append(out, bytes, sizeof(bytes));
}

void ttrpc_frame_append(struct buf *out, const struct ttrpc_header *header, const void *data)
{
    ttrpc_header_append(out, header);
    buf_append(out, data, header->length);
}
