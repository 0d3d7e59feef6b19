/*
 * Puts an upstream's credential into the request that goes there, and knows what must not come
 * back.
 *
 * The secret is re-read when its file changes. OAuth2 access tokens are fetched with the client
 * credentials grant (RFC 6749 section 4.4), kept in memory, refreshed 30 s before they expire;
 * calls that come meanwhile wait for the one fetch.
 */
#pragma once

#include "base/loop.h"
#include "base/scan.h"
#include "dataproxy/fetch.h"
#include "dataproxy/outgoing.h"
#include "dataproxy/secret.h"
#include "dataproxy/upstream.h"

struct injector;

/* Called once when the request is complete, perhaps before injector_apply() returns. kind ERR_OK,
 * or ERR_UNAVAILABLE with a line for the log (never for the handler). */
typedef void inject_fn(void *arg, enum err_kind kind, const char *why);

/* Embedded in its owner while it waits. */
struct inject_wait {
    struct inject_wait *next;
    struct inject_wait **prev; /* NULL: not waiting */
    struct outgoing *out;
    inject_fn *fn;
    void *arg;
};

/* Reads the credential file now: a missing or bad one fails the start. upstream, loop and fetcher
 * are borrowed. */
CHECKED enum err_kind injector_new(struct loop *loop, struct fetcher *fetcher,
                                   const struct upstream *upstream, struct injector **out,
                                   struct err *err);
void injector_free(struct injector *injector);
DEFINE_CLEANUP(struct injector, injector_free, injector_freep)

void injector_apply(struct injector *injector, struct outgoing *out, struct inject_wait *wait,
                    inject_fn *fn, void *arg);
void inject_wait_cancel(struct inject_wait *wait); /* fine on an idle (zeroed) one */
/* The upstream answered 401: the access token in hand is not used again. */
void injector_rejected(struct injector *injector);

/* What a stream from this upstream must not contain; a new reference. */
struct scan_set *injector_scan_set(struct injector *injector);
