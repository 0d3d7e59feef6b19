/*
 * OCI runtime specs of a slug's containers. Pure.
 *
 * The handler's is made to what the runtime's policy demands and then judged by that very policy,
 * so the two cannot disagree. Those of gate and data proxy are for runc: own uid, read-only root,
 * no capability, no new privileges.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "deploy/endpoint.h"
#include "deploy/plan.h"

/* The numbers and paths of one container. Borrowed. */
struct spec_place {
    const char *id;
    const char *ns; /* containerd namespace; part of the cgroup's path */
    const char *netns;
    const char *address; /* with prefix length */
    const char *run;     /* directory with hosts and resolv.conf */
    const char *state;   /* gate: directory with gate/ and ledger/ */
    uint32_t uid;        /* gate */
    unsigned side;       /* gate: 0 or 1; each has its own configuration and admin socket */
    bool data;           /* gate: its slug has a data proxy */
    const char *claims;  /* gate: directory of its claims store, or NULL */
    uint32_t claims_gid; /* gate: the group that owns it */
};

/* *out is a new reference, the caller's. */
CHECKED enum err_kind spec_handler(const struct endpoint *endpoint, const json_t *image_config,
                                   const struct spec_place *place, json_t **out, struct err *err);
CHECKED enum err_kind spec_data(const struct endpoint *endpoint, const json_t *image_config,
                                const struct spec_place *place, json_t **out, struct err *err);
CHECKED enum err_kind spec_gate(const struct endpoint *endpoint, const json_t *image_config,
                                const struct spec_place *place, json_t **out, struct err *err);
