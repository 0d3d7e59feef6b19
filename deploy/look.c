#include "deploy/look.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/egress_look.h"
#include "deploy/files.h"
#include "deploy/member.h"
#include "deploy/payments.h"
#include "deploy/state.h"

static const char *member_word(struct deploy *d, const struct plan *plan,
                               const struct plan_member *member)
{
    enum member_state state;
    struct err err;
    if (member_look(d->cd, plan, member, &state, &err))
        return "unknown";
    switch (state) {
    case MEMBER_RUNNING:
        return "running";
    case MEMBER_OTHER:
        return "running, not as planned";
    case MEMBER_STOPPED:
        return "stopped";
    case MEMBER_ABSENT:
        break;
    }
    return "absent";
}

static const char *phase_of(const json_t *record)
{
    const char *phase = json_string_value(json_object_get(record, "phase"));
    return phase ? phase : "unknown";
}

static enum err_kind open_slug(struct deploy *d, const char *slug, json_t **record,
                               struct plan **plan, struct err *err)
{
    struct slug checked;
    if (slug_parse(slug, &checked, err) || state_load(d->settings, slug, record, err) ||
        plan_load(*record, plan, err))
        return err->kind;
    return ERR_OK;
}

enum err_kind look_ls(struct deploy *d, bool json, struct err *err)
{
    json_t *slugs CLEANUP_JSON = NULL;
    json_t *list CLEANUP_JSON = json_array();
    if (state_slugs(d->settings, &slugs, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(slugs); i++) {
        const char *slug = json_string_value(json_array_get(slugs, i));
        json_t *record CLEANUP_JSON = NULL;
        struct plan *plan CLEANUP(plan_freep) = NULL;
        if (open_slug(d, slug, &record, &plan, err))
            return err_prefix(err, "%s", slug);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "slug", slug, "phase",
                                              phase_of(record), "host", plan->host, "handler",
                                              member_word(d, plan, &plan->handler), "gate",
                                              member_word(d, plan, &plan->gate)));
    }
    if (json) {
        (void)json_dumpf(list, d->out, JSON_INDENT(2));
        (void)fputc('\n', d->out);
        return ERR_OK;
    }
    deploy_say(d, "%-20s %-8s %-10s %-10s %s", "SLUG", "PHASE", "HANDLER", "GATE", "HOST");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *slug, *phase, *host, *handler, *gate;
        if (json_unpack(json_array_get(list, i), "{s:s, s:s, s:s, s:s, s:s}", "slug", &slug,
                        "phase", &phase, "host", &host, "handler", &handler, "gate", &gate) == 0)
            deploy_say(d, "%-20s %-8s %-10s %-10s %s", slug, phase, handler, gate, host);
    }
    return ERR_OK;
}

/* Lines that utter-log threw away, of one member. */
static int64_t dropped_lines(const struct plan *plan, const struct plan_member *member)
{
    char *path CLEANUP_FREE = xasprintf("%s/logs/%s.dropped", plan->state, member->id);
    char *text CLEANUP_FREE = NULL;
    uint64_t n = 0;
    if (fs_read(path, 64, &text, NULL, ERR_IGNORED))
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return text_u64(text, &n) ? (int64_t)n : 0;
}

static json_t *member_json(struct deploy *d, const struct plan *plan,
                           const struct plan_member *member)
{
    struct cd_task task = { 0 };
    (void)!containerd_task_get(d->cd, member->id, &task, ERR_IGNORED);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "id", member->id, "state",
                     member_word(d, plan, member), "image", member->image, "address",
                     member->address, "edge", member->edge, "pid", (json_int_t)task.pid,
                     "logLinesDropped", (json_int_t)dropped_lines(plan, member));
}

static json_t *route_json(struct deploy *d, const struct plan *plan)
{
    struct err err = { 0 };
    char *instance CLEANUP_FREE = NULL;
    if (!d->settings->traefik_dir && !d->settings->route_listen)
        return json_string("none: the settings name no Traefik");
    if (realise_gate_alive(plan, &instance, &err) ||
        realise_route_alive(d, plan, instance, 0, &err))
        return json_string(err.msg);
    return json_string("ok");
}

static json_t *watch_json(struct deploy *d)
{
    int lock CLEANUP_FD = -1;
    return json_string(state_lock_named(d->settings, "watch", &lock, NULL)
                           ? "running"
                           : "not running: nothing restarts what ends (utter-deploy watch)");
}

static json_t *status_json(struct deploy *d, const json_t *record, const struct plan *plan)
{
    json_t *resources = json_at(plan->handler.spec, "/linux/resources");
    struct err err = { 0 };
    char *space CLEANUP_FREE = NULL;
    json_t *payments = NULL;
    (void)!files_check_space(d->settings, &space, &err);
    (void)!payments_last(plan, 5, &payments, ERR_IGNORED);
    json_t *status =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:s, s:O?, s:I}", "slug", plan->slug.s,
                  "phase", phase_of(record), "host", plan->host, "handler",
                  member_json(d, plan, &plan->handler), "gate", member_json(d, plan, &plan->gate),
                  "route", route_json(d, plan), "watch", watch_json(d), "disk",
                  err.kind ? err.msg
                  : space  ? space
                           : "unknown",
                  "limits", resources, "lifetime", (json_int_t)plan->lifetime);
    if (plan_has_data(plan))
        json_object_set_new(status, "data", member_json(d, plan, &plan->data));
    json_t *egress = NULL;
    if (plan_has_data(plan) && egress_look(plan, 5, &egress, ERR_IGNORED) == ERR_OK)
        json_object_set_new(status, "egress", egress);
    if (plan_has_data(plan))
        json_object_set_new(status, "dataMetrics", egress_counted(plan));
    if (payments)
        json_object_set_new(status, "payments", payments);
    if (json_object_get(record, "reason"))
        json_object_set(status, "reason", json_object_get(record, "reason"));
    return status;
}

