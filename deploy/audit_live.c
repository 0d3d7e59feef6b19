#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/audit_check.h"
#include "deploy/image.h"
#include "deploy/member.h"
#include "deploy/network.h"
#include "deploy/pause.h"
#include "deploy/probe.h"
#include "deploy/state.h"

#define RUN_MS 30000
#define LOG_MAX 65536
#define PROGRAM_MAX (16L << 20)

/* Made once per content of the program. */
static enum err_kind find_image(struct deploy *d, struct image **out, struct err *err)
{
    char digest[DIGEST_SIZE];
    char *bytes CLEANUP_FREE = NULL;
    size_t len = 0;
    char *program CLEANUP_FREE = deploy_beside("utter-probe");
    if (fs_read(program, PROGRAM_MAX, &bytes, &len, err))
        return err_prefix(err, "%s", program);
    digest_of(bytes, len, digest);
    char *name CLEANUP_FREE = xasprintf("utter.local/probe:%.12s", digest + 7);
    enum err_kind kind = image_find(d->cd, name, out, err);
    if (kind != ERR_NOT_FOUND)
        return kind;
    json_t *args CLEANUP_JSON = json_pack("[s]", "/usr/bin/utter-probe");
    return image_of_program(d->cd, program, name, args, d->settings->snapshotter, out, err);
}

/* The handler's next generation as the probe's place: its own id and namespace, all else the same.
 */
static enum err_kind make_place(struct audit *a, struct plan **out, struct err *err)
{
    json_t *record CLEANUP_JSON = plan_record(a->plan);
    struct plan *place CLEANUP(plan_freep) = NULL;
    if (plan_load(record, &place, err) || plan_advance(place, a->d->settings, err))
        return err->kind;
    struct plan_member *m = &place->handler;
    (void)snprintf(m->id, sizeof(m->id), "%s.probe", a->plan->slug.s);
    free(m->netns);
    m->netns = xasprintf("%s/netns/%s", a->d->settings->run_dir, m->id);
    *out = STEAL(place);
    return ERR_OK;
}

/* "what 1.2.3.4:5" → "1.2.3.4:5" */
static const char *pair_of(const struct reach_target *target)
{
    const char *space = strrchr(target->name, ' ');
    return space ? space + 1 : target->name;
}

static void make_spec(const struct audit *a, struct plan_member *m, const struct reach *reach)
{
    json_t *process = json_object_get(m->spec, "process");
    json_t *args = json_pack("[s]", "/usr/bin/utter-probe");
    for (size_t i = 0; i < reach->n; i++)
        json_array_append_new(args, json_string(pair_of(&reach->targets[i])));
    json_object_set_new(process, "args", args);
    json_object_set_new(process, "env", json_pack("[s]", "PATH=/usr/bin"));
    json_object_set_new(process, "cwd", json_string("/"));
    json_t *linux_part = json_object_get(m->spec, "linux");
    json_object_set_new(linux_part, "cgroupsPath",
                        json_sprintf("/%s/%s", a->d->settings->ns, m->id));
    json_t *namespaces = json_object_get(linux_part, "namespaces");
    for (size_t i = 0; i < json_array_size(namespaces); i++) {
        json_t *ns = json_array_get(namespaces, i);
        const char *type = json_string_value(json_object_get(ns, "type"));
        if (type && strcmp(type, "network") == 0)
            json_object_set_new(ns, "path", json_string(m->netns));
    }
    json_object_set_new(json_object_get(m->spec, "annotations"), "io.utter.timeout",
                        json_string("60"));
}

/* What it printed, once its last line is there. */
static enum err_kind read_log(const char *path, char **out, struct err *err)
{
    for (int waited = 0; waited < 5000; waited += 20) {
        free(*out);
        *out = NULL;
        if (fs_read(path, LOG_MAX, out, NULL, ERR_IGNORED) == ERR_OK && strstr(*out, "end\n"))
            return ERR_OK;
        pause_ms(20);
    }
    return err_set(err, ERR_INTERNAL, "the probe told nothing%s%.200s", *out && **out ? ": " : "",
                   *out ? *out : "");
}

static enum err_kind run_probe(struct audit *a, const struct plan *place, const char *log,
                               char **out, struct err *err)
{
    uint32_t status = 0;
    const struct plan_member *m = &place->handler;
    (void)unlink(log);
    if (member_start(a->d->cd, place, m, "probe", NULL, err))
        return err->kind;
    enum err_kind kind = containerd_task_wait(a->d->cd, m->id, RUN_MS, &status, err);
    if (!kind)
        kind = read_log(log, out, err);
    if (!kind && status != 0)
        kind = err_set(err, ERR_INTERNAL, "the probe ended with status %u", status);
    if (member_end(a->d->cd, m->id, 0, kind ? ERR_IGNORED : err) && !kind)
        kind = err->kind;
    return kind;
}

