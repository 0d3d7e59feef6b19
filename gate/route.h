/*
 * Routes and offers: what is sold where, and for how much. Made by config.c, constant afterwards
 * but for offer_learn() before serving starts.
 *
 * A path that no route names is not found, never free.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gate/evm_signature.h"
#include "gate/price.h"
#include "gate/u256.h"

enum pay_kind {
    PAY_EIP3009, /* exact, EVM, TransferWithAuthorization: prechecked here */
    PAY_PERMIT2, /* exact, EVM, Permit2 with witness: prechecked here */
    PAY_UPTO,    /* upto, EVM, Permit2 with witness: ceiling, charge at settlement */
    PAY_OPAQUE,  /* anything else: keyed by hash, judged by the facilitator alone */
};

/* One item of `accepts`. */
struct offer {
    enum pay_kind kind;
    const char *scheme;     /* "exact", "upto", … */
    const char *network;    /* CAIP-2 */
    const char *v1_network; /* slug or NULL: then not offered to v1 buyers */
    uint64_t chain_id;      /* 0 when not EVM */
    const char *asset;
    struct evm_address asset_address; /* EVM only */
    const char *pay_to;
    struct evm_address pay_to_address; /* EVM only */
    const char *symbol;                /* for people, "USDC" or the asset */
    unsigned decimals;
    struct u256 amount;              /* atomic; for upto the ceiling */
    char amount_text[U256_TEXT_MAX]; /* the same in decimal */
    char price_text[PRICE_TEXT_MAX]; /* the same for people: "0.01" */
    const char *domain_name;         /* EIP-712 domain of the asset; NULL for opaque */
    const char *domain_version;
    uint32_t max_timeout_s;
    struct u256 upto_min, upto_max; /* clamp on what a handler may charge; max <= amount */
    const char *const *members; /* opaque: NULL-terminated names of `payload` that make the key; no
                             other is taken */
    json_t *extra;              /* owned; object or NULL */
    json_t *v2;                 /* owned: PaymentRequirements as sent to v2 buyers */
    json_t *v1;                 /* owned: without `resource`; NULL when not offered to v1 */
};

enum on_error { ON_ERROR_REPLACE, ON_ERROR_PASS };

/* What an answer must be before it is sold. */
struct answer_rule {
    bool allow_empty;                                    /* sell an empty 200/201/203 body */
    bool charge_202, charge_204, charge_3xx, charge_404; /* opt-in; off: passed on uncharged */
    bool close_delimited;     /* accept an answer that only the end of the connection ends */
    const char *end_marker;   /* bytes the body must end with, or NULL */
    const char *content_type; /* required media type without parameters, or NULL */
    bool json;                /* the body must be one strict JSON value */
    const char *json_pointer; /* RFC 6901; must exist and not be null; implies json; or NULL */
    bool no_error_key;        /* a JSON object with a member "error" that is not null is not sold */
    enum on_error on_4xx, on_5xx;
    bool set_cookie; /* the handler's Set-Cookie is passed on */
};

enum replay { REPLAY_ON, REPLAY_OFF };

struct route {
    size_t index;     /* position in the configuration; stable within one configuration */
    const char *path; /* "/a/b"; "{name}" stands for one segment, a last segment "*" for any rest */
    bool exact;       /* no wildcard in path: the challenge is made once */
    const char *const *methods; /* NULL-terminated, upper case; HEAD only if listed */
    char *allow;                /* "GET, POST" for 405 and preflight */
    bool free;                  /* passed through without payment */
    const char *description;    /* never NULL */
    const char *mime_type;      /* never NULL */
    const char *service_name;   /* or NULL */
    json_t *tags;               /* owned; array or NULL */
    const char *icon_url;       /* or NULL */
    struct offer *offers;
    size_t offer_n; /* 0 exactly when free */
    json_t
        *extensions; /* owned; what the challenge declares, payment-identifier included; or NULL */
    bool identifier_declared, identifier_required; /* payment-identifier */
    bool contract_wallets;
    bool upto_handler_charge; /* Settlement-Overrides is honoured, clamped, on upto offers */
    bool forward_authorization, forward_cookie; /* the buyer's own headers reach the handler */
    enum replay replay;
    uint32_t replay_max;    /* releases of one sealed answer, the first included */
    uint32_t replay_s;      /* seconds from settlement */
    uint32_t handler_ms;    /* the handler's deadline */
    const char **upstreams; /* NULL-terminated: what its data token is good for; NULL: no token */
    struct answer_rule answer;
    struct challenge_cache *challenge; /* owned; made with the route */
};

static inline bool route_has_upstreams(const struct route *route)
{
    return route->upstreams && route->upstreams[0];
}

enum route_found { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };

struct route_set {
    struct route *routes; /* owned */
    size_t n;
};

/* `path` is the canonical path without query. An exact path goes before wildcards, those go in the
 * order of the file. On ROUTE_NO_METHOD *out is the route whose `allow` answers. */
enum route_found route_find(const struct route_set *set, const char *method, const char *path,
                            const struct route **out);

/* Merges what /supported says about a kind (facilitatorAddress, feePayer, …) into the offer, before
 * any request is served; what the configuration sets itself wins. Call challenge_rebuild() after.
 */
void offer_learn(struct offer *offer, const json_t *kind_extra);
