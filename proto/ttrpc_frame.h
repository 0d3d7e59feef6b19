/*
 * ttrpc's frame: a 10-byte big-endian header `length:u32 stream:u32 type:u8 flags:u8`, then
 * `length` bytes. Pure: bytes in, frames out, no file descriptor.
 *
 * Always true: nothing is allocated from a length that was not checked; a reader holds at most one
 * frame (TTRPC_DATA_MAX) plus what one feed brought. Facts: github.com/containerd/ttrpc,
 * channel.go.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define TTRPC_HEADER_SIZE 10
#define TTRPC_DATA_MAX (4u * 1024 * 1024)

enum ttrpc_type {
    TTRPC_REQUEST = 1,
    TTRPC_RESPONSE = 2,
    TTRPC_DATA = 3,
};

enum ttrpc_flag {
    TTRPC_REMOTE_CLOSED = 1,
    TTRPC_REMOTE_OPEN = 2,
    TTRPC_NO_DATA = 4,
};

struct ttrpc_header {
    uint32_t length; /* of the data */
    uint32_t stream;
    uint8_t type; /* enum ttrpc_type, or a value unknown to us */
    uint8_t flags;
};

enum ttrpc_read {
    TTRPC_READ_MORE,     /* no whole frame yet */
    TTRPC_READ_FRAME,    /* *header and *data are a frame */
    TTRPC_READ_TOO_LONG, /* *header is of a frame over TTRPC_DATA_MAX; its data is skipped */
    TTRPC_READ_GARBAGE,  /* not ttrpc (a length of 16 MiB or more): close the connection */
};

struct ttrpc_reader {
    struct buf in;
    size_t pos;  /* bytes of `in` that were handed out already */
    size_t skip; /* data bytes of a too long frame still to come */
};

void ttrpc_reader_init(struct ttrpc_reader *r);
void ttrpc_reader_fini(struct ttrpc_reader *r);

/* Takes bytes as they come, at most TTRPC_FEED_MAX at once; then call ttrpc_reader_next() until it
 * says MORE or GARBAGE before feeding again. */
#define TTRPC_FEED_MAX (64u * 1024)
void ttrpc_reader_feed(struct ttrpc_reader *r, const void *data, size_t len);

/* *data points into the reader and is valid until the next call. */
enum ttrpc_read ttrpc_reader_next(struct ttrpc_reader *r, struct ttrpc_header *header,
                                  const uint8_t **data);

/* Appends a whole frame. The data must be at most TTRPC_DATA_MAX bytes (asserted). */
void ttrpc_frame_append(struct buf *out, const struct ttrpc_header *header, const void *data);
/* The header alone, for data that the caller packs behind it. */
void ttrpc_header_append(struct buf *out, const struct ttrpc_header *header);
