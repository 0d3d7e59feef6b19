#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){ .max = max };
}

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){ .max = b->max };
}

void buf_wipe(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    buf_fini(b);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

uint8_t *buf_reserve(struct buf *b, size_t len)
{
    /* One byte beyond max is kept for the terminator of buf_cstr(). */
    if (b->failed || len > b->max || b->len > b->max - len) {
        b->failed = true;
        return NULL;
    }
    size_t need = b->len + len + 1;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 64;
        cap = need > cap * 2 ? need : need > cap ? cap * 2 : cap; /* large pieces exactly */
        if (cap > b->max + 1)
            cap = b->max + 1;
        b->data = xrealloc(b->data, cap);
        b->cap = cap;
    }
    return b->data + b->len;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
    uint8_t *to = buf_reserve(b, len);
    if (!to)
        return;
    if (len)
        memcpy(to, data, len);
    b->len += len;
}

void buf_append_str(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    uint8_t *to = n < 0 ? NULL : buf_reserve(b, (size_t)n);
    if (to) {
        (void)vsnprintf((char *)to, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
}

void buf_consume(struct buf *b, size_t len)
{
    if (len >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

const char *buf_cstr(struct buf *b)
{
    if (!b->data)
        return "";
    b->data[b->len] = 0;
    return (const char *)b->data;
}

const uint8_t *in_bytes(struct in *in, size_t len)
{
    if (in->failed || len > in_left(in)) {
        in->failed = true;
        return NULL;
    }
    const uint8_t *p = in->p;
    in->p += len;
    return p;
}

static uint64_t in_be(struct in *in, size_t len)
{
    const uint8_t *p = in_bytes(in, len);
    uint64_t v = 0;
    for (size_t i = 0; p && i < len; i++)
        v = v << 8 | p[i];
    return v;
}

uint8_t in_u8(struct in *in)
{
    return (uint8_t)in_be(in, 1);
}

uint16_t in_be16(struct in *in)
{
    return (uint16_t)in_be(in, 2);
}

uint32_t in_be32(struct in *in)
{
    return (uint32_t)in_be(in, 4);
}

uint64_t in_be64(struct in *in)
{
    return in_be(in, 8);
}
