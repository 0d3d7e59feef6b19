#include "shim/control_wire.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

enum control_scan_result control_scan(struct control_scan *scan, const char *data, size_t len,
                                      size_t *used)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (scan->in_string) {
            if (!scan->escaped && c == '"')
                scan->in_string = false;
            scan->escaped = !scan->escaped && c == '\\';
        } else if (c == '{' || c == '[') {
            if (scan->depth == 0 && c == '[')
                return CONTROL_SCAN_BAD;
            if (++scan->depth > CONTROL_DEPTH_MAX)
                return CONTROL_SCAN_BAD;
        } else if (scan->depth == 0) {
            return CONTROL_SCAN_BAD;
        } else if (c == '"') {
            scan->in_string = true;
        } else if ((c == '}' || c == ']') && --scan->depth == 0) {
            *used = i + 1;
            return CONTROL_SCAN_END;
        }
    }
    *used = len;
    return CONTROL_SCAN_MORE;
}

size_t control_answer_max(enum control_call call)
{
    switch (call) {
    case CONTROL_CALL_PROCESSES:
        return (size_t)1024 * 1024;
    case CONTROL_CALL_EVENT:
    case CONTROL_CALL_NETWORK:
        return 65536;
    case CONTROL_CALL_WAIT:
    case CONTROL_CALL_EXEC:
    case CONTROL_CALL_SIGNAL:
    case CONTROL_CALL_STATE:
    case CONTROL_CALL_IDENTIFY:
        break;
    }
    return 4096;
}

static bool take_uint(const json_t *object, const char *key, uint64_t max, uint64_t *out)
{
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_null(v)) {
        *out = 0;
        return true;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > max)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool take_int32(const json_t *object, const char *key, int32_t *out)
{
    uint64_t v;
    if (!take_uint(object, key, INT32_MAX, &v))
        return false;
    *out = (int32_t)v;
    return true;
}

static bool take_u32(const json_t *object, const char *key, uint32_t *out)
{
    uint64_t v;
    if (!take_uint(object, key, UINT32_MAX, &v))
        return false;
    *out = (uint32_t)v;
    return true;
}

static void take_name(const json_t *object, const char *key, char *out, size_t size)
{
    const char *s = json_string_value(json_object_get(object, key));
    (void)text_safe(s ? s : "", out, size);
}

static bool take_process(const json_t *j, struct control_process *out)
{
    const json_t *threads = json_object_get(j, "threads");
    if (!json_is_object(j) || !take_int32(j, "pid", &out->pid) || out->pid <= 0 ||
        !take_int32(j, "ppid", &out->ppid) || !take_int32(j, "pgid", &out->pgid) ||
        !take_u32(j, "uid", &out->uid))
        return false;
    out->threads = (uint32_t)json_array_size(threads);
    take_name(j, "cmd", out->cmd, sizeof(out->cmd));
    return true;
}

static bool take_processes(const json_t *result, struct control_answer *out)
{
    if (json_is_null(result))
        return true;
    size_t n = json_array_size(result);
    if (!json_is_array(result) || n > CONTROL_PROCESSES_MAX)
        return false;
    out->processes = xcalloc(n ? n : 1, sizeof(*out->processes));
    for (size_t i = 0; i < n; i++) {
        const json_t *j = json_array_get(result, i);
        if (!take_process(j, &out->processes[i]))
            return false;
        out->has_pgid |= json_object_get(j, "pgid") != NULL;
    }
    out->reply.processes = out->processes;
    out->reply.n_processes = n;
    return true;
}

static bool take_interface(const json_t *j, struct control_interface *out)
{
    take_name(j, "Name", out->name, sizeof(out->name));
    const struct {
        const char *key;
        uint64_t *to;
    } fields[] = {
        { "RxBytes", &out->rx_bytes },   { "RxPackets", &out->rx_packets },
        { "RxErrors", &out->rx_errors }, { "RxDropped", &out->rx_dropped },
        { "TxBytes", &out->tx_bytes },   { "TxPackets", &out->tx_packets },
        { "TxErrors", &out->tx_errors }, { "TxDropped", &out->tx_dropped },
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (!take_uint(j, fields[i].key, INT64_MAX, fields[i].to))
            return false;
    }
    return json_is_object(j);
}

static bool take_usage(const json_t *usage, const char *container, struct control_event *e)
{
    const char *id;
    json_t *ns;
    if (!usage || json_is_null(usage))
        return true;
    json_object_foreach((json_t *)(uintptr_t)usage, id, ns)
    {
        json_int_t v = json_integer_value(ns);
        if (!json_is_integer(ns) || v < 0 ||
            __builtin_add_overflow(e->all_ns, (uint64_t)v, &e->all_ns))
            return false;
        if (strcmp(id, container) == 0)
            e->container_ns = (uint64_t)v;
    }
    return json_is_object(usage);
}

