/*
 * How processes end: by their own word over the control socket, with their sandbox, or at their
 * timeout. Every way leads through task_exited() or exec_exited().
 */
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "shim/task.h"

#define LINGER_MS 3000U
#define LOG_WATCH_MS 500U
#define EXIT_TIMEOUT 124U
#define EXIT_KILLED 137U

void exec_exited(struct exec *exec, uint32_t code)
{
    struct task *task = exec->task;
    bool started = exec->process.state != TASK_CREATED;
    if (!process_exited(&exec->process, code))
        return;
    control_conn_free(STEAL(exec->conn));
    if (exec->starting) {
        struct err gone = { 0 };
        (void)err_set(&gone, ERR_UNAVAILABLE, "the container has exited");
        exec_start_end(exec, &gone);
    }
    if (started)
        events_exit(task->shim->events, task->id, exec->id, exec->process.pid, code,
                    exec->process.exit.at);
    log_info("exec_exited", log_str("id", task->id), log_str("exec", exec->id),
             log_int("status", code));
    process_wake(&exec->process);
}

static void save_exit(const struct task *task)
{
    struct bundle_state state;
    struct err err = { 0 };
    if (bundle_state_load(task->bundle.path, &state, &err) == ERR_OK) {
        state.exit_code = task->process.exit.code;
        state.exited_s = task->process.exit.at.tv_sec;
        state.exited_ns = task->process.exit.at.tv_nsec;
        err.kind = bundle_state_save(task->bundle.path, &state, &err);
        bundle_state_fini(&state);
    }
    if (err.kind)
        log_warn("state_file", log_str("id", task->id), log_str("why", err.msg));
}

void task_exited(struct task *task, uint32_t code)
{
    if (task->process.exit.known)
        return;
    for (struct exec *e = task->execs; e; e = e->next)
        exec_exited(e, EXIT_KILLED);
    bool started = task->process.state != TASK_CREATED;
    if (task->timed_out)
        code = EXIT_TIMEOUT;
    if (!process_exited(&task->process, code))
        return;
    loop_cancel(&task->timeout);
    loop_cancel(&task->linger);
    loop_cancel(&task->log_watch);
    control_conn_free(STEAL(task->wait_conn));
    if (started && sandbox_oom(task->sandbox))
        events_oom(task->shim->events, task->id);
    save_exit(task);
    /* A container that never started has no exit to tell of but to those who wait. */
    if (started || task->kill_code)
        events_exit(task->shim->events, task->id, NULL, task->process.pid, code,
                    task->process.exit.at);
    log_info("task_exited", log_str("id", task->id), log_int("status", code));
    process_wake(&task->process);
}

/* ---- the sandbox is gone ------------------------------------------------------------------------
 */

static uint32_t root_code(const struct task *task)
{
    const struct sandbox *sandbox = task->sandbox;
    if (sandbox_oom(sandbox))
        return EXIT_KILLED; /* whichever of its processes the kernel chose */
    if (task->wait_done)
        return children_exit_code((int)task->wait_status);
    if (sandbox->gofer_died)
        return EXIT_KILLED;
    if (task->kill_code && task->process.state == TASK_CREATED)
        return task->kill_code;
    return children_exit_code(sandbox->wstatus);
}

static void one_gone(struct task *task)
{
    if (task->busy && task->process.state == TASK_CREATED && task->creation == NULL &&
        task->teardown == NULL) {
        task->gone_pending = true; /* its start is under way and will come back to this */
        return;
    }
    if (task->creation == NULL) {
        bool root = task->role != POLICY_ROLE_WORKLOAD;
        task_exited(task, root ? root_code(task) : EXIT_KILLED);
    }
}

void task_on_sandbox_gone(void *arg)
{
    struct shim *shim = arg;
    struct sandbox *sandbox = shim->sandbox;
    char first[240];
    if (sandbox_panicked(sandbox, first, sizeof(first)))
        log_error("sentry_panicked", log_str("id", sandbox->id),
                  log_int("wstatus", sandbox->wstatus), log_str("first", first));
    log_info("sandbox_gone", log_str("id", sandbox->id), log_int("wstatus", sandbox->wstatus));
    struct task *root = NULL;
    for (struct task *t = shim->tasks; t; t = t->next) {
        if (t->sandbox != sandbox)
            continue;
        if (t->role != POLICY_ROLE_WORKLOAD)
            root = t;
        else
            one_gone(t);
    }
    if (root)
        one_gone(root);
    task_teardown_sandbox_gone(shim);
}

