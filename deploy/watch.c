#include "deploy/watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "deploy/member.h"
#include "deploy/netns.h"
#include "deploy/probe.h"
#include "deploy/state.h"
#include "deploy/watch_http.h"

#define TICK_MS 100
#define ROUND_MS 1000
#define FAILURES_MAX 5
#define FAILURES_WINDOW_MS (5 * 60 * 1000)
#define DEAF_MAX 3
#define SLUGS_MAX PLAN_INDEX_MAX

struct watched {
    char slug[SLUG_MAX + 1];
    unsigned failures;             /* in a row */
    uint64_t recent[FAILURES_MAX]; /* times of the last ones, a ring */
    size_t at;
    uint64_t not_before_ms;
    unsigned deaf; /* rounds in which the handler took no connection */
};

struct watch {
    struct deploy *d;
    struct loop *loop;
    struct loop_timer timer;
    struct containerd_events *events; /* NULL: to be opened again */
    struct watched *slugs;
    size_t n;
    uint64_t round_due_ms;
    uint64_t restarts;
    struct watch_http *http;
};

int watch_backoff_ms(unsigned n)
{
    int ms = 500;
    while (n-- > 1 && ms < 30000)
        ms *= 2;
    return ms > 30000 ? 30000 : ms;
}

int64_t watch_replace_after(int64_t lifetime)
{
    int64_t left = lifetime / 5 < 15 ? 15 : lifetime / 5;
    return left > lifetime / 2 ? lifetime - lifetime / 2 : lifetime - left;
}

