/*
 * containerd's containers, tasks and events.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/containerd.h"
#include "deploy/containerd_wire.h"

#define CONTAINERS "/containerd.services.containers.v1.Containers/"
#define TASKS "/containerd.services.tasks.v1.Tasks/"
#define SPEC_TYPE "types.containerd.io/opencontainers/runtime-spec/1/Spec"

void cd_container_fini(struct cd_container *container)
{
    free(container->id);
    free(container->image);
    free(container->runtime);
    free(container->snapshot_key);
    json_decref(container->labels);
    json_decref(container->spec);
    *container = (struct cd_container){ 0 };
}

enum err_kind containerd_container_get(struct containerd *cd, const char *id,
                                       struct cd_container *out, struct err *err)
{
    Utter__Cd__ContainerId request = UTTER__CD__CONTAINER_ID__INIT;
    request.id = cd_str(id);
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, CONTAINERS "Get", &request.base,
                &utter__cd__container_message__descriptor, &raw, err))
        return err->kind;
    const Utter__Cd__Container *found = ((Utter__Cd__ContainerMessage *)raw)->container;
    if (!found)
        return err_set(err, ERR_INTERNAL, "containerd: container %s is empty", id);
    *out = (struct cd_container){ .id = xstrdup(found->id),
                                  .image = xstrdup(found->image),
                                  .runtime = xstrdup(found->runtime ? found->runtime->name : ""),
                                  .snapshot_key = xstrdup(found->snapshot_key),
                                  .labels = cd_pairs_json(found->n_labels, found->labels) };
    if (found->spec)
        out->spec =
            json_loadb((const char *)found->spec->value.data, found->spec->value.len, 0, NULL);
    return ERR_OK;
}

enum err_kind containerd_container_create(struct containerd *cd,
                                          const struct cd_container *container, struct err *err)
{
    struct cd_pairs pairs CLEANUP(cd_pairs_fini) = cd_pairs_make(container->labels);
    char *text CLEANUP_FREE = json_canonical(container->spec);
    Utter__Cd__Any spec = UTTER__CD__ANY__INIT;
    spec.type_url = cd_str(SPEC_TYPE);
    spec.value = (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)text };
    Utter__Cd__Runtime runtime = UTTER__CD__RUNTIME__INIT;
    runtime.name = container->runtime;
    Utter__Cd__Container made = UTTER__CD__CONTAINER__INIT;
    made.id = container->id;
    made.image = cd_str(container->image);
    made.runtime = &runtime;
    made.spec = &spec;
    made.snapshotter = cd->snapshotter;
    made.snapshot_key = cd_str(container->snapshot_key);
    made.n_labels = pairs.n;
    made.labels = pairs.list;
    Utter__Cd__ContainerMessage request = UTTER__CD__CONTAINER_MESSAGE__INIT;
    request.container = &made;
    return cd_call(cd, CD_CALL_MS, CONTAINERS "Create", &request.base, NULL, NULL, err);
}

enum err_kind containerd_container_list(struct containerd *cd, const char *filter, json_t **out,
                                        struct err *err)
{
    Utter__Cd__ContainerList request = UTTER__CD__CONTAINER_LIST__INIT;
    char *filters[1] = { cd_str(filter) };
    request.n_filters = filter ? 1 : 0;
    request.filters = filters;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, CONTAINERS "List", &request.base,
                &utter__cd__container_listed__descriptor, &raw, err))
        return err->kind;
    const Utter__Cd__ContainerListed *answer = (Utter__Cd__ContainerListed *)raw;
    *out = json_array();
    for (size_t i = 0; i < answer->n_containers; i++) {
        const Utter__Cd__Container *c = answer->containers[i];
        json_array_append_new(*out,
                              json_pack("{s:s, s:s, s:s, s:o}", "id", c->id, "image", c->image,
                                        "runtime", c->runtime ? c->runtime->name : "", "labels",
                                        cd_pairs_json(c->n_labels, c->labels)));
    }
    return ERR_OK;
}

enum err_kind containerd_container_label(struct containerd *cd, const char *id, const char *key,
                                         const char *value, struct err *err)
{
    Utter__Cd__Pair pair = UTTER__CD__PAIR__INIT;
    pair.key = cd_str(key);
    pair.value = cd_str(value);
    Utter__Cd__Pair *labels[1] = { &pair };
    Utter__Cd__Container container = UTTER__CD__CONTAINER__INIT;
    container.id = cd_str(id);
    container.n_labels = 1;
    container.labels = labels;
    char *path CLEANUP_FREE = xasprintf("labels.%s", key);
    char *paths[1] = { path };
    Utter__Cd__FieldMask mask = UTTER__CD__FIELD_MASK__INIT;
    mask.n_paths = 1;
    mask.paths = paths;
    Utter__Cd__ContainerMessage request = UTTER__CD__CONTAINER_MESSAGE__INIT;
    request.container = &container;
    request.update_mask = &mask;
    return cd_call(cd, CD_CALL_MS, CONTAINERS "Update", &request.base, NULL, NULL, err);
}

enum err_kind containerd_container_remove(struct containerd *cd, const char *id, struct err *err)
{
    Utter__Cd__ContainerId request = UTTER__CD__CONTAINER_ID__INIT;
    request.id = cd_str(id);
    enum err_kind kind =
        cd_call(cd, CD_CALL_MS, CONTAINERS "Delete", &request.base, NULL, NULL, err);
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

const char *cd_task_state_name(enum cd_task_state state)
{
    switch (state) {
    case CD_TASK_CREATED:
        return "created";
    case CD_TASK_RUNNING:
        return "running";
    case CD_TASK_STOPPED:
        return "stopped";
    case CD_TASK_PAUSED:
        return "paused";
    case CD_TASK_PAUSING:
        return "pausing";
    case CD_TASK_UNKNOWN:
        break;
    }
    return "unknown";
}

enum err_kind containerd_task_create(struct containerd *cd, const char *id, const json_t *mounts,
                                     const char *log_uri, uint32_t *pid, struct err *err)
{
    struct cd_mounts list CLEANUP(cd_mounts_fini) = cd_mounts_make(mounts);
    Utter__Cd__TaskCreate request = UTTER__CD__TASK_CREATE__INIT;
    request.container_id = cd_str(id);
    request.n_rootfs = list.n;
    request.rootfs = list.list;
    request.stdout_path = cd_str(log_uri);
    request.stderr_path = cd_str(log_uri);
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_LONG_MS, TASKS "Create", &request.base, &utter__cd__task_created__descriptor,
                &raw, err))
        return err->kind;
    if (pid)
        *pid = ((Utter__Cd__TaskCreated *)raw)->pid;
    return ERR_OK;
}

static Utter__Cd__TaskRef task_ref(const char *id)
{
    Utter__Cd__TaskRef ref = UTTER__CD__TASK_REF__INIT;
    ref.container_id = cd_str(id);
    return ref;
}

enum err_kind containerd_task_start(struct containerd *cd, const char *id, struct err *err)
{
    Utter__Cd__TaskRef request = task_ref(id);
    return cd_call(cd, CD_LONG_MS, TASKS "Start", &request.base, NULL, NULL, err);
}

enum err_kind containerd_task_get(struct containerd *cd, const char *id, struct cd_task *out,
                                  struct err *err)
{
    Utter__Cd__TaskRef request = task_ref(id);
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, TASKS "Get", &request.base, &utter__cd__task_got__descriptor, &raw,
                err))
        return err->kind;
    const Utter__Cd__TaskProcess *process = ((Utter__Cd__TaskGot *)raw)->process;
    *out = (struct cd_task){ .state = CD_TASK_UNKNOWN };
    if (process)
        *out = (struct cd_task){ .state = process->status >= 0 && process->status <= CD_TASK_PAUSING
                                              ? (enum cd_task_state)process->status
                                              : CD_TASK_UNKNOWN,
                                 .pid = process->pid,
                                 .exit_status = process->exit_status };
    return ERR_OK;
}

enum err_kind containerd_task_kill(struct containerd *cd, const char *id, uint32_t sig,
                                   struct err *err)
{
    Utter__Cd__TaskKill request = UTTER__CD__TASK_KILL__INIT;
    request.container_id = cd_str(id);
    request.signal = sig;
    request.all = sig == SIGKILL;
    return cd_call(cd, CD_CALL_MS, TASKS "Kill", &request.base, NULL, NULL, err);
}

enum err_kind containerd_task_wait(struct containerd *cd, const char *id, int ms,
                                   uint32_t *exit_status, struct err *err)
{
    Utter__Cd__TaskRef request = task_ref(id);
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, ms, TASKS "Wait", &request.base, &utter__cd__task_waited__descriptor, &raw,
                err))
        return err->kind;
    if (exit_status)
        *exit_status = ((Utter__Cd__TaskWaited *)raw)->exit_status;
    return ERR_OK;
}

enum err_kind containerd_task_delete(struct containerd *cd, const char *id, uint32_t *exit_status,
                                     struct err *err)
{
    Utter__Cd__TaskRef request = task_ref(id);
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_LONG_MS, TASKS "Delete", &request.base, &utter__cd__task_deleted__descriptor,
                &raw, err))
        return err->kind;
    if (exit_status)
        *exit_status = ((Utter__Cd__TaskDeleted *)raw)->exit_status;
    return ERR_OK;
}

/* Signals and waits; ERR_OK once it is not running (or gone). */
static enum err_kind signal_and_wait(struct containerd *cd, const char *id, uint32_t sig, int ms,
                                     struct err *err)
{
    enum err_kind kind = containerd_task_kill(cd, id, sig, err);
    if (kind && kind != ERR_NOT_FOUND && kind != ERR_PRECONDITION)
        return kind;
    return containerd_task_wait(cd, id, ms, NULL, err);
}

