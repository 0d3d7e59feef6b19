/*
 * A growable byte buffer with a hard maximum, and a cursor that reads outside bytes.
 *
 * Writing past the maximum sets `failed` and drops the bytes; callers write on and check once.
 * The cursor likewise: a read past the end sets `failed` and yields zeros.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data; /* owned; NULL while empty */
    size_t len;
    size_t cap;
    size_t max; /* bytes; never exceeded */
    bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b); /* frees; usable again after buf_init() */
void buf_wipe(struct buf *b); /* zeroes the content, then buf_fini(): for secrets */
void buf_clear(struct buf *b);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_append_str(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for `len` more bytes and returns where to write them, or NULL (failed set). */
uint8_t *buf_reserve(struct buf *b, size_t len);
/* Drops `len` bytes from the front. */
void buf_consume(struct buf *b, size_t len);
/* NUL-terminated view of the content; valid until the next write. Never NULL. */
const char *buf_cstr(struct buf *b);

struct in {
    const uint8_t *p; /* borrowed */
    const uint8_t *end;
    bool failed;
};

static inline struct in in_make(const void *data, size_t len)
{
    const uint8_t *p = data;
    return (struct in){ .p = p, .end = p + len, .failed = false };
}

static inline size_t in_left(const struct in *in)
{
    return (size_t)(in->end - in->p);
}

uint8_t in_u8(struct in *in);
uint16_t in_be16(struct in *in);
uint32_t in_be32(struct in *in);
uint64_t in_be64(struct in *in);
/* `len` bytes as a view into the input, or NULL (failed set). */
const uint8_t *in_bytes(struct in *in, size_t len);
