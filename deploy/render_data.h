/*
 * The data proxy in other tools' files. In a cluster it is the second container of the gate's pod,
 * since the two share a unix socket; the handler's pod reaches its port and nothing else. Pure.
 */
#pragma once

#include <jansson.h>

#include "deploy/endpoint.h"
#include "deploy/plan.h"

#define RENDER_GATE_UID 65532
#define RENDER_DATA_UID 65533
#define RENDER_DATA_PORT 8480 /* in a cluster: not below 1024, since no capability binds it */

/* What Kubernetes manifests are made of. New references. */
json_t *render_meta(const char *name, const struct endpoint *endpoint, const char *part);
json_t *render_selector(const struct endpoint *endpoint, const char *part);
json_t *render_object(const char *api, const char *kind, json_t *take_meta, json_t *take_spec);
json_t *render_security(int64_t uid);
json_t *render_limits(int64_t memory, int64_t cpu_milli);

/* The handler's hostAliases: the name `data`. */
json_t *render_data_alias(const struct plan *plan);
/* Adds the container, its volumes and the gate's mounts to the gate's pod. */
void render_data_join(json_t *pod_spec, const struct endpoint *endpoint, const struct plan *plan);
/* Appends its ConfigMap and Service. */
void render_data_objects(json_t *items, const struct endpoint *endpoint, const struct plan *plan);

/* Adds the service `data` to a compose file, its network, and what gate and handler need of it. */
void render_data_compose(json_t *compose, const struct endpoint *endpoint, const struct plan *plan);
/* Its configuration for compose: with the uid that the gate has there. */
json_t *render_data_config(const struct plan *plan);
