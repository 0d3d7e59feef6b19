/*
 * Looking at gate and route from the host, and removing what a slug has there.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/deploy.h"
#include "deploy/fetch.h"
#include "deploy/files.h"
#include "deploy/member.h"
#include "deploy/netns.h"
#include "deploy/network.h"
#include "deploy/pause.h"
#include "deploy/state.h"
#include "deploy/strays.h"
#include "deploy/traefik.h"

#define ALIVE "/.well-known/utter/alive"

/* The Host that the gate answers to: as in its origin. */
static char *host_of(const struct plan *plan)
{
    const char *origin = json_string_value(json_object_get(plan->gate_config, "origin"));
    const char *at = origin ? strstr(origin, "://") : NULL;
    return xstrdup(at ? at + 3 : plan->host);
}

enum err_kind realise_gate_alive(const struct plan *plan, char **instance, struct err *err)
{
    struct buf body CLEANUP(buf_fini);
    long status = 0;
    buf_init(&body, 4096);
    char *host CLEANUP_FREE = host_of(plan);
    char *url CLEANUP_FREE =
        xasprintf("http://%s:%d" ALIVE, plan_ip(plan->gate.edge).s, PLAN_GATE_PORT);
    struct fetch fetch = { .url = url, .host = host, .timeout_ms = 1000 };
    if (fetch_get(&fetch, &status, &body, err))
        return err->kind;
    if (status != 200)
        return err_set(err, ERR_UNAVAILABLE, "the gate answers %ld", status);
    *instance = xstrdup(buf_cstr(&body));
    return ERR_OK;
}

enum err_kind realise_admin(const struct plan *plan, const char *path, json_t **out,
                            struct err *err)
{
    struct buf body CLEANUP(buf_fini);
    long status = 0;
    buf_init(&body, 1024 * 1024);
    char *socket CLEANUP_FREE =
        xasprintf("%s/admin%s/admin.sock", plan->run, plan->side ? "2" : "");
    char *url CLEANUP_FREE = xasprintf("http://localhost%s", path);
    struct fetch fetch = { .url = url, .socket = socket, .timeout_ms = 2000 };
    if (fetch_get(&fetch, &status, &body, err))
        return err->kind;
    return json_strict_load(buf_cstr(&body), body.len, body.max, 0, out, err);
}

/* Why Traefik's answer is not ours. */
static enum err_kind explain(const struct deploy *d, const struct plan *plan, long status,
                             const char *body, struct err *err)
{
    if (status == 404)
        return err_set(err, ERR_PRECONDITION,
                       "Traefik answers 404 for %s: it has not taken %s/utter-%s.yaml (is that its "
                       "file provider's directory, do all files there parse, is its entry point "
                       "\"%s\"?)",
                       plan->host, d->settings->traefik_dir ? d->settings->traefik_dir : "-",
                       plan->slug.s, d->settings->entry_point);
    if (status == 200)
        return err_set(err, ERR_PRECONDITION, "Traefik sends %s to another gate (%.60s)",
                       plan->host, body);
    return err_set(err, ERR_PRECONDITION, "Traefik answers %ld for %s: it does not reach the gate",
                   status, plan->host);
}

enum err_kind realise_route_alive(const struct deploy *d, const struct plan *plan,
                                  const char *instance, int wait_ms, struct err *err)
{
    int64_t port = d->settings->traefik_port ? d->settings->traefik_port : plan->tls ? 443 : 80;
    char *url CLEANUP_FREE =
        xasprintf("%s://%s:%lld" ALIVE, plan->tls ? "https" : "http", plan->host, (long long)port);
    enum err_kind kind = ERR_UNAVAILABLE;
    for (int waited = 0; waited <= wait_ms; waited += 50) {
        struct buf body CLEANUP(buf_fini);
        long status = 0;
        buf_init(&body, 4096);
        struct fetch fetch = { .url = url,
                               .address = d->settings->traefik_address,
                               .any_certificate = true,
                               .timeout_ms = 2000 };
        kind = fetch_get(&fetch, &status, &body, err);
        if (!kind && status == 200 && strcmp(buf_cstr(&body), instance) == 0)
            return ERR_OK;
        if (!kind)
            kind = explain(d, plan, status, buf_cstr(&body), err);
        pause_ms(50);
    }
    return kind;
}

