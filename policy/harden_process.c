/* The process that runsc gets: of a container, and of an exec. */
#include <string.h>

#include "base/json.h"
#include "policy/env.h"
#include "policy/harden.h"
#include "policy/rlimit.h"

static void drop_member(struct harden *harden, json_t *object, const char *pointer, const char *key,
                        const char *why)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return;
    if (!json_is_empty(value))
        changes_add(harden->changes, at("%s/%s", pointer, key).s, "%s", why);
    json_object_del(object, key);
}

/* Five sets, all empty: an absent set has meant "the container's" to some version of runsc. */
static json_t *no_capabilities(void)
{
    return json_pack("{s:[],s:[],s:[],s:[],s:[]}", "bounding", "effective", "permitted",
                     "inheritable", "ambient");
}

static void replace_capabilities(struct harden *harden, json_t *process, const char *pointer)
{
    if (!json_is_empty(json_object_get(process, "capabilities")))
        changes_add(harden->changes, at("%s/capabilities", pointer).s, "emptied");
    json_object_set_new(process, "capabilities", no_capabilities());
}

static void replace_rlimits(struct harden *harden, json_t *process, const char *pointer)
{
    json_t *own = rlimits_for(json_object_get(process, "rlimits"), harden->context->role,
                              &harden->plan->limits);
    if (!json_equal(own, json_object_get(process, "rlimits")))
        changes_add(harden->changes, at("%s/rlimits", pointer).s,
                    "NPROC set to %lld, NOFILE to %lld, CORE to 0",
                    (long long)harden->plan->limits.pids, (long long)harden->plan->limits.nofile);
    json_object_set_new(process, "rlimits", own);
}

/* ---- environment ------------------------------------------------------------------------------
 */

static bool env_sets(const json_t *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < json_array_size(env); i++) {
        const char *entry = json_string_value(json_array_get(env, i));
        if (entry && strncmp(entry, name, n) == 0 && entry[n] == '=')
            return true;
    }
    return false;
}

/* WEB_PORT is a service link only beside a WEB_SERVICE_HOST; else it is the image's own. */
static bool is_service_link(const json_t *env, const char *entry)
{
    char name[ENV_NAME_MAX], service[ENV_NAME_MAX];
    const char *value;
    if (!env_split(entry, name, &value) || !env_link_service(name, service))
        return false;
    char *host CLEANUP_FREE = xasprintf("%s_SERVICE_HOST", service);
    return env_sets(env, host);
}

static void drop_service_links(struct harden *harden, json_t *process, const char *pointer)
{
    const json_t *env = json_object_get(process, "env");
    json_t *kept = json_array();
    if (harden->context->role == POLICY_ROLE_SINGLE || !env) {
        json_decref(kept);
        return;
    }
    for (size_t i = 0; i < json_array_size(env); i++) {
        json_t *entry = json_array_get(env, i);
        if (!is_service_link(env, json_string_value(entry)))
            json_array_append(kept, entry);
    }
    if (json_array_size(kept) < json_array_size(env))
        changes_add(harden->changes, at("%s/env", pointer).s, "%zu service links dropped",
                    json_array_size(env) - json_array_size(kept));
    json_object_set_new(process, "env", kept);
}

/* ---- both -------------------------------------------------------------------------------------
 */

static void harden_any(struct harden *harden, json_t *process, const char *pointer)
{
    replace_capabilities(harden, process, pointer);
    replace_rlimits(harden, process, pointer);
    drop_service_links(harden, process, pointer);
    drop_member(harden, process, pointer, "apparmorProfile", "dropped: gVisor ignores it");
    drop_member(harden, process, pointer, "selinuxLabel", "dropped");
    drop_member(harden, process, pointer, "commandLine", "dropped");
    drop_member(harden, process, pointer, "scheduler", "dropped");
    drop_member(harden, process, pointer, "ioPriority", "dropped");
    drop_member(harden, process, pointer, "execCPUAffinity", "dropped");
    json_object_del(json_object_get(process, "user"), "username");
    json_object_set_new(process, "noNewPrivileges", json_true());
}

void harden_process(struct harden *harden)
{
    json_t *process = json_object_get(harden->spec, "process");
    int64_t score = member_int(process, "oomScoreAdj", 0);
    harden_any(harden, process, "/process");
    if (score < 0) {
        json_object_set_new(process, "oomScoreAdj", json_integer(0));
        changes_add(harden->changes, "/process/oomScoreAdj", "%lld raised to 0", (long long)score);
    } else if (score > 1000) {
        json_object_set_new(process, "oomScoreAdj", json_integer(1000));
        changes_add(harden->changes, "/process/oomScoreAdj", "%lld lowered to 1000",
                    (long long)score);
    }
}

/* Ids are the container's: an exec that asks for others was refused. */
static void take_ids(json_t *process, const json_t *container)
{
    const json_t *own = json_at(container, "/process/user");
    json_t *user = json_object_get(process, "user");
    if (!user) {
        user = json_object();
        json_object_set_new(process, "user", user);
    }
    json_object_set_new(user, "uid", json_integer(member_int(own, "uid", 0)));
    json_object_set_new(user, "gid", json_integer(member_int(own, "gid", 0)));
}

json_t *policy_harden_exec(const json_t *process, const json_t *container,
                           const struct policy_context *context, const struct policy_config *config,
                           struct policy_changes *changes)
{
    struct policy_guess guess;
    struct policy_context full = *context;
    struct policy_plan plan = { 0 };
    policy_context_guess(container, &full, &guess);
    plan.limits = policy_limits_of(container, &full, config);
    json_t *out = json_deep_copy(process);
    struct harden harden = {
        .context = &full, .config = config, .plan = &plan, .changes = changes
    };
    harden_any(&harden, out, "");
    take_ids(out, container);
    json_object_del(out, "oomScoreAdj");
    return out;
}
