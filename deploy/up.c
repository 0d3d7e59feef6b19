/*
 * `up`: from a file to a plan to what runs. And the same again from the record.
 */
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/claims_store.h"
#include "deploy/deploy.h"
#include "deploy/endpoint.h"
#include "deploy/files.h"
#include "deploy/image.h"
#include "deploy/member.h"
#include "deploy/state.h"

#define LEASE_SECONDS 3600

struct up {
    struct deploy *d;
    struct endpoint *endpoint;
    struct image *handler;
    struct image *gate;
    struct image *data; /* NULL: no upstreams */
    struct plan *plan;
    struct plan *old; /* what the record says; NULL: none */
    json_t *record;   /* the same, raw */
    bool complete;    /* the record's phase is "up" */
    unsigned index;
};

static void up_fini(struct up *up)
{
    endpoint_free(up->endpoint);
    image_free(up->handler);
    image_free(up->gate);
    image_free(up->data);
    plan_free(up->plan);
    plan_free(up->old);
    json_decref(up->record);
}

static enum err_kind find_images(struct up *up, struct err *err)
{
    struct deploy *d = up->d;
    enum err_kind kind =
        up->endpoint->folder
            ? image_of_folder(d->cd, up->endpoint, d->settings->snapshotter, &up->handler, err)
            : image_find(d->cd, up->endpoint->image, &up->handler, err);
    if (kind || image_unpack(d->cd, up->handler, err) ||
        image_find(d->cd, d->settings->gate_image, &up->gate, err) ||
        image_unpack(d->cd, up->gate, err))
        return err->kind;
    if (up->endpoint->upstreams.n && (image_find(d->cd, d->settings->data_image, &up->data, err) ||
                                      image_unpack(d->cd, up->data, err)))
        return err->kind;
    return ERR_OK;
}

static enum err_kind find_record(struct up *up, struct err *err)
{
    int lock CLEANUP_FD = -1;
    if (state_lock_host(up->d->settings, &lock, err) ||
        state_index(up->d->settings, &up->endpoint->slug, &up->index, err))
        return err->kind;
    enum err_kind kind = state_load(up->d->settings, up->endpoint->slug.s, &up->record, err);
    if (kind == ERR_NOT_FOUND)
        return ERR_OK;
    if (kind || plan_load(up->record, &up->old, err))
        return err->kind;
    const char *phase = json_string_value(json_object_get(up->record, "phase"));
    up->complete = phase && strcmp(phase, "up") == 0;
    return ERR_OK;
}

/* An attempt that was killed may have left its Create half done under the recorded id: take a fresh
 * one. Two on, so that its address is still not that of the generation that may serve meanwhile. */
static bool interrupted(const struct up *up)
{
    const char *phase = json_string_value(json_object_get(up->record, "phase"));
    enum member_state state = MEMBER_ABSENT;
    return phase && strcmp(phase, "making") == 0 &&
           (member_look(up->d->cd, up->old, &up->old->handler, &state, ERR_IGNORED) ||
            state != MEMBER_RUNNING);
}

static enum err_kind claims_number(const struct up *up, unsigned *out, struct err *err)
{
    const struct endpoint *e = up->endpoint;
    int lock CLEANUP_FD = -1;
    char *pay CLEANUP_FREE = plan_pay(e);
    if (state_lock_host(up->d->settings, &lock, err))
        return err->kind;
    return state_claims(up->d->settings, pay, out, err);
}

static enum err_kind make_plan(struct up *up, struct err *err)
{
    struct plan_facts facts = {
        .index = up->index,
        .generation = up->old ? up->old->generation : 1,
        .side = up->old ? up->old->side : 0,
        .handler = { up->handler->name, up->handler->digest, up->handler->config },
        .gate = { up->gate->name, up->gate->digest, up->gate->config },
        .logger = up->d->logger,
    };
    if (up->endpoint->pay_shared && claims_number(up, &facts.claims, err))
        return err->kind;
    if (up->data)
        facts.data = (struct plan_image){ up->data->name, up->data->digest, up->data->config };
    if (plan_make(up->endpoint, up->d->settings, &facts, &up->plan, err))
        return err->kind;
    if (!up->old)
        return ERR_OK;
    bool handler = strcmp(up->plan->handler.hash, up->old->handler.hash) != 0;
    bool gate = strcmp(up->plan->gate.hash, up->old->gate.hash) != 0;
    unsigned step = handler ? 1 : 0;
    if (interrupted(up) && !handler)
        step = 2;
    if (!step && !gate)
        return ERR_OK;
    facts.generation += step;
    facts.side ^= gate ? 1U : 0U;
    plan_free(STEAL(up->plan));
    return plan_make(up->endpoint, up->d->settings, &facts, &up->plan, err);
}

