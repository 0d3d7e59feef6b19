/*
 * Create: read → judge → harden → look at the host → mount → write the canonical spec → runsc
 * create → verify. Whatever fails, everything that was made is taken away again before the answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "shim/binds.h"
#include "shim/cgroup_parents.h"
#include "shim/console.h"
#include "shim/procinfo.h"
#include "shim/task.h"
#include "shim/task_judge.h"
#include "shim/task_network.h"

/* What is needed only while a create is under way. */
struct creation {
    const struct task_create_request *request;
    int parents; /* held: nobody removes the cgroup's parents now; -1 */
    struct err failure;
};

static void fail(struct task *task, const struct err *why);

/* ---- steps that only read ------------------------------------------------------------------- */

static CHECKED enum err_kind
check_request(const struct shim *shim, const struct task_create_request *request, struct err *err)
{
    if (task_find(shim, request->id))
        return err_set(err, ERR_EXISTS, "task %s", request->id);
    if (request->checkpoint)
        return err_set(err, ERR_UNSUPPORTED, "restoring from a checkpoint is not offered");
    return ERR_OK;
}

static struct task *task_new(struct shim *shim, const struct task_create_request *request)
{
    struct task *task = xcalloc(1, sizeof(*task));
    task->shim = shim;
    task->id = xstrdup(request->id);
    task->netns_fd = -1;
    task->log_fd = -1;
    process_init(&task->process, &request->streams);
    task->creation = xcalloc(1, sizeof(*task->creation));
    task->creation->request = request;
    task->creation->parents = -1;
    task->next = shim->tasks;
    shim->tasks = task;
    return task;
}

/* ---- steps that make something ----------------------------------------------------------------
 */

static CHECKED enum err_kind save_state(struct task *task, struct err *err)
{
    const struct shim *shim = task->shim;
    const struct sandbox *sandbox = task->sandbox;
    static const char *const ROLES[] = {
        [POLICY_ROLE_AUTO] = "single",
        [POLICY_ROLE_SINGLE] = "single",
        [POLICY_ROLE_PAUSE] = "pause",
        [POLICY_ROLE_WORKLOAD] = "workload",
    };
    char role[16];
    (void)snprintf(role, sizeof(role), "%s", ROLES[task->role]);
    const struct cgroup_path *leaf =
        task->role == POLICY_ROLE_WORKLOAD ? &task->leaf : &sandbox->cgroup_path;
    struct bundle_state state = {
        .ns = (char *)(uintptr_t)shim->ns,
        .id = task->id,
        .group = (char *)(uintptr_t)shim->group,
        .role = role,
        .run_dir = (char *)(uintptr_t)shim->run_dir,
        .socket = (char *)(uintptr_t)shim->socket,
        .runsc = sandbox->binary->path,
        .cgroup = (char *)(uintptr_t)leaf->path,
        .cgroup_keep = (int64_t)leaf->keep_len,
        .cgroup_systemd = leaf->systemd,
        .network_sandbox = sandbox->runsc.network_sandbox,
        .pid = sandbox->pid,
        .start_ticks = (int64_t)sandbox->start_ticks,
        .exit_code = -1,
    };
    struct procinfo self;
    if (procinfo_read("/proc", getpid(), &self, err) == ERR_OK) {
        state.shim_pid = self.pid;
        state.shim_ticks = (int64_t)self.start_ticks;
    }
    return bundle_state_save(task->bundle.path, &state, err);
}

static CHECKED enum err_kind claim_cgroup(struct task *task, struct err *err)
{
    const char *path = json_string_value(json_at(task->spec, "/linux/cgroupsPath"));
    struct sandbox *sandbox = task->sandbox;
    struct cgroup_path parsed;
    enum err_kind kind = cgroup_path_parse(path ? path : "", &parsed, err);
    if (kind)
        return err_prefix(err, "cgroups-path");
    if ((kind = cgroup_parents_hold(BUNDLE_LOCKS, &task->creation->parents, err)))
        return kind;
    if (task->role == POLICY_ROLE_WORKLOAD) {
        /* runsc makes an empty one; limits are the pod's */
        if ((kind = cgroup_claim(sandbox->cgroups, &parsed, err)))
            return err_prefix(err, "cgroups-path");
        task->leaf = parsed;
        task->leaf_claimed = true;
        cgroup_parents_note(BUNDLE_LOCKS, &task->leaf);
        return ERR_OK;
    }
    sandbox->cgroup_path = parsed;
    if ((kind = cgroup_lock(BUNDLE_LOCKS, &parsed, &sandbox->cgroup_lock, err)))
        return err_prefix(err, "cgroups-path");
    if ((kind = cgroup_claim(sandbox->cgroups, &sandbox->cgroup_path, err)))
        return err_prefix(err, "cgroups-path");
    cgroup_parents_note(BUNDLE_LOCKS, &sandbox->cgroup_path);
    sandbox->cgroup_claimed = true;
    sandbox->runsc.systemd_cgroup = parsed.systemd;
    return ERR_OK;
}