/* "<word> <rest>": whether such a line is there. */
static bool has_line(const char *text, const char *word, const char *rest)
{
    char *line CLEANUP_FREE = xasprintf("%s %s\n", word, rest);
    const char *at = strstr(text, line);
    return at && (at == text || at[-1] == '\n');
}

static void judge_reach(struct audit *a, const struct probe *p, const char *text)
{
    for (size_t i = 0; i < p->reach.n; i++) {
        const struct reach_target *t = &p->reach.targets[i];
        if (i >= p->control)
            audit_expect(a, has_line(text, "connected", pair_of(t)),
                         "from inside, %s cannot be reached", t->name);
        else
            audit_expect(a, has_line(text, "silent", pair_of(t)), "from inside, %s can be reached",
                         t->name);
    }
}

static void judge_self(struct audit *a, const struct plan_member *m, const char *text)
{
    struct utsname names;
    char uid[24];
    (void)snprintf(uid, sizeof(uid), "%lld",
                   (long long)json_integer_value(json_at(m->spec, "/process/user/uid")));
    audit_expect(a, has_line(text, "uid", uid), "inside, it does not run as uid %s", uid);
    audit_expect(a, has_line(text, "capabilities", "0000000000000000"),
                 "inside, it has capabilities");
    audit_expect(a, has_line(text, "nonewprivs", "1"), "inside, it may gain privileges");
    audit_expect(a, uname(&names) == 0 && !has_line(text, "kernel", names.release),
                 "inside, it sees this host's own kernel: it is not under gVisor");
    for (const char *at = text; (at = strstr(at, "interface ")); at++) {
        size_t n = strcspn(at + 10, "\n");
        bool known = (n == 2 && strncmp(at + 10, "lo", 2) == 0) ||
                     (n == 4 && strncmp(at + 10, "eth0", 4) == 0);
        audit_expect(a, known, "inside, there is an interface %.*s", (int)n, at + 10);
    }
    for (const char *at = text; (at = strstr(at, "writable ")); at++) {
        size_t n = strcspn(at + 9, "\n");
        bool known = (n == 4 && strncmp(at + 9, "/tmp", 4) == 0) ||
                     (n == 8 && strncmp(at + 9, "/dev/shm", 8) == 0) ||
                     (n == 4 && strncmp(at + 9, "/run", 4) == 0);
        audit_expect(a, known, "inside, %.*s is writable", (int)n, at + 9);
    }
    audit_expect(a, has_line(text, "writable", "/tmp"), "inside, /tmp is not writable");
}

static enum err_kind look(struct audit *a, struct plan *place, struct err *err)
{
    struct probe p CLEANUP(probe_fini) = { .host = -1, .control_fd = -1 };
    struct image *image CLEANUP(image_freep) = NULL;
    json_t *others CLEANUP_JSON = NULL;
    char *text CLEANUP_FREE = NULL;
    struct plan_member *m = &place->handler;
    char *log CLEANUP_FREE = xasprintf("%s/logs/%s.log", a->plan->state, m->id);
    if (find_image(a->d, &image, err) || realise_others(a->d, a->plan, &others, err) ||
        network_attach(place, m, a->d->settings, err) ||
        probe_open(place, a->d->settings, others, &p, err))
        return err->kind;
    if (plan_has_data(place))
        (void)reach_add(&p.reach, "its data proxy", plan_ip(place->data.address).s, PLAN_DATA_PORT);
    free(m->image);
    m->image = xstrdup(image->name);
    make_spec(a, m, &p.reach);
    enum err_kind kind = run_probe(a, place, log, &text, err);
    (void)unlink(log);
    if (kind)
        return kind;
    judge_reach(a, &p, text);
    judge_self(a, m, text);
    return ERR_OK;
}

void audit_live(struct audit *a)
{
    struct err err = { 0 };
    int lock CLEANUP_FD = -1;
    struct plan *place CLEANUP(plan_freep) = NULL;
    /* The address is the next generation's: nobody may make one meanwhile. */
    enum err_kind kind = state_lock_slug(a->d->settings, &a->plan->slug, &lock, &err);
    if (!kind)
        kind = make_place(a, &place, &err);
    if (kind) {
        audit_expect(a, false, "live: %s", err.msg);
        return;
    }
    audit_expect(a, look(a, place, &err) == ERR_OK, "live: %s", err.msg);
    audit_expect(a, member_end(a->d->cd, place->handler.id, 0, &err) == ERR_OK, "live: %s",
                 err.msg);
    audit_expect(a, network_detach(place, &place->handler, a->d->settings, &err) == ERR_OK,
                 "live: %s", err.msg);
}
