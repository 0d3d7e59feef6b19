/*
 * `down`: drained, then nothing left but the ledger; with purge not even that.
 */
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "deploy/deploy.h"
#include "deploy/files.h"
#include "deploy/image.h"
#include "deploy/state.h"
#include "deploy/traefik.h"

/* Payments that a removal would leave in the open: settling, unknown, or paid and not yet
 * delivered. */
static enum err_kind open_payments(const struct plan *plan, int64_t *n, char **list,
                                   struct err *err)
{
    json_t *answer CLEANUP_JSON = NULL;
    *n = 0;
    if (realise_admin(plan, "/unresolved", &answer, err))
        return err->kind;
    const json_t *payments = json_object_get(answer, "payments");
    if (!json_is_array(payments))
        return err_set(err, ERR_INTERNAL, "the gate does not say what is unresolved");
    *n = (int64_t)json_array_size(payments);
    *list = json_dumps(payments, JSON_COMPACT);
    return ERR_OK;
}

static enum err_kind wait_settled(struct deploy *d, const struct plan *plan, const struct down *how,
                                  struct err *err)
{
    char *instance CLEANUP_FREE = NULL;
    if (realise_gate_alive(plan, &instance, ERR_IGNORED)) {
        deploy_say(d, "gate      does not answer: its open payments stay in the ledger");
        return how->purge && !how->force
                   ? err_set(err, ERR_PRECONDITION,
                             "--purge: the gate cannot be asked for open payments; bring it up, or "
                             "add --force")
                   : ERR_OK;
    }
    for (int waited = 0;; waited += 200) {
        int64_t n = 0;
        char *list CLEANUP_FREE = NULL;
        if (open_payments(plan, &n, &list, err))
            return how->force ? ERR_OK : err->kind;
        if (n == 0)
            return ERR_OK;
        if (how->force && !how->purge)
            return ERR_OK;
        if (waited >= how->wait_ms)
            return err_set(err, ERR_PRECONDITION,
                           "%lld payments are not settled or not delivered (--force leaves them in "
                           "the ledger): %.600s",
                           (long long)n, list);
        (void)nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    }
}

static enum err_kind down_locked(struct deploy *d, const struct slug *slug, const struct down *how,
                                 struct err *err)
{
    json_t *record CLEANUP_JSON = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    if (state_load(d->settings, slug->s, &record, err) || plan_load(record, &plan, err))
        return err->kind;
    const char *phase = json_string_value(json_object_get(record, "phase"));
    bool was_up = phase && strcmp(phase, "down") != 0;
    if (was_up && d->settings->traefik_dir && traefik_withdraw(d->settings->traefik_dir, slug, err))
        return err->kind;
    if (was_up && wait_settled(d, plan, how, err)) {
        if (d->settings->traefik_dir)
            (void)!traefik_publish(d->settings->traefik_dir, slug, plan->route, ERR_IGNORED);
        return err->kind;
    }
    json_object_set_new(record, "phase", json_string("down"));
    if (state_save(d->settings, slug->s, record, err) ||
        realise_undo(d, plan, (int)(plan->handler_s * 1000) + 90000, err) ||
        image_prune(d->cd, slug->s, NULL, NULL, err))
        return err->kind;
    if (!how->purge) {
        deploy_say(d, "down      %s (its ledger stays at %s/ledger)", slug->s, plan->state);
        return ERR_OK;
    }
    int host CLEANUP_FD = -1;
    if (files_remove_state(plan, err) || state_lock_host(d->settings, &host, err) ||
        state_index_drop(d->settings, slug, err))
        return err->kind;
    deploy_say(d, "purged    %s", slug->s);
    return ERR_OK;
}

enum err_kind deploy_down(struct deploy *d, const char *name, const struct down *how,
                          struct err *err)
{
    struct slug slug;
    int lock CLEANUP_FD = -1;
    if (slug_parse(name, &slug, err) || state_lock_slug(d->settings, &slug, &lock, err))
        return err->kind;
    enum err_kind kind = down_locked(d, &slug, how, err);
    char *lease CLEANUP_FREE = xasprintf("utter-%s", slug.s);
    (void)!containerd_lease_drop(d->cd, lease, true, ERR_IGNORED);
    return kind;
}
