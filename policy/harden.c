/* From the accepted spec to the one that runsc gets: order, hooks, annotations, plan. */
#include "policy/harden.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/nerdctl.h"
#include "policy/rlimit.h"

/* Two threads of the sandbox for a guest process are the rule, but current runsc has up to 4.9 for
 * each while an endless fork bomb runs (children fork, nobody reaps), and a sandbox that is refused
 * a thread panics. Measured on 20260905 with 64, 128 and 250; 8 leaves room. */
int64_t policy_host_pids(int64_t pids, int64_t uids)
{
    return 8 * pids * uids + 64;
}

static int64_t asked_nofile(const json_t *spec, int64_t max)
{
    const json_t *rlimits = json_at(spec, "/process/rlimits");
    for (size_t i = 0; i < json_array_size(rlimits); i++) {
        const json_t *rlimit = json_array_get(rlimits, i);
        int64_t hard = rlimit_value(rlimit, "hard");
        if (strcmp(member_str(rlimit, "type"), "RLIMIT_NOFILE") == 0 && hard > 0)
            return hard < max ? hard : max;
    }
    return max;
}

struct policy_limits policy_limits_of(const json_t *spec, const struct policy_context *context,
                                      const struct policy_config *config)
{
    if (context->role == POLICY_ROLE_WORKLOAD && context->pod)
        return context->pod->limits;
    bool single = context->role == POLICY_ROLE_SINGLE;
    const json_t *pids = json_at(spec, "/linux/resources/pids/limit");
    struct policy_limits limits = {
        .memory = spec_memory(spec),
        .cpu_quota = spec_cpu_quota(spec),
        .cpu_period = spec_cpu_period(spec),
        /* One number for all containers of a pod, known before the first of them. */
        .pids = single && pids ? json_integer_value(pids) : config->max_pids,
        .nofile = single ? asked_nofile(spec, config->max_nofile) : config->max_nofile,
    };
    limits.host_pids = policy_host_pids(limits.pids, single ? 1 : config->pod_uids);
    return limits;
}

/* ---- hooks ------------------------------------------------------------------------------------
 */

static void replace_hook(struct harden *harden, json_t *hooks, const char *key, const char *event)
{
    if (!spec_has_hook(harden->spec, key))
        return;
    const char *manager = nerdctl_hook_cgroup_manager(harden->spec, key);
    json_t *own = nerdctl_hook_new(harden->context, harden->config, event, manager);
    json_object_set_new(hooks, key, json_pack("[o]", own));
    changes_add(harden->changes, at("/hooks/%s", key).s, "written anew from hooks.nerdctl");
}

static void harden_hooks(struct harden *harden)
{
    json_t *hooks = json_object();
    replace_hook(harden, hooks, "createRuntime", "createRuntime");
    replace_hook(harden, hooks, "poststop", "postStop");
    if (json_object_size(hooks) > 0) {
        json_object_set_new(harden->spec, "hooks", hooks);
    } else {
        json_object_del(harden->spec, "hooks");
        json_decref(hooks);
    }
}

/* ---- annotations ------------------------------------------------------------------------------
 */

/* runsc needs two of CRI's to know the pod's sandbox, nerdctl's hook reads its own. */
static bool is_kept(const struct harden *harden, const char *key)
{
    if (harden->context->role != POLICY_ROLE_SINGLE)
        return strcmp(key, "io.kubernetes.cri.container-type") == 0 ||
               strcmp(key, "io.kubernetes.cri.sandbox-id") == 0;
    return json_object_get(harden->spec, "hooks") && nerdctl_key_is_read_by_hook(key);
}

void harden_annotations(struct harden *harden)
{
    json_t *annotations = json_object_get(harden->spec, "annotations");
    const char *key;
    json_t *value;
    void *next;
    size_t dropped = 0;
    json_object_foreach_safe(annotations, next, key, value)
    {
        if (!is_kept(harden, key)) {
            json_object_del(annotations, key);
            dropped++;
        }
    }
    if (dropped)
        changes_add(harden->changes, "/annotations", "%zu that runsc has no use for dropped",
                    dropped);
    if (annotations && json_object_size(annotations) == 0)
        json_object_del(harden->spec, "annotations");
}