/* ---- removal ---- */

static bool in_plan(const struct plan *plan, const char *id)
{
    return plan && (strcmp(id, plan->handler.id) == 0 || strcmp(id, plan->gate.id) == 0 ||
                    strcmp(id, plan->data.id) == 0);
}

/* "<slug>.<rest without a dot>" */
static bool of_slug(const struct slug *slug, const char *id)
{
    size_t n = strlen(slug->s);
    return strncmp(id, slug->s, n) == 0 && id[n] == '.' && !strchr(id + n + 1, '.');
}

static enum err_kind sweep_namespaces(struct deploy *d, const struct slug *slug,
                                      const struct plan *plan, struct err *err)
{
    char *dir CLEANUP_FREE = xasprintf("%s/netns", d->settings->run_dir);
    DIR *list CLEANUP_DIR = opendir(dir);
    if (!list)
        return errno == ENOENT ? ERR_OK : err_sys(err, errno, "%s", dir);
    for (struct dirent *e; (e = readdir(list));) {
        char *path CLEANUP_FREE = xasprintf("%s/%s", dir, e->d_name);
        if (!of_slug(slug, e->d_name) || in_plan(plan, e->d_name))
            continue;
        network_clear(path);
        if (netns_remove(path, err))
            return err->kind;
    }
    return ERR_OK;
}

static enum err_kind sweep_snapshots(struct deploy *d, const struct slug *slug,
                                     const struct plan *plan, struct err *err)
{
    json_t *names CLEANUP_JSON = NULL;
    if (containerd_snapshot_list(d->cd, &names, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (of_slug(slug, name) && !in_plan(plan, name) &&
            containerd_snapshot_remove(d->cd, name, err))
            return err->kind;
    }
    return ERR_OK;
}

/* Shims of ids that have no container any more. */
static enum err_kind sweep_shims(struct deploy *d, const struct slug *slug, const struct plan *plan,
                                 struct err *err)
{
    const char *address = containerd_address(d->cd), *ns = containerd_namespace(d->cd);
    json_t *ids CLEANUP_JSON = NULL;
    if (strays_ids(address, ns, &ids, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (of_slug(slug, id) && !in_plan(plan, id) && member_end(d->cd, id, 0, err))
            return err->kind;
    }
    return ERR_OK;
}

enum err_kind realise_sweep(struct deploy *d, const struct slug *slug, const struct plan *plan,
                            int grace_ms, struct err *err)
{
    json_t *ids CLEANUP_JSON = NULL;
    if (member_list(d->cd, slug, &ids, err))
        return err->kind;
    /* Gates first: one that still takes calls must not meet a missing handler. */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < json_array_size(ids); i++) {
            const char *id = json_string_value(json_array_get(ids, i));
            bool gate = strstr(id, ".gate") != NULL;
            if (in_plan(plan, id) || gate != (pass == 0))
                continue;
            if (member_end(d->cd, id, gate ? grace_ms : 0, err))
                return err->kind;
        }
    }
    if (sweep_shims(d, slug, plan, err) || sweep_namespaces(d, slug, plan, err) ||
        sweep_snapshots(d, slug, plan, err))
        return err->kind;
    return ERR_OK;
}

/* The edge and the chains go with the last slug. */
static enum err_kind host_network_less(struct deploy *d, struct err *err)
{
    int lock CLEANUP_FD = -1;
    json_t *bridges CLEANUP_JSON = NULL;
    if (state_lock_host(d->settings, &lock, err) || state_bridges(d->settings, &bridges, err))
        return err->kind;
    if (json_array_size(bridges) > 0)
        return firewall_apply(d->settings, bridges, err);
    if (firewall_remove(err) || network_edge_remove(d->settings, err))
        return err->kind;
    return ERR_OK;
}

enum err_kind realise_undo(struct deploy *d, const struct plan *plan, int grace_ms, struct err *err)
{
    if (d->settings->traefik_dir && traefik_withdraw(d->settings->traefik_dir, &plan->slug, err))
        return err->kind;
    if (realise_sweep(d, &plan->slug, NULL, grace_ms, err) ||
        network_slug_remove(plan->index, &plan->slug, err) || files_remove_run(plan, err) ||
        host_network_less(d, err))
        return err->kind;
    return ERR_OK;
}