enum err_kind watch_routes(const struct settings *settings, json_t **out, struct err *err)
{
    json_t *slugs CLEANUP_JSON = NULL;
    json_t *all CLEANUP_JSON = json_object();
    if (state_slugs(settings, &slugs, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(slugs); i++) {
        json_t *record CLEANUP_JSON = NULL;
        if (state_load(settings, json_string_value(json_array_get(slugs, i)), &record, err))
            return err->kind;
        const char *phase = json_string_value(json_object_get(record, "phase"));
        if (phase && strcmp(phase, "down") != 0)
            json_object_update_recursive(all, json_object_get(record, "route"));
    }
    *out = STEAL(all);
    return ERR_OK;
}

static struct watched *watched_of(struct watch *w, const char *slug)
{
    for (size_t i = 0; i < w->n; i++) {
        if (strcmp(w->slugs[i].slug, slug) == 0)
            return &w->slugs[i];
    }
    w->slugs = xreallocarray(w->slugs, w->n + 1, sizeof(*w->slugs));
    struct watched *new = &w->slugs[w->n++];
    *new = (struct watched){ 0 };
    (void)snprintf(new->slug, sizeof(new->slug), "%s", slug);
    return new;
}

/* Alive but deaf: its task runs, and nothing takes a connection. */
static void judge_hearing(struct watch *w, struct watched *one, const struct plan *plan)
{
    enum member_state state = MEMBER_ABSENT;
    if (member_look(w->d->cd, plan, &plan->handler, &state, ERR_IGNORED) ||
        state != MEMBER_RUNNING || !netns_is_there(plan->gate.netns)) {
        one->deaf = 0;
        return;
    }
    if (probe_wait(plan->gate.netns, plan_ip(plan->handler.address).s, (int)plan->port, 300,
                   ERR_IGNORED) == ERR_OK) {
        one->deaf = 0;
        return;
    }
    if (++one->deaf < DEAF_MAX)
        return;
    one->deaf = 0;
    log_warn("handler_deaf", log_str("slug", one->slug), log_str("id", plan->handler.id));
    (void)!member_end(w->d->cd, plan->handler.id, 0, ERR_IGNORED);
}

static void mark_failed(struct watch *w, const char *slug, const char *why)
{
    json_t *record CLEANUP_JSON = NULL;
    if (state_load(w->d->settings, slug, &record, ERR_IGNORED))
        return;
    json_object_set_new(record, "phase", json_string("failed"));
    json_object_set_new(record, "reason", json_string(why));
    (void)!state_save(w->d->settings, slug, record, ERR_IGNORED);
    log_error("slug_failed", log_str("slug", slug), log_str("why", why));
}

static void note_failure(struct watch *w, struct watched *one, const char *why)
{
    uint64_t now = loop_now_ms(w->loop);
    one->failures++;
    one->not_before_ms = now + (uint64_t)watch_backoff_ms(one->failures);
    uint64_t oldest = one->recent[one->at];
    one->recent[one->at] = now;
    one->at = (one->at + 1) % FAILURES_MAX;
    log_warn("restore_failed", log_str("slug", one->slug), log_str("why", why));
    if (one->failures >= FAILURES_MAX && oldest && now - oldest < FAILURES_WINDOW_MS)
        mark_failed(w, one->slug, why);
}

static bool old_enough(const json_t *record, const struct plan *plan)
{
    int64_t started = json_integer_value(json_object_get(record, "handlerStarted"));
    return started > 0 && (int64_t)time(NULL) - started >= watch_replace_after(plan->lifetime);
}

static void look_at(struct watch *w, const char *slug)
{
    struct err err = { 0 };
    json_t *record CLEANUP_JSON = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    struct watched *one = watched_of(w, slug);
    bool changed = false;
    if (loop_now_ms(w->loop) < one->not_before_ms ||
        state_load(w->d->settings, slug, &record, &err))
        return;
    const char *phase = json_string_value(json_object_get(record, "phase"));
    if (!phase || (strcmp(phase, "up") != 0 && strcmp(phase, "making") != 0))
        return;
    if (plan_load(record, &plan, &err)) {
        note_failure(w, one, err.msg);
        return;
    }
    judge_hearing(w, one, plan);
    enum err_kind kind = deploy_again(w->d, slug, old_enough(record, plan), &changed, &err);
    if (kind == ERR_UNAVAILABLE && strstr(err.msg, "another utter-deploy"))
        return; /* someone is at it */
    if (kind) {
        note_failure(w, one, err.msg);
        return;
    }
    one->failures = 0;
    if (changed) {
        w->restarts++;
        log_info("restored", log_str("slug", slug));
    }
}

static void look_at_all(struct watch *w)
{
    json_t *slugs CLEANUP_JSON = NULL;
    struct err err = { 0 };
    if (state_slugs(w->d->settings, &slugs, &err)) {
        log_error("state_unreadable", log_str("why", err.msg));
        return;
    }
    for (size_t i = 0; i < json_array_size(slugs); i++)
        look_at(w, json_string_value(json_array_get(slugs, i)));
}

/* True when a task of some slug ended or ran out of memory. */
static bool take_events(struct watch *w)
{
    struct cd_event event;
    bool any = false;
    if (!w->events && containerd_events_open(w->d->cd, &w->events, ERR_IGNORED))
        return false;
    for (int i = 0; i < 1000; i++) {
        enum err_kind kind = containerd_events_next(w->events, 0, &event, ERR_IGNORED);
        if (kind == ERR_TIMEOUT)
            return any;
        if (kind) {
            containerd_events_free(STEAL(w->events));
            return true;
        }
        if (strcmp(event.topic, "/tasks/oom") == 0)
            log_warn("out_of_memory", log_str("id", event.container));
        any = any || strcmp(event.topic, "/tasks/exit") == 0 ||
              strcmp(event.topic, "/tasks/oom") == 0;
    }
    return any;
}

static void on_tick(struct loop_timer *timer)
{
    struct watch *w = timer->arg;
    bool ended = take_events(w);
    if (ended || loop_now_ms(w->loop) >= w->round_due_ms) {
        look_at_all(w);
        w->round_due_ms = loop_now_ms(w->loop) + ROUND_MS;
    }
    loop_after(w->loop, timer, TICK_MS, on_tick, w);
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    struct watch *w = arg;
    (void)info;
    loop_stop(w->loop);
}

static void watch_fini(struct watch *w)
{
    watch_http_free(w->http);
    containerd_events_free(w->events);
    loop_cancel(&w->timer);
    loop_free(w->loop);
    free(w->slugs);
}

enum err_kind watch_run(struct deploy *d, bool once, struct err *err)
{
    struct watch w CLEANUP(watch_fini) = { .d = d };
    int lock CLEANUP_FD = -1;
    sigset_t set;
    d->out = NULL; /* what it does is logged, not told */
    log_open(STDERR_FILENO, LOG_TEXT, LOG_INFO);
    if (state_lock_named(d->settings, "watch", &lock, err) || loop_new(&w.loop, err))
        return err->kind;
    if (once) {
        look_at_all(&w);
        return ERR_OK;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (loop_signals(w.loop, &set, on_signal, &w, err) ||
        (d->settings->route_listen &&
         watch_http_new(w.loop, d->settings, &w.restarts, &w.http, err)))
        return err->kind;
    loop_after(w.loop, &w.timer, 0, on_tick, &w);
    log_info("watching", log_int("pid", getpid()));
    return loop_run(w.loop, err);
}
