/*
 * One call to an outside host: resolved here, every address judged, connected to exactly the judged
 * one.
 *
 * When an address cannot be connected to, no byte has left, and the next allowed one is tried.
 */
#pragma once

#include "dataproxy/address.h"
#include "dataproxy/resolve.h"
#include "http/client.h"

struct fetcher {
    struct resolver *resolver;  /* borrowed */
    struct http_client *client; /* borrowed */
    struct address_net own;     /* never connected to, internal or not: the handler's network */
};

/* Embedded in its owner. */
struct fetch {
    struct fetcher *fetcher;
    struct http_call_spec spec; /* its pointers are the owner's and live until done or cancelled */
    http_call_done_fn *done;
    void *arg;
    bool internal;
    struct resolve *resolving;
    struct http_call *call;
    char address[RESOLVE_ADDRESSES_MAX][64]; /* allowed ones, numeric */
    size_t n_addresses;
    size_t next;
    bool refused; /* every address was refused: the result's `why` says why */
};

/* `done` gets one result, perhaps before this returns; with HTTP_CALL_NO_CONNECT and `refused` for
 * a name whose addresses are not allowed. spec->done and spec->arg are ignored: on_head, on_data
 * and done get `arg`. */
void fetch_start(struct fetch *fetch, struct fetcher *fetcher, const char *host, bool internal,
                 const struct http_call_spec *spec, http_call_done_fn *done, void *arg);
/* No callback comes any more; fine on an idle (zeroed) one. Not from within on_head or on_data. */
void fetch_cancel(struct fetch *fetch);
void fetch_resume(struct fetch *fetch); /* after HTTP_DATA_PAUSE */
