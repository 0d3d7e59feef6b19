#include "deploy/audit_check.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/files.h"
#include "deploy/member.h"
#include "deploy/netns.h"
#include "deploy/network.h"
#include "deploy/proc.h"
#include "deploy/state.h"

void audit_expect(struct audit *a, bool holds, const char *fmt, ...)
{
    a->checks++;
    if (holds)
        return;
    a->drifts++;
    va_list ap;
    char text[600];
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    deploy_say(a->d, "drift     %s: %s", a->plan->slug.s, text);
}

/* A line of /proc/<pid>/status, behind its key; "" where it cannot be read. */
static void status_line(uint32_t pid, const char *key, char *out, size_t size)
{
    char *path CLEANUP_FREE = xasprintf("/proc/%u/status", pid);
    char line[256];
    FILE *f CLEANUP_FILE = fopen(path, "re");
    size_t n = strlen(key);
    out[0] = '\0';
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, n) != 0 || line[n] != ':')
            continue;
        char *value = line + n + 1 + strspn(line + n + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        (void)snprintf(out, size, "%s", value);
        return;
    }
}

/* ---- containers ---- */

static void check_container(struct audit *a, const struct plan_member *m, struct cd_task *task)
{
    struct cd_container found CLEANUP(cd_container_fini) = { 0 };
    *task = (struct cd_task){ 0 };
    bool there = containerd_container_get(a->d->cd, m->id, &found, ERR_IGNORED) == ERR_OK;
    audit_expect(a, there, "%s: no container", m->id);
    if (!there)
        return;
    audit_expect(a, strcmp(found.runtime, m->runtime) == 0, "%s runs under %s, not %s", m->id,
                 found.runtime, m->runtime);
    json_t *spec CLEANUP_JSON = found.spec ? json_deep_copy(found.spec) : json_object();
    json_t *args = json_object_get(json_object_get(spec, "process"), "args");
    for (size_t i = json_array_size(args); i-- > 0;) {
        const char *arg = json_string_value(json_array_get(args, i));
        if (arg && strcmp(arg, "--standby") == 0) /* how a gate that followed another was started */
            json_array_remove(args, i);
    }
    audit_expect(a, json_equal(spec, m->spec), "%s: its spec is not the plan's", m->id);
    (void)!containerd_task_get(a->d->cd, m->id, task, ERR_IGNORED);
    audit_expect(a, task->state == CD_TASK_RUNNING, "%s is %s", m->id,
                 cd_task_state_name(task->state));
}

/* /proc/<pid>/ns/net and the file are one namespace. */
static bool same_namespace(uint32_t pid, const char *file)
{
    char *link CLEANUP_FREE = xasprintf("/proc/%u/ns/net", pid);
    struct stat a, b;
    return stat(link, &a) == 0 && stat(file, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

static void check_namespace(struct audit *a, const struct plan_member *m,
                            const struct cd_task *task)
{
    audit_expect(a, netns_is_there(m->netns), "%s: namespace %s is gone", m->id, m->netns);
    if (task->state == CD_TASK_RUNNING)
        audit_expect(a, same_namespace(task->pid, m->netns), "%s is not in its namespace", m->id);
}

/* A trusted member: its own user, no capabilities, a filter, a root that cannot be written. */
static void check_process(struct audit *a, const struct plan_member *member, uint32_t own,
                          const struct cd_task *task)
{
    char value[128], uid[32];
    const char *id = member->id;
    if (task->state != CD_TASK_RUNNING)
        return;
    (void)snprintf(uid, sizeof(uid), "%u\t%u\t%u\t%u", own, own, own, own);
    status_line(task->pid, "Uid", value, sizeof(value));
    audit_expect(a, strcmp(value, uid) == 0, "%s runs as \"%s\", not as uid %u", id, value, own);
    static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        status_line(task->pid, sets[i], value, sizeof(value));
        audit_expect(a, strspn(value, "0") == strlen(value) && value[0],
                     "%s has capabilities: %s %s", id, sets[i], value);
    }
    status_line(task->pid, "NoNewPrivs", value, sizeof(value));
    audit_expect(a, strcmp(value, "1") == 0, "%s may gain privileges", id);
    status_line(task->pid, "Seccomp", value, sizeof(value));
    audit_expect(a, strcmp(value, "2") == 0, "%s has no system call filter", id);
    audit_mounts(a, member, task->pid);
}

/* ---- limits ---- */

/* The value of a cgroup file of the process: v1's controller path, else v2's. */
static bool cgroup_value(uint32_t pid, const char *controller, const char *v1, const char *v2,
                         int64_t *out)
{
    char *path CLEANUP_FREE = xasprintf("/proc/%u/cgroup", pid);
    char line[1024];
    FILE *f CLEANUP_FILE = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        char *names = strchr(line, ':') ? strchr(line, ':') + 1 : line;
        char *group = strchr(names, ':');
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        bool unified = names[0] == '\0';
        if (!unified && strcmp(names, controller) != 0)
            continue;
        char *file CLEANUP_FREE = unified ? xasprintf("/sys/fs/cgroup%s/%s", group, v2)
                                          : xasprintf("/sys/fs/cgroup/%s%s/%s", names, group, v1);
        FILE *value CLEANUP_FILE = fopen(file, "re");
        long long n;
        if (value && fscanf(value, "%lld", &n) == 1) {
            *out = n;
            return true;
        }
    }
    return false;
}

