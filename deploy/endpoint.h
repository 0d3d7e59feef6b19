/*
 * endpoint.yaml, read and checked: what an operator wants sold.
 *
 * The form is deploy/endpoint.schema.json, built into the program. What a schema cannot say is
 * checked here: sizes against each other, paths that leave their place. Pure but for
 * endpoint_load().
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "deploy/slug.h"
#include "deploy/upstreams.h"

enum endpoint_entry {
    ENDPOINT_ENTRY_PYTHON, /* python3 FILE */
    ENDPOINT_ENTRY_BINARY, /* FILE, statically linked */
    ENDPOINT_ENTRY_IMAGE,  /* what the image says, or `argv` */
};

struct endpoint {
    struct slug slug;
    json_t *tree;    /* the file as read */
    char *directory; /* absolute: where the file lies, and what its relative paths stand for */

    char *folder; /* absolute; NULL: an image */
    char *image;  /* name@sha256:…; NULL: a folder */
    enum endpoint_entry entry;
    char
        *entry_file; /* folder: NULL until the folder was looked at (main.py, app.py, handler.py) */
    const json_t *argv; /* image: borrowed from tree, or NULL */
    const json_t *env;  /* object of strings, borrowed, or NULL */
    int64_t port;
    int64_t uid; /* also the gid */

    const json_t *routes; /* borrowed */
    const char *pay_to;   /* these are borrowed too */
    const char *pay_network;
    const char *pay_asset;
    const char *pay_scheme;
    bool pay_shared; /* other slugs of this host are paid there too */
    const char *facilitator;
    char *token_file; /* absolute, or NULL */
    const char *host;
    const char *tls_resolver; /* NULL: see tls_cert */
    bool tls_wildcard;
    char *tls_cert; /* absolute; NULL with tls_resolver NULL: plain HTTP */
    char *tls_key;

    struct upstreams upstreams; /* none: n is 0 */

    int64_t memory; /* bytes */
    int64_t pids;
    int64_t cpu_milli;
    int64_t tmp;       /* bytes */
    int64_t lifetime;  /* seconds */
    int64_t handler_s; /* seconds that one call may take */
    int64_t log_max;   /* bytes */
};

/* `name` is what messages begin with; `directory` is absolute. */
CHECKED enum err_kind endpoint_parse(const char *text, size_t len, const char *name,
                                     const char *directory, struct endpoint **out, struct err *err);
CHECKED enum err_kind endpoint_load(const char *path, struct endpoint **out, struct err *err);
void endpoint_free(struct endpoint *endpoint);
DEFINE_CLEANUP(struct endpoint, endpoint_free, endpoint_freep)

/* The schema itself, as the file has it. */
const char *endpoint_schema_text(size_t *len);
