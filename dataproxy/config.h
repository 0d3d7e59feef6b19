/*
 * The data proxy's one configuration file, strict JSON; utter-dataproxy.json(5).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "dataproxy/address.h"
#include "dataproxy/upstream.h"

#define CONFIG_UPSTREAMS_MAX 16

struct config {
    char slug[DATA_SLUG_MAX + 1];
    char *listen;     /* "198.18.0.3:80", on the slug's network */
    char *peer;       /* the only source address served ("198.18.0.4/31"); NULL: any */
    char *admin;      /* "unix:/path" or "127.0.0.1:9403" */
    char *session;    /* path of the socket that gates connect to */
    int64_t gate_uid; /* uid whose processes may open requests */
    char *keys;       /* directory of *.pub */
    char *ledger;     /* SQLite file of egress records; NULL: none is kept */
    char *resolver;   /* "127.0.0.1:53": asked instead of the system's; NULL: system's */
    char *ca_file;    /* extra PEM bundle; NULL: system's */
    char *user;       /* name or uid to become; NULL: stay */
    size_t max_calls; /* in flight, all requests together [256] */
    size_t max_bytes; /* of bodies, queues and answers kept for a cache, all calls together [128
                         MiB] */
    struct address_net peer_net; /* of `peer`; not set without */
    struct upstream upstream[CONFIG_UPSTREAMS_MAX];
    size_t n_upstreams;
};

/* Reads and checks the whole file; the first fault is in err, with the path. *out is the caller's.
 */
CHECKED enum err_kind config_load(const char *path, struct config **out, struct err *err);
CHECKED enum err_kind config_parse(const char *text, size_t len, struct config **out,
                                   struct err *err);
void config_free(struct config *config);
DEFINE_CLEANUP(struct config, config_free, config_freep)

/* NULL when there is none of that name. */
const struct upstream *config_upstream(const struct config *config, const char *name);
/* By declared host and port, for absolute-form requests; NULL when none or more than one matches.
 */
const struct upstream *config_upstream_by_host(const struct config *config, const char *host,
                                               uint16_t port);
