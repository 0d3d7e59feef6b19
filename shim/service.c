#include "shim/service.h"

#include <string.h>
#include <task.pb-c.h>
#include <unistd.h>

#include "base/text.h"
#include "proto/unpack.h"
#include "shim/bootstrap.h"

#define METHODS 17

struct service {
    struct shim *shim;
    service_shutdown_fn *shutdown;
    void *arg;
    struct ttrpc_service tables[2];
};

/* ---- errors -------------------------------------------------------------------------------------
 */

static enum ttrpc_code code_of(enum err_kind kind)
{
    switch (kind) {
    case ERR_OK:
        return TTRPC_OK;
    case ERR_INVALID:
        return TTRPC_INVALID_ARGUMENT;
    case ERR_NOT_FOUND:
        return TTRPC_NOT_FOUND;
    case ERR_EXISTS:
        return TTRPC_ALREADY_EXISTS;
    case ERR_PRECONDITION:
    case ERR_DENIED: /* 7 is shown as "unknown" by containerd 1.6 and 1.7 */
        return TTRPC_FAILED_PRECONDITION;
    case ERR_UNAVAILABLE:
        return TTRPC_UNAVAILABLE;
    case ERR_TIMEOUT:
        return TTRPC_DEADLINE_EXCEEDED;
    case ERR_UNSUPPORTED:
        return TTRPC_UNIMPLEMENTED;
    case ERR_INTERNAL:
        return TTRPC_INTERNAL;
    }
    return TTRPC_UNKNOWN;
}

static void reply_err(struct ttrpc_call *call, const struct err *err)
{
    char line[sizeof(err->msg) + 8];
    bool ours = strncmp(err->msg, "utter: ", 7) == 0;
    (void)snprintf(line, sizeof(line), "%s%s", ours ? "" : "utter: ", err->msg);
    ttrpc_reply_error(call, code_of(err->kind), line);
}

static void reply_simple(struct ttrpc_call *call, const struct err *err)
{
    if (err->kind)
        reply_err(call, err);
    else
        ttrpc_reply_empty(call);
}

/* ---- finding
 * ------------------------------------------------------------------------------------- */

struct found {
    struct task *task;
    struct exec *exec; /* NULL: the first process */
    struct process *process;
};

static CHECKED enum err_kind find(const struct service *service, const char *id,
                                  const char *exec_id, struct found *out, struct err *err)
{
    *out = (struct found){ .task = task_find(service->shim, id) };
    char safe[96];
    if (!out->task || out->task->creation)
        return err_set(err, ERR_NOT_FOUND, "task %s", text_safe(id, safe, sizeof(safe)));
    out->process = &out->task->process;
    if (!exec_id || !*exec_id)
        return ERR_OK;
    out->exec = exec_find(out->task, exec_id);
    if (!out->exec)
        return err_set(err, ERR_NOT_FOUND, "exec %s", text_safe(exec_id, safe, sizeof(safe)));
    out->process = &out->exec->process;
    return ERR_OK;
}

static Google__Protobuf__Timestamp stamp(const struct exit_status *exit)
{
    Google__Protobuf__Timestamp t = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    t.seconds = exit->known ? exit->at.tv_sec : -62135596800; /* Go's zero time */
    t.nanos = exit->known ? (int32_t)exit->at.tv_nsec : 0;
    return t;
}

static void on_simple(void *arg, const struct err *err)
{
    reply_simple(arg, err);
}

/* ---- create, start, delete
 * ------------------------------------------------------------------------- */

struct create_call {
    struct service *service;
    struct ttrpc_call *call;
    char *id;
    struct rootfs_request *rootfs;
    struct task_create_request request;
};

static void on_created(void *arg, const struct err *err)
{
    struct create_call *create = arg;
    if (err->kind) {
        reply_err(create->call, err);
    } else {
        Task__CreateTaskResponse r = TASK__CREATE_TASK_RESPONSE__INIT;
        r.pid = task_find(create->service->shim, create->id)->process.pid;
        ttrpc_reply(create->call, &r.base);
    }
    free(create->id);
    free(create->rootfs);
    free(create);
}

