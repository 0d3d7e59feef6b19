/*
 * One declared upstream: where it is, what of it a handler may ask for, how much, and which
 * credential is put in.
 *
 * Pure: read from the configuration's JSON, matched against requests. Credential files are read by
 * inject.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/data_token.h"

#define UPSTREAM_RULES_MAX 32
#define UPSTREAM_HEADERS_MAX 32
#define UPSTREAM_METHODS_MAX 8
#define UPSTREAM_BODY_MAX (16 * 1024 * 1024)

/* A request passes when one rule has its method and its path, relative to the upstream's base. */
struct upstream_rule {
    char *method[UPSTREAM_METHODS_MAX]; /* upper case */
    size_t n_methods;
    char *path; /* "/a/b", "/a/{any}/c" (one segment); a last "*" takes all below */
};

enum inject_kind {
    INJECT_NONE,
    INJECT_HEADER, /* name: value template with {secret} */
    INJECT_QUERY,  /* name=<secret> appended, percent-encoded */
    INJECT_BASIC,  /* Authorization: Basic user:secret */
    INJECT_SIGV4,  /* AWS Signature Version 4 */
    INJECT_OAUTH2, /* client credentials grant, the access token as Bearer */
};

struct inject_spec {
    enum inject_kind kind;
    char *file;      /* the secret; mode 0400, read at start and on change */
    char *name;      /* header or query parameter */
    char *value;     /* header template, must hold {secret} once */
    char *user;      /* basic: user; sigv4: access key id; oauth2: client id */
    char *region;    /* sigv4 */
    char *service;   /* sigv4 */
    char *token_url; /* oauth2, https or an internal http */
    char *scope;     /* oauth2, may be NULL */
};

struct upstream {
    char name[DATA_UPSTREAM_MAX + 1];
    char *url; /* as configured, without a trailing slash */
    bool tls;
    char *host; /* lower case, without port; IPv6 literals in brackets */
    uint16_t port;
    char *base;    /* path of url: "" or "/v1" */
    bool internal; /* private and loopback addresses allowed, plain http allowed */
    struct upstream_rule rule[UPSTREAM_RULES_MAX];
    size_t n_rules;
    char
        *header[UPSTREAM_HEADERS_MAX]; /* lower case; request headers passed besides the defaults */
    size_t n_headers;
    struct inject_spec inject;
    size_t request_body;      /* bytes [65536] */
    size_t response_body;     /* bytes [1048576] */
    uint32_t timeout_ms;      /* [10000] */
    uint32_t cache_ms;        /* 0: no cache */
    size_t cache_bytes;       /* [4194304] */
    uint32_t rate_per_minute; /* 0: no limit */
    uint32_t rate_burst;      /* [rate_per_minute / 6, at least 1] */
};

/* Reads one element of "upstreams". Errors name the upstream and the member. *out is to be ended
 * with upstream_fini() also after a failure. */
CHECKED enum err_kind upstream_read(const json_t *object, struct upstream *out, struct err *err);
void upstream_fini(struct upstream *upstream);

/* `path` is relative to the upstream ("/forecast"), already held to upstream_path_valid(). */
bool upstream_allows(const struct upstream *upstream, const char *method, const char *path);

/* One reading only: begins with '/', no empty, "." or ".." segment (also encoded), no backslash, no
 * encoded slash, backslash, NUL or control byte, every '%' followed by two hex digits, printable
 * ASCII, no '#'. `len` bytes. */
bool upstream_path_valid(const char *path, size_t len);
bool upstream_query_valid(const char *query, size_t len);

/* Would the handler's query name the parameter that carries the credential? A second one of that
 * name could be the one the upstream takes. Names are compared decoded, case ignored. */
bool upstream_query_names_credential(const struct upstream *upstream, const char *query);

/* May this request header pass to the upstream? Never for hop-by-hop, credentials, cookies,
 * forwarding and token headers, whatever the configuration says. Range and If-Range pass only where
 * they are listed or no credential is put in: what reflects a credential could be asked for it in
 * pieces, each of which passes the scan. */
bool upstream_header_allowed(const struct upstream *upstream, const char *name);
/* May this header of the upstream's answer pass to the handler? */
bool upstream_answer_header_allowed(const char *name);