/* A transfer to one payee can be claimed by two gates unless they share what they claimed. */
static enum err_kind check_payee(const struct up *up, struct err *err)
{
    json_t *slugs CLEANUP_JSON = NULL;
    if (state_slugs(up->d->settings, &slugs, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(slugs); i++) {
        const char *slug = json_string_value(json_array_get(slugs, i));
        json_t *record CLEANUP_JSON = NULL;
        if (strcmp(slug, up->plan->slug.s) == 0)
            continue;
        if (state_load(up->d->settings, slug, &record, err))
            return err->kind;
        const char *pay = json_string_value(json_object_get(record, "pay"));
        bool both = up->plan->claims && json_object_get(record, "claims");
        if (pay && strcasecmp(pay, up->plan->pay) == 0 && !both)
            return err_set(err, ERR_PRECONDITION,
                           "pay.to: %s is paid on the same network and asset as slug %s; give this "
                           "slug another address, or set pay.shared: true in both files (%s lacks "
                           "it) and run up for %s first",
                           strrchr(pay, ' ') + 1, slug, up->plan->claims ? slug : "this one", slug);
    }
    return ERR_OK;
}

/* `before` is the record that is replaced, or NULL: the handler's start is carried over from it
 * unless `started`. */
static enum err_kind save(const struct deploy *d, const struct plan *plan, const char *phase,
                          const json_t *before, bool started, struct err *err)
{
    json_t *record CLEANUP_JSON = plan_record(plan);
    const json_t *file = json_object_get(before, "file");
    json_t *since = json_object_get(before, "handlerStarted");
    json_object_set_new(record, "phase", json_string(phase));
    if (file)
        json_object_set(record, "file", json_object_get(before, "file"));
    json_object_set_new(record, "handlerStarted",
                        started || !since ? json_integer((json_int_t)time(NULL))
                                          : json_incref(since));
    return state_save(d->settings, plan->slug.s, record, err);
}

/* A slug that never was up has nothing worth keeping: neither a number nor a ledger with a payment
 * in it.
 */
static enum err_kind forget(const struct up *up, struct err *err)
{
    int lock CLEANUP_FD = -1;
    if (up->old)
        return ERR_OK;
    if (files_remove_state(up->plan, err) || state_lock_host(up->d->settings, &lock, err))
        return err->kind;
    if (state_index_drop(up->d->settings, &up->plan->slug, err))
        return err->kind;
    return claims_forget(up->d->settings, up->plan, err);
}

/* After a failed attempt: a first deployment disappears, a replacement leaves what ran before. */
static void undo(struct up *up)
{
    struct err why = { 0 };
    if (!up->old || !up->complete) {
        if (save(up->d, up->plan, "down", up->record, false, &why) ||
            realise_undo(up->d, up->plan, 5000, &why) ||
            image_prune(up->d->cd, up->plan->slug.s, NULL, NULL, &why) || forget(up, &why))
            deploy_say(up->d, "undo      %s", why.msg);
        return;
    }
    if (state_save(up->d->settings, up->plan->slug.s, up->record, &why))
        deploy_say(up->d, "undo      %s", why.msg);
    struct realise back = { .plan = up->old, .old = up->plan };
    if (realise(up->d, &back, &why))
        deploy_say(up->d, "undo      %s", why.msg);
}

static enum err_kind finish(struct up *up, const char *file, bool started, struct err *err)
{
    json_t *before CLEANUP_JSON = up->record ? json_deep_copy(up->record) : json_object();
    json_object_set_new(before, "file", json_string(file));
    return save(up->d, up->plan, "up", before, started, err);
}

/* Checked and recorded under the host's lock: of two that begin at once, one sees the other. */
static enum err_kind announce(const struct up *up, struct err *err)
{
    int lock CLEANUP_FD = -1;
    if (state_lock_host(up->d->settings, &lock, err) || check_payee(up, err))
        return err->kind;
    return save(up->d, up->plan, "making", up->record, false, err);
}

static enum err_kind up_locked(struct up *up, const char *file, struct err *err)
{
    struct deploy *d = up->d;
    char *lease CLEANUP_FREE = xasprintf("utter-%s", up->endpoint->slug.s);
    char *space CLEANUP_FREE = NULL;
    if (files_check_space(d->settings, &space, err) ||
        containerd_lease(d->cd, lease, LEASE_SECONDS, err) || find_images(up, err) ||
        find_record(up, err) || make_plan(up, err) || announce(up, err))
        return err->kind;
    struct realise what = { .plan = up->plan,
                            .old = up->old,
                            .token = up->endpoint->token_file,
                            .upstreams = &up->endpoint->upstreams };
    if (realise(d, &what, err)) {
        undo(up);
        return err->kind;
    }
    if (finish(up, file, what.handler_started, err) ||
        image_prune(d->cd, up->plan->slug.s, up->plan->handler.image,
                    up->old ? up->old->handler.image : NULL, err))
        return err->kind;
    bool same =
        up->old && up->complete && !what.changed && strcmp(up->old->hash, up->plan->hash) == 0;
    deploy_say(d, same ? "unchanged %s" : "up        %s", up->plan->slug.s);
    return ERR_OK;
}

static void drop_lease(struct deploy *d, const char *slug)
{
    char *lease CLEANUP_FREE = xasprintf("utter-%s", slug);
    (void)!containerd_lease_drop(d->cd, lease, false, ERR_IGNORED);
}

enum err_kind deploy_up(struct deploy *d, const char *file, struct err *err)
{
    struct up up CLEANUP(up_fini) = { .d = d };
    int lock CLEANUP_FD = -1;
    if (endpoint_load(file, &up.endpoint, err) ||
        state_lock_slug(d->settings, &up.endpoint->slug, &lock, err))
        return err->kind;
    char *real CLEANUP_FREE = realpath(file, NULL);
    enum err_kind kind = up_locked(&up, real, err);
    drop_lease(d, up.endpoint->slug.s);
    return kind;
}

/* ---- again ---- */

/* The recorded plan one generation on: what alternates is moved, all else stays. */
static enum err_kind next_generation(struct deploy *d, const json_t *record, struct plan **out,
                                     struct err *err);

static enum err_kind again_locked(struct deploy *d, const char *name, bool renew, bool *changed,
                                  struct err *err)
{
    json_t *record CLEANUP_JSON = NULL;
    struct plan *old CLEANUP(plan_freep) = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    if (state_load(d->settings, name, &record, err) || plan_load(record, &old, err))
        return err->kind;
    enum member_state state = MEMBER_RUNNING;
    if (member_look(d->cd, old, &old->handler, &state, err))
        return err->kind;
    if (renew && state == MEMBER_RUNNING) {
        if (next_generation(d, record, &plan, err) || save(d, plan, "making", record, false, err))
            return err->kind;
    }
    struct realise what = { .plan = plan ? plan : old, .old = plan ? old : NULL };
    if (realise(d, &what, err))
        return err->kind;
    *changed = what.changed;
    const char *phase = json_string_value(json_object_get(record, "phase"));
    if (!what.changed && phase && strcmp(phase, "up") == 0)
        return ERR_OK;
    return save(d, what.plan, "up", record, what.handler_started, err);
}

enum err_kind deploy_again(struct deploy *d, const char *name, bool renew, bool *changed,
                           struct err *err)
{
    struct slug slug;
    int lock CLEANUP_FD = -1;
    *changed = false;
    if (slug_parse(name, &slug, err))
        return err->kind;
    char *lock_name CLEANUP_FREE = xasprintf("slug.%s", slug.s);
    if (state_lock_named(d->settings, lock_name, &lock,
                         err)) /* not waited for: others need watching */
        return err->kind;
    return again_locked(d, name, renew, changed, err);
}

static enum err_kind next_generation(struct deploy *d, const json_t *record, struct plan **out,
                                     struct err *err)
{
    struct plan *plan CLEANUP(plan_freep) = NULL;
    if (plan_load(record, &plan, err) || plan_advance(plan, d->settings, err))
        return err->kind;
    *out = STEAL(plan);
    return ERR_OK;
}
