#include "shim/task_judge.h"

#include <errno.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

/* ---- runsc ------------------------------------------------------------------------------------
 */

/* Asking the binary takes tens of milliseconds: once per binary, kept by its identity. */
static CHECKED enum err_kind find_runsc(const struct policy_config *config,
                                        struct runsc_binary **out, struct err *err)
{
    struct err ignored = { 0 };
    if (fs_mkdirs(BUNDLE_CACHE, 0700, &ignored) != ERR_OK)
        log_warn("runsc_cache", log_str("why", ignored.msg));
    enum err_kind kind = runsc_binary_get(BUNDLE_CACHE, config->runsc, out, err);
    if (!kind)
        return ERR_OK;
    (void)err_prefix(err, "utter: refused: runsc");
    err->kind = ERR_PRECONDITION;
    return err->kind;
}

/* A live sandbox keeps the release it was made by; a new container may not mix two. */
static CHECKED enum err_kind same_runsc(const struct sandbox *sandbox, struct err *err)
{
    struct runsc_key now;
    enum err_kind kind = runsc_key_read(sandbox->binary->path, &now, err);
    if (kind)
        return err_prefix(err, "runsc");
    if (runsc_key_equal(&now, &sandbox->binary->key))
        return ERR_OK;
    struct runsc_binary *fresh CLEANUP(runsc_binary_freep) = NULL;
    struct err why = { 0 };
    const char *version = "an unknown version";
    if (runsc_binary_find(sandbox->binary->path, &fresh, &why) == ERR_OK)
        version = fresh->version;
    return err_set(err, ERR_PRECONDITION,
                   "utter: refused: runsc: the sandbox was made by %s, %s is now %s (make the pod "
                   "anew)",
                   sandbox->binary->version, sandbox->binary->path, version);
}

/* ---- policy -----------------------------------------------------------------------------------
 */

static json_t *rootfs_json(const struct task_create_request *request)
{
    json_t *list = json_array();
    for (size_t i = 0; i < request->n_rootfs; i++) {
        const struct rootfs_request *m = &request->rootfs[i];
        json_t *options = json_array();
        for (size_t k = 0; k < m->n_options; k++)
            (void)json_array_append_new(options, json_string(m->options[k]));
        json_t *mount = json_object();
        (void)json_object_set_new(mount, "type", json_string(m->type ? m->type : ""));
        (void)json_object_set_new(mount, "source", json_string(m->source ? m->source : ""));
        if (m->target && *m->target)
            (void)json_object_set_new(mount, "target", json_string(m->target));
        (void)json_object_set_new(mount, "options", options);
        (void)json_array_append_new(list, mount);
    }
    return list;
}

struct policy_context task_policy_context(const struct task *task)
{
    return (struct policy_context){
        .ns = task->shim->ns,
        .id = task->id,
        .role = task->role,
        .bundle = task->bundle.path,
        .containerd_root = task->bundle.containerd_root,
        .containerd_state = task->bundle.containerd_state,
    };
}

static void fill_pod(const struct sandbox *sandbox, struct policy_pod *pod)
{
    *pod = (struct policy_pod){
        .sandbox_id = sandbox->id,
        .sandbox_uid = sandbox->pod_uid,
        .sandbox_namespace = sandbox->pod_namespace,
        .sandbox_pid = sandbox->pid,
        .limits = sandbox->limits,
        .uids = sandbox->uids,
        .n_uids = sandbox->n_uids,
    };
}

/* The spec as the caller wrote it, judged as text first. */
static CHECKED enum err_kind read_spec(struct task *task, struct policy_report *report,
                                       struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    enum err_kind kind = bundle_read_spec(task->bundle.path, &text, &len, err);
    if (kind)
        return kind;
    task->asked = policy_document_parse(text, len, report);
    return policy_report_err(report, err);
}

static void judge_stdio(const struct task_create_request *request, const json_t *spec,
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
        policy_check_stdio(rows[i].uri ? rows[i].uri : "", rows[i].which, spec, context, config,
                           out, report);
    }
}

/* The hook's text is the shim's own; its program must be root's alone too. */
static void judge_hooks(const json_t *spec, const struct policy_config *config,
                        struct policy_report *report)
{
    const json_t *hooks = json_object_get(spec, "hooks");
    bool any = json_array_size(json_object_get(hooks, "createRuntime")) > 0 ||
               json_array_size(json_object_get(hooks, "poststop")) > 0;
    struct err err = { 0 };
    if (any && fs_root_only(config->nerdctl.binary, &err))
        policy_report_add(report, "hooks", "/hooks", "%s", err.msg);
}

