#include "deploy/render_data.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "deploy/upstreams.h"

/* This one must lie in the cluster's service range, as the handler's. */
static json_t *cluster_ip(const struct plan *p)
{
    return json_sprintf("10.96.%u.%u", 150 + p->index / 250 % 50, p->index % 250 + 1);
}

json_t *render_data_alias(const struct plan *p)
{
    return json_pack("[{s:o, s:[s]}]", "ip", cluster_ip(p), "hostnames", "data");
}

static void mount(json_t *mounts, const char *volume, const char *path, const char *sub, bool rw)
{
    json_t *m = json_pack("{s:s, s:s}", "name", volume, "mountPath", path);
    if (sub)
        json_object_set_new(m, "subPath", json_string(sub));
    if (!rw)
        json_object_set_new(m, "readOnly", json_true());
    json_array_append_new(mounts, m);
}

static json_t *container(const struct plan *p)
{
    json_t *mounts = json_array();
    mount(mounts, "data-config", "/etc/utter", NULL, false);
    mount(mounts, "ledger", "/var/lib/utter-dataproxy", "egress", true);
    mount(mounts, "session", "/run/utter-data", NULL, true);
    mount(mounts, "data-admin", "/run/utter-data-admin", NULL, true);
    mount(mounts, "data-keys", "/run/utter-data-keys", NULL, false);
    mount(mounts, "upstreams", UPSTREAMS_SECRETS, NULL, false);
    return json_pack("{s:s, s:s, s:[{s:i}], s:o, s:o, s:o}", "name", "data", "image", p->data.image,
                     "ports", "containerPort", RENDER_DATA_PORT, "securityContext",
                     render_security(RENDER_DATA_UID), "resources", render_limits(256 << 20, 1000),
                     "volumeMounts", mounts);
}

static json_t *memory_volume(const char *name)
{
    return json_pack("{s:s, s:{s:s}}", "name", name, "emptyDir", "medium", "Memory");
}

static json_t *secret_volume(const char *name, const char *secret, const char *item)
{
    json_t *source = json_pack("{s:s, s:i}", "secretName", secret, "defaultMode", 0400);
    if (item)
        json_object_set_new(source, "items", json_pack("[{s:s, s:s}]", "key", item, "path", item));
    return json_pack("{s:s, s:o}", "name", name, "secret", source);
}

void render_data_join(json_t *pod_spec, const struct endpoint *e, const struct plan *p)
{
    char *name CLEANUP_FREE = xasprintf("%s-data", e->slug.s);
    char *keys CLEANUP_FREE = xasprintf("%s-data-key", e->slug.s);
    char *secrets CLEANUP_FREE = xasprintf("%s-upstreams", e->slug.s);
    json_t *containers = json_object_get(pod_spec, "containers");
    json_t *volumes = json_object_get(pod_spec, "volumes");
    json_t *mounts = json_object_get(json_array_get(containers, 0), "volumeMounts");
    mount(mounts, "session", "/run/utter-data", NULL, false);
    mount(mounts, "data-key", "/run/utter-data-key", NULL, false);
    json_array_append_new(containers, container(p));
    json_array_append_new(
        volumes, json_pack("{s:s, s:{s:s}}", "name", "data-config", "configMap", "name", name));
    json_array_append_new(volumes, memory_volume("session"));
    json_array_append_new(volumes, memory_volume("data-admin"));
    json_array_append_new(volumes, secret_volume("data-key", keys, "data.key"));
    json_array_append_new(volumes, secret_volume("data-keys", keys, "data.pub"));
    if (e->upstreams.n_secrets)
        json_array_append_new(volumes, secret_volume("upstreams", secrets, NULL));
    else
        json_array_append_new(volumes, memory_volume("upstreams"));
}

/* No address is the handler's own in a cluster: the NetworkPolicy says who may come. */
static json_t *cluster_config(const struct plan *p)
{
    json_t *config = render_data_config(p);
    json_object_del(config, "peer");
    json_object_set_new(config, "listen", json_sprintf("0.0.0.0:%d", RENDER_DATA_PORT));
    json_object_set_new(config, "admin", json_string("unix:/run/utter-data-admin/admin.sock"));
    return config;
}