static void do_create(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    struct service *service = arg;
    const Task__CreateTaskRequest *m = (const void *)message;
    if (!bootstrap_identifier(m->id)) {
        ttrpc_reply_error(call, TTRPC_INVALID_ARGUMENT, "utter: id is no identifier");
        return;
    }
    struct create_call *create = xcalloc(1, sizeof(*create));
    create->service = service;
    create->call = call;
    create->id = xstrdup(m->id);
    create->rootfs = xcalloc(m->n_rootfs + 1, sizeof(*create->rootfs));
    for (size_t i = 0; i < m->n_rootfs; i++)
        create->rootfs[i] = (struct rootfs_request){
            .type = m->rootfs[i]->type,
            .source = m->rootfs[i]->source,
            .target = m->rootfs[i]->target,
            .options = (const char *const *)m->rootfs[i]->options,
            .n_options = m->rootfs[i]->n_options,
        };
    create->request = (struct task_create_request){
        .id = create->id,
        .bundle = m->bundle,
        .rootfs = create->rootfs,
        .n_rootfs = m->n_rootfs,
        .streams = { .in = m->stdin, .out = m->stdout, .err = m->stderr, .terminal = m->terminal },
        .checkpoint = *m->checkpoint || *m->parent_checkpoint,
    };
    task_create(service->shim, &create->request, on_created, create);
}

struct start_call {
    struct service *service;
    struct ttrpc_call *call;
    char *id;
};

static void on_started(void *arg, const struct err *err)
{
    struct start_call *start = arg;
    const struct task *task = task_find(start->service->shim, start->id);
    if (err->kind || !task) {
        reply_err(start->call, err);
    } else {
        Task__StartResponse r = TASK__START_RESPONSE__INIT;
        r.pid = task->process.pid;
        ttrpc_reply(start->call, &r.base);
    }
    free(start->id);
    free(start);
}

static void do_start(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__StartRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, m->exec_id, &f, &err)) {
        reply_err(call, &err);
        return;
    }
    struct start_call *start = xcalloc(1, sizeof(*start));
    *start = (struct start_call){ .service = arg, .call = call, .id = xstrdup(m->id) };
    if (f.exec)
        exec_start(f.exec, on_started, start);
    else
        task_start(f.task, on_started, start);
}

static void reply_deleted(struct ttrpc_call *call, const struct process *process)
{
    Google__Protobuf__Timestamp at = stamp(&process->exit);
    Task__DeleteResponse r = TASK__DELETE_RESPONSE__INIT;
    r.pid = process->pid;
    r.exit_status = process->exit.code;
    r.exited_at = &at;
    ttrpc_reply(call, &r.base);
}

static void on_task_deleted(void *arg, const struct err *err)
{
    struct start_call *start = arg;
    const struct task *task = task_find(start->service->shim, start->id);
    if (err->kind || !task)
        reply_err(start->call, err);
    else
        reply_deleted(start->call, &task->process);
    free(start->id);
    free(start);
}

static void do_delete(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__DeleteRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, m->exec_id, &f, &err) || (f.exec && exec_delete(f.exec, &err))) {
        reply_err(call, &err);
        return;
    }
    if (f.exec) {
        reply_deleted(call, f.process);
        exec_free(f.exec);
        return;
    }
    struct start_call *start = xcalloc(1, sizeof(*start));
    *start = (struct start_call){ .service = arg, .call = call, .id = xstrdup(m->id) };
    task_delete(f.task, on_task_deleted, start);
}

/* ---- state, wait
 * ------------------------------------------------------------------------------------ */

static Task__Status status_of(enum task_state state)
{
    switch (state) {
    case TASK_CREATED:
        return TASK__STATUS__CREATED;
    case TASK_RUNNING:
        return TASK__STATUS__RUNNING;
    case TASK_PAUSED:
        return TASK__STATUS__PAUSED;
    case TASK_STOPPED:
        return TASK__STATUS__STOPPED;
    case TASK_DELETED:
    case TASK_STATE_N:
        break;
    }
    return TASK__STATUS__UNKNOWN;
}

