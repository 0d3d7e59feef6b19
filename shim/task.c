#include "shim/task.h"

#include <string.h>
#include <unistd.h>

#include "shim/console.h"

struct task *task_find(const struct shim *shim, const char *id)
{
    for (struct task *t = shim->tasks; t; t = t->next)
        if (strcmp(t->id, id) == 0)
            return t;
    return NULL;
}

struct exec *exec_find(const struct task *task, const char *exec_id)
{
    for (struct exec *e = task->execs; e; e = e->next)
        if (strcmp(e->id, exec_id) == 0)
            return e;
    return NULL;
}

enum err_kind task_begin(struct task *task, const char *what, task_done_fn *done, void *arg,
                         struct err *err)
{
    if (task->busy)
        return err_set(err, ERR_PRECONDITION, "%s is under way", task->busy);
    task->busy = what;
    task->done = done;
    task->arg = arg;
    return ERR_OK;
}

void task_end(struct task *task, const struct err *err)
{
    task->busy = NULL;
    task_done_fn *done = STEAL(task->done);
    done(task->arg, err);
}

static void unlink_task(struct task *task)
{
    for (struct task **at = &task->shim->tasks; *at; at = &(*at)->next) {
        if (*at == task) {
            *at = task->next;
            return;
        }
    }
}

void exec_free(struct exec *exec)
{
    if (!exec)
        return;
    control_conn_free(exec->conn);
    process_fini(&exec->process);
    json_decref(exec->doc);
    free(exec->id);
    free(exec);
}

void task_free(struct task *task)
{
    if (!task)
        return;
    unlink_task(task);
    while (task->execs) {
        struct exec *exec = task->execs;
        task->execs = exec->next;
        exec_free(exec);
    }
    loop_cancel(&task->timeout);
    loop_cancel(&task->linger);
    loop_cancel(&task->log_watch);
    runsc_held_free(task->start_held);
    control_conn_free(task->wait_conn);
    console_free(task->console);
    process_fini(&task->process);
    policy_plan_fini(&task->plan);
    json_decref(task->spec);
    json_decref(task->asked);
    bundle_fini(&task->bundle);
    if (task->netns_fd >= 0)
        (void)close(task->netns_fd);
    if (task->log_fd >= 0)
        (void)close(task->log_fd);
    free(task->id);
    free(task);
}
