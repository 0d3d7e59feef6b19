/* Rules over namespaces and the network that a spec asks for. What a namespace holds is looked at
 * by the shim on the running system. */
#include <arpa/inet.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/nerdctl.h"
#include "policy/schema.h"

static const json_t *namespaces(const struct policy_check_run *run)
{
    return json_object_get(json_object_get(run->spec, "linux"), "namespaces");
}

/* The entry of that type; *n counts them. */
static const json_t *namespace_find(const struct policy_check_run *run, const char *type, size_t *n)
{
    const json_t *all = namespaces(run), *found = NULL;
    *n = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *entry = json_array_get(all, i);
        if (strcmp(member_str(entry, "type"), type) == 0) {
            found = found ? found : entry;
            ++*n;
        }
    }
    return found;
}

/* A workload's ipc, uts and network are its sandbox's, by the pid that this shim reported. */
static bool is_sandbox_path(const struct policy_check_run *run, const char *path, const char *file)
{
    char digits[24];
    size_t n;
    uint64_t pid;
    if (run->context.role != POLICY_ROLE_WORKLOAD || !text_starts(path, "/proc/"))
        return false;
    path += strlen("/proc/");
    n = strspn(path, "0123456789");
    if (n == 0 || n >= sizeof(digits) || !text_starts(path + n, "/ns/") ||
        strcmp(path + n + 4, file) != 0)
        return false;
    memcpy(digits, path, n);
    digits[n] = 0;
    if (!text_u64(digits, &pid) || pid < 2)
        return false;
    return !run->context.pod || (int64_t)pid == run->context.pod->sandbox_pid;
}

static bool path_is_allowed(const struct policy_check_run *run, const char *type, const char *path)
{
    bool shared = strcmp(type, "ipc") == 0 || strcmp(type, "uts") == 0;
    return !*path || (shared && is_sandbox_path(run, path, type));
}

static bool type_is_known(const char *type)
{
    static const char *const known[] = {
        "pid", "ipc", "uts", "mount", "network", "cgroup", "user"
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i], type) == 0)
            return true;
    }
    return false;
}

void check_namespace(struct policy_check_run *run)
{
    static const char *const required[] = { "pid", "ipc", "uts", "mount" };
    size_t n;
    for (size_t i = 0; i < ARRAY_LEN(required); i++) {
        if (!namespace_find(run, required[i], &n))
            policy_find(run, "/linux/namespaces", "no %s namespace, so the host's", required[i]);
    }
    const json_t *all = namespaces(run);
    for (size_t i = 0; i < json_array_size(all) && i < 32; i++) {
        const char *type = member_str(json_array_get(all, i), "type");
        const char *path = member_str(json_array_get(all, i), "path");
        struct at here = at("/linux/namespaces/%zu", i);
        (void)namespace_find(run, type, &n);
        if (!type_is_known(type))
            policy_find(run, here.s, "namespace of type \"%s\"", type);
        else if (n > 1)
            policy_find(run, here.s, "%zu %s namespaces", n, type);
        else if (strcmp(type, "network") != 0 && strcmp(type, "user") != 0 &&
                 !path_is_allowed(run, type, path))
            policy_find(run, here.s, "%s namespace at \"%s\"", type, path);
    }
}

void check_user_namespace(struct policy_check_run *run)
{
    size_t n;
    check_field(run);
    if (namespace_find(run, "user", &n))
        policy_find(run, "/linux/namespaces", "a user namespace");
}

/* ---- network ------------------------------------------------------------------------------ */

/* A file right below one of the directories. */
static bool is_in_netns_dirs(const struct policy_check_run *run, const char *path)
{
    for (char **dir = run->config->netns_dirs; dir && *dir; dir++) {
        size_t n = strlen(*dir);
        if (strncmp(path, *dir, n) == 0 && path[n] == '/' && name_is_plain(path + n + 1))
            return true;
    }
    return false;
}

static bool is_cri_netns(const char *path)
{
    if (text_starts(path, "/var"))
        path += strlen("/var");
    return text_starts(path, "/run/netns/cni-") && name_is_plain(path + strlen("/run/netns/"));
}

static bool network_path_is_allowed(const struct policy_check_run *run, const char *path)
{
    if (run->context.role == POLICY_ROLE_WORKLOAD)
        return is_sandbox_path(run, path, "net");
    if (run->context.role == POLICY_ROLE_PAUSE && is_cri_netns(path))
        return true;
    return is_in_netns_dirs(run, path);
}

static void check_network_namespace(struct policy_check_run *run)
{
    size_t n;
    const json_t *entry = namespace_find(run, "network", &n);
    const char *path = member_str(entry, "path");
    if (!entry)
        policy_find(run, "/linux/namespaces", "no network namespace, so the host's");
    else if (*path && !network_path_is_allowed(run, path))
        policy_find(run, "/linux/namespaces", "network namespace at \"%s\"", path);
    else if (!*path && run->context.role != POLICY_ROLE_SINGLE)
        policy_find(run, "/linux/namespaces", "a pod's network namespace without a path");
    else if (spec_network_attached(run->spec))
        policy_note(run, run->cri && run->config->network_cri_cluster
                             ? "verified at start: the network namespace is the pod's own"
                             : "verified at start: the network is lo alone or one internal link");
}

/* "10.88.0.2/24" */
static bool address_is_valid(const char *text)
{
    char host[64];
    size_t n = strcspn(text, "/");
    uint64_t bits;
    if (text[n] != '/' || n >= sizeof(host) || !text_u64(text + n + 1, &bits))
        return false;
    memcpy(host, text, n);
    host[n] = 0;
    struct in_addr address;
    return inet_pton(AF_INET, host, &address) == 1 && bits >= 1 && bits <= 32;
}

static void check_network_annotations(struct policy_check_run *run)
{
    size_t n;
    const char *mode = spec_annotation(run->spec, "io.utter.network");
    const char *address = spec_annotation(run->spec, "io.utter.address");
    const json_t *entry = namespace_find(run, "network", &n);
    bool attached = spec_network_attached(run->spec);
    if (mode && strcmp(mode, "internal") != 0 && strcmp(mode, "none") != 0)
        policy_find(run, "/annotations/io.utter.network", "io.utter.network is \"%s\"", mode);
    else if (mode && entry && (strcmp(mode, "internal") == 0) != attached)
        policy_find(run, "/annotations/io.utter.network", "io.utter.network is \"%s\" with %s",
                    mode, attached ? "a network attached" : "no network attached");
    if (address && !address_is_valid(address))
        policy_find(run, "/annotations/io.utter.address", "io.utter.address is \"%s\"", address);
    else if (address && entry && !attached)
        policy_find(run, "/annotations/io.utter.address", "an address with no network attached");
}

/* nerdctl names that stand for somebody else's namespace. */
static void check_nerdctl_networks(struct policy_check_run *run)
{
    json_t *names CLEANUP_JSON = nerdctl_networks(run->spec);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (strcmp(name, "host") == 0)
            policy_find(run, "/annotations/nerdctl~1networks", "network \"%s\"", name);
    }
}

void check_network(struct policy_check_run *run)
{
    check_network_namespace(run);
    check_network_annotations(run);
    check_nerdctl_networks(run);
}
