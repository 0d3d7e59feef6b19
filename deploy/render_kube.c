/*
 * Kubernetes manifests. One Deployment for the gate and one for the handler: containers of one pod
 * would share a sandbox and a network.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "deploy/render.h"
#include "deploy/render_data.h"
#include "policy/policy.h"

json_t *render_meta(const char *name, const struct endpoint *e, const char *part)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}}", "name", name, "labels", "app.kubernetes.io/name",
                     e->slug.s, "app.kubernetes.io/component", part, "app.kubernetes.io/part-of",
                     "utter");
}

json_t *render_selector(const struct endpoint *e, const char *part)
{
    return json_pack("{s:s, s:s}", "app.kubernetes.io/name", e->slug.s,
                     "app.kubernetes.io/component", part);
}

json_t *render_object(const char *api, const char *kind, json_t *take_meta, json_t *take_spec)
{
    return json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", api, "kind", kind, "metadata", take_meta,
                     "spec", take_spec);
}

json_t *render_security(int64_t uid)
{
    return json_pack("{s:b, s:b, s:b, s:I, s:I, s:{s:[s]}, s:{s:s}}", "allowPrivilegeEscalation", 0,
                     "readOnlyRootFilesystem", 1, "runAsNonRoot", 1, "runAsUser", (json_int_t)uid,
                     "runAsGroup", (json_int_t)uid, "capabilities", "drop", "ALL", "seccompProfile",
                     "type", "RuntimeDefault");
}

json_t *render_limits(int64_t memory, int64_t cpu_milli)
{
    json_t *amounts = json_pack("{s:o, s:o}", "memory", json_sprintf("%lld", (long long)memory),
                                "cpu", json_sprintf("%lldm", (long long)cpu_milli));
    return json_pack("{s:o, s:O}", "limits", amounts, "requests", amounts);
}

static json_t *pod(const struct endpoint *e, const char *part, const char *runtime,
                   json_t *take_container, json_t *take_volumes)
{
    json_t *spec =
        json_pack("{s:b, s:b, s:[o], s:o}", "automountServiceAccountToken", 0, "enableServiceLinks",
                  0, "containers", take_container, "volumes", take_volumes);
    if (runtime)
        json_object_set_new(spec, "runtimeClassName", json_string(runtime));
    return json_pack("{s:{s:o}, s:o}", "metadata", "labels", render_selector(e, part), "spec",
                     spec);
}

static json_t *deployment(const struct endpoint *e, const char *name, const char *part,
                          const char *strategy, json_t *take_pod)
{
    return render_object("apps/v1", "Deployment", render_meta(name, e, part),
                         json_pack("{s:i, s:{s:s}, s:{s:o}, s:o}", "replicas", 1, "strategy",
                                   "type", strategy, "selector", "matchLabels",
                                   render_selector(e, part), "template", take_pod));
}

static json_t *handler_deployment(const struct endpoint *e, const struct plan *p, const char *name)
{
    const json_t *args = json_at(p->handler.spec, "/process/args");
    json_t *container = json_pack(
        "{s:s, s:s, s:O, s:[{s:I}], s:o, s:o, s:[{s:s, s:s}], s:{s:{s:I}, s:i}}", "name", "handler",
        "image", p->handler.image, "command", args, "ports", "containerPort", (json_int_t)e->port,
        "securityContext", render_security(e->uid), "resources",
        render_limits(e->memory, e->cpu_milli), "volumeMounts", "name", "tmp", "mountPath", "/tmp",
        "readinessProbe", "tcpSocket", "port", (json_int_t)e->port, "periodSeconds", 2);
    json_t *volumes = json_pack("[{s:s, s:{s:s, s:o}}]", "name", "tmp", "emptyDir", "medium",
                                "Memory", "sizeLimit", json_sprintf("%lld", (long long)e->tmp));
    json_t *template = pod(e, "handler", "utter", container, volumes);
    if (plan_has_data(p)) /* it may ask no resolver: the name is in its hosts file */
        json_object_set_new(json_object_get(template, "spec"), "hostAliases", render_data_alias(p));
    return deployment(e, name, "handler", "RollingUpdate", template);
}

/* In a cluster the gate listens on every address of its pod; the NetworkPolicy says who may come.
 */
static json_t *cluster_gate_config(const struct plan *p, const char *cluster_ip)
{
    json_t *config = json_deep_copy(p->gate_config);
    json_object_set_new(config, "listen", json_sprintf("0.0.0.0:%d", PLAN_GATE_PORT));
    json_object_set_new(config, "trusted_proxies", json_array());
    json_object_set_new(json_object_get(config, "handler"), "url",
                        json_sprintf("http://%s:%lld", cluster_ip, (long long)p->port));
    return config;
}

