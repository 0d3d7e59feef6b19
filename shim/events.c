#include "shim/events.h"

#include <events.pb-c.h>

#include "base/log.h"
#include "proto/ttrpc_client.h"

/* One event, packed at once: its time is when it happened, not when it could be sent. */
struct event {
    struct event *next;
    const char *topic; /* static */
    uint8_t *request;  /* a packed ForwardRequest's Any value */
    size_t len;
    const char *type; /* static: "containerd.events.TaskExit" */
    struct timespec at;
    bool is_exit;
};

struct events {
    struct loop *loop;
    struct ttrpc_client *client; /* NULL: nobody to tell */
    char *ns;
    struct event *first;
    struct event **end;
    size_t n;
    bool sending;
    unsigned failures; /* in a row */
    struct loop_timer retry;
    void (*flushed)(void *arg);
    void *flushed_arg;
    struct loop_timer flush_timer;
};

static void send_first(struct events *events);

enum err_kind events_new(struct loop *loop, const char *address, const char *ns,
                         struct events **out, struct err *err)
{
    struct events *events CLEANUP(events_freep) = xcalloc(1, sizeof(*events));
    events->loop = loop;
    events->ns = xstrdup(ns);
    events->end = &events->first;
    if (address && *address) {
        enum err_kind kind = ttrpc_client_new(loop, address, &events->client, err);
        if (kind)
            return kind;
    }
    *out = STEAL(events);
    return ERR_OK;
}

static void event_free(struct event *event)
{
    free(event->request);
    free(event);
}

static void remove_at(struct events *events, struct event **at)
{
    struct event *event = *at;
    *at = event->next;
    if (events->end == &event->next)
        events->end = at;
    events->n--;
    event_free(event);
}

void events_free(struct events *events)
{
    if (!events)
        return;
    struct ttrpc_client *client = STEAL(events->client);
    ttrpc_client_free(client);
    loop_cancel(&events->retry);
    loop_cancel(&events->flush_timer);
    while (events->first)
        remove_at(events, &events->first);
    free(events->ns);
    free(events);
}

size_t events_pending(const struct events *events)
{
    return events->n;
}

static void tell_flushed(struct events *events)
{
    loop_cancel(&events->flush_timer);
    void (*fn)(void *arg) = STEAL(events->flushed);
    if (fn)
        fn(events->flushed_arg);
}

static void on_flush_timeout(struct loop_timer *timer)
{
    tell_flushed(timer->arg);
}

void events_flush(struct events *events, uint64_t ms, void (*fn)(void *arg), void *arg)
{
    events->flushed = fn;
    events->flushed_arg = arg;
    loop_after(events->loop, &events->flush_timer, events->n ? ms : 0, on_flush_timeout, events);
}

static void on_retry(struct loop_timer *timer)
{
    send_first(timer->arg);
}

static void retry_later(struct events *events)
{
    if (events->failures < 6)
        events->failures++;
    uint64_t ms = 100U << events->failures;
    if (ms > EVENTS_RETRY_MAX_MS)
        ms = EVENTS_RETRY_MAX_MS;
    loop_after(events->loop, &events->retry, ms, on_retry, events);
}

static void on_sent(void *arg, const struct ttrpc_result *result)
{
    struct events *events = arg;
    if (!events->client)
        return; /* being freed */
    events->sending = false;
    bool later = result->kind == ERR_UNAVAILABLE || result->kind == ERR_TIMEOUT;
    if (later) {
        if (events->failures == 0)
            log_warn("event_not_taken", log_str("topic", events->first->topic),
                     log_str("why", result->message));
        retry_later(events);
        return;
    }
    if (result->kind)
        log_error("event_refused", log_str("topic", events->first->topic),
                  log_str("why", result->message));
    events->failures = 0;
    remove_at(events, &events->first);
    if (events->first)
        send_first(events);
    else
        tell_flushed(events);
}

static void send_first(struct events *events)
{
    struct event *event = events->first;
    if (!event || events->sending)
        return;
    Google__Protobuf__Timestamp at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    at.seconds = event->at.tv_sec;
    at.nanos = (int32_t)event->at.tv_nsec;
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    any.type_url = (char *)(uintptr_t)event->type;
    any.value = (ProtobufCBinaryData){ .len = event->len, .data = event->request };
    Events__Envelope envelope = EVENTS__ENVELOPE__INIT;
    envelope.timestamp = &at;
    envelope.namespace_ = events->ns;
    envelope.topic = (char *)(uintptr_t)event->topic;
    envelope.event = &any;
    Events__ForwardRequest request = EVENTS__FORWARD_REQUEST__INIT;
    request.envelope = &envelope;
    events->sending = true;
    ttrpc_client_call(events->client, "containerd.services.events.ttrpc.v1.Events", "Forward",
                      &request.base, EVENTS_SEND_MS, on_sent, events);
}

/* The first is being sent and stays; exits are what a client waits for and go last. */
static void make_room(struct events *events)
{
    struct event **at = &events->first->next;
    while (*at && (*at)->is_exit)
        at = &(*at)->next;
    if (!*at)
        at = &events->first->next;
    log_error("event_dropped", log_str("topic", (*at)->topic));
    remove_at(events, at);
}

