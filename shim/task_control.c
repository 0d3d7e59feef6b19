/*
 * What is asked of a running container: pause, resume, update, statistics, processes.
 */
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "shim/metrics.h"
#include "shim/task.h"
#include "shim/task_judge.h"

/* ---- pause, resume ------------------------------------------------------------------------------
 */

/* gVisor stops the whole sandbox, the other containers of a pod too. */
static CHECKED enum err_kind pausable(const struct task *task, struct err *err)
{
    if (task->role == POLICY_ROLE_SINGLE)
        return ERR_OK;
    return err_set(
        err, ERR_PRECONDITION,
        "pause: gVisor pauses a whole sandbox, which in a pod is more than this container");
}

static void on_paused(void *arg, const struct err *err)
{
    struct task *task = arg;
    struct err why = *err;
    if (!why.kind && task_step(&task->process.state, TASK_PAUSE, &why) == ERR_OK)
        events_paused(task->shim->events, task->id);
    task_end(task, &why);
}

static void on_resumed(void *arg, const struct err *err)
{
    struct task *task = arg;
    struct err why = *err;
    /* Killed while it was paused, it may have ended by now: it was resumed all the same, and has
     * nothing left to be told of but its exit. */
    bool ended = task->process.state == TASK_STOPPED || !sandbox_alive(task->sandbox);
    if (ended && why.kind)
        (void)err_set(&why, ERR_NOT_FOUND, "process already finished");
    else if (ended)
        log_info("resumed_and_ended", log_str("id", task->id));
    else if (!why.kind && task_step(&task->process.state, TASK_RESUME, &why) == ERR_OK)
        events_resumed(task->shim->events, task->id);
    task_end(task, &why);
}

static void by_cli(struct task *task, const char *name, enum task_event event, runsc_done_fn *fn,
                   task_done_fn *done, void *arg)
{
    struct err err = { 0 };
    if (task_may(task->process.state, event, &err) || pausable(task, &err) ||
        task_begin(task, name, done, arg, &err)) {
        done(arg, &err);
        return;
    }
    const char *verb[] = { name, task->id, NULL };
    struct runsc_call call = { .verb = verb, .fds = { -1, -1, -1 }, .deadline_ms = RUNSC_SHORT_MS };
    if (runsc_start(&task->sandbox->runsc, &call, fn, task, &err))
        task_end(task, &err);
}

void task_pause(struct task *task, task_done_fn *done, void *arg)
{
    by_cli(task, "pause", TASK_PAUSE, on_paused, done, arg);
}

void task_resume(struct task *task, task_done_fn *done, void *arg)
{
    by_cli(task, "resume", TASK_RESUME, on_resumed, done, arg);
}

/* ---- update
 * --------------------------------------------------------------------------------------- */

static CHECKED enum err_kind apply_update(struct task *task, const struct policy_limits *wanted,
                                          struct err *err)
{
    struct sandbox *sandbox = task->sandbox;
    struct cgroup_limits limits = {
        .memory = wanted->memory,
        .memory_swap = wanted->memory,
        .pids = CGROUP_ABSENT,
        .cpu_quota = wanted->cpu_quota,
        .cpu_period = wanted->cpu_period,
        .cpu_shares = wanted->cpu_shares,
    };
    enum err_kind kind = cgroup_update(sandbox->cgroup, &limits, err);
    if (kind)
        return err_prefix(err, "update");
    sandbox->limits = *wanted;
    task->limits = *wanted;
    return ERR_OK;
}

/* The program without rules: what is asked, as it is asked. */
static void take_wishes(const json_t *resources, struct policy_limits *wanted)
{
    const struct {
        const char *at;
        int64_t *value;
    } rows[] = { { "/memory/limit", &wanted->memory },
                 { "/cpu/quota", &wanted->cpu_quota },
                 { "/cpu/period", &wanted->cpu_period } };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const json_t *value = json_at(resources, rows[i].at);
        if (json_is_integer(value))
            *rows[i].value = json_integer_value(value);
    }
}

static CHECKED enum err_kind judge_update(const struct task *task, const json_t *resources,
                                          struct policy_limits *wanted,
                                          struct policy_report *report, struct err *err)
{
    *wanted = task->sandbox->limits;
    if (task->shim->conformance) {
        take_wishes(resources, wanted);
        return ERR_OK;
    }
    struct policy_context context = task_policy_context(task);
    policy_check_update(resources, &task->sandbox->limits, &context, task->shim->config, wanted,
                        report);
    return policy_report_err(report, err);
}