static bool take_event(const json_t *result, const char *container, struct control_answer *out)
{
    const json_t *data = json_at(result, "/event/data");
    if (!json_is_object(data))
        return false;
    struct control_event *e = out->event = xcalloc(1, sizeof(*e));
    const json_t *list = json_object_get(data, "network_interfaces");
    size_t n = json_array_size(list);
    if (n > ARRAY_LEN(e->interfaces) ||
        !take_uint(json_at(data, "/cpu/usage"), "total", INT64_MAX, &e->cpu_ns) ||
        !take_uint(json_at(data, "/memory/usage"), "usage", INT64_MAX, &e->memory_usage) ||
        !take_uint(json_object_get(data, "pids"), "current", INT64_MAX, &e->pids) ||
        !take_usage(json_object_get(result, "containerUsage"), container, e))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!take_interface(json_array_get(list, i), &e->interfaces[i]))
            return false;
    }
    e->n_interfaces = n;
    out->reply.event = e;
    return true;
}

static bool take_address(const json_t *j, char *out, size_t size)
{
    const char *address = json_string_value(json_object_get(j, "Address"));
    uint64_t prefix;
    if (!address || !take_uint(j, "PrefixLen", 128, &prefix))
        return false;
    char safe[48];
    (void)snprintf(out, size, "%s/%u", text_safe(address, safe, sizeof(safe)), (unsigned)prefix);
    return true;
}

static bool take_link(const json_t *j, struct control_link *out)
{
    const json_t *addresses = json_object_get(j, "Addresses");
    if (!json_is_object(j) || json_array_size(addresses) > ARRAY_LEN(out->addresses))
        return false;
    take_name(j, "Name", out->name, sizeof(out->name));
    out->n_routes = json_array_size(json_object_get(j, "Routes"));
    out->n_addresses = json_array_size(addresses);
    for (size_t i = 0; i < out->n_addresses; i++) {
        if (!take_address(json_array_get(addresses, i), out->addresses[i],
                          sizeof(out->addresses[i])))
            return false;
    }
    return true;
}

static bool take_links(const json_t *list, struct control_network *n)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (n->n_links == ARRAY_LEN(n->links) ||
            !take_link(json_array_get(list, i), &n->links[n->n_links]))
            return false;
        n->n_links++;
    }
    return true;
}

static void mark_default(const json_t *gateway, struct control_network *n)
{
    char name[16];
    take_name(gateway, "Name", name, sizeof(name));
    for (size_t i = 0; name[0] && i < n->n_links; i++) {
        if (strcmp(n->links[i].name, name) == 0)
            n->links[i].default_route = true;
    }
}

static bool take_network(const json_t *result, struct control_answer *out)
{
    struct control_network *n = out->network = xcalloc(1, sizeof(*n));
    if (!json_is_object(result) || !take_links(json_object_get(result, "LoopbackLinks"), n) ||
        !take_links(json_object_get(result, "FDBasedLinks"), n) ||
        !take_links(json_object_get(result, "XDPLinks"), n))
        return false;
    mark_default(json_object_get(result, "Defaultv4Gateway"), n);
    mark_default(json_object_get(result, "Defaultv6Gateway"), n);
    out->reply.network = n;
    return true;
}

static bool take_number(const json_t *result, json_int_t min, json_int_t max, json_int_t *out)
{
    *out = json_integer_value(result);
    return json_is_integer(result) && *out >= min && *out <= max;
}

static bool take_result(enum control_call call, const json_t *result, const char *container,
                        struct control_answer *out)
{
    json_int_t v = 0;
    switch (call) {
    case CONTROL_CALL_SIGNAL:
        return true;
    case CONTROL_CALL_WAIT:
        if (!take_number(result, 0, 0xffff, &v))
            return false;
        out->reply.wait_status = (uint32_t)v;
        return true;
    case CONTROL_CALL_EXEC:
        if (!take_number(result, 1, INT32_MAX, &v))
            return false;
        out->reply.pid = (int32_t)v;
        return true;
    case CONTROL_CALL_STATE:
    case CONTROL_CALL_IDENTIFY:
        if (!take_number(result, CONTROL_STATE_CREATED, CONTROL_STATE_STOPPED, &v))
            return false;
        out->reply.state = (enum control_runtime_state)v;
        out->state_known = true;
        return true;
    case CONTROL_CALL_EVENT:
        return take_event(result, container, out);
    case CONTROL_CALL_PROCESSES:
        return take_processes(result, out);
    case CONTROL_CALL_NETWORK:
        return take_network(result, out);
    }
    return false;
}

/* Errors are text only; these fragments are stable over the releases we support. */
static enum err_kind kind_of(const char *text)
{
    static const struct {
        const char *fragment;
        enum err_kind kind;
    } rows[] = {
        { "no such process", ERR_NOT_FOUND }, { "not started", ERR_PRECONDITION },
        { "not found", ERR_NOT_FOUND },       { "has stopped", ERR_NOT_FOUND },
        { "invalid argument", ERR_INVALID },  { "no such file or directory", ERR_INVALID },
        { "permission denied", ERR_INVALID },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strstr(text, rows[i].fragment))
            return rows[i].kind;
    }
    return ERR_INTERNAL;
}