static CHECKED enum err_kind make_dirs(struct task *task, struct err *err)
{
    const struct sandbox *sandbox = task->sandbox;
    const char *dirs[] = { BUNDLE_RUN, task->shim->run_dir, sandbox->runsc.root,
                           sandbox->runsc.log_dir, task->bundle.private_dir };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        enum err_kind kind = fs_mkdirs(dirs[i], 0700, err);
        if (kind)
            return kind;
    }
    return fs_root_only(task->shim->run_dir, err);
}

static CHECKED enum err_kind mount_all(struct task *task, struct err *err)
{
    const struct task_create_request *request = task->creation->request;
    struct rootfs_roots roots = {
        .containerd_root = task->bundle.containerd_root,
        .further = task->shim->config->snapshotter_roots,
    };
    if (mkdir(task->bundle.rootfs, 0711) != 0 && errno != EEXIST)
        return err_sys(err, errno, "%s", task->bundle.rootfs);
    enum err_kind kind =
        rootfs_mount(request->rootfs, request->n_rootfs, &roots, task->bundle.rootfs, err);
    if (kind)
        return kind;
    return binds_mount(task->spec, &task->plan, task->bundle.private_dir, &task->log_fd, err);
}

static CHECKED enum err_kind write_spec(struct task *task, struct err *err)
{
    json_t *root = json_object_get(task->spec, "root");
    (void)json_object_set_new(root, "path", json_string(task->bundle.rootfs));
    char *text CLEANUP_FREE = json_canonical(task->spec);
    char *path CLEANUP_FREE = xasprintf("%s/config.json", task->bundle.private_dir);
    enum err_kind kind = fs_write(path, text, strlen(text), 0600, false, err);
    /* The profile is the largest part by far, and nothing needs it from here on. */
    (void)json_object_del(json_object_get(task->spec, "linux"), "seccomp");
    (void)json_object_del(json_object_get(task->asked, "linux"), "seccomp");
    return kind;
}

static void on_console(void *arg, int master)
{
    struct task *task = arg;
    struct err err = { 0 };
    if (!task->process.streams) {
        (void)close(master);
        return;
    }
    if (streams_take_console(task->process.streams, master, &err))
        log_error("console", log_str("id", task->id), log_str("why", err.msg));
}

static CHECKED enum err_kind open_streams(struct task *task, struct err *err)
{
    struct streams_env env;
    task_streams_env(task, &env);
    enum err_kind kind =
        streams_open(&env, &task->creation->request->streams, &task->process.streams, err);
    if (kind || !task->process.terminal)
        return kind;
    char *path CLEANUP_FREE = xasprintf("%s/tty-%.40s", task->shim->run_dir, task->id);
    return console_new(task->shim->loop, path, on_console, task, &task->console, err);
}

/* ---- runsc create and what follows ------------------------------------------------------------
 */

static void finish(struct task *task)
{
    struct creation *creation = STEAL(task->creation);
    const struct task_create_request *request = creation->request;
    struct event_mount *mounts CLEANUP_FREE = xcalloc(request->n_rootfs + 1, sizeof(*mounts));
    for (size_t i = 0; i < request->n_rootfs; i++)
        mounts[i] = (struct event_mount){
            .type = request->rootfs[i].type,
            .source = request->rootfs[i].source,
            .target = request->rootfs[i].target,
            .options = request->rootfs[i].options,
            .n_options = request->rootfs[i].n_options,
        };
    struct event_io io = { .in = task->process.in,
                           .out = task->process.out,
                           .err = task->process.err,
                           .terminal = task->process.terminal };
    task->process.pid = (uint32_t)task->sandbox->pid;
    events_create(task->shim->events, task->id, task->bundle.path, mounts, request->n_rootfs, &io,
                  task->process.pid);
    log_info("task_created", log_str("id", task->id), log_int("pid", task->process.pid),
             log_str("runsc", task->sandbox->binary->version));
    free(creation);
    (void)malloc_trim(0);
    struct err ok = { 0 };
    task_end(task, &ok);
}

