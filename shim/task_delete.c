/*
 * Taking a container off the host, after its end or after a create that failed: sandbox, runsc's
 * record, cgroup, mounts, files, in this order. Every step is tried whatever came before; the first
 * failure is told.
 */
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "shim/binds.h"
#include "shim/cgroup_parents.h"
#include "shim/task.h"

#define GONE_MS 5000U

struct teardown {
    task_done_fn *done;
    void *arg;
    struct err first;
    bool waiting; /* for the sandbox to be gone */
    struct loop_timer timer;
};

static void note(struct task *task, enum err_kind kind, const struct err *err)
{
    if (!kind)
        return;
    log_warn("teardown", log_str("id", task->id), log_str("why", err->msg));
    if (!task->teardown->first.kind)
        task->teardown->first = *err;
}

static void remove_leaf(struct task *task, struct cgroup_path *path)
{
    struct shim *shim = task->shim;
    struct err err = { 0 };
    enum err_kind kind = cgroup_parents_remove(BUNDLE_LOCKS, shim->cgroups, path, &err);
    if (kind == ERR_PRECONDITION) {
        /* Something of the sandbox outlived it: nothing else was ever in this leaf. */
        struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(shim->cgroups, path->path);
        kind = set ? cgroup_kill(set, &err) : kind;
        if (!kind)
            kind = cgroup_parents_remove(BUNDLE_LOCKS, shim->cgroups, path, &err);
    }
    note(task, kind, &err);
}

/* A workload's leaf stays where its sandbox died before runsc could remove it. */
static void remove_cgroup(struct task *task)
{
    struct sandbox *sandbox = task->sandbox;
    if (task->leaf_claimed)
        remove_leaf(task, &task->leaf);
    task->leaf_claimed = false;
    if (task->role == POLICY_ROLE_WORKLOAD || !sandbox || !sandbox->cgroup_claimed)
        return;
    remove_leaf(task, &sandbox->cgroup_path);
    sandbox->cgroup_claimed = false;
}

static void remove_files(struct task *task)
{
    struct err err = { 0 };
    if (!task->bundle.path)
        return;
    note(task, binds_unmount(task->bundle.private_dir, &err), &err);
    note(task, rootfs_unmount(task->bundle.rootfs, &err), &err);
    note(task, fs_remove_tree(task->bundle.private_dir, &err), &err);
}

/* With the root container goes the sandbox. */
static void remove_sandbox(struct task *task)
{
    struct shim *shim = task->shim;
    if (task->role == POLICY_ROLE_WORKLOAD || !task->sandbox)
        return;
    struct err err = { 0 };
    note(task, fs_remove_tree(shim->run_dir, &err), &err);
    control_conn_free(STEAL(task->wait_conn));
    for (struct task *t = shim->tasks; t; t = t->next)
        if (t->sandbox == task->sandbox && t != task)
            control_conn_free(STEAL(t->wait_conn));
}

static void finish(struct task *task)
{
    remove_cgroup(task);
    remove_sandbox(task);
    remove_files(task);
    struct teardown *teardown = STEAL(task->teardown);
    struct sandbox *sandbox = task->sandbox;
    bool root = task->role != POLICY_ROLE_WORKLOAD;
    struct shim *shim = task->shim;
    if (root && sandbox && shim->sandbox == sandbox)
        shim->sandbox = NULL;
    for (struct task *t = shim->tasks; root && t; t = t->next)
        if (t->sandbox == sandbox)
            t->sandbox = NULL;
    teardown->done(teardown->arg, &teardown->first);
    if (root)
        sandbox_free(sandbox);
    free(teardown);
}

static void on_runsc_delete(void *arg, const struct err *err)
{
    struct task *task = arg;
    if (err->kind != ERR_NOT_FOUND)
        note(task, err->kind, err);
    finish(task);
}

static void run_delete(struct task *task)
{
    if (!task->sandbox || !task->runsc_knows) {
        finish(task);
        return;
    }
    const char *verb[] = { "delete", "--force", task->id, NULL };
    struct runsc_call call = { .verb = verb, .fds = { -1, -1, -1 }, .deadline_ms = RUNSC_SHORT_MS };
    struct err err = { 0 };
    if (runsc_start(&task->sandbox->runsc, &call, on_runsc_delete, task, &err)) {
        note(task, err.kind, &err);
        finish(task);
    }
}

static void on_not_gone(struct loop_timer *timer)
{
    struct task *task = timer->arg;
    struct err err = { 0 };
    (void)err_set(&err, ERR_TIMEOUT, "sandbox process %d does not die", (int)task->sandbox->pid);
    note(task, err.kind, &err);
    task->teardown->waiting = false;
    run_delete(task);
}

void task_teardown_sandbox_gone(struct shim *shim)
{
    for (struct task *t = shim->tasks; t; t = t->next) {
        if (!t->teardown || !t->teardown->waiting)
            continue;
        t->teardown->waiting = false;
        loop_cancel(&t->teardown->timer);
        run_delete(t);
        return; /* only a root container waits */
    }
}

void task_teardown(struct task *task, task_done_fn *done, void *arg)
{
    task->teardown = xcalloc(1, sizeof(*task->teardown));
    task->teardown->done = done;
    task->teardown->arg = arg;
    struct sandbox *sandbox = task->sandbox;
    bool root = task->role != POLICY_ROLE_WORKLOAD;
    runsc_held_free(STEAL(task->start_held));
    if (root && sandbox && sandbox->pid != 0 && !sandbox->gone) {
        task->teardown->waiting = true;
        loop_after(task->shim->loop, &task->teardown->timer, GONE_MS, on_not_gone, task);
        control_conn_free(STEAL(task->wait_conn));
        sandbox_kill(sandbox);
        return;
    }
    run_delete(task);
}

static void on_deleted(void *arg, const struct err *err)
{
    struct task *task = arg;
    struct err ok = { 0 };
    (void)err; /* logged; the container is gone from runsc's view, and delete by hand repeats it */
    struct err step = { 0 };
    if (!task->process.exit.known)
        (void)process_exited(&task->process, 137);
    if (task_step(&task->process.state, TASK_DELETE, &step))
        log_error("delete", log_str("id", task->id), log_str("why", step.msg));
    events_delete(task->shim->events, task->id, NULL, task->process.pid, task->process.exit.code,
                  task->process.exit.at);
    log_info("task_deleted", log_str("id", task->id));
    task_end(task, &ok);
    task_free(task);
}

void task_delete(struct task *task, task_done_fn *done, void *arg)
{
    struct err err = { 0 };
    if (task_may(task->process.state, TASK_DELETE, &err) ||
        task_begin(task, "delete", done, arg, &err)) {
        done(arg, &err);
        return;
    }
    task_teardown(task, on_deleted, task);
}
