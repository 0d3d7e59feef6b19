/*
 * The gate's one JSON file: read, checked completely, resolved. docs/utter-gate.json.5 describes
 * every key. Reading touches only the file itself; config_check_files() looks at what it names.
 *
 * A configuration is constant once made and counted by reference: a request keeps the one it
 * matched, so a reload never changes terms under it.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"
#include "gate/payment.h"
#include "gate/route.h"

#define CONFIG_MAX (1024 * 1024) /* bytes of the file */

struct endpoint {
    enum { ENDPOINT_NONE, ENDPOINT_TCP, ENDPOINT_UNIX } kind;
    char host[64];  /* TCP: numeric IPv4 or IPv6 address */
    uint16_t port;  /* TCP; 0: any free port (tests) */
    char path[108]; /* UNIX: absolute */
};

enum auth_kind { AUTH_NONE, AUTH_BEARER_DIR, AUTH_CDP };

struct facilitator_config {
    const char *url; /* without trailing slash; https, or http on loopback or with plain_http */
    bool plain_http; /* http to an address that is not loopback, set by the operator */
    enum auth_kind auth;
    const char *bearer_dir;  /* directory of the token file */
    const char *bearer_name; /* its name there; `<name>.verify`, `.settle`, `.supported` go before
                                it for their operation */
    const char *cdp_key_id;
    const char *cdp_key_file;
    const char *ca_file; /* extra trust anchors, or NULL */
    const char *user; /* the account that is dropped to: tokens and keys may be its own; or NULL */
    enum payload_form payload;
};

struct rpc_config {      /* read-only evidence per network */
    const char *network; /* CAIP-2 */
    const char *urls[2]; /* second may be NULL; two must agree */
    uint32_t confirmations;
};

struct handler_config {
    struct endpoint at;
    const char *host; /* value of Host towards the handler */
};

struct ledger_config {
    const char *path;
    bool create;         /* make it when absent */
    bool any_filesystem; /* tmpfs, overlay, NFS are refused without this */
    uint64_t sealed_max_bytes;
    uint32_t sealed_ttl_s; /* of sealed answers, from settlement */
    uint32_t retention_s;  /* of settled records */
    uint32_t reconcile_s;  /* how long an unknown settlement is pursued past validBefore */
    bool unproven_release; /* default false: hold */
};

struct limits_config {
    uint32_t request_body, response_body; /* bytes; at most 1 MiB each */
    uint32_t connections;
    uint32_t concurrent;            /* paid requests in flight */
    uint32_t per_payer;             /* in flight of one payer */
    uint32_t uncharged_per_payment; /* handler runs without charge */
    uint32_t uncharged_per_payer;   /* in 10 min */
    uint32_t contract_wallet_per_minute;
    uint32_t waiters; /* requests that wait for one payment's answer */
};

struct deadlines_config { /* milliseconds */
    uint32_t header, body, idle, verify, handler, settle, settle_hold, write, drain;
};

struct data_config {        /* the handler's way to its upstreams; socket NULL: it has none */
    const char *socket;     /* the data proxy's */
    const char *key_file;   /* Ed25519, PEM, ours alone */
    const char **upstreams; /* NULL-terminated names: what a token may reach */
    int64_t calls, bytes;   /* of one request */
};

struct gate_config {
    unsigned refs;
    char sha256[65]; /* of the file's bytes */
    const char *file;
    const char *origin; /* "https://host[:port]", no trailing slash */
    const char **hosts; /* NULL-terminated, lower case: accepted Host values, origin's included */
    const char *
        *trusted_proxies; /* NULL-terminated addresses or CIDRs whose X-Forwarded-For counts */
    struct endpoint listen, admin;
    struct handler_config handler;
    struct facilitator_config facilitator;
    struct ledger_config ledger;
    const char *claims; /* path of the shared claims store, or NULL */
    struct rpc_config *rpc;
    size_t rpc_n;
    struct limits_config limits;
    struct deadlines_config deadlines;
    uint32_t clock_skew_s;
    uint32_t max_ahead_s;      /* past maxTimeoutSeconds */
    bool cors;                 /* answer preflights and expose the payment headers */
    const char **cors_origins; /* NULL-terminated; empty with cors: any */
    const char *user;          /* account to drop to, or NULL: stay (refused for root) */
    struct data_config data;
    const char *slug; /* name in logs and data tokens, or NULL */
    struct route_set routes;
    json_t *tree; /* owned: the parsed file, which holds most strings above */
    char **made;  /* owned, NULL-terminated: strings that were composed */
};

/* Where faults go: one call per fault, a line such as `routes[2].price: "0.0000001" has more
 * fraction digits than USDC has decimals (6)`. */
typedef void config_fault_fn(void *arg, bool warning, const char *line);

/* Parses and resolves. ERR_INVALID after one or more faults were reported (every fault that can be
 * told apart, not only the first). *out has one reference, the caller's. */
CHECKED enum err_kind config_parse(const char *text, size_t len, const char *name,
                                   config_fault_fn *fault, void *arg, struct gate_config **out,
                                   struct err *err);
CHECKED enum err_kind config_load(const char *path, config_fault_fn *fault, void *arg,
                                  struct gate_config **out, struct err *err);

/* What the file names outside itself: token directory (owned by us or root, no group or other
 * bits), key files, CA file, ledger's directory, the account. Same reporting. */
CHECKED enum err_kind config_check_files(const struct gate_config *c, config_fault_fn *fault,
                                         void *arg, struct err *err);

struct gate_config *config_ref(struct gate_config *c);
void config_unref(struct gate_config *c); /* NULL is fine */
DEFINE_CLEANUP(struct gate_config, config_unref, config_unrefp)

/* The limits payment_check() wants, for one route of this configuration. */
struct payment_limits config_payment_limits(const struct gate_config *c, const struct route *route,
                                            int64_t now);
