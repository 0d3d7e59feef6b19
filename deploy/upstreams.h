/*
 * `upstreams` of endpoint.yaml: what the handler may reach through the data proxy.
 *
 * An upstream is written as utter-dataproxy.json(5) has it and checked by the data proxy's own
 * reader, so that the two cannot disagree. Only its credential file is the operator's: it is named
 * below the endpoint file's folder or /etc/utter, and reaches the proxy as a file of its tmpfs,
 * never the handler, the gate or a spec. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "dataproxy/upstream.h"

#define UPSTREAMS_MAX 16
#define UPSTREAMS_SECRETS "/run/utter-secrets" /* in the data proxy's container */

struct upstreams {
    json_t *list; /* owned: as the data proxy reads it; NULL: none */
    size_t n;
    struct upstream_secret {
        char name[DATA_UPSTREAM_MAX + 1]; /* of the upstream, and of the file in its tmpfs */
        char *source;                     /* absolute, owned */
    } secret[UPSTREAMS_MAX];
    size_t n_secrets;
};

/* tree: the whole endpoint file, already held to its schema; also checks the routes' "upstreams".
 * *out is ended also after a failure. */
CHECKED enum err_kind upstreams_read(const json_t *tree, const char *directory,
                                     struct upstreams *out, struct err *err);
void upstreams_fini(struct upstreams *upstreams);
/* Names, as a new JSON array, the caller's. */
json_t *upstreams_names(const struct upstreams *upstreams);
