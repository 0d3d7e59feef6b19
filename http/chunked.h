/*
 * Decoder of the chunked coding (RFC 9112 section 7.1), strict and incremental. Pure.
 *
 * Lines end in CRLF only; the size is 1 to 16 hex digits; one extension (name, or name=token) is
 * skipped within HTTP_CHUNK_LINE_MAX, anything more is refused; trailer fields are checked for
 * shape, bounded by HTTP_TRAILER_MAX, and dropped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chunked_status {
    CHUNKED_MORE, /* all input was used; more is needed */
    CHUNKED_DATA, /* data and data_len name a piece of the body, pointing into the input; call again
                   */
    CHUNKED_DONE, /* the body ended; bytes not used belong to the next message */
    CHUNKED_BAD,  /* malformed; the connection is of no further use */
};

struct chunked {
    int state;
    uint64_t left;   /* bytes of the chunk in progress */
    size_t line;     /* bytes of the line in progress */
    size_t trailer;  /* bytes of trailer so far */
    unsigned digits; /* of the size in progress */
};

void chunked_init(struct chunked *c);

/* Takes up to len bytes. *used says how many were taken (also with CHUNKED_DONE, where it stops
 * right after the final CRLF). Call again with the rest until CHUNKED_MORE. */
enum chunked_status chunked_feed(struct chunked *c, const char *input, size_t len, size_t *used,
                                 const char **data, size_t *data_len);
