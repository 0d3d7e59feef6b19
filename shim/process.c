#include "shim/process.h"

#include "base/own.h"

void process_init(struct process *p, const struct streams_request *request)
{
    *p = (struct process){
        .state = TASK_CREATED,
        .terminal = request->terminal,
        .in = xstrdup(request->in ? request->in : ""),
        .out = xstrdup(request->out ? request->out : ""),
        .err = xstrdup(request->err ? request->err : ""),
    };
}

void process_fini(struct process *p)
{
    process_wake(p);
    streams_free(p->streams);
    free(p->waiters);
    free(p->in);
    free(p->out);
    free(p->err);
    *p = (struct process){ 0 };
}

enum err_kind process_wait(struct process *p, process_wait_fn *fn, void *arg, struct err *err)
{
    if (p->exit.known) {
        fn(arg, p);
        return ERR_OK;
    }
    if (p->n_waiters == PROCESS_WAITERS_MAX)
        return err_set(err, ERR_UNAVAILABLE, "more than %d wait for this process",
                       PROCESS_WAITERS_MAX);
    p->waiters = xreallocarray(p->waiters, p->n_waiters + 1, sizeof(*p->waiters));
    p->waiters[p->n_waiters++] = (struct process_waiter){ .fn = fn, .arg = arg };
    return ERR_OK;
}

bool process_exited(struct process *p, uint32_t code)
{
    struct err ignored;
    if (p->exit.known || task_step(&p->state, TASK_EXITED, &ignored) != ERR_OK)
        return false;
    p->exit = (struct exit_status){ .known = true, .code = code };
    (void)clock_gettime(CLOCK_REALTIME, &p->exit.at);
    if (p->streams)
        streams_process_gone(p->streams);
    return true;
}

void process_wake(struct process *p)
{
    while (p->n_waiters > 0) {
        struct process_waiter waiter = p->waiters[--p->n_waiters];
        waiter.fn(waiter.arg, p);
    }
}
