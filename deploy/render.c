#include "deploy/render.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "deploy/image.h"
#include "deploy/network.h"
#include "deploy/render_data.h"
#include "deploy/state.h"
#include "deploy/traefik.h"

/* ---- nerdctl compose ---- */

static json_t *compose_handler(const struct endpoint *e, const struct plan *p)
{
    char cpus[24];
    (void)snprintf(cpus, sizeof(cpus), "%lld.%03lld", (long long)(e->cpu_milli / 1000),
                   (long long)(e->cpu_milli % 1000));
    json_t *s = json_object();
    json_object_set_new(s, "image", json_string(p->handler.image));
    json_object_set_new(s, "runtime", json_string(p->handler.runtime));
    json_object_set_new(s, "user", json_sprintf("%lld:%lld", (long long)e->uid, (long long)e->uid));
    json_object_set_new(s, "read_only", json_true());
    json_object_set_new(s, "cap_drop", json_pack("[s]", "ALL"));
    json_object_set_new(s, "security_opt", json_pack("[s]", "no-new-privileges"));
    json_object_set_new(s, "pids_limit", json_integer(e->pids));
    json_object_set_new(s, "mem_limit", json_integer(e->memory));
    json_object_set_new(s, "memswap_limit", json_integer(e->memory));
    json_object_set_new(s, "cpus", json_string(cpus));
    json_object_set_new(
        s, "tmpfs",
        json_pack("[o]", json_sprintf("/tmp:rw,noexec,nosuid,nodev,size=%lld", (long long)e->tmp)));
    json_object_set_new(s, "sysctls", json_pack("{s:s}", "net.ipv6.conf.all.disable_ipv6", "1"));
    json_object_set_new(s, "labels", json_pack("{s:s}", "traefik.enable", "false"));
    json_object_set_new(s, "networks",
                        json_pack("{s:{s:o}}", "internal", "ipv4_address",
                                  json_string(plan_ip(p->handler.address).s)));
    return s;
}

static json_t *compose_gate(const struct endpoint *e, const struct plan *p,
                            const struct settings *settings)
{
    return json_pack(
        "{s:s, s:s, s:b, s:[s], s:[s], s:i, s:i, s:i, s:[s, s, s, s], s:o, s:{s:{s:o}, "
        "s:{s:o}}}",
        "image", p->gate.image, "user", "65532:65532", "read_only", 1, "cap_drop", "ALL",
        "security_opt", "no-new-privileges", "pids_limit", 128, "mem_limit", 512 << 20,
        "memswap_limit", 512 << 20, "volumes", "./gate:/etc/utter:ro",
        "./ledger:/var/lib/utter-gate", "./token:/run/utter-token:ro", "./admin:/run/utter-gate",
        "labels", traefik_labels(e, settings), "networks", "internal", "ipv4_address",
        json_string(plan_ip(p->gate.address).s), "edge", "ipv4_address",
        json_string(plan_ip(p->gate.edge).s));
}

json_t *render_compose(const struct endpoint *e, const struct plan *p,
                       const struct settings *settings)
{
    char *net CLEANUP_FREE = xasprintf("utter-%s", e->slug.s);
    json_t *compose = json_pack(
        "{s:s, s:[o, s], s:{s:o, s:o}, s:{s:{s:b, s:s}, s:{s:b, s:s}}}", "name", net,
        /* nerdctl compose ignores `internal`, so the network is made before and only named here */
        "x-utter-before",
        json_sprintf("nerdctl network create --internal --subnet %s %s", p->subnet, net),
        "put the output of `utter-deploy render gate` into ./gate/gate.json", "services", "handler",
        compose_handler(e, p), "gate", compose_gate(e, p, settings), "networks", "internal",
        "external", 1, "name", net, "edge", "external", 1, "name", PLAN_EDGE_BRIDGE);
    if (plan_has_data(p))
        render_data_compose(compose, e, p);
    return compose;
}

/* ---- entry ---- */

static enum err_kind find_plan(struct deploy *d, struct endpoint *e, struct plan **out,
                               struct err *err)
{
    struct image *handler CLEANUP(image_freep) = NULL;
    struct image *gate CLEANUP(image_freep) = NULL;
    struct image *data CLEANUP(image_freep) = NULL;
    int lock CLEANUP_FD = -1;
    unsigned index;
    enum err_kind kind = e->folder
                             ? image_of_folder(d->cd, e, d->settings->snapshotter, &handler, err)
                             : image_find(d->cd, e->image, &handler, err);
    if (kind || image_find(d->cd, d->settings->gate_image, &gate, err) ||
        (e->upstreams.n && image_find(d->cd, d->settings->data_image, &data, err)) ||
        state_lock_host(d->settings, &lock, err) || state_index(d->settings, &e->slug, &index, err))
        return err->kind;
    struct plan_facts facts = { .index = index,
                                .generation = 1,
                                .handler = { handler->name, handler->digest, handler->config },
                                .gate = { gate->name, gate->digest, gate->config },
                                .logger = d->logger };
    if (data)
        facts.data = (struct plan_image){ data->name, data->digest, data->config };
    return plan_make(e, d->settings, &facts, out, err);
}

enum err_kind render_run(struct deploy *d, const char *what, const char *file, struct err *err)
{
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    struct plan *p CLEANUP(plan_freep) = NULL;
    json_t *out CLEANUP_JSON = NULL;
    if (endpoint_load(file, &e, err) || find_plan(d, e, &p, err))
        return err->kind;
    if (strcmp(what, "compose") == 0)
        out = render_compose(e, p, d->settings);
    else if (strcmp(what, "kubernetes") == 0)
        out = render_kubernetes(e, p, d->settings);
    else if (strcmp(what, "traefik") == 0)
        out = json_incref(p->route);
    else if (strcmp(what, "cni") == 0)
        out = network_conflists(p);
    else if (strcmp(what, "gate") == 0)
        out = json_incref(p->gate_config);
    else if (strcmp(what, "data") == 0 && plan_has_data(p))
        out = render_data_config(p);
    else
        return err_set(err, ERR_INVALID,
                       "render: compose, kubernetes, traefik, cni, gate, or data where there are "
                       "upstreams, not %s",
                       what);
    (void)json_dumpf(out, d->out, JSON_INDENT(2));
    (void)fputc('\n', d->out);
    return ERR_OK;
}