/* ---- plan -------------------------------------------------------------------------------------
 */

static int64_t annotation_number(const json_t *spec, const char *key, int64_t absent)
{
    const char *text = spec_annotation(spec, key);
    int64_t value;
    return text && text_i64(text, &value) ? value : absent;
}

/* From the caller's spec: its annotations are gone from the hardened one. */
static void plan_read(struct policy_plan *plan, const json_t *spec,
                      const struct policy_context *context, const struct policy_config *config)
{
    const json_t *process = json_object_get(spec, "process");
    const json_t *user = json_object_get(process, "user");
    const char *netns = spec_netns(spec);
    *plan = (struct policy_plan){
        .role = context->role,
        .limits = policy_limits_of(spec, context, config),
        .network = spec_network_attached(spec) ? POLICY_NETWORK_SANDBOX : POLICY_NETWORK_NONE,
        .network_internal = context->role == POLICY_ROLE_SINGLE || !config->network_cri_cluster,
        .network_address = spec_annotation(spec, "io.utter.address"),
        .netns = *netns ? netns : NULL,
        .network_hook = spec_has_hook(spec, "createRuntime"),
        .terminal = member_true(process, "terminal"),
        .uid = member_int(user, "uid", 0),
        .gid = member_int(user, "gid", 0),
        .timeout = annotation_number(spec, "io.utter.timeout", config->timeout_default),
        .disk_quota = annotation_number(spec, "io.utter.disk-quota", 0),
        .sandbox_id = context->role == POLICY_ROLE_SINGLE
                          ? NULL
                          : spec_annotation(spec, "io.kubernetes.cri.sandbox-id"),
        .systemd_cgroup = strchr(member_str(json_object_get(spec, "linux"), "cgroupsPath"), ':'),
    };
}

void policy_plan_fini(struct policy_plan *plan)
{
    free(plan->binds);
    *plan = (struct policy_plan){ 0 };
}

/* Objects and arrays that hold nothing mean the same as their absence: say the shorter. */
static void drop_empty(json_t *object)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value)
    {
        if (strcmp(key, "seccomp") == 0)
            continue; /* shared with the caller's, and replaced later */
        if (json_is_object(value))
            drop_empty(value);
        if ((json_is_object(value) || json_is_array(value)) && json_is_empty(value))
            json_object_del(object, key);
    }
}

/* A deep copy but for the seccomp profile, the largest part by far: it is only read, and replaced
 * as a whole. */
static json_t *copy_spec(const json_t *spec)
{
    json_t *out = json_copy((json_t *)(uintptr_t)spec), *linux_ = json_object();
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(spec, "linux"), key, value) json_object_set_new(
        linux_, key, strcmp(key, "seccomp") == 0 ? json_incref(value) : json_deep_copy(value));
    json_object_foreach((json_t *)(uintptr_t)spec, key, value)
    {
        if (strcmp(key, "linux") != 0)
            json_object_set_new(out, key, json_deep_copy(value));
    }
    json_object_set_new(out, "linux", linux_);
    return out;
}

json_t *policy_harden(const json_t *spec, const struct policy_context *context,
                      const struct policy_config *config, struct policy_plan *plan,
                      struct policy_changes *changes)
{
    struct policy_guess guess;
    struct policy_context full = *context;
    policy_context_guess(spec, &full, &guess);
    plan_read(plan, spec, &full, config);
    struct harden harden = {
        .spec = copy_spec(spec),
        .context = &full,
        .config = config,
        .plan = plan,
        .changes = changes,
    };
    drop_empty(harden.spec);
    harden_process(&harden);
    harden_mounts(&harden);
    harden_linux(&harden);
    harden_hooks(&harden);
    harden_annotations(&harden);
    return harden.spec;
}