static json_t *gate_deployment(const struct endpoint *e, const struct plan *p, const char *name)
{
    json_t *container = json_pack(
        "{s:s, s:s, s:[{s:i}], s:o, s:o, s:[{s:s, s:s, s:b}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s, "
        "s:b}], "
        "s:{s:{s:i}, s:i}}",
        "name", "gate", "image", p->gate.image, "ports", "containerPort", PLAN_GATE_PORT,
        "securityContext", render_security(RENDER_GATE_UID), "resources",
        render_limits(512 << 20, 1000), "volumeMounts", "name", "config", "mountPath", "/etc/utter",
        "readOnly", 1, "name", "ledger", "mountPath", "/var/lib/utter-gate", "name", "admin",
        "mountPath", "/run/utter-gate", "name", "token", "mountPath", "/run/utter-token",
        "readOnly", 1, "readinessProbe", "tcpSocket", "port", PLAN_GATE_PORT, "periodSeconds", 2);
    json_t *volumes = json_pack(
        "[{s:s, s:{s:s}}, {s:s, s:{s:s}}, {s:s, s:{s:s}}, {s:s, s:{s:s, s:i, s:b}}]", "name",
        "config", "configMap", "name", name, "name", "ledger", "persistentVolumeClaim", "claimName",
        name, "name", "admin", "emptyDir", "medium", "Memory", "name", "token", "secret",
        "secretName", name, "defaultMode", 0400, "optional", e->token_file == NULL);
    json_t *template = pod(e, "gate", NULL, container, volumes);
    json_t *spec = json_object_get(template, "spec");
    json_object_set_new(spec, "securityContext", json_pack("{s:i}", "fsGroup", RENDER_GATE_UID));
    if (plan_has_data(p))
        render_data_join(spec, e, p);
    return deployment(e, name, "gate", "Recreate", template);
}

static json_t *service(const struct endpoint *e, const char *name, const char *part, int64_t port,
                       const char *cluster_ip)
{
    json_t *spec = json_pack("{s:o, s:[{s:I, s:I}]}", "selector", render_selector(e, part), "ports",
                             "port", (json_int_t)port, "targetPort", (json_int_t)port);
    if (cluster_ip)
        json_object_set_new(spec, "clusterIP", json_string(cluster_ip));
    return render_object("v1", "Service", render_meta(name, e, part), spec);
}

/* From nowhere but the gate, to nowhere. Nodes need `network.cri` = `cluster` in policy.json, and a
 * CNI that enforces this object. */
static json_t *handler_policy(const struct endpoint *e, const struct plan *p, const char *name)
{
    json_t *out = json_array();
    if (plan_has_data(p))
        json_array_append_new(out, json_pack("{s:[{s:{s:o}}], s:[{s:i}]}", "to", "podSelector",
                                             "matchLabels", render_selector(e, "gate"), "ports",
                                             "port", RENDER_DATA_PORT));
    json_t *m = render_meta(name, e, "handler");
    json_object_set_new(m, "annotations",
                        json_pack("{s:s}", "utter/node",
                                  "policy.json of the nodes needs network.cri = cluster, and their "
                                  "CNI must enforce NetworkPolicy"));
    return render_object("networking.k8s.io/v1", "NetworkPolicy", m,
                         json_pack("{s:{s:o}, s:[s, s], s:[{s:[{s:{s:o}}], s:[{s:I}]}], s:o}",
                                   "podSelector", "matchLabels", render_selector(e, "handler"),
                                   "policyTypes", "Ingress", "Egress", "ingress", "from",
                                   "podSelector", "matchLabels", render_selector(e, "gate"),
                                   "ports", "port", (json_int_t)e->port, "egress", out));
}

static json_t *gate_policy(const struct endpoint *e, const struct plan *p, const char *name)
{
    json_t *in = json_pack("[{s:[{s:{s:{s:s}}, s:{}}], s:[{s:i}]}]", "from", "podSelector",
                           "matchLabels", "app.kubernetes.io/name", "traefik", "namespaceSelector",
                           "ports", "port", PLAN_GATE_PORT);
    if (plan_has_data(p))
        json_array_append_new(in, json_pack("{s:[{s:{s:o}}], s:[{s:i}]}", "from", "podSelector",
                                            "matchLabels", render_selector(e, "handler"), "ports",
                                            "port", RENDER_DATA_PORT));
    return render_object("networking.k8s.io/v1", "NetworkPolicy", render_meta(name, e, "gate"),
                         json_pack("{s:{s:o}, s:[s], s:o}", "podSelector", "matchLabels",
                                   render_selector(e, "gate"), "policyTypes", "Ingress", "ingress",
                                   in));
}

