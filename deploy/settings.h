/*
 * /etc/utter/deploy.json: what holds for every endpoint on this host.
 *
 * {"containerd": {"address", "namespace", "snapshotter"}, "gateImage": "name@sha256:…" or a name,
 * "dataImage": the same, "traefik": {"dynamicDir", "entryPoint", "address", "port", "resolvers":
 * […]}, "pools": {"internal", "edge", "egress"}, "stateDir", "runDir", "cniBin", "logger"} Every
 * key may be absent. An absent file is every default. Unknown keys are errors.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"

#define SETTINGS_PATH "/etc/utter/deploy.json"

/* An IPv4 prefix, host byte order. */
struct pool {
    uint32_t base;
    unsigned bits;
};

struct settings {
    char *containerd;  /* /run/containerd/containerd.sock */
    char *ns;          /* utter */
    char *snapshotter; /* overlayfs */
    char *gate_image;  /* utter-gate:latest: an image's name in containerd */
    char *data_image;  /* utter-dataproxy:latest */
    char
        *traefik_dir; /* NULL: no file provider here; routes are served by watch or not published */
    char *entry_point;     /* websecure */
    char *traefik_address; /* 127.0.0.1: where up looks for the entry point */
    int64_t traefik_port;  /* 0: 443 or 80 as the route has TLS or not */
    json_t *resolvers;     /* names; NULL: not known, any is taken */
    char *route_listen; /* NULL or ADDR:PORT on loopback: where watch serves the routes over HTTP */
    struct pool internal; /* 198.18.0.0/16, a /29 per slug */
    struct pool edge;     /* 198.19.0.0/17 */
    struct pool egress;   /* 198.19.128.0/17 */
    char *state_dir;      /* /var/lib/utter */
    char *run_dir;        /* /run/utter */
    char *cni_bin;        /* /usr/lib/cni */
    char *logger;         /* absolute path of utter-log; NULL: beside utter-deploy */
};

CHECKED enum err_kind settings_parse(const json_t *tree, struct settings **out, struct err *err);
/* An absent SETTINGS_PATH is all defaults; any other absent file is an error. */
CHECKED enum err_kind settings_load(const char *path, struct settings **out, struct err *err);
void settings_free(struct settings *settings);
DEFINE_CLEANUP(struct settings, settings_free, settings_freep)

/* "198.18.0.0/16", host bits zero, /8 to /28. */
bool pool_parse(const char *text, struct pool *out);
bool pool_overlaps(struct pool a, struct pool b);
/* The address `offset` from the pool's base as "a.b.c.d"; false outside of the pool. */
bool pool_address(struct pool pool, uint32_t offset, char out[16]);