static void check_limits(struct audit *a, const struct cd_task *task)
{
    int64_t found = 0;
    int64_t memory =
        json_integer_value(json_at(a->plan->handler.spec, "/linux/resources/memory/limit"));
    const char *id = a->plan->handler.id;
    if (task->state != CD_TASK_RUNNING)
        return;
    bool known = cgroup_value(task->pid, "memory", "memory.limit_in_bytes", "memory.max", &found);
    audit_expect(a, known && found == memory,
                 "%s: memory limit in force is %" PRId64 ", not %" PRId64, id, known ? found : -1,
                 memory);
    known = cgroup_value(task->pid, "pids", "pids.max", "pids.max", &found);
    audit_expect(a, known && found > 0, "%s: no limit of processes in force", id);
    known = cgroup_value(task->pid, "cpu,cpuacct", "cpu.cfs_quota_us", "cpu.max", &found) ||
            cgroup_value(task->pid, "cpu", "cpu.cfs_quota_us", "cpu.max", &found);
    int64_t quota =
        json_integer_value(json_at(a->plan->handler.spec, "/linux/resources/cpu/quota"));
    audit_expect(a, known && found == quota, "%s: CPU quota in force is %" PRId64 ", not %" PRId64,
                 id, known ? found : -1, quota);
}

/* ---- network ---- */

static enum err_kind read_forwarding(void *arg, struct err *err)
{
    FILE *f CLEANUP_FILE = fopen("/proc/sys/net/ipv4/ip_forward", "re");
    if (!f || fscanf(f, "%d", (int *)arg) != 1)
        return err_set(err, ERR_INTERNAL, "ip_forward");
    return ERR_OK;
}

static json_t *ip(const char *const argv[])
{
    struct buf text CLEANUP(buf_fini);
    buf_init(&text, 1024 * 1024);
    struct proc proc = { .argv = argv, .timeout_ms = 10000 };
    if (proc_run(&proc, &text, ERR_IGNORED))
        return NULL;
    return json_loadb((const char *)text.data, text.len, 0, NULL);
}

static void check_bridge(struct audit *a)
{
    const struct plan *p = a->plan;
    const char *const address_argv[] = { "ip", "-j", "address", "show", "dev", p->bridge, NULL };
    const char *const link_argv[] = { "ip", "-j", "link", "show", "dev", p->bridge, NULL };
    const char *const port_argv[] = { "ip", "-j", "link", "show", "master", p->bridge, NULL };
    json_t *links CLEANUP_JSON = ip(link_argv);
    json_t *addresses CLEANUP_JSON = ip(address_argv);
    json_t *ports CLEANUP_JSON = ip(port_argv);
    const json_t *link = json_array_get(links, 0);
    char *alias CLEANUP_FREE = xasprintf("utter:%s", p->slug.s);
    char *own CLEANUP_FREE = xasprintf("utter:%s.", p->slug.s);
    const char *found = json_string_value(json_object_get(link, "ifalias"));
    audit_expect(a, link && found && strcmp(found, alias) == 0, "bridge %s is missing or another's",
                 p->bridge);
    audit_expect(
        a, link && json_array_size(json_object_get(json_array_get(addresses, 0), "addr_info")) == 0,
        "bridge %s has an address: the host can be reached over it", p->bridge);
    audit_expect(a, json_array_size(ports) <= 4, "bridge %s has %zu ports", p->bridge,
                 json_array_size(ports));
    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_t *port = json_array_get(ports, i);
        const char *name = json_string_value(json_object_get(port, "ifalias"));
        audit_expect(a, name && text_starts(name, own), "bridge %s has a foreign port %s",
                     p->bridge, json_string_value(json_object_get(port, "ifname")));
    }
}

