#include "policy/nerdctl.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

json_t *nerdctl_networks(const json_t *spec)
{
    const char *text = spec_annotation(spec, "nerdctl/networks");
    json_t *names CLEANUP_JSON = NULL;
    if (!text || json_strict_load(text, strlen(text), 4096, 0, &names, NULL))
        return NULL;
    if (!json_is_array(names))
        return NULL;
    for (size_t i = 0; i < json_array_size(names); i++) {
        if (!json_is_string(json_array_get(names, i)))
            return NULL;
    }
    return STEAL(names);
}

bool nerdctl_networks_none(const json_t *names)
{
    if (json_array_size(names) == 0)
        return json_is_array(names);
    return json_array_size(names) == 1 &&
           strcmp(json_string_value(json_array_get(names, 0)), "none") == 0;
}

bool spec_has_hook(const json_t *spec, const char *event)
{
    return json_array_size(json_object_get(json_object_get(spec, "hooks"), event)) > 0;
}

const char *spec_netns(const json_t *spec)
{
    const json_t *all = json_object_get(json_object_get(spec, "linux"), "namespaces");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *entry = json_array_get(all, i);
        if (strcmp(member_str(entry, "type"), "network") == 0)
            return member_str(entry, "path");
    }
    return "";
}

bool spec_network_attached(const json_t *spec)
{
    if (*spec_netns(spec))
        return true;
    if (!spec_has_hook(spec, "createRuntime"))
        return false;
    json_t *names CLEANUP_JSON = nerdctl_networks(spec);
    return !nerdctl_networks_none(names);
}

bool nerdctl_path_is(const char *path, const struct policy_context *context,
                     const struct policy_config *config, const char *kind, const char *file)
{
    size_t root = strlen(config->nerdctl.data_root);
    if (strncmp(path, config->nerdctl.data_root, root) != 0 || path[root] != '/' ||
        strlen(path) < root + 10)
        return false;
    const char *hash = path + root + 1;
    if (strspn(hash, "0123456789abcdef") != 8)
        return false;
    char *rest CLEANUP_FREE = xasprintf("/%s/%s/%s%s%s", kind, context->ns, context->id,
                                        file ? "/" : "", file ? file : "");
    return strcmp(hash + 8, rest) == 0;
}

bool nerdctl_key_is_known(const char *key)
{
    static const char *const keys[] = {
        "auto-remove", "dns",         "domainname",  "extraHosts",    "host-config",
        "hostname",    "ip",          "ip6",         "ipc",           "log-config",
        "log-uri",     "mac-address", "mounts",      "name",          "namespace",
        "networks",    "platform",    "state-dir",   "stop-timeout",  "user",
        "error",       "healthcheck", "healthstate", "exposed-ports", "anonymous-volumes",
    };
    if (!text_starts(key, "nerdctl/"))
        return false;
    key += strlen("nerdctl/");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(keys[i], key) == 0)
            return true;
    }
    uint64_t index;
    return text_starts(key, "mounts.") && text_u64(key + strlen("mounts."), &index);
}

bool nerdctl_key_is_read_by_hook(const char *key)
{
    static const char *const keys[] = {
        "nerdctl/state-dir", "nerdctl/namespace",  "nerdctl/networks",    "nerdctl/ip",
        "nerdctl/ip6",       "nerdctl/hostname",   "nerdctl/mac-address", "nerdctl/domainname",
        "nerdctl/name",      "nerdctl/extraHosts",
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(keys[i], key) == 0)
            return true;
    }
    return false;
}

/* ---- the hook ---------------------------------------------------------------------------------
 */

static void append_flag(json_t *args, const char *flag, const char *value)
{
    char *text CLEANUP_FREE = xasprintf("--%s=%s", flag, value);
    json_array_append_new(args, json_string(text));
}

json_t *nerdctl_hook_new(const struct policy_context *context, const struct policy_config *config,
                         const char *event, const char *cgroup_manager)
{
    const struct policy_nerdctl *nerdctl = &config->nerdctl;
    json_t *args = json_pack("[s]", nerdctl->binary);
    append_flag(args, "address", nerdctl->address);
    append_flag(args, "namespace", context->ns);
    append_flag(args, "data-root", nerdctl->data_root);
    append_flag(args, "cni-path", nerdctl->cni_path);
    append_flag(args, "cni-netconfpath", nerdctl->cni_netconfpath);
    if (nerdctl->cgroup_manager)
        cgroup_manager = nerdctl->cgroup_manager;
    if (cgroup_manager)
        append_flag(args, "cgroup-manager", cgroup_manager);
    json_array_append_new(args, json_string("internal"));
    json_array_append_new(args, json_string("oci-hook"));
    json_array_append_new(args, json_string(event));
    return json_pack("{s:s, s:o, s:[s,s,s]}", "path", nerdctl->binary, "args", args, "env",
                     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                     "HOME=/root", "LANG=C.UTF-8");
}

const char *nerdctl_hook_cgroup_manager(const json_t *spec, const char *event)
{
    const json_t *hook = json_array_get(json_object_get(json_object_get(spec, "hooks"), event), 0);
    const json_t *args = json_object_get(hook, "args");
    static const char flag[] = "--cgroup-manager=";
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        if (arg && text_starts(arg, flag))
            return arg + strlen(flag);
    }
    return NULL;
}