static void log_changes(const struct task *task, const struct policy_changes *changes)
{
    for (size_t i = 0; i < changes->n; i++)
        log_info("spec_adjusted", log_str("id", task->id), log_str("at", changes->items[i].at),
                 log_str("what", changes->items[i].what));
}

static CHECKED enum err_kind apply_policy(struct task *task, const json_t *spec,
                                          const struct task_create_request *request,
                                          struct policy_report *report, struct err *err)
{
    const struct policy_config *config = task->shim->config;
    json_t *rootfs CLEANUP_JSON = rootfs_json(request);
    struct policy_context context = task_policy_context(task);
    struct policy_pod pod;
    context.rootfs = rootfs;
    if (task->role == POLICY_ROLE_WORKLOAD && task->sandbox) {
        fill_pod(task->sandbox, &pod);
        context.pod = &pod;
    }
    policy_check(spec, &context, config, report);
    judge_stdio(request, spec, &context, config, report);
    judge_hooks(spec, config, report);
    policy_check_cpuset(spec, report);
    enum err_kind kind = policy_report_err(report, err);
    if (kind)
        return kind;
    struct policy_changes changes CLEANUP(policy_changes_fini);
    policy_changes_init(&changes);
    task->spec = policy_harden(spec, &context, config, &task->plan, &changes);
    log_changes(task, &changes);
    return ERR_OK;
}

/* A namespace that the spec names is one that somebody has set up. */
static bool names_a_network(const json_t *spec)
{
    const json_t *list = json_at(spec, "/linux/namespaces");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(row, "type"));
        const char *path = json_string_value(json_object_get(row, "path"));
        if (type && path && strcmp(type, "network") == 0 && *path)
            return true;
    }
    return false;
}

