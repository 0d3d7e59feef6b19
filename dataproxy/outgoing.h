/*
 * The request that goes to an upstream, while it is put together: URL, headers, credentials. Wiped
 * when it ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "http/client.h"

#define OUTGOING_HEADERS_MAX 64

struct outgoing {
    struct buf url;
    struct http_header header[OUTGOING_HEADERS_MAX];
    size_t n_headers;
    char *userpwd; /* owned; NULL: none */
    char *sigv4;   /* owned; libcurl's "aws:amz:REGION:SERVICE"; NULL: none */
};

void outgoing_init(struct outgoing *out);
void outgoing_fini(struct outgoing *out);
/* Copies. False when there is no room or the header is not sendable. */
bool outgoing_add(struct outgoing *out, const char *name, const char *value);
