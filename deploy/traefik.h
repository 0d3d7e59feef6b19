/*
 * A slug's route as Traefik v3 dynamic configuration. Pure but for the two that touch files.
 *
 * Only the gate appears, never the handler. Every text in it is either ours or matched a pattern
 * that cannot leave its place in Traefik's rule syntax.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "deploy/endpoint.h"
#include "deploy/settings.h"

/* `gates` is an array of "a.b.c.d" addresses. A new reference, the caller's. */
json_t *traefik_route(const struct endpoint *endpoint, const struct settings *settings,
                      const json_t *gates);
/* The same as container labels, for operators with a Docker-API shim. */
json_t *traefik_labels(const struct endpoint *endpoint, const struct settings *settings);
/* "host" or "host:port": the authority of the endpoint's origin. The caller frees. */
char *traefik_authority(const struct endpoint *endpoint, const struct settings *settings);
/* Seconds that Traefik must be willing to wait for the gate's first byte. */
int64_t traefik_response_seconds(const struct endpoint *endpoint);

/* utter-<slug>.yaml in the directory, by atomic rename from a name that the provider does not read.
 */
CHECKED enum err_kind traefik_publish(const char *directory, const struct slug *slug,
                                      const json_t *route, struct err *err);
/* Absent is fine. */
CHECKED enum err_kind traefik_withdraw(const char *directory, const struct slug *slug,
                                       struct err *err);