/* The test-only program: the spec as it is, and a plan that promises nothing. */
static void apply_nothing(struct task *task, const json_t *spec)
{
    task->spec = json_deep_copy(spec);
    /* The Sentry lives in the pause container's cgroup: containerd's share for pause, the least
     * there is, would be the whole pod's. */
    if (task->role == POLICY_ROLE_PAUSE)
        (void)json_object_del(json_at(task->spec, "/linux/resources/cpu"), "shares");
    task->plan = (struct policy_plan){
        .role = task->role,
        .limits = { CGROUP_ABSENT, CGROUP_ABSENT, CGROUP_ABSENT, CGROUP_ABSENT, CGROUP_ABSENT,
                    CGROUP_ABSENT },
        .network = names_a_network(spec) ? POLICY_NETWORK_SANDBOX : POLICY_NETWORK_NONE,
        .terminal = task->process.terminal,
        .timeout = 86400,
    };
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static CHECKED enum err_kind pick_sandbox(struct task *task, struct err *err)
{
    struct shim *shim = task->shim;
    if (task->role == POLICY_ROLE_WORKLOAD) {
        if (!shim->sandbox || !sandbox_alive(shim->sandbox) || shim->sandbox->exiting)
            return err_set(err, ERR_PRECONDITION,
                           "utter: refused: pod: this shim has no running sandbox %s", shim->group);
        task->sandbox = shim->sandbox;
        return same_runsc(task->sandbox, err);
    }
    if (shim->sandbox || strcmp(task->id, shim->group) != 0)
        return err_set(
            err, ERR_PRECONDITION,
            "utter: refused: pod: this shim serves %s and what is grouped with it, not a "
            "sandbox %s",
            shim->group, task->id);
    return ERR_OK;
}

static CHECKED enum err_kind new_sandbox(struct task *task, const json_t *spec, struct err *err)
{
    struct shim *shim = task->shim;
    struct runsc_binary *binary = NULL;
    enum err_kind kind = find_runsc(shim->config, &binary, err);
    if (kind)
        return kind;
    struct sandbox_env env = { .loop = shim->loop,
                               .children = &shim->children,
                               .cgroups = shim->cgroups };
    struct sandbox *sandbox = sandbox_new(&env, task->id, shim->run_dir, binary);
    sandbox->limits = task->plan.limits;
    sandbox->runsc.network_sandbox = task->plan.network == POLICY_NETWORK_SANDBOX;
    if (task->role == POLICY_ROLE_PAUSE) {
        const char *uid =
            json_string_value(json_at(spec, "/annotations/io.kubernetes.cri.sandbox-uid"));
        const char *ns =
            json_string_value(json_at(spec, "/annotations/io.kubernetes.cri.sandbox-namespace"));
        sandbox->pod_uid = uid ? xstrdup(uid) : NULL;
        sandbox->pod_namespace = ns ? xstrdup(ns) : NULL;
    }
    task->sandbox = sandbox;
    shim->sandbox = sandbox;
    return ERR_OK;
}

static CHECKED enum err_kind check_form(const struct task *task, const json_t *spec,
                                        const struct task_create_request *request, struct err *err)
{
    if (!json_is_object(json_object_get(spec, "root")) ||
        !json_is_object(json_object_get(spec, "process")))
        return err_set(err, ERR_INVALID, "config.json has no root or no process");
    bool terminal = json_is_true(json_at(spec, "/process/terminal"));
    if (terminal != request->streams.terminal)
        return err_set(err, ERR_INVALID,
                       "the spec %s a terminal and the Create request %s (say the same in both)",
                       terminal ? "asks for" : "has no", terminal ? "does not" : "asks for one");
    (void)task;
    return ERR_OK;
}

enum err_kind task_judge(struct task *task, const struct task_create_request *request,
                         struct err *err)
{
    struct shim *shim = task->shim;
    enum err_kind kind = bundle_open(request->bundle, shim->ns, task->id, &task->bundle, err);
    if (kind)
        return kind;
    struct policy_report report CLEANUP(policy_report_fini);
    policy_report_init(&report);
    if ((kind = read_spec(task, &report, err)))
        return kind;
    const json_t *spec = task->asked;
    task->role = policy_role_of(spec, shim->ns);
    if ((kind = check_form(task, spec, request, err)))
        return kind;
    if ((kind = pick_sandbox(task, err)))
        return kind;
    if (shim->conformance)
        apply_nothing(task, spec);
    else if ((kind = apply_policy(task, spec, request, &report, err)))
        return kind;
    task->limits = task->plan.limits;
    if (task->role != POLICY_ROLE_WORKLOAD && (kind = new_sandbox(task, spec, err)))
        return kind;
    sandbox_add_uid(task->sandbox, task->plan.uid);
    return ERR_OK;
}

/* ---- streams ----------------------------------------------------------------------------------
 */

static char *uri_text(const struct stream_uri *uri)
{
    if (uri->kind == STREAM_FIFO)
        return xstrdup(uri->path);
    if (uri->kind == STREAM_FILE)
        return xasprintf("file://%s", uri->path);
    struct buf text;
    buf_init(&text, STREAM_URI_MAX * 2);
    buf_printf(&text, "binary://%s", uri->path);
    for (size_t i = 0; i + 1 < uri->n_args; i += 2)
        buf_printf(&text, "%c%s=%s", i ? '&' : '?', uri->args[i], uri->args[i + 1]);
    char *out = xstrdup(buf_cstr(&text));
    buf_fini(&text);
    return out;
}

/* The policy has judged the caller's text before; this asks again about exactly what would be run
 * or opened. */
static enum err_kind stream_allowed(void *arg, const struct stream_uri *uri, struct err *err)
{
    const struct task *task = arg;
    if (task->shim->conformance)
        return ERR_OK;
    struct policy_context context = task_policy_context(task);
    struct policy_stdio *out CLEANUP_FREE = xcalloc(1, sizeof(*out));
    struct policy_report report CLEANUP(policy_report_fini);
    policy_report_init(&report);
    char *text CLEANUP_FREE = uri_text(uri);
    policy_check_stdio(text, "stdout", NULL, &context, task->shim->config, out, &report);
    enum err_kind kind = policy_report_err(&report, err);
    if (kind || uri->kind != STREAM_BINARY)
        return kind;
    return fs_root_only(uri->path, err);
}

void task_streams_env(struct task *task, struct streams_env *env)
{
    *env = (struct streams_env){
        .loop = task->shim->loop,
        .children = &task->shim->children,
        .rules = { .allowed = stream_allowed, .arg = task },
        .ns = task->shim->ns,
        .id = task->id,
    };
}
