/*
 * Exec: the same policy as Create, then one connection to the Sentry per exec. It starts the
 * process and waits for it on that same connection, so a status cannot be lost, however short-lived
 * it is.
 */
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "shim/caps.h"
#include "shim/task.h"
#include "shim/task_judge.h"

#define ARGS_MAX 4096U
/* Registered and not deleted, whatever their state: each costs memory of the host's. */
#define EXECS_MAX 256U

/* ---- registration -------------------------------------------------------------------------------
 */

static CHECKED enum err_kind runsc_allows(const struct task *task, struct err *err)
{
    const struct runsc_binary *binary = task->sandbox->binary;
    if (binary->exec_filtered || task->shim->conformance)
        return ERR_OK;
    return err_set(err, ERR_PRECONDITION,
                   "utter: refused: exec: runsc %s starts execs without the container's seccomp "
                   "filter (use runsc 20260330 or later)",
                   binary->version);
}

static CHECKED enum err_kind room_for_exec(const struct task *task, struct err *err)
{
    size_t n = 0;
    for (const struct exec *e = task->execs; e; e = e->next)
        n++;
    if (n < EXECS_MAX)
        return ERR_OK;
    return err_set(err, ERR_PRECONDITION,
                   "utter: refused: exec: %u execs of this container are not deleted (delete those "
                   "that have ended)",
                   EXECS_MAX);
}

static void judge_stdio(const struct task_exec_request *request,
                        const struct policy_context *context, const struct policy_config *config,
                        struct policy_report *report)
{
    const struct {
        const char *uri;
        const char *which;
    } rows[] = { { request->streams.in, "stdin" },
                 { request->streams.out, "stdout" },
                 { request->streams.err, "stderr" } };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct policy_stdio *out CLEANUP_FREE = xcalloc(1, sizeof(*out));
        policy_check_stdio(rows[i].uri ? rows[i].uri : "", rows[i].which, NULL, context, config,
                           out, report);
    }
}

static CHECKED enum err_kind judge(const struct task *task, const struct task_exec_request *request,
                                   json_t **doc, struct err *err)
{
    struct policy_report report CLEANUP(policy_report_fini);
    policy_report_init(&report);
    json_t *process CLEANUP_JSON =
        policy_document_parse((const char *)request->spec, request->spec_len, &report);
    enum err_kind kind = policy_report_err(&report, err);
    if (kind)
        return kind;
    if (task->shim->conformance) {
        *doc = STEAL(process);
        return ERR_OK;
    }
    const struct policy_config *config = task->shim->config;
    struct policy_context context = task_policy_context(task);
    policy_check_exec(process, task->spec, &context, config, &report);
    judge_stdio(request, &context, config, &report);
    if ((kind = policy_report_err(&report, err)))
        return kind;
    struct policy_changes changes CLEANUP(policy_changes_fini);
    policy_changes_init(&changes);
    *doc = policy_harden_exec(process, task->spec, &context, config, &changes);
    return ERR_OK;
}

enum err_kind task_exec(struct task *task, const struct task_exec_request *request, struct err *err)
{
    enum err_kind kind = task_may(task->process.state, TASK_EXEC, err);
    if (kind)
        return kind;
    if (exec_find(task, request->exec_id))
        return err_set(err, ERR_EXISTS, "exec %s", request->exec_id);
    if ((kind = runsc_allows(task, err)))
        return kind;
    if ((kind = room_for_exec(task, err)))
        return kind;
    json_t *doc = NULL;
    if ((kind = judge(task, request, &doc, err)))
        return kind;
    struct exec *exec = xcalloc(1, sizeof(*exec));
    process_init(&exec->process, &request->streams);
    exec->task = task;
    exec->id = xstrdup(request->exec_id);
    exec->doc = doc;
    exec->next = task->execs;
    task->execs = exec;
    events_exec_added(task->shim->events, task->id, exec->id);
    return ERR_OK;
}

/* ---- start
 * ----------------------------------------------------------------------------------------- */

/* What the Sentry is sent, borrowed from the hardened document. */
struct exec_words {
    const char **argv;
    const char **envv;
    uint32_t *groups;
    struct control_exec call;
};

static void words_fini(struct exec_words *words)
{
    free(words->argv);
    free(words->envv);
    free(words->groups);
}

static const char **strings(const json_t *list)
{
    size_t n = json_array_size(list);
    const char **out = xcalloc(n + 1, sizeof(*out));
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (s)
            out[kept++] = s;
    }
    return out;
}

/* What the process may do: nothing, by every rule; in the program without rules what the caller
 * asks, as runsc gives it (without a set of its own, an exec has the container's). */
static CHECKED enum err_kind privileges(const struct exec *exec, struct control_exec *call,
                                        struct err *err)
{
    call->no_new_privileges = true;
    if (!exec->task->shim->conformance)
        return ERR_OK;
    call->no_new_privileges = json_is_true(json_object_get(exec->doc, "noNewPrivileges"));
    const json_t *caps = json_object_get(exec->doc, "capabilities");
    if (!json_is_object(caps))
        caps = json_at(exec->task->spec, "/process/capabilities");
    return caps_read(caps, &call->caps, err);
}

