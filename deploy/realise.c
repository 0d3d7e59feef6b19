/*
 * Making a plan true: directories, networks, the proof from inside, handler, gate, route, in this
 * order; the route last. Every step first looks whether it holds already, so that the same call
 * repairs.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/deploy.h"
#include "deploy/files.h"
#include "deploy/member.h"
#include "deploy/netns.h"
#include "deploy/network.h"
#include "deploy/pause.h"
#include "deploy/probe.h"
#include "deploy/state.h"
#include "deploy/traefik.h"

#define READY_MS 30000
#define POLL_MS 20

/* ---- networks ---- */

enum err_kind realise_others(const struct deploy *d, const struct plan *plan, json_t **out,
                             struct err *err)
{
    json_t *slugs CLEANUP_JSON = NULL;
    json_t *list CLEANUP_JSON = json_array();
    if (state_slugs(d->settings, &slugs, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(slugs); i++) {
        const char *slug = json_string_value(json_array_get(slugs, i));
        json_t *record CLEANUP_JSON = NULL;
        struct plan *other CLEANUP(plan_freep) = NULL;
        if (strcmp(slug, plan->slug.s) == 0)
            continue;
        if (state_load(d->settings, slug, &record, err) || plan_load(record, &other, err))
            return err_prefix(err, "%s", slug);
        json_array_append_new(list, json_sprintf("%s:%lld", plan_ip(other->handler.address).s,
                                                 (long long)other->port));
        json_array_append_new(list,
                              json_sprintf("%s:%d", plan_ip(other->gate.edge).s, PLAN_GATE_PORT));
        if (plan_has_data(other))
            json_array_append_new(
                list, json_sprintf("%s:%d", plan_ip(other->data.address).s, PLAN_DATA_PORT));
    }
    *out = STEAL(list);
    return ERR_OK;
}

static enum err_kind host_network(struct deploy *d, const struct plan *plan, struct err *err)
{
    int lock CLEANUP_FD = -1;
    json_t *bridges CLEANUP_JSON = NULL;
    bool in_force = false;
    if (state_lock_host(d->settings, &lock, err) || network_check_pools(d->settings, err) ||
        network_edge_ensure(d->settings, err) ||
        (plan_has_data(plan) && network_egress_ensure(d->settings, err)) ||
        state_bridges(d->settings, &bridges, err) ||
        firewall_check(d->settings, bridges, &in_force, err))
        return err->kind;
    return in_force ? ERR_OK : firewall_apply(d->settings, bridges, err);
}

/* ---- handler ---- */

/* Fails early when its task is gone: no use in waiting for its port. */
static enum err_kind wait_ready(struct deploy *d, const struct plan *plan, struct err *err)
{
    struct plan_ip address = plan_ip(plan->handler.address);
    for (int waited = 0; waited < READY_MS; waited += 500) {
        struct cd_task task;
        enum err_kind kind = probe_wait(plan->gate.netns, address.s, (int)plan->port, 500, err);
        if (kind != ERR_TIMEOUT)
            return kind;
        if (containerd_task_get(d->cd, plan->handler.id, &task, err))
            return err->kind;
        if (task.state != CD_TASK_RUNNING)
            return err_set(err, ERR_PRECONDITION,
                           "it ended with status %u before it listened on port %lld; see: "
                           "utter-deploy logs %s",
                           task.exit_status, (long long)plan->port, plan->slug.s);
    }
    return err_set(err, ERR_TIMEOUT, "it does not listen on port %lld after %d s",
                   (long long)plan->port, READY_MS / 1000);
}

static enum err_kind handler_ensure(struct deploy *d, struct realise *what, struct err *err)
{
    const struct plan *plan = what->plan;
    enum member_state state;
    json_t *rest CLEANUP_JSON = NULL;
    if (member_look(d->cd, plan, &plan->handler, &state, err))
        return err->kind;
    if (state == MEMBER_RUNNING)
        return ERR_OK;
    what->changed = true;
    if (member_end(d->cd, plan->handler.id, 0, err) ||
        network_detach(plan, &plan->handler, d->settings, err) ||
        network_attach(plan, &plan->handler, d->settings, err))
        return err->kind;
    if (realise_others(d, plan, &rest, err) || probe_isolation(plan, d->settings, rest, err))
        return err_prefix(err, "proof from inside");
    deploy_say(d, "network   %s on %s, proved from inside", plan->handler.address, plan->bridge);
    if (member_start(d->cd, plan, &plan->handler, "handler", NULL, err))
        return err->kind;
    what->handler_started = true;
    if (wait_ready(d, plan, err))
        return err_prefix(err, "%s", plan->handler.id);
    deploy_say(d, "handler   %s runs under %s", plan->handler.id, plan->handler.runtime);
    return ERR_OK;
}

struct connections {
    uint32_t address; /* as /proc/net/tcp writes it */
    unsigned n;
};

static enum err_kind count_connections(void *arg, struct err *err)
{
    struct connections *c = arg;
    char line[300];
    FILE *f CLEANUP_FILE = fopen("/proc/thread-self/net/tcp", "re");
    if (!f)
        return err_set(err, ERR_INTERNAL, "connections of the gate cannot be read");
    c->n = 0;
    while (fgets(line, sizeof(line), f)) {
        unsigned remote, state;
        if (sscanf(line, " %*d: %*x:%*x %x:%*x %x", &remote, &state) == 2 && state == 1 &&
            remote == c->address)
            c->n++;
    }
    return ERR_OK;
}

/* Waits until the gate has no connection to the old handler: each of its calls is one. */
static enum err_kind drain(const struct plan *plan, const struct plan *old, struct err *err)
{
    struct plan_ip text = plan_ip(old->handler.address);
    struct in_addr address;
    if (inet_pton(AF_INET, text.s, &address) != 1)
        return err_set(err, ERR_INTERNAL, "address %s", text.s);
    struct connections found = { .address = address.s_addr };
    for (int64_t waited = 0; waited < plan->handler_s * 1000 + 5000; waited += POLL_MS) {
        if (netns_within(plan->gate.netns, count_connections, &found, err))
            return err->kind;
        if (found.n == 0)
            return ERR_OK;
        pause_ms(POLL_MS);
    }
    return ERR_OK; /* what is still open is over its own deadline */
}

/* ---- gate ---- */

/* A member's last word, for an error about it. */
static void add_log(const struct plan *plan, const struct plan_member *member, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/logs/%s.log", plan->state, member->id);
    char line[400] = "", last[400] = "";
    FILE *f CLEANUP_FILE = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        memcpy(last, line, sizeof(last));
    last[strcspn(last, "\n")] = '\0';
    char *before CLEANUP_FREE = xstrdup(err->msg);
    if (last[0])
        (void)err_set(err, err->kind, "%s: %s", before, last);
}

static enum err_kind gate_wait_alive(struct deploy *d, const struct plan *plan, struct err *err)
{
    char *instance CLEANUP_FREE = NULL;
    for (int waited = 0; waited < READY_MS; waited += POLL_MS) {
        struct cd_task task;
        if (realise_gate_alive(plan, &instance, err) == ERR_OK)
            return ERR_OK;
        if (containerd_task_get(d->cd, plan->gate.id, &task, err))
            return err->kind;
        if (task.state != CD_TASK_RUNNING) {
            (void)err_set(err, ERR_PRECONDITION, "the gate ended with status %u", task.exit_status);
            add_log(plan, &plan->gate, err);
            return err->kind;
        }
        pause_ms(POLL_MS);
    }
    return err_set(err, ERR_TIMEOUT, "the gate does not answer after %d s", READY_MS / 1000);
}

/* Until the gate says that it serves by the configuration with this hash. */
static enum err_kind gate_wait_config(const struct plan *plan, const char *hash, struct err *err)
{
    for (int waited = 0; waited < READY_MS; waited += POLL_MS) {
        json_t *ready CLEANUP_JSON = NULL;
        (void)!realise_admin(plan, "/readyz", &ready, ERR_IGNORED);
        const char *found = json_string_value(json_object_get(ready, "config_sha256"));
        if (found && strcmp(text_starts(found, "sha256:") ? found + 7 : found, hash) == 0)
            return ERR_OK;
        pause_ms(POLL_MS);
    }
    return err_set(err, ERR_TIMEOUT,
                   "the gate does not take its new configuration; see: utter-deploy "
                   "logs %s",
                   plan->slug.s);
}

static enum err_kind gate_reload(struct deploy *d, struct realise *what, struct err *err)
{
    const struct plan *plan = what->plan;
    char hash[65];
    json_t *ready CLEANUP_JSON = NULL;
    if (files_gate_config(plan, hash, err))
        return err->kind;
    (void)!realise_admin(plan, "/readyz", &ready, ERR_IGNORED);
    const char *found = json_string_value(json_object_get(ready, "config_sha256"));
    if (found && strcmp(text_starts(found, "sha256:") ? found + 7 : found, hash) == 0)
        return ERR_OK;
    what->changed = true;
    if (containerd_task_kill(d->cd, plan->gate.id, SIGHUP, err) ||
        gate_wait_config(plan, hash, err))
        return err->kind;
    deploy_say(d, "gate      %s took its new configuration", plan->gate.id);
    return ERR_OK;
}

/* The same spec with --standby behind "serve": it starts, listens and waits for the ledger. */
static json_t *standby_spec(const struct plan *plan)
{
    json_t *spec = json_deep_copy(plan->gate.spec);
    json_t *args = json_object_get(json_object_get(spec, "process"), "args");
    json_array_insert_new(args, json_array_size(args) > 1 ? 2 : json_array_size(args),
                          json_string("--standby"));
    return spec;
}

/* Until it answers on its admin socket, ready or not: from then on it takes the ledger when it can.
 */
static enum err_kind gate_wait_listening(const struct plan *plan, struct err *err)
{
    for (int waited = 0; waited < READY_MS; waited += POLL_MS) {
        json_t *ready CLEANUP_JSON = NULL;
        if (realise_admin(plan, "/readyz", &ready, err) == ERR_OK)
            return ERR_OK;
        pause_ms(POLL_MS);
    }
    return err_prefix(err, "the new gate does not come up as standby");
}

/* The old one drains and lets go of the ledger; the new one takes it within the same second. */
static enum err_kind gate_succeed(struct deploy *d, const struct plan *plan, const struct plan *old,
                                  struct err *err)
{
    json_t *spec CLEANUP_JSON = standby_spec(plan);
    if (member_start(d->cd, plan, &plan->gate, "gate", spec, err) || gate_wait_listening(plan, err))
        return err->kind;
    struct timespec from, to;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    if (member_end(d->cd, old->gate.id, (int)(plan->handler_s * 1000) + 90000, err) ||
        gate_wait_alive(d, plan, err))
        return err->kind;
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    deploy_say(d, "gate      %s drained; no gate took new calls for at most %ld ms", old->gate.id,
               (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
    return ERR_OK;
}

static enum err_kind gate_start(struct deploy *d, struct realise *what, struct err *err)
{
    const struct plan *plan = what->plan;
    const struct plan *old = what->old;
    char hash[65];
    enum member_state before = MEMBER_ABSENT;
    what->changed = true;
    if (files_gate_config(plan, hash, err))
        return err->kind;
    if (old && strcmp(old->gate.id, plan->gate.id) != 0 &&
        member_look(d->cd, old, &old->gate, &before, err))
        return err->kind;
    bool succeeds = before == MEMBER_RUNNING || before == MEMBER_OTHER;
    if (succeeds ? gate_succeed(d, plan, old, err)
                 : member_start(d->cd, plan, &plan->gate, "gate", NULL, err))
        return err->kind;
    if (!succeeds && gate_wait_alive(d, plan, err))
        return err->kind;
    deploy_say(d, "gate      %s answers at %s:%d", plan->gate.id, plan_ip(plan->gate.edge).s,
               PLAN_GATE_PORT);
    return ERR_OK;
}

/* The gate's namespace comes before the handler: the proof and the readiness check look out of it.
 */
static enum err_kind gate_network(struct deploy *d, struct realise *what, bool *running,
                                  struct err *err)
{
    const struct plan *plan = what->plan;
    enum member_state state;
    if (member_look(d->cd, plan, &plan->gate, &state, err))
        return err->kind;
    *running = state == MEMBER_RUNNING && netns_is_there(plan->gate.netns);
    if (*running)
        return ERR_OK;
    what->changed = true;
    if (member_end(d->cd, plan->gate.id, 10000, err) ||
        network_detach(plan, &plan->gate, d->settings, err))
        return err->kind;
    return network_attach(plan, &plan->gate, d->settings, err);
}

/* ---- data proxy ---- */

static enum err_kind data_wait(struct deploy *d, const struct plan *plan, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/data/gate.sock", plan->run);
    for (int waited = 0; waited < READY_MS; waited += POLL_MS) {
        struct cd_task task;
        if (access(path, F_OK) == 0)
            return ERR_OK;
        if (containerd_task_get(d->cd, plan->data.id, &task, err))
            return err->kind;
        if (task.state != CD_TASK_RUNNING) {
            (void)err_set(err, ERR_PRECONDITION, "the data proxy ended with status %u",
                          task.exit_status);
            add_log(plan, &plan->data, err);
            return err->kind;
        }
        pause_ms(POLL_MS);
    }
    return err_set(err, ERR_TIMEOUT, "the data proxy does not open its socket after %d s",
                   READY_MS / 1000);
}

/* Before handler and gate: the gate dials it, and a handler that starts may need it at once. */
static enum err_kind data_ensure(struct deploy *d, struct realise *what, struct err *err)
{
    const struct plan *plan = what->plan;
    enum member_state state;
    char *socket CLEANUP_FREE = xasprintf("%s/data/gate.sock", plan->run);
    if (!plan_has_data(plan))
        return ERR_OK;
    if (files_secrets(plan, what->upstreams, err) ||
        member_look(d->cd, plan, &plan->data, &state, err))
        return err->kind;
    if (state == MEMBER_RUNNING && netns_is_there(plan->data.netns))
        return ERR_OK;
    what->changed = true;
    if (member_end(d->cd, plan->data.id, 2000, err) ||
        network_detach(plan, &plan->data, d->settings, err) ||
        network_attach(plan, &plan->data, d->settings, err))
        return err->kind;
    (void)unlink(socket);
    if (member_start(d->cd, plan, &plan->data, "data", NULL, err) || data_wait(d, plan, err))
        return err->kind;
    deploy_say(d, "data      %s listens at http://data/ for %zu upstreams", plan->data.id,
               json_array_size(json_object_get(plan->data_config, "upstreams")));
    return ERR_OK;
}

/* ---- all of it ---- */

/* While one gate follows another the route lists both, and Traefik's health check picks. Otherwise
 * only the one that runs: a listed address that does not answer costs a buyer the time until the
 * check saw it. */
static enum err_kind publish_both(struct deploy *d, const struct plan *plan, const struct plan *old,
                                  struct err *err)
{
    if (!d->settings->traefik_dir)
        return ERR_OK;
    json_t *route CLEANUP_JSON = json_deep_copy(plan->route);
    char *name CLEANUP_FREE = xasprintf("utter-%s", plan->slug.s);
    const json_t *services = json_object_get(json_object_get(route, "http"), "services");
    json_t *servers = json_object_get(
        json_object_get(json_object_get(services, name), "loadBalancer"), "servers");
    json_array_append_new(servers, json_pack("{s:o}", "url",
                                             json_sprintf("http://%s:%d", plan_ip(old->gate.edge).s,
                                                          PLAN_GATE_PORT)));
    return traefik_publish(d->settings->traefik_dir, &plan->slug, route, err);
}

static enum err_kind publish(struct deploy *d, const struct plan *plan, struct err *err)
{
    char *instance CLEANUP_FREE = NULL;
    if (!d->settings->traefik_dir && !d->settings->route_listen) {
        deploy_say(d, "route     none: the settings name no Traefik");
        return ERR_OK;
    }
    if (d->settings->traefik_dir &&
        traefik_publish(d->settings->traefik_dir, &plan->slug, plan->route, err))
        return err->kind;
    if (realise_gate_alive(plan, &instance, err) ||
        realise_route_alive(d, plan, instance, 10000, err))
        return err->kind;
    deploy_say(d, "route     %s://%s answers through Traefik", plan->tls ? "https" : "http",
               plan->host);
    return ERR_OK;
}

static enum err_kind end_old(struct deploy *d, struct realise *what, struct err *err)
{
    const struct plan *plan = what->plan, *old = what->old;
    if (old && strcmp(old->handler.id, plan->handler.id) != 0) {
        if (strcmp(old->gate.id, plan->gate.id) == 0 && drain(plan, old, err))
            return err->kind;
        if (member_end(d->cd, old->handler.id, 0, err) ||
            network_detach(old, &old->handler, d->settings, err))
            return err->kind;
        deploy_say(d, "handler   %s drained and removed", old->handler.id);
    }
    return realise_sweep(d, &plan->slug, plan, 5000, err);
}

#define STEP(name, call)                                                                           \
    do {                                                                                           \
        if (call)                                                                                  \
            return err_prefix(err, "step %s", name);                                               \
    } while (0)

enum err_kind realise(struct deploy *d, struct realise *what, struct err *err)
{
    const struct plan *plan = what->plan;
    bool gate_runs = false;
    STEP("files", files_make(plan, what->token, err));
    STEP("host network", host_network(d, plan, err));
    STEP("internal network", network_slug_ensure(plan, err));
    STEP("data proxy", data_ensure(d, what, err));
    STEP("gate network", gate_network(d, what, &gate_runs, err));
    STEP("handler", handler_ensure(d, what, err));
    if (!gate_runs && what->old && strcmp(what->old->gate.id, plan->gate.id) != 0)
        STEP("route of both gates", publish_both(d, plan, what->old, err));
    STEP("gate", gate_runs ? gate_reload(d, what, err) : gate_start(d, what, err));
    STEP("route", publish(d, plan, err));
    STEP("old generation", end_old(d, what, err));
    return ERR_OK;
}