enum err_kind containerd_task_end(struct containerd *cd, const char *id, int grace_ms,
                                  struct err *err)
{
    struct cd_task task;
    enum err_kind kind = containerd_task_get(cd, id, &task, err);
    if (kind == ERR_NOT_FOUND)
        return ERR_OK;
    if (kind)
        return kind;
    if (task.state == CD_TASK_RUNNING && grace_ms > 0)
        (void)!signal_and_wait(cd, id, SIGTERM, grace_ms, ERR_IGNORED);
    if (task.state != CD_TASK_STOPPED) {
        kind = signal_and_wait(cd, id, SIGKILL, 20000, err);
        if (kind && kind != ERR_NOT_FOUND)
            return kind;
    }
    kind = containerd_task_delete(cd, id, NULL, err);
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

enum err_kind containerd_task_metrics(struct containerd *cd, const char *id, char **type,
                                      struct buf *out, struct err *err)
{
    Utter__Cd__TaskMetrics request = UTTER__CD__TASK_METRICS__INIT;
    char *filter CLEANUP_FREE = xasprintf("id==%s", id);
    char *filters[1] = { filter };
    request.n_filters = 1;
    request.filters = filters;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, TASKS "Metrics", &request.base,
                &utter__cd__task_measured__descriptor, &raw, err))
        return err->kind;
    const Utter__Cd__TaskMeasured *answer = (Utter__Cd__TaskMeasured *)raw;
    if (answer->n_metrics != 1 || !answer->metrics[0]->data)
        return err_set(err, ERR_NOT_FOUND, "containerd has no metrics of %s", id);
    const Utter__Cd__Any *data = answer->metrics[0]->data;
    *type = xstrdup(data->type_url);
    buf_append(out, data->value.data, data->value.len);
    return ERR_OK;
}

