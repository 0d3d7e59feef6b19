#include "policy/bind.h"

#include <string.h>

#include "base/text.h"
#include "policy/nerdctl.h"

static bool equals(const char *path, const char *fmt, ...) PRINTF_LIKE(2, 3);

static bool equals(const char *path, const char *fmt, ...)
{
    char expected[4096];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(expected, sizeof(expected), fmt, args);
    va_end(args);
    return n > 0 && (size_t)n < sizeof(expected) && strcmp(path, expected) == 0;
}

static const char *annotation(const json_t *spec, const char *key)
{
    const char *value = spec_annotation(spec, key);
    return value ? value : "";
}

static bool is_pod(const struct policy_context *context)
{
    return context->role == POLICY_ROLE_PAUSE || context->role == POLICY_ROLE_WORKLOAD;
}

/* "/etc/hosts" → "hosts"; NULL for other places. */
static const char *tool_file_name(const char *destination)
{
    static const char *const names[] = { "hosts", "hostname", "resolv.conf" };
    for (size_t i = 0; text_starts(destination, "/etc/") && i < ARRAY_LEN(names); i++) {
        if (strcmp(destination + strlen("/etc/"), names[i]) == 0)
            return names[i];
    }
    return NULL;
}

/* ---- whose file it is --------------------------------------------------------------------------
 */

static bool is_nerdctl_file(const struct mount_view *mount, const struct policy_context *context,
                            const struct policy_config *config)
{
    const char *name = tool_file_name(mount->destination);
    const char *kind = name && strcmp(name, "hosts") == 0 ? "etchosts" : "containers";
    return name && nerdctl_path_is(mount->source, context, config, kind, name);
}

/* Files that utter-deploy makes: slug is the id up to its last dot. */
static bool is_utter_file(const struct mount_view *mount, const struct policy_context *context)
{
    const char *name = tool_file_name(mount->destination);
    const char *dot = strrchr(context->id, '.');
    if (strcmp(context->ns, "utter") != 0 || !name || !dot || strcmp(name, "hostname") == 0)
        return false;
    return equals(mount->source, "/run/utter/%.*s/%s", (int)(dot - context->id), context->id, name);
}

static bool is_cri_file(const struct mount_view *mount, const json_t *spec,
                        const struct policy_context *context)
{
    const char *name = tool_file_name(mount->destination);
    const char *sandbox = annotation(spec, "io.kubernetes.cri.sandbox-id");
    return name && id_is_valid(sandbox) &&
           equals(mount->source, "%s/io.containerd.grpc.v1.cri/sandboxes/%s/%s",
                  context->containerd_root, sandbox, name);
}

/* What follows <kubelet root>/pods/<uid>/ in the source, NULL if it is not below. */
static const char *in_pod_directory(const struct mount_view *mount, const json_t *spec,
                                    const struct policy_config *config)
{
    const char *uid = annotation(spec, "io.kubernetes.cri.sandbox-uid");
    char directory[1024];
    int n = snprintf(directory, sizeof(directory), "%s/pods/%s/", config->kubelet_root, uid);
    if (!name_is_plain(uid) || n < 0 || (size_t)n >= sizeof(directory) ||
        !text_starts(mount->source, directory))
        return NULL;
    return mount->source + n;
}

static bool is_kubelet_hosts(const struct mount_view *mount, const json_t *spec,
                             const struct policy_config *config)
{
    const char *rest = in_pod_directory(mount, spec, config);
    return rest && strcmp(mount->destination, "/etc/hosts") == 0 && strcmp(rest, "etc-hosts") == 0;
}

/* containers/<name>/<8 hex> */
static bool is_termination_log(const struct mount_view *mount, const json_t *spec,
                               const struct policy_config *config)
{
    const char *rest = in_pod_directory(mount, spec, config);
    const char *name = annotation(spec, "io.kubernetes.cri.container-name");
    size_t n = strlen(name);
    if (!rest || !name_is_plain(name) || !text_starts(rest, "containers/"))
        return false;
    rest += strlen("containers/");
    return strncmp(rest, name, n) == 0 && rest[n] == '/' && strlen(rest + n + 1) == 8 &&
           strspn(rest + n + 1, "0123456789abcdef") == 8;
}