static void say_member(struct deploy *d, const char *role, const json_t *status)
{
    const json_t *m = json_object_get(status, role);
    json_int_t lost = json_integer_value(json_object_get(m, "logLinesDropped"));
    deploy_say(d, "%-9s %s: %s, %s%s%s", role, json_string_value(json_object_get(m, "id")),
               json_string_value(json_object_get(m, "state")),
               json_string_value(json_object_get(m, "address")),
               lost ? ", log lines dropped: " : "", "");
    if (lost)
        deploy_say(d, "          %" PRId64 " log lines dropped", (int64_t)lost);
}

static void say_egress(struct deploy *d, const json_t *egress)
{
    const json_t *upstreams = json_object_get(egress, "upstreams");
    for (size_t i = 0; i < json_array_size(upstreams); i++) {
        const char *name;
        json_int_t calls, up, down, refused;
        if (json_unpack(json_array_get(upstreams, i), "{s:s, s:I, s:I, s:I, s:I}", "upstream",
                        &name, "calls", &calls, "bytesUp", &up, "bytesDown", &down, "refused",
                        &refused) == 0)
            deploy_say(d,
                       "upstream  %s: %" JSON_INTEGER_FORMAT " calls, %" JSON_INTEGER_FORMAT
                       " refused, %" JSON_INTEGER_FORMAT " bytes up, %" JSON_INTEGER_FORMAT
                       " bytes down",
                       name, calls, refused, up, down);
    }
}

/* The request ids are those of the gate's log and payments. */
static void say_calls(struct deploy *d, const json_t *last)
{
    for (size_t i = 0; i < json_array_size(last); i++) {
        const char *request, *upstream, *outcome;
        json_int_t status, ms;
        if (json_unpack(json_array_get(last, i), "{s:s, s:s, s:I, s:I, s:s}", "request", &request,
                        "upstream", &upstream, "status", &status, "ms", &ms, "outcome",
                        &outcome) == 0)
            deploy_say(
                d, "call      %s to %s: %" JSON_INTEGER_FORMAT " %s, %" JSON_INTEGER_FORMAT " ms",
                *request ? request : "without a token", *upstream ? upstream : "no upstream",
                status, outcome, ms);
    }
}

static void say_payments(struct deploy *d, const json_t *payments)
{
    for (size_t i = 0; i < json_array_size(payments); i++) {
        const char *payment, *state, *amount, *payer;
        if (json_unpack(json_array_get(payments, i), "{s:s, s:s, s:s, s:s}", "payment", &payment,
                        "state", &state, "amount", &amount, "payer", &payer) == 0)
            deploy_say(d, "payment   %.16s… %s, %s atomic units from %s", payment, state, amount,
                       payer);
    }
}

enum err_kind look_status(struct deploy *d, const char *slug, bool json, struct err *err)
{
    json_t *record CLEANUP_JSON = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    if (open_slug(d, slug, &record, &plan, err))
        return err->kind;
    json_t *status CLEANUP_JSON = status_json(d, record, plan);
    if (json) {
        (void)json_dumpf(status, d->out, JSON_INDENT(2) | JSON_SORT_KEYS);
        (void)fputc('\n', d->out);
        return ERR_OK;
    }
    const json_t *limits = json_object_get(status, "limits");
    deploy_say(d, "%s is %s, sold at %s://%s", slug, phase_of(record), plan->tls ? "https" : "http",
               plan->host);
    say_member(d, "handler", status);
    say_member(d, "gate", status);
    if (plan_has_data(plan)) {
        say_member(d, "data", status);
        say_egress(d, json_object_get(status, "egress"));
        say_calls(d, json_at(status, "/egress/last"));
    }
    deploy_say(d, "route     %s", json_string_value(json_object_get(status, "route")));
    deploy_say(d, "limits    memory %" PRId64 " MiB, %" PRId64 " processes, lifetime %" PRId64 " s",
               (int64_t)json_integer_value(json_at(limits, "/memory/limit")) >> 20,
               (int64_t)json_integer_value(json_at(limits, "/pids/limit")), plan->lifetime);
    say_payments(d, json_object_get(status, "payments"));
    deploy_say(d, "watch     %s", json_string_value(json_object_get(status, "watch")));
    deploy_say(d, "disk      %s", json_string_value(json_object_get(status, "disk")));
    return ERR_OK;
}

static enum err_kind copy_file(struct deploy *d, const char *path, struct err *err)
{
    char piece[65536];
    FILE *f CLEANUP_FILE = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? ERR_OK : err_sys(err, errno, "%s", path);
    size_t n;
    while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
        (void)fwrite(piece, 1, n, d->out);
    return ERR_OK;
}

enum err_kind look_logs(struct deploy *d, const char *slug, const char *role, struct err *err)
{
    json_t *record CLEANUP_JSON = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    if (open_slug(d, slug, &record, &plan, err))
        return err->kind;
    const char *id = strcmp(role, "gate") == 0 ? plan->gate.id : plan->handler.id;
    if (strcmp(role, "data") == 0 && !plan_has_data(plan))
        return err_set(err, ERR_NOT_FOUND, "%s has no data proxy: its file names no upstreams",
                       slug);
    if (strcmp(role, "data") == 0)
        id = plan->data.id;
    char *before CLEANUP_FREE = xasprintf("%s/logs/%s.log.1", plan->state, id);
    char *now CLEANUP_FREE = xasprintf("%s/logs/%s.log", plan->state, id);
    if (copy_file(d, before, err) || copy_file(d, now, err))
        return err->kind;
    return ERR_OK;
}
