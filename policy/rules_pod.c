/* Rules over annotations: what they may be, what Utter reads in them, and what makes a pod. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/bind.h"

#define ANNOTATION_MAX (64 * 1024)

static bool is_utter_key(const char *key)
{
    static const char *const keys[] = { "io.utter.timeout", "io.utter.disk-quota",
                                        "io.utter.network", "io.utter.address" };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(keys[i], key) == 0)
            return true;
    }
    return false;
}

/* dev.gvisor.* beats even runsc's command line, and other runtimes' keys are somebody's switch:
 * only known ones pass. nerdctl's and CRI's have rules of their own (nerdctl, pod). */
void check_annotations(struct policy_check_run *run)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(run->spec, "annotations"), key, value)
    {
        if (json_string_length(value) > ANNOTATION_MAX)
            policy_find(run, annotation_at(key).s, "%s holds %zu bytes", key,
                        json_string_length(value));
        else if (!is_utter_key(key) && !text_starts(key, "nerdctl/") &&
                 !text_starts(key, "io.kubernetes.cri.") &&
                 !list_has(run->config->annotations, key))
            policy_find(run, annotation_at(key).s, "%s", key);
    }
}

void check_timeout(struct policy_check_run *run)
{
    const char *text = spec_annotation(run->spec, "io.utter.timeout");
    uint64_t seconds;
    if (text &&
        (!text_u64(text, &seconds) || seconds < 1 || seconds > (uint64_t)run->config->timeout_max))
        policy_find(run, "/annotations/io.utter.timeout",
                    "io.utter.timeout is \"%s\", 1 to %lld seconds are taken", text,
                    (long long)run->config->timeout_max);
}

/* ---- disk quota --------------------------------------------------------------------------------
 */

/* /run and /dev/shm at the tools' own size give way to the quota, down to one page. */
static bool is_tools_place(const char *destination)
{
    return strcmp(destination, "/run") == 0 || strcmp(destination, "/dev/shm") == 0;
}

#define GIVING_WAY (3 * 4096) /* these two and an inserted /tmp */

/* Bytes that the guest can write there; 0 for none, -1 for without bound. */
static int64_t writable_bytes(const struct policy_check_run *run, size_t i)
{
    const struct mount_view *mount = &run->mounts[i];
    const struct policy_bind_entry *entry;
    switch (mount_kind_of(mount, run->spec, &run->context, run->config)) {
    case MOUNT_OTHER:
        if (strcmp(mount->type, "tmpfs") != 0 || strcmp(mount->destination, "/dev") == 0)
            return 0; /* for uid 0 made read-only under a quota: gVisor does not bound it */
        if (is_tools_place(mount->destination) && mount->size == TOOL_TMPFS_SIZE)
            return 0;
        return mount->size > 0 ? mount->size : 0; /* without a size: rule tmpfs-size */
    case MOUNT_SHM:
        return 0;
    case MOUNT_TERMINATION_LOG:
        return POLICY_TERMINATION_LOG_MAX;
    case MOUNT_EMPTY_DIR:
        return mount->ro ? 0 : -1;
    case MOUNT_LISTED:
        entry = bind_entry_find(mount->source, run->config);
        if (mount->ro || !entry || !entry->rw)
            return 0;
        return entry->size > 0 ? entry->size : -1;
    case MOUNT_TOOL_FILE:
    case MOUNT_SERVICE_ACCOUNT:
        break;
    }
    return 0;
}

void check_disk_quota(struct policy_check_run *run)
{
    const char *text = spec_annotation(run->spec, "io.utter.disk-quota");
    uint64_t quota;
    int64_t sum = GIVING_WAY;
    if (!text)
        return;
    if (!text_u64(text, &quota) || quota < 1 || quota > (uint64_t)run->config->disk_quota_max) {
        policy_find(run, "/annotations/io.utter.disk-quota",
                    "io.utter.disk-quota is \"%s\", 1 to %lld bytes are taken", text,
                    (long long)run->config->disk_quota_max);
        return;
    }
    for (size_t i = 0; i < run->n_mounts; i++) {
        int64_t bytes = writable_bytes(run, i);
        if (bytes < 0)
            policy_find(run, at("/mounts/%zu", i).s, "%s is writable without a size",
                        run->mounts[i].destination);
        else if (__builtin_add_overflow(sum, bytes, &sum))
            sum = INT64_MAX;
    }
    if (sum > (int64_t)quota)
        policy_find(run, "/mounts", "writable space sums up to %lld bytes, the quota is %llu",
                    (long long)sum, (unsigned long long)quota);
}

/* ---- pods --------------------------------------------------------------------------------------
 */

static const char *annotation(const struct policy_check_run *run, const char *key)
{
    const char *value = spec_annotation(run->spec, key);
    return value ? value : "";
}

static void check_foreign_keys(struct policy_check_run *run)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(run->spec, "annotations"), key, value)
    {
        if (text_starts(key, "io.kubernetes.cri."))
            policy_find(run, annotation_at(key).s, "%s outside a pod of namespace k8s.io", key);
    }
}