/* volumes/kubernetes.io~empty-dir/<name>, or a file or directory below (subPath). */
static bool is_empty_dir(const struct mount_view *mount, const json_t *spec,
                         const struct policy_config *config)
{
    static const char prefix[] = "volumes/kubernetes.io~empty-dir/";
    const char *rest = in_pod_directory(mount, spec, config);
    return rest && path_is_clean(mount->source) && text_starts(rest, prefix) &&
           rest[strlen(prefix)] != 0;
}

static bool is_sandbox_shm(const struct mount_view *mount, const json_t *spec,
                           const struct policy_context *context)
{
    const char *sandbox = annotation(spec, "io.kubernetes.cri.sandbox-id");
    return id_is_valid(sandbox) &&
           equals(mount->source, "%s/io.containerd.grpc.v1.cri/sandboxes/%s/shm",
                  context->containerd_state, sandbox);
}

bool bind_is_tool_file(const struct mount_view *mount, const json_t *spec,
                       const struct policy_context *context, const struct policy_config *config)
{
    if (!is_pod(context))
        return is_nerdctl_file(mount, context, config) || is_utter_file(mount, context);
    return is_cri_file(mount, spec, context) || is_kubelet_hosts(mount, spec, config);
}

enum mount_kind mount_kind_of(const struct mount_view *mount, const json_t *spec,
                              const struct policy_context *context,
                              const struct policy_config *config)
{
    if (!mount->bind)
        return MOUNT_OTHER;
    bool listed =
        bind_entry_find(mount->source, config) && !bind_is_state(mount->source, context, config);
    if (tool_file_name(mount->destination) &&
        (bind_is_tool_file(mount, spec, context, config) || !listed))
        return MOUNT_TOOL_FILE;
    if (!is_pod(context))
        return MOUNT_LISTED;
    if (path_below(mount->destination, "/var/run/secrets/kubernetes.io/serviceaccount"))
        return MOUNT_SERVICE_ACCOUNT;
    if (strcmp(mount->destination, "/dev/termination-log") == 0 &&
        is_termination_log(mount, spec, config))
        return MOUNT_TERMINATION_LOG;
    if (strcmp(mount->destination, "/dev/shm") == 0 && is_sandbox_shm(mount, spec, context))
        return MOUNT_SHM;
    return is_empty_dir(mount, spec, config) ? MOUNT_EMPTY_DIR : MOUNT_LISTED;
}

/* ---- the operator's list and what it cannot allow ------------------------------------------- */

const struct policy_bind_entry *bind_entry_find(const char *source,
                                                const struct policy_config *config)
{
    for (size_t i = 0; i < config->n_binds; i++) {
        if (path_below(source, config->binds[i].source))
            return &config->binds[i];
    }
    return NULL;
}

/* The state is below the source, or the source below the state: either way it would be seen. */
static bool overlaps(const char *source, const char *state)
{
    return path_below(source, state) || path_below(state, source);
}

const char *bind_is_state(const char *source, const struct policy_context *context,
                          const struct policy_config *config)
{
    const struct {
        const char *path;
        const char *what;
    } state[] = {
        { context->containerd_root, "state of containerd" },
        { context->containerd_state, "state of containerd" },
        { "/var/lib/containerd", "state of containerd" },
        { "/run/containerd", "state of containerd" },
        { config->nerdctl.data_root, "state of nerdctl" },
        { config->kubelet_root, "state of the kubelet" },
        { "/run/runsc", "state of runsc" },
        { "/run/utter", "state of utter" },
        { "/var/lib/utter", "state of utter" },
        { "/etc/utter", "configuration of utter" },
        { "/etc/containerd", "configuration of containerd" },
        { "/run/netns", "network namespaces" },
        { "/run/systemd", "state of systemd" },
        { "/run/dbus", "the system bus" },
        { "/var/lib/docker", "state of docker" },
        { "/proc", "the host's /proc" },
        { "/sys", "the host's /sys" },
        { "/dev", "the host's /dev" },
    };
    if (text_starts(source, "/var/run/") || strcmp(source, "/var/run") == 0)
        source += strlen("/var");
    for (size_t i = 0; i < ARRAY_LEN(state); i++) {
        if (overlaps(source, state[i].path))
            return state[i].what;
    }
    return text_ends(source, ".sock") ? "a socket" : NULL;
}