static CHECKED enum err_kind update(struct task *task, const uint8_t *json, size_t len,
                                    struct err *err)
{
    enum err_kind kind = task_may(task->process.state, TASK_UPDATE, err);
    if (kind)
        return kind;
    if (task->busy)
        return err_set(err, ERR_PRECONDITION, "%s is under way", task->busy);
    if (len == 0)
        return err_set(err, ERR_INVALID, "update without resources");
    struct policy_report report CLEANUP(policy_report_fini);
    policy_report_init(&report);
    json_t *resources CLEANUP_JSON = policy_document_parse((const char *)json, len, &report);
    if ((kind = policy_report_err(&report, err)))
        return kind;
    struct policy_limits wanted;
    if ((kind = judge_update(task, resources, &wanted, &report, err)))
        return kind;
    /* In a pod the limits are the sandbox's; a container's own wish has been checked against them.
     */
    if (task->role == POLICY_ROLE_WORKLOAD)
        return ERR_OK;
    return apply_update(task, &wanted, err);
}

void task_update(struct task *task, const uint8_t *json, size_t len, task_done_fn *done, void *arg)
{
    struct err err = { 0 };
    if (update(task, json, len, &err) == ERR_OK)
        log_info("task_updated", log_str("id", task->id));
    done(arg, &err);
}

/* ---- statistics
 * ------------------------------------------------------------------------------------- */

struct query {
    struct shim *shim;
    char *id; /* the task may be gone when the answer comes */
    struct control_conn *conn;
    task_stats_fn *stats;
    task_pids_fn *pids;
    void *arg;
};

static struct query *query_new(struct task *task, void *arg)
{
    struct query *query = xcalloc(1, sizeof(*query));
    *query = (struct query){
        .shim = task->shim,
        .id = xstrdup(task->id),
        .conn = control_conn_new(task->sandbox->control),
        .arg = arg,
    };
    return query;
}

static void query_free(struct query *query)
{
    control_conn_free(query->conn);
    free(query->id);
    free(query);
}

static void pack_stats(const struct task *task, const struct control_event *event,
                       task_stats_fn *done, void *arg)
{
    struct metrics_source source = {
        .set = task->sandbox->cgroup,
        .event = event,
        .guest_pids_limit = task->sandbox->limits.pids,
        .share_cpu = task->role != POLICY_ROLE_SINGLE,
    };
    struct buf packed CLEANUP(buf_fini);
    buf_init(&packed, 1U << 20);
    const char *type = NULL;
    struct err err = { 0 };
    if (metrics_pack(&source, &packed, &type, &err))
        log_warn("stats", log_str("id", task->id), log_str("why", err.msg));
    done(arg, &err, &packed, type);
}

static void on_event(void *arg, const struct control_reply *reply)
{
    struct query *query = arg;
    struct task *task = task_find(query->shim, query->id);
    struct err err = { 0 };
    if (!task || !task->sandbox || !task->sandbox->cgroup) {
        (void)err_set(&err, ERR_NOT_FOUND, "task %s has gone", query->id);
        query->stats(query->arg, &err, NULL, NULL);
    } else {
        pack_stats(task, reply->outcome == CONTROL_OK ? reply->event : NULL, query->stats,
                   query->arg);
    }
    query_free(query);
}

void task_stats(struct task *task, task_stats_fn *done, void *arg)
{
    struct err err = { 0 };
    bool there = task->sandbox && task->sandbox->cgroup && task->process.state != TASK_STOPPED;
    if (!there) {
        (void)err_set(&err, ERR_PRECONDITION, "no statistics of a process that is %s",
                      task_state_name(task->process.state));
        done(arg, &err, NULL, NULL);
        return;
    }
    if (task->process.state != TASK_RUNNING || task->sandbox->control->cli_only) {
        pack_stats(task, NULL, done, arg); /* a paused Sentry does not answer */
        return;
    }
    struct query *query = query_new(task, arg);
    query->stats = done;
    control_event(query->conn, task->id, on_event, query);
}

/* ---- processes
 * --------------------------------------------------------------------------------------- */

static void on_processes(void *arg, const struct control_reply *reply)
{
    struct query *query = arg;
    struct err err = { 0 };
    if (reply->outcome != CONTROL_OK)
        err = reply->err;
    query->pids(query->arg, &err, reply->processes, err.kind ? 0 : reply->n_processes);
    query_free(query);
}

void task_pids(struct task *task, task_pids_fn *done, void *arg)
{
    struct err err = { 0 };
    if (task->process.state != TASK_RUNNING || !sandbox_alive(task->sandbox)) {
        (void)err_set(&err, ERR_PRECONDITION, "no processes of a container that is %s",
                      task_state_name(task->process.state));
        done(arg, &err, NULL, 0);
        return;
    }
    struct query *query = query_new(task, arg);
    query->pids = done;
    control_processes(query->conn, task->id, on_processes, query);
}
