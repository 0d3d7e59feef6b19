/*
 * One running gate: what all of its requests share. Made by gate_new(), filled by gate_start(),
 * used on one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "gate/auth.h"
#include "gate/claims.h"
#include "gate/config.h"
#include "gate/data_session.h"
#include "gate/evm_rpc.h"
#include "gate/facilitator_client.h"
#include "gate/ledger.h"
#include "gate/metrics.h"
#include "gate/reconcile.h"
#include "http/client.h"
#include "http/server.h"
#include "proto/data_token.h"

#define GATE_PREVIOUS_MAX 8
#define GATE_ID_TEXT 33

struct request;

/* Terms that a reload replaced: still honoured for what they promised. */
struct gate_terms {
    struct gate_config *config;
    uint64_t until_ms;
};

struct request_ring {
    struct request_ring *prev, *next;
};

struct gate {
    struct loop *loop;          /* borrowed */
    struct gate_config *config; /* current */
    struct gate_terms previous[GATE_PREVIOUS_MAX];
    size_t n_previous;
    struct http_server *server, *admin;
    struct http_client *client;
    struct auth *auth;
    struct facilitator *facilitator;
    struct ledger *ledger; /* NULL while standing by, and once drained */
    struct ledger_standby *standby;
    struct claims *claims; /* or NULL */
    struct settler *settler;
    struct evm_rpc **rpcs;
    size_t n_rpcs;
    struct data_session *data; /* or NULL: the handler has no upstreams */
    struct data_key *data_key;
    struct metrics metrics;
    struct request_ring requests;
    size_t n_requests;
    size_t paid;           /* payments in flight in this gate */
    uint32_t wallet_calls; /* unjudged signatures passed on in this minute */
    uint64_t wallet_minute;
    char instance[GATE_ID_TEXT]; /* hex, made at start */
    uint64_t serial;             /* of requests */
    struct loop_timer drain_timer, supported_timer;
    struct facilitator_call supported_call;
    bool supported;       /* the facilitator has said that it takes what we sell */
    bool unsellable;      /* it has said that it does not: see `why` */
    bool operators_fault; /* a verify got 401, 403 or a schema error last */
    bool draining;
    uint64_t drain_until_ms;
    uint64_t flush_until_ms; /* drained: the ledger is let go, answers are on their way out */
    bool started;            /* serving: a facilitator that changes its mind does not end us */
    bool failed;             /* the loop ended because of `why` */
    json_t *kinds;           /* what the facilitator said last; owned */
    char why[256];           /* not ready because */
};

/* Opens what may need rights: tokens, trust anchors, listeners. Takes a reference of config. */
CHECKED enum err_kind gate_new(struct loop *loop, struct gate_config *config, struct gate **out,
                               struct err *err);
/* Opens what the gate's own user owns: the ledger (or, standing by, waits for it), the claims
 * store, the data proxy's socket; asks the facilitator what it takes. To be called once, after
 * rights were dropped. */
CHECKED enum err_kind gate_start(struct gate *gate, bool standby, struct err *err);
void gate_free(struct gate *gate);
DEFINE_CLEANUP(struct gate, gate_free, gate_freep)

/* New routes, prices, limits and deadlines from now on; what is named at start (listeners, ledger,
 * claims, facilitator, user, data socket) must be the same, else ERR_PRECONDITION and nothing
 * changes. Takes a reference. */
CHECKED enum err_kind gate_reload(struct gate *gate, struct gate_config *config, struct err *err);

/* ---- drain.c ---- */

/* New payments get 503. When nothing runs any more the ledger is let go, the listeners close, and
 * the loop ends once the answers are out; or when deadlines.drain has passed. */
void gate_drain(struct gate *gate);
/* The ledger and all that stands on it. No request may hold a payment any more. */
void gate_let_go(struct gate *gate);

/* "" when ready, else why not. */
const char *gate_not_ready(const struct gate *gate);

/* The client's address: the peer's, or, behind a trusted proxy, the last X-Forwarded-For entry that
 * is not one. */
void gate_client_address(const struct gate *gate, const struct http_request *http,
                         char out[HTTP_ADDRESS_MAX]);

/* Called by a request that ended (drain watches this). */
void gate_request_ended(struct gate *gate);