static void check_network(struct audit *a)
{
    int forwarding = 1;
    bool in_force = false;
    json_t *bridges CLEANUP_JSON = NULL;
    check_bridge(a);
    audit_expect(a,
                 netns_within(a->plan->gate.netns, read_forwarding, &forwarding, ERR_IGNORED) ==
                         ERR_OK &&
                     forwarding == 0,
                 "the gate's namespace forwards: the handler can be reached through it");
    audit_expect(a,
                 state_bridges(a->d->settings, &bridges, ERR_IGNORED) == ERR_OK &&
                     firewall_check(a->d->settings, bridges, &in_force, ERR_IGNORED) == ERR_OK &&
                     in_force,
                 "the firewall rules are not in force (utter-deploy watch puts them back)");
}

/* ---- route ---- */

static void check_route(struct audit *a)
{
    struct err err = { 0 };
    const char *dir = a->d->settings->traefik_dir;
    char *instance CLEANUP_FREE = NULL;
    audit_expect(a, realise_gate_alive(a->plan, &instance, &err) == ERR_OK, "gate: %s", err.msg);
    if (dir) {
        char *path CLEANUP_FREE = xasprintf("%s/utter-%s.yaml", dir, a->plan->slug.s);
        json_t *found CLEANUP_JSON = NULL;
        (void)!json_strict_load_file(path, 1024 * 1024, &found, ERR_IGNORED);
        audit_expect(a, json_equal(found, a->plan->route), "route %s is not the plan's", path);
    }
    if (instance && (dir || a->d->settings->route_listen))
        audit_expect(a, realise_route_alive(a->d, a->plan, instance, 500, &err) == ERR_OK,
                     "route: %s", err.msg);
}

static void check_config(struct audit *a)
{
    char *path CLEANUP_FREE =
        xasprintf("%s/gate%s/gate.json", a->plan->state, a->plan->side ? "2" : "");
    json_t *found CLEANUP_JSON = NULL;
    (void)!json_strict_load_file(path, 1024 * 1024, &found, ERR_IGNORED);
    audit_expect(a, json_equal(found, a->plan->gate_config), "%s is not the plan's", path);
}

static enum err_kind audit_one(struct deploy *d, const char *slug, bool live, unsigned *drifts,
                               struct err *err)
{
    json_t *record CLEANUP_JSON = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    struct cd_task handler, gate;
    if (state_load(d->settings, slug, &record, err) || plan_load(record, &plan, err))
        return err->kind;
    const char *phase = json_string_value(json_object_get(record, "phase"));
    if (phase && strcmp(phase, "down") == 0)
        return ERR_OK;
    struct audit a = { .d = d, .plan = plan };
    audit_expect(&a, phase && strcmp(phase, "up") == 0, "phase is %s", phase ? phase : "unknown");
    check_container(&a, &plan->handler, &handler);
    check_container(&a, &plan->gate, &gate);
    check_namespace(&a, &plan->handler, &handler);
    check_namespace(&a, &plan->gate, &gate);
    check_process(&a, &plan->gate, plan->uid, &gate);
    if (plan_has_data(plan)) {
        struct cd_task data;
        check_container(&a, &plan->data, &data);
        check_namespace(&a, &plan->data, &data);
        check_process(&a, &plan->data, plan->data_uid, &data);
        audit_data(&a, data.state == CD_TASK_RUNNING);
    }
    check_limits(&a, &handler);
    check_network(&a);
    check_config(&a);
    check_route(&a);
    if (live)
        audit_live(&a);
    deploy_say(d, "audit     %s: %u checks, %u drifts", slug, a.checks, a.drifts);
    *drifts += a.drifts;
    return ERR_OK;
}

enum err_kind audit_run(struct deploy *d, const char *slug, bool live, struct err *err)
{
    json_t *slugs CLEANUP_JSON = NULL;
    unsigned drifts = 0;
    if (slug) {
        if (audit_one(d, slug, live, &drifts, err))
            return err->kind;
    } else {
        if (state_slugs(d->settings, &slugs, err))
            return err->kind;
        for (size_t i = 0; i < json_array_size(slugs); i++) {
            if (audit_one(d, json_string_value(json_array_get(slugs, i)), live, &drifts, err))
                return err->kind;
        }
    }
    if (drifts)
        return err_set(err, ERR_PRECONDITION, "%u drifts from the plan", drifts);
    return ERR_OK;
}
