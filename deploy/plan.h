/*
 * The plan: everything that an endpoint is on this host, derived from its file, the settings and a
 * few recorded numbers, and hashed. Pure. `up` makes it true, `status` and `audit` compare with it,
 * `render` prints it.
 *
 * Hashes tell what a change means: nothing, a new configuration for the gate, a new gate, a new
 * handler. They leave out what alternates at replacement (generation, side, addresses, namespace
 * paths), so that the same file gives the same hashes whichever generation runs.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "deploy/digest.h"
#include "deploy/endpoint.h"
#include "deploy/settings.h"
#include "deploy/slug.h"

#define PLAN_GATE_PORT 8402
#define PLAN_HANDLER_RUNTIME "io.containerd.utter.v1"
#define PLAN_GATE_RUNTIME "io.containerd.runc.v2"
#define PLAN_EDGE_BRIDGE "utter-edge"
#define PLAN_EGRESS_BRIDGE "utter-egress"
#define PLAN_DATA_PORT 80
#define PLAN_INDEX_MAX 8000
#define PLAN_CLAIMS_PLACE "/var/lib/utter-claims" /* where a gate sees its claims store */
#define PLAN_CLAIMS_FILE "claims.db"

/* What an image is, as containerd and its configuration blob say. */
struct plan_image {
    const char *name;     /* in containerd */
    const char *digest;   /* of its target */
    const json_t *config; /* OCI image configuration; borrowed */
};

/* The recorded numbers, and what the host knows. Borrowed for the call. */
struct plan_facts {
    unsigned index;      /* durable, per slug */
    unsigned generation; /* of the handler, from 1 */
    unsigned side;       /* of the gate, 0 or 1 */
    struct plan_image handler;
    struct plan_image gate;
    struct plan_image data; /* zeroed where the endpoint has no upstreams */
    const char *logger;     /* absolute path of utter-log */
    unsigned claims;        /* number of the wallet's claims store; 0 where it is not shared */
};

/* One container of the plan. */
struct plan_member {
    char id[SLUG_ID_SIZE];
    const char *runtime;
    char *image;
    char *netns;      /* path */
    char address[20]; /* on the slug's network, with prefix length */
    char edge[20]; /* on the edge (data proxy: egress) network, with prefix length; "" for a handler
                    */
    json_t *spec;  /* OCI runtime spec */
    char hash[DIGEST_SIZE];
};

struct plan {
    struct slug slug;
    unsigned index;
    unsigned generation;
    unsigned side;
    char bridge[16];       /* "ut-<index>" */
    char subnet[20];       /* "198.18.0.8/29" */
    char edge_gateway[16]; /* the host's address on the edge bridge */
    unsigned edge_bits;
    char egress_gateway[16]; /* the host's address on the egress bridge */
    uint32_t uid;            /* of the gate and its files */
    uint32_t data_uid;       /* of the data proxy and its files */
    struct plan_member handler;
    struct plan_member gate;
    struct plan_member data; /* id "": the handler has no upstreams */
    json_t *gate_config;     /* what the gate reads */
    json_t *data_config;     /* what the data proxy reads, or NULL */
    json_t *route;           /* Traefik dynamic configuration */
    char *log_uri;
    char *host; /* public name */
    bool tls;
    int64_t port;        /* of the handler */
    int64_t lifetime;    /* seconds */
    int64_t handler_s;   /* seconds one call may take */
    int64_t log_max;     /* bytes */
    char *pay;           /* "network asset payTo", lower case: what a claims store is shared by */
    char *claims;        /* directory of that store, or NULL: not shared */
    uint32_t claims_gid; /* its group: the gates that share it */
    char *state;         /* <stateDir>/<slug> */
    char *run;           /* <runDir>/<slug> */
    char config_hash[DIGEST_SIZE]; /* of the gate's configuration without the handler's address */
    char route_hash[DIGEST_SIZE];  /* of the route without the gate's address */
    char hash[DIGEST_SIZE];        /* of all of it */
};

/* "network asset payTo" in lower case; the caller's. */
char *plan_pay(const struct endpoint *endpoint);
/* ERR_INVALID with the policy's own refusal where the file asks for what the runtime refuses. */
CHECKED enum err_kind plan_make(const struct endpoint *endpoint, const struct settings *settings,
                                const struct plan_facts *facts, struct plan **out, struct err *err);
/* The plan has a data proxy. */
static inline bool plan_has_data(const struct plan *plan)
{
    return plan->data.id[0] != '\0';
}
void plan_free(struct plan *plan);
DEFINE_CLEANUP(struct plan, plan_free, plan_freep)

/* The plan as its record on disk: a new reference, the caller's. */
json_t *plan_record(const struct plan *plan);
/* A member's address or edge without the prefix length. */
struct plan_ip {
    char s[20];
};
struct plan_ip plan_ip(const char *cidr);
/* The same plan with the handler's next generation: id, address and namespace move, and the gate's
 * configuration with them. */
CHECKED enum err_kind plan_advance(struct plan *plan, const struct settings *settings,
                                   struct err *err);
/* And back. ERR_INVALID where the record is not one of ours. */
CHECKED enum err_kind plan_load(const json_t *record, struct plan **out, struct err *err);