/* ---- by its own word
 * ------------------------------------------------------------------------------ */

/* The sandbox said that its container has exited, and is still there. */
static void on_linger(struct loop_timer *timer)
{
    struct task *task = timer->arg;
    log_warn("sandbox_lingers", log_str("id", task->id));
    sandbox_kill(task->sandbox);
}

static bool shares_pids(const struct task *task)
{
    const json_t *list = json_at(task->spec, "/linux/namespaces");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(row, "type"));
        const char *path = json_string_value(json_object_get(row, "path"));
        if (type && strcmp(type, "pid") == 0)
            return path && *path;
    }
    return true;
}

static void on_swept(void *arg, const struct err *err)
{
    (void)arg;
    if (err->kind && err->kind != ERR_NOT_FOUND)
        log_warn("sweep", log_str("why", err->msg));
}

/* In a PID namespace of its own a container's processes end with its first one. In the pod's they
 * would live on and hold its streams open, so that its end is never complete. */
static void sweep(struct task *task)
{
    if (shares_pids(task))
        task_kill(task, NULL, SIGKILL, true, on_swept, NULL);
}

static void on_wait(void *arg, const struct control_reply *reply)
{
    struct task *task = arg;
    bool root = task->role != POLICY_ROLE_WORKLOAD;
    control_conn_free(STEAL(task->wait_conn));
    if (reply->outcome != CONTROL_OK) {
        /* Gone or broken: the sandbox's own end tells. A workload of a living sandbox whose status
         * cannot be had any more is not left running unwatched. */
        if (!root && sandbox_alive(task->sandbox) && reply->outcome != CONTROL_GONE) {
            log_error("wait_broken", log_str("id", task->id), log_str("why", reply->err.msg));
            sandbox_kill(task->sandbox);
        }
        if (root && reply->outcome == CONTROL_BROKEN)
            sandbox_kill(task->sandbox);
        return;
    }
    if (!root) {
        sweep(task);
        task_exited(task, children_exit_code((int)reply->wait_status));
        return;
    }
    /* The exit is told when the sandbox is gone, a few milliseconds from now: then nothing of it
     * runs any more and its cgroup says whether it ran out of memory. */
    task->wait_done = true;
    task->wait_status = reply->wait_status;
    task->sandbox->exiting = true;
    loop_after(task->shim->loop, &task->linger, LINGER_MS, on_linger, task);
}

void task_wait_began(struct task *task)
{
    if (!task->wait_conn || !control_conn_usable(task->wait_conn))
        return;
    control_wait(task->wait_conn, task->id, on_wait, task);
}

/* ---- clocks
 * ---------------------------------------------------------------------------------------- */

static void on_killed(void *arg, const struct err *err)
{
    (void)arg;
    if (err->kind)
        log_warn("timeout_kill", log_str("why", err->msg));
}

static void on_timeout(struct loop_timer *timer)
{
    struct task *task = timer->arg;
    log_warn("task_timeout", log_str("id", task->id), log_int("seconds", task->plan.timeout));
    task->timed_out = true;
    task_kill(task, NULL, 9, true, on_killed, task);
}

static void on_log_watch(struct loop_timer *timer)
{
    struct task *task = timer->arg;
    struct stat st;
    if (fstat(task->log_fd, &st) == 0 && st.st_size > POLICY_TERMINATION_LOG_MAX) {
        log_warn("termination_log_too_long", log_str("id", task->id), log_int("bytes", st.st_size));
        task_kill(task, NULL, 9, true, on_killed, task);
        return;
    }
    loop_after(task->shim->loop, &task->log_watch, LOG_WATCH_MS, on_log_watch, task);
}

void task_arm_timeout(struct task *task)
{
    uint64_t ms = (uint64_t)task->plan.timeout * 1000;
    if (task->plan.timeout > 0)
        loop_after(task->shim->loop, &task->timeout, ms, on_timeout, task);
    if (task->log_fd >= 0)
        loop_after(task->shim->loop, &task->log_watch, LOG_WATCH_MS, on_log_watch, task);
}