struct containerd_events {
    struct rpc_stream *stream;
};

enum err_kind containerd_events_open(struct containerd *cd, struct containerd_events **out,
                                     struct err *err)
{
    struct containerd_events *events CLEANUP(containerd_events_freep) = xcalloc(1, sizeof(*events));
    struct rpc_context ctx = cd_context(cd, 0);
    ctx.lease = NULL;
    char *filter CLEANUP_FREE = xasprintf("namespace==%s,topic~=^/tasks/", cd->ns);
    char *filters[1] = { filter };
    Utter__Cd__EventSubscribe request = UTTER__CD__EVENT_SUBSCRIBE__INIT;
    request.n_filters = 1;
    request.filters = filters;
    if (rpc_stream_open(cd->rpc, &ctx, "/containerd.services.events.v1.Events/Subscribe",
                        &events->stream, err) ||
        rpc_stream_send(events->stream, &request.base, err) ||
        rpc_stream_half_close(events->stream, err))
        return err->kind;
    *out = STEAL(events);
    return ERR_OK;
}

enum err_kind containerd_events_next(struct containerd_events *events, int ms, struct cd_event *out,
                                     struct err *err)
{
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (rpc_stream_recv(events->stream, ms, &utter__cd__event_envelope__descriptor, &raw, err))
        return err->kind;
    if (!raw)
        return err_set(err, ERR_UNAVAILABLE, "containerd ended the event stream");
    const Utter__Cd__EventEnvelope *envelope = (Utter__Cd__EventEnvelope *)raw;
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->topic, sizeof(out->topic), "%s", envelope->topic);
    if (!envelope->event)
        return ERR_OK;
    /* Every task event has the container's id as field 1; an exit has the three more. */
    bool exit_event = strcmp(envelope->topic, "/tasks/exit") == 0;
    ProtobufCMessage *inner CLEANUP_MESSAGE = protobuf_c_message_unpack(
        exit_event ? &utter__cd__event_task_exit__descriptor : &utter__cd__event_task__descriptor,
        NULL, envelope->event->value.len, envelope->event->value.data);
    if (!inner)
        return ERR_OK;
    if (exit_event) {
        const Utter__Cd__EventTaskExit *event = (Utter__Cd__EventTaskExit *)inner;
        (void)snprintf(out->container, sizeof(out->container), "%s", event->container_id);
        (void)snprintf(out->exec, sizeof(out->exec), "%s", event->id);
        out->exit_status = event->exit_status;
    } else {
        const Utter__Cd__EventTask *event = (Utter__Cd__EventTask *)inner;
        (void)snprintf(out->container, sizeof(out->container), "%s", event->container_id);
    }
    return ERR_OK;
}

void containerd_events_free(struct containerd_events *events)
{
    if (!events)
        return;
    rpc_stream_free(events->stream);
    free(events);
}
