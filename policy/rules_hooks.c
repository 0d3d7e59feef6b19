/*
 * Rules over hooks and over what nerdctl's hook reads. A hook runs as root on the host: the
 * caller's text never does, but a caller who means another path or program is told so instead of
 * being given ours in silence.
 */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/nerdctl.h"

/* Flags that change nothing in the hook; dropped. */
static bool flag_is_idle(const char *flag)
{
    static const char *const idle[] = {
        "snapshotter",       "storage-driver", "debug",           "debug-full",     "hosts-dir",
        "insecure-registry", "experimental",   "host-gateway-ip", "kube-hide-dupe", "cdi-spec-dirs",
    };
    for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
        if (strcmp(idle[i], flag) == 0)
            return true;
    }
    return false;
}

/* What the flag must be; NULL for a flag that nerdctl does not have or that the hook obeys and we
 * do not configure. */
static const char *flag_required(const struct policy_check_run *run, const char *flag)
{
    static const char *const address[] = { "address", "a", "H", "host" };
    const struct policy_nerdctl *nerdctl = &run->config->nerdctl;
    for (size_t i = 0; i < ARRAY_LEN(address); i++) {
        if (strcmp(address[i], flag) == 0)
            return nerdctl->address;
    }
    if (strcmp(flag, "namespace") == 0 || strcmp(flag, "n") == 0)
        return run->context.ns;
    if (strcmp(flag, "data-root") == 0)
        return nerdctl->data_root;
    if (strcmp(flag, "cni-path") == 0)
        return nerdctl->cni_path;
    if (strcmp(flag, "cni-netconfpath") == 0)
        return nerdctl->cni_netconfpath;
    return NULL;
}

static bool cgroup_manager_fits(const struct policy_check_run *run, const char *value)
{
    const char *must = run->config->nerdctl.cgroup_manager;
    return must ? strcmp(must, value) == 0
                : strcmp(value, "cgroupfs") == 0 || strcmp(value, "systemd") == 0;
}

static void check_flag(struct policy_check_run *run, const char *here, const char *arg)
{
    char flag[64];
    size_t n = strcspn(arg, "=");
    if (!text_starts(arg, "--") || arg[n] != '=' || n - 2 >= sizeof(flag)) {
        policy_find(run, here, "argument \"%s\" is not nerdctl's", arg);
        return;
    }
    memcpy(flag, arg + 2, n - 2);
    flag[n - 2] = 0;
    const char *value = arg + n + 1;
    if (strcmp(flag, "cgroup-manager") == 0) {
        if (!cgroup_manager_fits(run, value))
            policy_find(run, here, "--cgroup-manager is \"%s\", configured is \"%s\"", value,
                        run->config->nerdctl.cgroup_manager ? run->config->nerdctl.cgroup_manager
                                                            : "cgroupfs or systemd");
        return;
    }
    const char *required = flag_required(run, flag);
    if (!required && !flag_is_idle(flag))
        policy_find(run, here, "flag --%s is not accepted", flag);
    if (required && text_starts(value, "unix://"))
        value += strlen("unix://");
    if (required && strcmp(required, value) != 0)
        policy_find(run, here, "--%s is \"%s\", configured is \"%s\"", flag, value, required);
}

static bool arg_is(const json_t *args, size_t i, const char *text)
{
    const char *arg = json_string_value(json_array_get(args, i));
    return arg && strcmp(arg, text) == 0;
}

static void check_hook(struct policy_check_run *run, const char *here, const json_t *hook,
                       const char *event)
{
    const json_t *args = json_object_get(hook, "args");
    size_t n = json_array_size(args);
    const char *path = member_str(hook, "path");
    if (strcmp(path, run->config->nerdctl.binary) != 0 || !arg_is(args, 0, path)) {
        policy_find(run, here, "program \"%s\", configured is \"%s\"", path,
                    run->config->nerdctl.binary);
        return;
    }
    if (n < 4 || !arg_is(args, n - 3, "internal") || !arg_is(args, n - 2, "oci-hook") ||
        !arg_is(args, n - 1, event)) {
        policy_find(run, here, "arguments do not end in internal oci-hook %s", event);
        return;
    }
    for (size_t i = 1; i + 3 < n; i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        check_flag(run, here, arg ? arg : "");
    }
}

