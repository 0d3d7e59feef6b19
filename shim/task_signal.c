/*
 * Kill. SIGKILL for a root container goes to the sandbox process itself: it works whatever state
 * the Sentry is in, paused and hung included. Everything else is the control socket's.
 */
#include <signal.h>

#include "base/log.h"
#include "shim/task.h"

struct kill_job {
    struct task *task; /* may have gone meanwhile: looked up by id */
    struct shim *shim;
    char *id;
    struct control_conn *conn;
    task_done_fn *done;
    void *arg;
};

static void job_end(struct kill_job *job, const struct err *err)
{
    control_conn_free(job->conn);
    job->done(job->arg, err);
    free(job->id);
    free(job);
}

static void on_signalled(void *arg, const struct control_reply *reply)
{
    struct kill_job *job = arg;
    struct err err = { 0 };
    if (reply->outcome == CONTROL_GONE)
        (void)err_set(&err, ERR_NOT_FOUND, "process already finished");
    else if (reply->outcome != CONTROL_OK)
        err = reply->err;
    job_end(job, &err);
}

static void on_cli_kill(void *arg, const struct err *err)
{
    job_end(arg, err);
}

static void by_cli(struct kill_job *job, const struct task *task, uint32_t signo, bool all)
{
    struct err err = { 0 };
    char number[16];
    (void)snprintf(number, sizeof(number), "%u", signo);
    const char *verb[] = { "kill", all ? "--all" : task->id, all ? task->id : number,
                           all ? number : NULL, NULL };
    struct runsc_call call = { .verb = verb, .fds = { -1, -1, -1 }, .deadline_ms = RUNSC_SHORT_MS };
    if (runsc_start(&task->sandbox->runsc, &call, on_cli_kill, job, &err))
        job_end(job, &err);
}

/* Before start there is nobody to take a signal: what would end a process ends the container. */
static void kill_created(struct task *task, uint32_t signo, task_done_fn *done, void *arg)
{
    struct err err = { 0 };
    bool deadly = signo == SIGKILL || signo == SIGTERM || signo == SIGINT || signo == SIGQUIT ||
                  signo == SIGHUP;
    if (!deadly) {
        (void)err_set(&err, ERR_PRECONDITION, "cannot deliver signal %u before start", signo);
    } else {
        task->kill_code = 128 + signo;
        if (task->role != POLICY_ROLE_WORKLOAD)
            sandbox_kill(task->sandbox);
        else
            task_exited(task, task->kill_code);
    }
    done(arg, &err);
}

void task_kill(struct task *task, struct exec *exec, uint32_t signo, bool all, task_done_fn *done,
               void *arg)
{
    struct err err = { 0 };
    struct process *process = exec ? &exec->process : &task->process;
    if (signo == 0 || signo > 64) {
        (void)err_set(&err, ERR_INVALID, "signal %u", signo);
    } else if (task_may(process->state, TASK_KILL, &err) == ERR_OK && exec &&
               exec->process.state == TASK_CREATED) {
        (void)err_set(&err, ERR_PRECONDITION, "cannot kill an exec that has not started");
    } else if (!err.kind && !sandbox_alive(task->sandbox)) {
        (void)err_set(&err, ERR_NOT_FOUND, "process already finished");
    }
    if (err.kind) {
        done(arg, &err);
        return;
    }
    if (!exec && task->process.state == TASK_CREATED && !task->busy) {
        kill_created(task, signo, done, arg);
        return;
    }
    if (!exec && signo == SIGKILL && task->role != POLICY_ROLE_WORKLOAD) {
        sandbox_kill(task->sandbox);
        done(arg, &err);
        return;
    }
    struct kill_job *job = xcalloc(1, sizeof(*job));
    *job = (struct kill_job){ .shim = task->shim, .done = done, .arg = arg };
    if (task->sandbox->control->cli_only && !exec) {
        by_cli(job, task, signo, all);
        return;
    }
    job->conn = control_conn_new(task->sandbox->control);
    control_signal(job->conn, task->id, exec ? exec->guest_pid : 0, (int)signo,
                   all ? CONTROL_SIGNAL_ALL : CONTROL_SIGNAL_PROCESS, on_signalled, job);
}
