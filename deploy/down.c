/*
 * `down`: drained, then nothing left but the ledger; with purge not even that.
 */
#include <string.h>

#include "base/json.h"
#include "deploy/claims_store.h"
#include "deploy/deploy.h"
#include "deploy/files.h"
#include "deploy/image.h"
#include "deploy/pause.h"
#include "deploy/payments.h"
#include "deploy/state.h"
#include "deploy/traefik.h"

/* What reconciliation gave up on stays in the ledger for `utter-gate ledger resolve`; no waiting
 * helps. */
static void drop_operators_cases(json_t *open)
{
    for (size_t i = json_array_size(open); i-- > 0;) {
        const char *state = json_string_value(json_object_get(json_array_get(open, i), "state"));
        if (state && (strcmp(state, "abandoned") == 0 || strcmp(state, "conceded") == 0))
            json_array_remove(open, i);
    }
}

static enum err_kind say_open(const json_t *open, const struct down *how, struct err *err)
{
    struct buf list CLEANUP(buf_fini);
    buf_init(&list, 700);
    for (size_t i = 0; i < json_array_size(open) && list.len < 500; i++) {
        const json_t *p = json_array_get(open, i);
        buf_printf(&list, "%s%s %.16s…", i ? ", " : "",
                   json_string_value(json_object_get(p, "state")),
                   json_string_value(json_object_get(p, "payment")));
    }
    return err_set(err, ERR_PRECONDITION, "%zu payments are open (%s): %s", json_array_size(open),
                   how->purge ? "--purge would lose them; resolve them first: utter-gate ledger "
                                "unresolved"
                              : "wait longer, or --force leaves them in the ledger",
                   buf_cstr(&list));
}

/* Waits until nothing is open; for a purge that includes what only an operator can resolve. */
static enum err_kind wait_settled(struct deploy *d, const struct plan *plan, const struct down *how,
                                  struct err *err)
{
    for (int waited = 0;; waited += 200) {
        json_t *open CLEANUP_JSON = NULL;
        if (payments_open(plan, &open, err))
            return how->force ? ERR_OK : err->kind;
        if (!how->purge)
            drop_operators_cases(open);
        size_t n = json_array_size(open);
        if (n == 0)
            return ERR_OK;
        if (how->force && !how->purge) {
            deploy_say(d, "ledger    %zu open payments stay in it", n);
            return ERR_OK;
        }
        if (waited >= how->wait_ms)
            return say_open(open, how, err);
        pause_ms(200);
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
        state_index_drop(d->settings, slug, err) || claims_forget(d->settings, plan, err))
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