static void check_event(struct policy_check_run *run, const char *key, const char *event)
{
    const json_t *hooks = json_object_get(json_object_get(run->spec, "hooks"), key);
    struct at here = at("/hooks/%s", key);
    if (json_array_size(hooks) == 0)
        return;
    if (!event) {
        policy_find(run, here.s, "%zu %s hooks", json_array_size(hooks), key);
    } else if (run->context.role != POLICY_ROLE_SINGLE) {
        policy_find(run, here.s, "a %s hook in a pod", key);
    } else if (json_array_size(hooks) > 1) {
        policy_find(run, here.s, "%zu %s hooks, at most one", json_array_size(hooks), key);
    } else {
        check_hook(run, here.s, json_array_get(hooks, 0), event);
        if (!spec_annotation(run->spec, "nerdctl/state-dir"))
            policy_find(run, here.s, "a hook without annotation nerdctl/state-dir");
    }
}

void check_hooks(struct policy_check_run *run)
{
    check_event(run, "createRuntime", "createRuntime");
    check_event(run, "poststop", "postStop");
    check_event(run, "prestart", NULL);
    check_event(run, "createContainer", NULL);
    check_event(run, "startContainer", NULL);
    check_event(run, "poststart", NULL);
}

/* ---- annotations that the hook obeys ------------------------------------------------------ */

static void check_networks(struct policy_check_run *run)
{
    if (!spec_annotation(run->spec, "nerdctl/networks"))
        return;
    json_t *names CLEANUP_JSON = nerdctl_networks(run->spec);
    if (!names)
        policy_find(run, "/annotations/nerdctl~1networks", "networks are no list of names");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name_is_plain(name))
            policy_find(run, "/annotations/nerdctl~1networks", "network name \"%s\"", name);
    }
}

static bool mac_is_valid(const char *text)
{
    if (strlen(text) != 17)
        return false;
    for (size_t i = 0; i < 17; i++) {
        if (i % 3 == 2 ? text[i] != ':' : !strchr("0123456789abcdefABCDEF", text[i]))
            return false;
    }
    return true;
}

static bool empty_or_host_name(const char *text)
{
    return !*text || hostname_is_valid(text);
}

static bool empty_or_plain(const char *text)
{
    return !*text || name_is_plain(text);
}

/* ["NAME:ADDRESS", …]: becomes lines of a file that root writes. */
static bool extra_hosts_are_valid(const char *text)
{
    json_t *list CLEANUP_JSON = NULL;
    if (json_strict_load(text, strlen(text), 65536, JSON_DECODE_ANY, &list, NULL))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *entry = json_string_value(json_array_get(list, i));
        const char *colon = entry ? strchr(entry, ':') : NULL;
        char *name CLEANUP_FREE = colon ? xstrndup(entry, (size_t)(colon - entry)) : NULL;
        if (!name || !hostname_is_valid(name) || !ip_is_valid(colon + 1))
            return false;
    }
    return json_is_array(list) || json_is_null(list);
}

static const struct {
    const char *key;
    bool (*fits)(const char *value);
} value_rules[] = {
    { "nerdctl/ip", ip_is_valid },
    { "nerdctl/ip6", ip_is_valid },
    { "nerdctl/mac-address", mac_is_valid },
    { "nerdctl/hostname", empty_or_host_name },
    { "nerdctl/domainname", empty_or_host_name },
    { "nerdctl/name", empty_or_plain },
    { "nerdctl/extraHosts", extra_hosts_are_valid },
};

static void check_values(struct policy_check_run *run)
{
    for (size_t i = 0; i < ARRAY_LEN(value_rules); i++) {
        const char *value = spec_annotation(run->spec, value_rules[i].key);
        if (value && !value_rules[i].fits(value))
            policy_find(run, annotation_at(value_rules[i].key).s, "%s is \"%s\"",
                        value_rules[i].key, value);
    }
    const char *ns = spec_annotation(run->spec, "nerdctl/namespace");
    if (ns && strcmp(ns, run->context.ns) != 0)
        policy_find(run, "/annotations/nerdctl~1namespace",
                    "nerdctl/namespace is \"%s\", not \"%s\"", ns, run->context.ns);
    const char *state = spec_annotation(run->spec, "nerdctl/state-dir");
    if (state && !nerdctl_path_is(state, &run->context, run->config, "containers", NULL))
        policy_find(run, "/annotations/nerdctl~1state-dir",
                    "nerdctl/state-dir is \"%s\", must be %s/HASH/containers/%s/%s", state,
                    run->config->nerdctl.data_root, run->context.ns, run->context.id);
}

void check_nerdctl(struct policy_check_run *run)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(run->spec, "annotations"), key, value)
    {
        if (text_starts(key, "nerdctl/") && !nerdctl_key_is_known(key))
            policy_find(run, annotation_at(key).s, "%s", key);
    }
    check_networks(run);
    check_values(run);
}