static void take_error(enum control_call call, const char *text, struct control_answer *out)
{
    struct control_reply *reply = &out->reply;
    bool unknown = strstr(text, "unknown method") != NULL;
    if (unknown && call == CONTROL_CALL_IDENTIFY) {
        reply->outcome = CONTROL_OK;
        return;
    }
    char safe[512];
    (void)text_safe(text, safe, sizeof(safe));
    reply->outcome = CONTROL_REFUSED;
    if (unknown && call == CONTROL_CALL_NETWORK) {
        (void)err_set(&reply->err, ERR_UNSUPPORTED, "sandbox: %s", safe);
    } else if (unknown || strstr(text, "cannot unmarshal")) {
        reply->outcome = CONTROL_USE_CLI;
        (void)err_set(&reply->err, ERR_UNSUPPORTED, "sandbox: %s", safe);
    } else {
        (void)err_set(&reply->err, kind_of(text), "sandbox: %s", safe);
    }
}

void control_answer_parse(enum control_call call, const char *text, size_t len,
                          const char *container, struct control_answer *out)
{
    *out = (struct control_answer){ 0 };
    json_error_t error;
    json_t *j CLEANUP_JSON = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    const json_t *success = json_object_get(j, "success");
    const char *message = json_string_value(json_object_get(j, "err"));
    if (json_is_false(success) && message) {
        take_error(call, message, out);
        return;
    }
    if (json_is_true(success) && take_result(call, json_object_get(j, "result"), container, out))
        return;
    control_answer_fini(out);
    out->reply.outcome = CONTROL_BROKEN;
    (void)err_set(&out->reply.err, ERR_INTERNAL, "sandbox: malformed answer on the control socket");
}

void control_answer_fini(struct control_answer *answer)
{
    free(answer->processes);
    free(answer->event);
    free(answer->network);
    *answer = (struct control_answer){ 0 };
}

/* Takes the argument. */
static char *request(const char *method, json_t *take_arg)
{
    if (!take_arg)
        return NULL;
    json_t *j CLEANUP_JSON = json_pack("{s:s, s:o}", "method", method, "arg", take_arg);
    return j ? json_dumps(j, JSON_COMPACT) : NULL;
}

char *control_request_container(const char *method, const char *container)
{
    return request(method, json_string(container));
}

char *control_request_null(const char *method)
{
    return request(method, json_null());
}

char *control_request_signal(const char *container, int32_t pid, int signo, int mode)
{
    return request("containerManager.Signal",
                   json_pack("{s:s, s:i, s:i, s:i}", "CID", container, "Signo", signo, "PID",
                             (int)pid, "Mode", mode));
}

char *control_request_wait_pid(const char *container, int32_t pid)
{
    return request("containerManager.WaitPID",
                   json_pack("{s:s, s:i}", "CID", container, "PID", (int)pid));
}

static json_t *strings(const char *const *list)
{
    json_t *array = json_array();
    for (; *list; list++) {
        if (json_array_append_new(array, json_string(*list))) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *numbers(const uint32_t *list, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(array, json_integer(list[i]));
    return array;
}

static json_t *capabilities(const struct control_caps *caps)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "PermittedCaps", (json_int_t)caps->permitted,
                     "InheritableCaps", (json_int_t)caps->inheritable, "EffectiveCaps",
                     (json_int_t)caps->effective, "BoundingCaps", (json_int_t)caps->bounding,
                     "AmbientCaps", (json_int_t)caps->ambient);
}

/* Every member that decides over rights is written out: what is missing the Sentry takes as "all
 * capabilities" and "new privileges allowed". Pointers of the Go struct are left out. */
char *control_request_exec(const struct control_exec *exec)
{
    json_t *arg CLEANUP_JSON = json_pack(
        "{s:s, s:I, s:I, s:o, s:b, s:b, s:s, s:[i,i,i]}", "wd", exec->cwd, "KUID",
        (json_int_t)exec->uid, "KGID", (json_int_t)exec->gid, "Capabilities",
        capabilities(&exec->caps), "NoNewPrivileges", (int)exec->no_new_privileges, "StdioIsPty",
        (int)exec->terminal, "ContainerID", exec->container, "GuestFDs", 0, 1, 2);
    /* Each is taken, also where one before it failed. */
    int bad = json_object_set_new(arg, "argv", strings(exec->argv)) |
              json_object_set_new(arg, "envv", strings(exec->envv)) |
              json_object_set_new(arg, "ExtraKGIDs", numbers(exec->groups, exec->n_groups));
    if (bad)
        return NULL;
    return request("containerManager.ExecuteAsync", json_incref(arg));
}
