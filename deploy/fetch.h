/*
 * One short HTTP request, for looking at a gate or at Traefik. Redirects are not followed, proxies
 * of the environment are not used, nothing is kept.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct fetch {
    const char *url;     /* names in it are resolved to `address` where that is set */
    const char *address; /* "a.b.c.d" to connect to, or NULL */
    const char *socket;  /* unix socket to connect to, or NULL */
    const char *host;    /* Host header, or NULL for the URL's */
    bool any_certificate;
    int timeout_ms;
};

/* *status is the HTTP status; the body goes into out up to its limit (may be NULL).
 * ERR_UNAVAILABLE: no answer, with the reason. */
CHECKED enum err_kind fetch_get(const struct fetch *fetch, long *status, struct buf *out,
                                struct err *err);