static json_t *ingress(const struct endpoint *e, const struct settings *settings, const char *name)
{
    char *match CLEANUP_FREE = xasprintf("Host(`%s`)", e->host);
    json_t *spec = json_pack("{s:[s], s:[{s:s, s:s, s:i, s:[{s:s, s:i}]}]}", "entryPoints",
                             settings->entry_point, "routes", "kind", "Rule", "match", match,
                             "priority", 100000, "services", "name", name, "port", PLAN_GATE_PORT);
    if (e->tls_resolver)
        json_object_set_new(spec, "tls", json_pack("{s:s}", "certResolver", e->tls_resolver));
    else if (e->tls_cert)
        json_object_set_new(spec, "tls", json_pack("{s:s}", "secretName", name));
    return render_object("traefik.io/v1alpha1", "IngressRoute", render_meta(name, e, "gate"), spec);
}

static json_t *runtime_class(void)
{
    return json_pack("{s:s, s:s, s:{s:s}, s:s, s:{s:{s:s}}}", "apiVersion", "node.k8s.io/v1",
                     "kind", "RuntimeClass", "metadata", "name", "utter", "handler", "utter",
                     "overhead", "podFixed", "memory", "128Mi");
}

/* What the rules call variables.containers. An ephemeral container can carry no limits, so it is
 * refused, as exec is. */
#define ALL_CONTAINERS                                                                             \
    "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : "    \
    "[]) + (has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : [])"

json_t *render_admission_policy(void)
{
    size_t n;
    const struct policy_rule *rules = policy_rules(&n);
    json_t *validations = json_array();
    for (size_t i = 0; i < n; i++) {
        if (!rules[i].cel)
            continue;
        json_array_append_new(validations,
                              json_pack("{s:s, s:o, s:s}", "expression", rules[i].cel, "message",
                                        json_sprintf("utter: refused: %s: %s (%s)", rules[i].id,
                                                     rules[i].required, rules[i].fix_pod),
                                        "reason", "Invalid"));
    }
    return json_pack(
        "{s:s, s:s, s:{s:s}, s:{s:s, s:{s:[{s:[s], s:[s], s:[s, s], s:[s, s]}]}, "
        "s:[{s:s, s:s}], s:[{s:s, s:s}], s:o}}",
        "apiVersion", "admissionregistration.k8s.io/v1", "kind", "ValidatingAdmissionPolicy",
        "metadata", "name", "utter", "spec", "failurePolicy", "Fail", "matchConstraints",
        "resourceRules", "apiGroups", "", "apiVersions", "v1", "operations", "CREATE", "UPDATE",
        "resources", "pods", "pods/ephemeralcontainers", "matchConditions", "name",
        "runtime-class-utter", "expression",
        "has(object.spec.runtimeClassName) && object.spec.runtimeClassName == 'utter'", "variables",
        "name", "containers", "expression", ALL_CONTAINERS, "validations", validations);
}

static json_t *admission_binding(void)
{
    return json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:[s]}}", "apiVersion",
                     "admissionregistration.k8s.io/v1", "kind", "ValidatingAdmissionPolicyBinding",
                     "metadata", "name", "utter", "spec", "policyName", "utter",
                     "validationActions", "Deny");
}

json_t *render_kubernetes(const struct endpoint *e, const struct plan *p,
                          const struct settings *settings)
{
    char *handler CLEANUP_FREE = xasprintf("%s-handler", e->slug.s);
    char *gate CLEANUP_FREE = xasprintf("%s-gate", e->slug.s);
    /* The gate takes addresses only; this one must lie in the cluster's service range. */
    char *cluster_ip CLEANUP_FREE =
        xasprintf("10.96.%u.%u", 200 + p->index / 250 % 50, p->index % 250 + 1);
    json_t *config CLEANUP_JSON = cluster_gate_config(p, cluster_ip);
    char *text CLEANUP_FREE = json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_t *map = json_pack("{s:s, s:s, s:o, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap",
                            "metadata", render_meta(gate, e, "gate"), "data", "gate.json", text);
    json_t *claim = render_object("v1", "PersistentVolumeClaim", render_meta(gate, e, "gate"),
                                  json_pack("{s:[s], s:{s:{s:s}}}", "accessModes", "ReadWriteOnce",
                                            "resources", "requests", "storage", "2Gi"));
    json_t *items = json_array();
    json_array_append_new(items, runtime_class());
    json_array_append_new(items, render_admission_policy());
    json_array_append_new(items, admission_binding());
    json_array_append_new(items, map);
    json_array_append_new(items, claim);
    json_array_append_new(items, handler_deployment(e, p, handler));
    json_array_append_new(items, gate_deployment(e, p, gate));
    json_array_append_new(items, service(e, handler, "handler", e->port, cluster_ip));
    json_array_append_new(items, service(e, gate, "gate", PLAN_GATE_PORT, NULL));
    json_array_append_new(items, handler_policy(e, p, handler));
    json_array_append_new(items, gate_policy(e, p, gate));
    json_array_append_new(items, ingress(e, settings, gate));
    if (plan_has_data(p))
        render_data_objects(items, e, p);
    return json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "List", "items", items);
}
