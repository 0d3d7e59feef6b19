/*
 * Start of a container's first process.
 *
 * The sandbox may have exited before runsc's start returns; the exit is then held back until the
 * start has been told, so that no status and no order is lost.
 */
#include "base/log.h"
#include "shim/console.h"
#include "shim/task.h"
#include "shim/task_network.h"

static void start_failed(struct task *task, const struct err *why)
{
    log_warn("start_failed", log_str("id", task->id), log_str("why", why->msg));
    bool root = task->role != POLICY_ROLE_WORKLOAD;
    if (root)
        sandbox_kill(task->sandbox);
    task_end(task, why);
    if (task->gone_pending) {
        task->gone_pending = false;
        task_on_sandbox_gone(task->shim);
    }
}

static void started(struct task *task)
{
    struct err err = { 0 };
    if (task_step(&task->process.state, TASK_START, &err)) {
        task_end(task, &err);
        return;
    }
    task->process.pid = (uint32_t)task->sandbox->pid;
    events_start(task->shim->events, task->id, task->process.pid);
    log_info("task_started", log_str("id", task->id), log_int("pid", task->process.pid));
    task_arm_timeout(task);
    task_end(task, &err);
    if (task->gone_pending) {
        task->gone_pending = false;
        task_on_sandbox_gone(task->shim);
        return;
    }
    task_wait_began(task);
}

static void on_runsc_start(void *arg, const struct err *err)
{
    struct task *task = arg;
    if (task->role == POLICY_ROLE_WORKLOAD)
        streams_handed_over(task->process.streams);
    struct err why = *err;
    if (!why.kind && !task->shim->conformance && sandbox_alive(task->sandbox) &&
        sandbox_verify_started(task->sandbox, &why))
        (void)err_prefix(&why, "verification");
    if (why.kind)
        start_failed(task, &why);
    else
        started(task);
}

static struct runsc_call start_call(const struct task *task, const char *verb[3])
{
    const struct sandbox *sandbox = task->sandbox;
    verb[0] = "start";
    verb[1] = task->id;
    verb[2] = NULL;
    return (struct runsc_call){
        .verb = verb,
        .fds = { -1, -1, -1 },
        .deadline_ms = RUNSC_LONG_MS,
        .start_mask = sandbox->runsc.network_sandbox && sandbox->binary->class == RUNSC_COMPAT,
    };
}

void task_start_ahead(struct task *task)
{
    struct err err = { 0 };
    const char *verb[3];
    if (task->role == POLICY_ROLE_WORKLOAD)
        return; /* its streams are handed over at its start */
    struct runsc_call call = start_call(task, verb);
    if (runsc_hold(&task->sandbox->runsc, &call, &task->start_held, &err))
        log_debug("start_ahead", log_str("id", task->id), log_str("why", err.msg));
}

static CHECKED enum err_kind run_start(struct task *task, struct err *err)
{
    struct sandbox *sandbox = task->sandbox;
    if (!sandbox_alive(sandbox))
        return err_set(err, ERR_PRECONDITION, "the sandbox has exited");
    bool root = task->role != POLICY_ROLE_WORKLOAD;
    enum err_kind kind = ERR_OK;
    if (root && !task->shim->conformance && (kind = task_network_close(task, err)))
        return kind;
    struct runsc_held *held = STEAL(task->start_held);
    if (held && runsc_release(held, on_runsc_start, task))
        return ERR_OK;
    const char *verb[3];
    struct runsc_call call = start_call(task, verb);
    if (!root)
        streams_child_fds(task->process.streams, call.fds);
    return runsc_start(&sandbox->runsc, &call, on_runsc_start, task, err);
}

void task_start(struct task *task, task_done_fn *done, void *arg)
{
    struct err err = { 0 };
    if (task_may(task->process.state, TASK_START, &err) ||
        task_begin(task, "start", done, arg, &err)) {
        done(arg, &err);
        return;
    }
    if (run_start(task, &err))
        start_failed(task, &err);
}