static void push(struct events *events, const char *topic, const char *type, bool is_exit,
                 const ProtobufCMessage *message)
{
    if (!events->client)
        return;
    struct event *event = xcalloc(1, sizeof(*event));
    event->topic = topic;
    event->type = type;
    event->is_exit = is_exit;
    event->len = protobuf_c_message_get_packed_size(message);
    event->request = xmalloc(event->len + 1);
    (void)protobuf_c_message_pack(message, event->request);
    (void)clock_gettime(CLOCK_REALTIME, &event->at);
    if (events->n == EVENTS_MAX)
        make_room(events);
    *events->end = event;
    events->end = &event->next;
    events->n++;
    if (events->failures == 0)
        send_first(events);
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)(s ? s : "");
}

static Google__Protobuf__Timestamp stamp(struct timespec at)
{
    Google__Protobuf__Timestamp t = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    t.seconds = at.tv_sec;
    t.nanos = (int32_t)at.tv_nsec;
    return t;
}

void events_create(struct events *events, const char *id, const char *bundle,
                   const struct event_mount *mounts, size_t n, const struct event_io *io,
                   uint32_t pid)
{
    Task__Mount *rows CLEANUP_FREE = xcalloc(n + 1, sizeof(*rows));
    Task__Mount **list CLEANUP_FREE = xcalloc(n + 1, sizeof(*list));
    for (size_t i = 0; i < n; i++) {
        task__mount__init(&rows[i]);
        rows[i].type = text(mounts[i].type);
        rows[i].source = text(mounts[i].source);
        rows[i].target = text(mounts[i].target);
        rows[i].n_options = mounts[i].n_options;
        rows[i].options = (char **)(uintptr_t)mounts[i].options;
        list[i] = &rows[i];
    }
    Events__TaskIO task_io = EVENTS__TASK_IO__INIT;
    task_io.stdin = text(io->in);
    task_io.stdout = text(io->out);
    task_io.stderr = text(io->err);
    task_io.terminal = io->terminal;
    Events__TaskCreate m = EVENTS__TASK_CREATE__INIT;
    m.container_id = text(id);
    m.bundle = text(bundle);
    m.n_rootfs = n;
    m.rootfs = list;
    m.io = &task_io;
    m.pid = pid;
    push(events, "/tasks/create", "containerd.events.TaskCreate", false, &m.base);
}

void events_start(struct events *events, const char *id, uint32_t pid)
{
    Events__TaskStart m = EVENTS__TASK_START__INIT;
    m.container_id = text(id);
    m.pid = pid;
    push(events, "/tasks/start", "containerd.events.TaskStart", false, &m.base);
}

void events_exit(struct events *events, const char *id, const char *exec_id, uint32_t pid,
                 uint32_t status, struct timespec at)
{
    Google__Protobuf__Timestamp when = stamp(at);
    Events__TaskExit m = EVENTS__TASK_EXIT__INIT;
    m.container_id = text(id);
    m.id = text(exec_id ? exec_id : id);
    m.pid = pid;
    m.exit_status = status;
    m.exited_at = &when;
    push(events, "/tasks/exit", "containerd.events.TaskExit", true, &m.base);
}

void events_delete(struct events *events, const char *id, const char *exec_id, uint32_t pid,
                   uint32_t status, struct timespec at)
{
    Google__Protobuf__Timestamp when = stamp(at);
    Events__TaskDelete m = EVENTS__TASK_DELETE__INIT;
    m.container_id = text(id);
    m.pid = pid;
    m.exit_status = status;
    m.exited_at = &when;
    m.id = text(exec_id);
    push(events, "/tasks/delete", "containerd.events.TaskDelete", false, &m.base);
}

void events_oom(struct events *events, const char *id)
{
    Events__TaskOOM m = EVENTS__TASK_OOM__INIT;
    m.container_id = text(id);
    push(events, "/tasks/oom", "containerd.events.TaskOOM", false, &m.base);
}

void events_exec_added(struct events *events, const char *id, const char *exec_id)
{
    Events__TaskExecAdded m = EVENTS__TASK_EXEC_ADDED__INIT;
    m.container_id = text(id);
    m.exec_id = text(exec_id);
    push(events, "/tasks/exec-added", "containerd.events.TaskExecAdded", false, &m.base);
}

void events_exec_started(struct events *events, const char *id, const char *exec_id, uint32_t pid)
{
    Events__TaskExecStarted m = EVENTS__TASK_EXEC_STARTED__INIT;
    m.container_id = text(id);
    m.exec_id = text(exec_id);
    m.pid = pid;
    push(events, "/tasks/exec-started", "containerd.events.TaskExecStarted", false, &m.base);
}

void events_paused(struct events *events, const char *id)
{
    Events__TaskPaused m = EVENTS__TASK_PAUSED__INIT;
    m.container_id = text(id);
    push(events, "/tasks/paused", "containerd.events.TaskPaused", false, &m.base);
}

void events_resumed(struct events *events, const char *id)
{
    Events__TaskResumed m = EVENTS__TASK_RESUMED__INIT;
    m.container_id = text(id);
    push(events, "/tasks/resumed", "containerd.events.TaskResumed", false, &m.base);
}