static void do_state(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__StateRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, m->exec_id, &f, &err)) {
        reply_err(call, &err);
        return;
    }
    Google__Protobuf__Timestamp at = stamp(&f.process->exit);
    Task__StateResponse r = TASK__STATE_RESPONSE__INIT;
    r.id = f.exec ? f.exec->id : f.task->id;
    r.bundle = f.task->bundle.path;
    r.pid = f.process->pid;
    r.status = status_of(f.process->state);
    r.stdin = f.process->in;
    r.stdout = f.process->out;
    r.stderr = f.process->err;
    r.terminal = f.process->terminal;
    r.exit_status = f.process->exit.code;
    r.exited_at = &at;
    r.exec_id = f.exec ? f.exec->id : proto_str("");
    ttrpc_reply(call, &r.base);
}

static void on_waited(void *arg, const struct process *process)
{
    Google__Protobuf__Timestamp at = stamp(&process->exit);
    Task__WaitResponse r = TASK__WAIT_RESPONSE__INIT;
    r.exit_status = process->exit.code;
    r.exited_at = &at;
    ttrpc_reply(arg, &r.base);
}

static void do_wait(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__WaitRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, m->exec_id, &f, &err) || process_wait(f.process, on_waited, call, &err))
        reply_err(call, &err);
}

/* ---- pids, stats
 * -------------------------------------------------------------------------------------- */

static void on_pids(void *arg, const struct err *err, const struct control_process *processes,
                    size_t n)
{
    if (err->kind) {
        reply_err(arg, err);
        return;
    }
    Task__ProcessInfo *rows CLEANUP_FREE = xcalloc(n + 1, sizeof(*rows));
    Task__ProcessInfo **list CLEANUP_FREE = xcalloc(n + 1, sizeof(*list));
    for (size_t i = 0; i < n; i++) {
        task__process_info__init(&rows[i]);
        rows[i].pid = (uint32_t)processes[i].pid;
        list[i] = &rows[i];
    }
    Task__PidsResponse r = TASK__PIDS_RESPONSE__INIT;
    r.n_processes = n;
    r.processes = list;
    ttrpc_reply(arg, &r.base);
}

static void do_pids(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__PidsRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, NULL, &f, &err))
        reply_err(call, &err);
    else
        task_pids(f.task, on_pids, call);
}

static void on_stats(void *arg, const struct err *err, const struct buf *packed, const char *type)
{
    if (err->kind) {
        reply_err(arg, err);
        return;
    }
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    any.type_url = proto_str(type);
    any.value = proto_bytes(packed->data, packed->len);
    Task__StatsResponse r = TASK__STATS_RESPONSE__INIT;
    r.stats = &any;
    ttrpc_reply(arg, &r.base);
}

static void do_stats(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__StatsRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, NULL, &f, &err))
        reply_err(call, &err);
    else
        task_stats(f.task, on_stats, call);
}

/* ---- kill, pause, resume, update
 * ------------------------------------------------------------------------ */

static void do_kill(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__KillRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, m->exec_id, &f, &err))
        reply_err(call, &err);
    else
        task_kill(f.task, f.exec, m->signal, m->all, on_simple, call);
}

static void do_pause(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__PauseRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, NULL, &f, &err))
        reply_err(call, &err);
    else
        task_pause(f.task, on_simple, call);
}

static void do_resume(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__ResumeRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, NULL, &f, &err))
        reply_err(call, &err);
    else
        task_resume(f.task, on_simple, call);
}

static void do_update(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__UpdateTaskRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, NULL, &f, &err)) {
        reply_err(call, &err);
        return;
    }
    const uint8_t *json = m->resources ? m->resources->value.data : NULL;
    size_t len = m->resources ? m->resources->value.len : 0;
    task_update(f.task, json, len, on_simple, call);
}

/* ---- exec, io
 * ------------------------------------------------------------------------------------------- */