void render_data_objects(json_t *items, const struct endpoint *e, const struct plan *p)
{
    char *name CLEANUP_FREE = xasprintf("%s-data", e->slug.s);
    json_t *config CLEANUP_JSON = cluster_config(p);
    char *text CLEANUP_FREE = json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_t *m = render_meta(name, e, "gate");
    json_object_set_new(
        m, "annotations",
        json_pack("{s:o}", "utter/before",
                  json_sprintf("utter-dataproxy keygen . . && kubectl create secret generic "
                               "%s-data-key --from-file=data.key --from-file=data.pub; "
                               "%s-upstreams holds a key for each upstream that has a credential",
                               e->slug.s, e->slug.s)));
    json_array_append_new(items, json_pack("{s:s, s:s, s:o, s:{s:s}}", "apiVersion", "v1", "kind",
                                           "ConfigMap", "metadata", m, "data", "data.json", text));
    json_t *spec = json_pack("{s:o, s:[{s:i, s:i}], s:o}", "selector", render_selector(e, "gate"),
                             "ports", "port", PLAN_DATA_PORT, "targetPort", RENDER_DATA_PORT,
                             "clusterIP", cluster_ip(p));
    json_array_append_new(items,
                          render_object("v1", "Service", render_meta(name, e, "gate"), spec));
}

/* ---- compose ---- */

json_t *render_data_config(const struct plan *p)
{
    json_t *config = json_deep_copy(p->data_config);
    json_object_set_new(config, "gate_uid", json_integer(RENDER_GATE_UID));
    return config;
}

void render_data_compose(json_t *compose, const struct endpoint *e, const struct plan *p)
{
    json_t *services = json_object_get(compose, "services");
    json_t *volumes = json_object_get(json_object_get(services, "gate"), "volumes");
    json_t *own = json_pack(
        "{s:s, s:o, s:b, s:[s], s:[s], s:i, s:i, s:i, s:{s:s}, s:[s, s, s, s, s], s:{s:s}, "
        "s:{s:{s:o}, s:{s:o}}}",
        "image", p->data.image, "user", json_sprintf("%d:%d", RENDER_DATA_UID, RENDER_DATA_UID),
        "read_only", 1, "cap_drop", "ALL", "security_opt", "no-new-privileges", "pids_limit", 64,
        "mem_limit", 256 << 20, "memswap_limit", 256 << 20, "sysctls",
        "net.ipv4.ip_unprivileged_port_start", "80", "volumes", "./data:/etc/utter:ro",
        "./egress:/var/lib/utter-dataproxy", "./session:/run/utter-data",
        "./data-keys:/run/utter-data-keys:ro", "./secrets:" UPSTREAMS_SECRETS ":ro", "labels",
        "traefik.enable", "false", "networks", "internal", "ipv4_address",
        json_string(plan_ip(p->data.address).s), "egress", "ipv4_address",
        json_string(plan_ip(p->data.edge).s));
    json_array_append_new(volumes, json_string("./session:/run/utter-data:ro"));
    json_array_append_new(volumes, json_string("./data-key:/run/utter-data-key:ro"));
    json_object_set_new(services, "data", own);
    json_object_set_new(json_object_get(services, "handler"), "extra_hosts",
                        json_pack("[o]", json_sprintf("data:%s", plan_ip(p->data.address).s)));
    json_object_set_new(json_object_get(compose, "networks"), "egress",
                        json_pack("{s:b, s:s}", "external", 1, "name", PLAN_EGRESS_BRIDGE));
    json_array_append_new(
        json_object_get(compose, "x-utter-before"),
        json_sprintf(
            "put the output of `utter-deploy render data` into ./data/data.json, an Ed25519 "
            "key into ./data-key/data.key and its public one into ./data-keys/data.pub, and "
            "credentials of %s into ./secrets, mode 0400 and its user's",
            e->slug.s));
}