static CHECKED enum err_kind words_init(struct exec_words *words, const struct exec *exec,
                                        struct err *err)
{
    const json_t *doc = exec->doc;
    *words = (struct exec_words){ 0 };
    if (json_array_size(json_object_get(doc, "args")) > ARGS_MAX ||
        json_array_size(json_object_get(doc, "env")) > ARGS_MAX)
        return err_set(err, ERR_INVALID, "process: more than %u arguments or variables", ARGS_MAX);
    words->argv = strings(json_object_get(doc, "args"));
    words->envv = strings(json_object_get(doc, "env"));
    if (!words->argv[0])
        return err_set(err, ERR_INVALID, "process: no arguments");
    int64_t uid = 0;
    int64_t gid = 0;
    const json_t *user = json_object_get(doc, "user");
    enum err_kind kind = json_get_int(user, "uid", false, 0, UINT32_MAX - 1, &uid, err);
    if (!kind)
        kind = json_get_int(user, "gid", false, 0, UINT32_MAX - 1, &gid, err);
    if (kind)
        return kind;
    const json_t *groups = json_object_get(user, "additionalGids");
    size_t n = json_array_size(groups);
    words->groups = xcalloc(n + 1, sizeof(*words->groups));
    for (size_t i = 0; i < n; i++)
        words->groups[i] = (uint32_t)json_integer_value(json_array_get(groups, i));
    const char *cwd = json_string_value(json_object_get(doc, "cwd"));
    words->call = (struct control_exec){
        .container = exec->task->id,
        .argv = words->argv,
        .envv = words->envv,
        .cwd = cwd && *cwd ? cwd : "/",
        .uid = (uint32_t)uid,
        .gid = (uint32_t)gid,
        .groups = words->groups,
        .n_groups = n,
        .terminal = exec->process.terminal,
        .fds = { -1, -1, -1 },
    };
    return privileges(exec, &words->call, err);
}

void exec_start_end(struct exec *exec, const struct err *err)
{
    exec->starting = false;
    task_done_fn *done = STEAL(exec->done);
    done(exec->arg, err);
}

static void on_exec_wait(void *arg, const struct control_reply *reply)
{
    struct exec *exec = arg;
    if (reply->outcome == CONTROL_OK) {
        exec_exited(exec, children_exit_code((int)reply->wait_status));
        return;
    }
    control_conn_free(STEAL(exec->conn));
    if (reply->outcome == CONTROL_GONE)
        return; /* its end comes with the sandbox's */
    log_error("exec_wait", log_str("exec", exec->id), log_str("why", reply->err.msg));
    exec_exited(exec, 255);
}

static void on_exec_started(void *arg, const struct control_reply *reply)
{
    struct exec *exec = arg;
    struct task *task = exec->task;
    struct err err = { 0 };
    if (exec->process.streams)
        streams_handed_over(exec->process.streams);
    if (reply->outcome != CONTROL_OK) {
        err = reply->err;
        control_conn_free(STEAL(exec->conn));
        (void)err_prefix(&err, "exec %s", exec->id);
        exec_start_end(exec, &err);
        return;
    }
    exec->guest_pid = reply->pid;
    exec->process.pid = (uint32_t)task->sandbox->pid;
    if (task_step(&exec->process.state, TASK_START, &err) == ERR_OK) {
        events_exec_started(task->shim->events, task->id, exec->id, exec->process.pid);
        control_wait_pid(exec->conn, task->id, exec->guest_pid, on_exec_wait, exec);
    }
    exec_start_end(exec, &err);
}

static void launch(struct exec *exec)
{
    struct err err = { 0 };
    struct exec_words words CLEANUP(words_fini);
    if (words_init(&words, exec, &err)) {
        exec_start_end(exec, &err);
        return;
    }
    int slave CLEANUP_FD = -1;
    if (exec->process.terminal) {
        if (streams_open_pty(exec->process.streams, &slave, &err)) {
            exec_start_end(exec, &err);
            return;
        }
        words.call.fds[0] = slave;
    } else {
        streams_child_fds(exec->process.streams, words.call.fds);
    }
    exec->conn = control_conn_new(exec->task->sandbox->control);
    control_exec(exec->conn, &words.call, on_exec_started, exec);
}

static void on_streams_ready(void *arg, const struct err *err)
{
    struct exec *exec = arg;
    if (err->kind)
        exec_start_end(exec, err);
    else
        launch(exec);
}

void exec_start(struct exec *exec, task_done_fn *done, void *arg)
{
    struct err err = { 0 };
    struct task *task = exec->task;
    if (task_may(exec->process.state, TASK_START, &err) ||
        task_may(task->process.state, TASK_EXEC, &err)) {
        done(arg, &err);
        return;
    }
    if (exec->starting) {
        (void)err_set(&err, ERR_PRECONDITION, "start is under way");
        done(arg, &err);
        return;
    }
    exec->starting = true;
    exec->done = done;
    exec->arg = arg;
    struct streams_env env;
    task_streams_env(task, &env);
    struct streams_request request = { .in = exec->process.in,
                                       .out = exec->process.out,
                                       .err = exec->process.err,
                                       .terminal = exec->process.terminal };
    if (!exec->process.streams && streams_open(&env, &request, &exec->process.streams, &err))
        exec_start_end(exec, &err);
    else
        streams_when_ready(exec->process.streams, on_streams_ready, exec);
}

/* ---- delete
 * ------------------------------------------------------------------------------------------ */

enum err_kind exec_delete(struct exec *exec, struct err *err)
{
    if (exec->starting)
        return err_set(err, ERR_PRECONDITION, "start is under way");
    enum err_kind kind = task_step(&exec->process.state, TASK_DELETE, err);
    if (kind)
        return kind;
    struct task *task = exec->task;
    for (struct exec **at = &task->execs; *at; at = &(*at)->next) {
        if (*at == exec) {
            *at = exec->next;
            break;
        }
    }
    events_delete(task->shim->events, task->id, exec->id, exec->process.pid,
                  exec->process.exit.code, exec->process.exit.at);
    return ERR_OK;
}