static void do_exec(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__ExecProcessRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, NULL, &f, &err)) {
        reply_err(call, &err);
        return;
    }
    struct task_exec_request request = {
        .exec_id = m->exec_id,
        .streams = { .in = m->stdin, .out = m->stdout, .err = m->stderr, .terminal = m->terminal },
        .spec = m->spec ? m->spec->value.data : NULL,
        .spec_len = m->spec ? m->spec->value.len : 0,
    };
    err.kind = bootstrap_identifier(m->exec_id)
                   ? task_exec(f.task, &request, &err)
                   : err_set(&err, ERR_INVALID, "exec id is no identifier");
    reply_simple(call, &err);
}

static void do_resize(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__ResizePtyRequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    enum err_kind kind = find(arg, m->id, m->exec_id, &f, &err);
    if (!kind && f.process->streams)
        kind = streams_resize(f.process->streams, m->width, m->height, &err);
    err.kind = kind;
    reply_simple(call, &err);
}

static void do_close_io(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const Task__CloseIORequest *m = (const void *)message;
    struct found f;
    struct err err = { 0 };
    if (find(arg, m->id, m->exec_id, &f, &err) == ERR_OK && f.process->streams && m->stdin)
        streams_close_stdin(f.process->streams);
    reply_simple(call, &err);
}

/* ---- the rest
 * ------------------------------------------------------------------------------------------- */

static void do_checkpoint(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)arg;
    (void)message;
    ttrpc_reply_error(call, TTRPC_UNIMPLEMENTED, "utter: checkpoint is not offered");
}

static void do_connect(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const struct service *service = arg;
    const Task__ConnectRequest *m = (const void *)message;
    const struct task *task = task_find(service->shim, m->id);
    Task__ConnectResponse r = TASK__CONNECT_RESPONSE__INIT;
    r.shim_pid = (uint32_t)getpid();
    r.task_pid = task ? task->process.pid : 0;
    r.version = proto_str(UTTER_VERSION);
    ttrpc_reply(call, &r.base);
}

static void do_shutdown(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    const struct service *service = arg;
    const Task__ShutdownRequest *m = (const void *)message;
    bool leave = !service->shim->tasks || m->now;
    ttrpc_reply_empty(call);
    if (leave)
        service->shutdown(service->arg);
}

static const struct ttrpc_method TABLE[METHODS] = {
    { "Create", &task__create_task_request__descriptor, do_create, false },
    { "Start", &task__start_request__descriptor, do_start, false },
    { "Delete", &task__delete_request__descriptor, do_delete, false },
    { "State", &task__state_request__descriptor, do_state, false },
    { "Wait", &task__wait_request__descriptor, do_wait, true },
    { "Pids", &task__pids_request__descriptor, do_pids, false },
    { "Stats", &task__stats_request__descriptor, do_stats, false },
    { "Kill", &task__kill_request__descriptor, do_kill, false },
    { "Pause", &task__pause_request__descriptor, do_pause, false },
    { "Resume", &task__resume_request__descriptor, do_resume, false },
    { "Update", &task__update_task_request__descriptor, do_update, false },
    { "Exec", &task__exec_process_request__descriptor, do_exec, false },
    { "ResizePty", &task__resize_pty_request__descriptor, do_resize, false },
    { "CloseIO", &task__close_iorequest__descriptor, do_close_io, false },
    { "Checkpoint", &task__checkpoint_task_request__descriptor, do_checkpoint, false },
    { "Connect", &task__connect_request__descriptor, do_connect, false },
    { "Shutdown", &task__shutdown_request__descriptor, do_shutdown, false },
};

struct service *service_new(struct shim *shim, service_shutdown_fn *shutdown, void *arg)
{
    static const char *const NAMES[] = { "containerd.task.v2.Task", "containerd.task.v3.Task" };
    struct service *service = xcalloc(1, sizeof(*service));
    *service = (struct service){ .shim = shim, .shutdown = shutdown, .arg = arg };
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        service->tables[i] = (struct ttrpc_service){
            .name = NAMES[i], .methods = TABLE, .n_methods = ARRAY_LEN(TABLE), .arg = service
        };
    return service;
}

void service_free(struct service *service)
{
    free(service);
}

const struct ttrpc_service *service_tables(const struct service *service, size_t *n)
{
    *n = ARRAY_LEN(service->tables);
    return service->tables;
}
