/*
 * The plan as other tools' files: nerdctl compose, Kubernetes manifests, Traefik, CNI, the gate's
 * configuration. JSON throughout, which is YAML too.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "deploy/deploy.h"
#include "deploy/endpoint.h"
#include "deploy/plan.h"

/* `what`: compose, kubernetes, traefik, cni, gate, data. Prints to deploy->out. */
CHECKED enum err_kind render_run(struct deploy *deploy, const char *what, const char *file,
                                 struct err *err);

/* Pure; new references, the caller's. */
json_t *render_compose(const struct endpoint *endpoint, const struct plan *plan,
                       const struct settings *settings);
/* A v1 List of everything: RuntimeClass, Deployments, Services, NetworkPolicies, IngressRoute,
 * ValidatingAdmissionPolicy and its binding. */
json_t *render_kubernetes(const struct endpoint *endpoint, const struct plan *plan,
                          const struct settings *settings);
/* The admission policy alone: every rule of the runtime's table that a Pod can express. */
json_t *render_admission_policy(void);