static void check_same(struct policy_check_run *run, const char *key, const char *must)
{
    if (must && strcmp(annotation(run, key), must) != 0)
        policy_find(run, annotation_at(key).s, "%s is \"%s\", the sandbox's is \"%s\"", key,
                    annotation(run, key), must);
}

static void check_workload(struct policy_check_run *run)
{
    const struct policy_pod *pod = run->context.pod;
    if (!pod) {
        policy_note(run, "verified at start: sandbox %s runs in this pod's shim",
                    annotation(run, "io.kubernetes.cri.sandbox-id"));
        return;
    }
    check_same(run, "io.kubernetes.cri.sandbox-id", pod->sandbox_id);
    check_same(run, "io.kubernetes.cri.sandbox-uid", pod->sandbox_uid);
    check_same(run, "io.kubernetes.cri.sandbox-namespace", pod->sandbox_namespace);
    if (spec_memory(run->spec) > pod->limits.memory)
        policy_find(run, "/linux/resources/memory/limit",
                    "memory limit is %lld bytes, the pod's is %lld",
                    (long long)spec_memory(run->spec), (long long)pod->limits.memory);
}

void check_pod(struct policy_check_run *run)
{
    const char *sandbox = annotation(run, "io.kubernetes.cri.sandbox-id");
    if (run->context.role == POLICY_ROLE_SINGLE) {
        check_foreign_keys(run);
        return;
    }
    if (!id_is_valid(sandbox))
        policy_find(run, "/annotations/io.kubernetes.cri.sandbox-id", "sandbox-id is \"%s\"",
                    sandbox);
    else if (run->context.role == POLICY_ROLE_PAUSE && strcmp(sandbox, run->context.id) != 0)
        policy_find(run, "/annotations/io.kubernetes.cri.sandbox-id",
                    "sandbox-id is \"%s\" of sandbox %s", sandbox, run->context.id);
    else if (run->context.role == POLICY_ROLE_WORKLOAD)
        check_workload(run);
}

void check_pod_uids(struct policy_check_run *run)
{
    const struct policy_pod *pod = run->context.pod;
    int64_t uid = member_int(json_object_get(run->process, "user"), "uid", 0);
    if (run->context.role != POLICY_ROLE_WORKLOAD || !pod)
        return;
    for (size_t i = 0; i < pod->n_uids; i++) {
        if (pod->uids[i] == uid)
            return;
    }
    if (pod->n_uids >= (size_t)run->config->pod_uids)
        policy_find(run, "/process/user/uid", "uid %lld would be the pod's %zuth, %lld are taken",
                    (long long)uid, pod->n_uids + 1, (long long)run->config->pod_uids);
}

/* ---- the pause container ------------------------------------------------------------------- */

static void check_pause_argv(struct policy_check_run *run)
{
    const json_t *args = json_object_get(run->process, "args");
    size_t n = 0;
    bool same = true;
    for (char **arg = run->config->pause_argv; arg && *arg; arg++, n++) {
        const char *is = json_string_value(json_array_get(args, n));
        same &= is && strcmp(is, *arg) == 0;
    }
    if (!same || json_array_size(args) != n)
        policy_find(run, "/process/args", "arguments other than the configured pause-argv");
}

static void check_pause_annotations(struct policy_check_run *run)
{
    static const char *const keys[] = {
        "container-type",    "sandbox-cpu-period", "sandbox-cpu-quota",     "sandbox-cpu-shares",
        "sandbox-id",        "sandbox-memory",     "sandbox-log-directory", "sandbox-name",
        "sandbox-namespace", "sandbox-uid",
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct at key = at("io.kubernetes.cri.%s", keys[i]);
        if (!spec_annotation(run->spec, key.s))
            policy_find(run, annotation_at(key.s).s, "annotation %s is missing", key.s);
    }
}

void check_pause(struct policy_check_run *run)
{
    if (run->context.role != POLICY_ROLE_PAUSE)
        return;
    check_pause_argv(run);
    check_pause_annotations(run);
    if (member_true(run->process, "terminal"))
        policy_find(run, "/process/terminal", "a terminal");
    for (size_t i = 0; i < run->n_mounts; i++) {
        enum mount_kind kind =
            mount_kind_of(&run->mounts[i], run->spec, &run->context, run->config);
        if (kind != MOUNT_OTHER && kind != MOUNT_TOOL_FILE && kind != MOUNT_SHM)
            policy_find(run, at("/mounts/%zu", i).s, "a bind on %s", run->mounts[i].destination);
        else if (kind == MOUNT_OTHER && strcmp(run->mounts[i].type, "tmpfs") == 0 &&
                 !path_below(run->mounts[i].destination, "/dev"))
            policy_find(run, at("/mounts/%zu", i).s, "a tmpfs on %s", run->mounts[i].destination);
    }
}
