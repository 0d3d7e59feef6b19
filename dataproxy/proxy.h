/*
 * The proxy itself: what handlers' requests become.
 *
 * proxy.c reads from top to bottom as a call lives: who asks, for what, with which token; allowed,
 * within budget; resolved, judged, with its credential; streamed back, scanned, counted; recorded.
 * It is longer than other files because a life in two files is harder to check than in one.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "dataproxy/config.h"
#include "dataproxy/egress.h"
#include "dataproxy/fetch.h"
#include "dataproxy/requests.h"

struct proxy;

/* What the proxy works with; all borrowed and living longer than it. */
struct proxy_parts {
    struct loop *loop;
    const struct config *config;
    struct requests *requests;
    struct fetcher *fetcher;
    struct egress *const *egress; /* the pointer is set by the time of proxy_start() */
};

/* Loads the public keys and every credential: a missing one fails the start. Does not listen yet.
 */
CHECKED enum err_kind proxy_new(const struct proxy_parts *parts, struct proxy **out,
                                struct err *err);
void proxy_free(struct proxy *proxy);
DEFINE_CLEANUP(struct proxy, proxy_free, proxy_freep)

/* May need the right to bind a low port. */
CHECKED enum err_kind proxy_listen(struct proxy *proxy, struct err *err);
/* Reads the public keys and every credential, as the user who will read them again: a missing one
 * fails the start. */
CHECKED enum err_kind proxy_start(struct proxy *proxy, struct err *err);
int proxy_port(const struct proxy *proxy);
/* Reads the key directory anew (rotation, SIGHUP); a bad one leaves the keys in hand. */
CHECKED enum err_kind proxy_reload_keys(struct proxy *proxy, struct err *err);

/* The id of the n-th public key in use, "" where an earlier file holds the same; NULL beyond the
 * last. */
const char *proxy_key_id(const struct proxy *proxy, size_t n);

/* Counters since start, for the metrics page. Every call ends in exactly one outcome. */
enum proxy_outcome {
    PROXY_OK,
    PROXY_CACHED,
    PROXY_BAD_REQUEST, /* malformed, wrong method, no such upstream */
    PROXY_NO_TOKEN,    /* missing, malformed, wrong or expired */
    PROXY_NOT_OPEN,    /* the request is not open, or the upstream not in its scope */
    PROXY_NOT_ALLOWED, /* method, path, size */
    PROXY_BUDGET,      /* calls, bytes or rate used up */
    PROXY_ADDRESS,     /* the upstream's name has no allowed address */
    PROXY_UPSTREAM,    /* unreachable, too slow, broken, redirecting, encoded or too large */
    PROXY_CREDENTIAL,  /* cannot be had */
    PROXY_LEAK,        /* the credential stood in the answer */
    PROXY_ENDED,       /* the request ended while the call was under way */
    PROXY_GONE,        /* the handler went away */
    PROXY_OUTCOME_N,
};
const char *proxy_outcome_name(enum proxy_outcome outcome);

struct proxy_stats {
    uint64_t outcome[PROXY_OUTCOME_N];
    uint64_t bytes_up;
    uint64_t bytes_down;
    size_t calls; /* now under way */
};
void proxy_stats(const struct proxy *proxy, struct proxy_stats *out);