static CHECKED enum err_kind verify(struct task *task, struct err *err)
{
    if (task->role != POLICY_ROLE_WORKLOAD) {
        enum err_kind kind =
            task->shim->conformance ? ERR_OK : sandbox_verify_created(task->sandbox, err);
        if (kind)
            return err_prefix(err, "verification");
        if (!task->shim->conformance && (kind = task_network_verify(task, err)))
            return kind;
    }
    return save_state(task, err);
}

static void on_identified(void *arg, const struct control_reply *reply)
{
    struct task *task = arg;
    struct err err = { 0 };
    if (reply->outcome != CONTROL_OK) {
        (void)err_set(&err, ERR_PRECONDITION,
                      "runsc: what was started does not answer as a gVisor Sentry: %s",
                      reply->err.msg);
        fail(task, &err);
        return;
    }
    if (verify(task, &err))
        fail(task, &err);
    else
        finish(task);
}

static void on_streams_ready(void *arg, const struct err *err)
{
    struct task *task = arg;
    if (err->kind) {
        fail(task, err);
        return;
    }
    task->wait_conn = control_conn_new(task->sandbox->control);
    control_identify(task->wait_conn, task->id, on_identified, task);
}

static void let_parents_go(struct creation *creation)
{
    if (creation->parents >= 0)
        (void)close(steal_fd(&creation->parents));
}

static void on_runsc_create(void *arg, const struct err *err)
{
    struct task *task = arg;
    let_parents_go(task->creation);
    struct err why = *err;
    if (task->role != POLICY_ROLE_WORKLOAD)
        streams_handed_over(task->process.streams);
    /* Also after a failure: what is left of it must be found to be killed. */
    struct err adopt = { 0 };
    if (task->role != POLICY_ROLE_WORKLOAD &&
        sandbox_adopt(task->sandbox, task_on_sandbox_gone, task->shim, &adopt) && !why.kind)
        why = adopt;
    if (why.kind)
        fail(task, &why);
    else
        streams_when_ready(task->process.streams, on_streams_ready, task);
}

static CHECKED enum err_kind run_create(struct task *task, struct err *err)
{
    struct runsc_call call = { .fds = { -1, -1, -1 }, .deadline_ms = RUNSC_LONG_MS };
    const char *verb[8] = { "create", "--bundle", task->bundle.private_dir };
    size_t n = 3;
    if (task->console) {
        verb[n++] = "--console-socket";
        verb[n++] = console_path(task->console);
    }
    verb[n++] = task->id;
    call.verb = verb;
    /* A workload's are used at its start; its create gets them for want of anything else. */
    streams_child_fds(task->process.streams, call.fds);
    task->runsc_knows = true;
    enum err_kind kind = runsc_start(&task->sandbox->runsc, &call, on_runsc_create, task, err);
    if (!kind)
        task_start_ahead(task);
    return kind;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static CHECKED enum err_kind judge(struct task *task, struct err *err)
{
    return task_judge(task, task->creation->request, err);
}

/* What the host showed is told in the policy's words. */
static enum err_kind as_refusal(struct err *err)
{
    bool refusal = err->kind == ERR_PRECONDITION || err->kind == ERR_INVALID;
    if (refusal && !text_starts(err->msg, "utter: "))
        (void)err_prefix(err, "utter: refused");
    return err->kind;
}

static CHECKED enum err_kind prepare(struct task *task, struct err *err)
{
    static enum err_kind (*const STEPS[])(struct task * task, struct err * err) = {
        judge,     task_network_prepare, claim_cgroup, make_dirs,  save_state,
        mount_all, write_spec,           open_streams, run_create,
    };
    for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
        enum err_kind kind = STEPS[i](task, err);
        if (kind)
            return as_refusal(err);
    }
    return ERR_OK;
}

static void on_undone(void *arg, const struct err *err)
{
    struct task *task = arg;
    if (err->kind)
        log_error("create_cleanup", log_str("id", task->id), log_str("why", err->msg));
    struct err why = task->creation->failure;
    log_warn("create_failed", log_str("id", task->id), log_str("why", why.msg));
    free(STEAL(task->creation));
    task_end(task, &why);
    task_free(task);
}

static void fail(struct task *task, const struct err *why)
{
    let_parents_go(task->creation);
    task->creation->failure = *why;
    task_teardown(task, on_undone, task);
}

void task_create(struct shim *shim, const struct task_create_request *request, task_done_fn *done,
                 void *arg)
{
    struct err err = { 0 };
    if (check_request(shim, request, &err)) {
        done(arg, &err);
        return;
    }
    struct task *task = task_new(shim, request);
    if (task_begin(task, "create", done, arg, &err) || prepare(task, &err))
        fail(task, &err);
}
