/* /etc/utter/policy.json: strict, with a default for each value. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "policy/check.h"
#include "policy/env.h"

#define MIB (1024 * 1024)

static void list_free(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static char **list_of(const char *first, const char *second)
{
    char **list = xcalloc(3, sizeof(*list));
    list[0] = first ? xstrdup(first) : NULL;
    list[1] = second ? xstrdup(second) : NULL;
    return list;
}

static void add_logger(struct policy_config *config, const char *path, char **keys, char **values)
{
    config->loggers =
        xreallocarray(config->loggers, config->n_loggers + 1, sizeof(*config->loggers));
    config->loggers[config->n_loggers++] =
        (struct policy_logger){ .path = xstrdup(path), .keys = keys, .values = values };
}

struct policy_config *policy_config_new_default(void)
{
    struct policy_config *config = xcalloc(1, sizeof(*config));
    *config = (struct policy_config){
        .max_memory = 256 * MIB,
        .max_cpu_milli = 500,
        .max_pids = 256,
        .max_nofile = 1024,
        .env = list_of(NULL, NULL),
        .annotations = list_of(NULL, NULL),
        .snapshotter_roots = list_of(NULL, NULL),
        .cgroup_parents = list_of(NULL, NULL),
        .netns_dirs = list_of("/run/utter/netns", NULL),
        .network_max_ports = 4,
        .pod_uids = 4,
        .pause_argv = list_of("/pause", NULL),
        .timeout_max = 7 * 86400,
        .timeout_default = 86400,
        .disk_quota_max = 1024 * MIB,
        .nerdctl = { .binary = xstrdup("/usr/local/bin/nerdctl"),
                     .address = xstrdup("/run/containerd/containerd.sock"),
                     .data_root = xstrdup("/var/lib/nerdctl"),
                     .cni_path = xstrdup("/opt/cni/bin"),
                     .cni_netconfpath = xstrdup("/etc/cni/net.d") },
        .log_prefixes = list_of(NULL, NULL),
        .kubelet_root = xstrdup("/var/lib/kubelet"),
    };
    add_logger(config, "/usr/local/bin/utter-log", list_of(NULL, NULL), list_of(NULL, NULL));
    add_logger(config, "/usr/bin/utter-log", list_of(NULL, NULL), list_of(NULL, NULL));
    return config;
}

void policy_config_free(struct policy_config *config)
{
    if (!config)
        return;
    char **lists[] = { config->env,         config->annotations, config->snapshotter_roots,
                       config->netns_dirs,  config->pause_argv,  config->cgroup_parents,
                       config->log_prefixes };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        list_free(lists[i]);
    for (size_t i = 0; i < config->n_binds; i++)
        free(config->binds[i].source);
    for (size_t i = 0; i < config->n_loggers; i++) {
        free(config->loggers[i].path);
        list_free(config->loggers[i].keys);
        list_free(config->loggers[i].values);
    }
    struct policy_nerdctl *nerdctl = &config->nerdctl;
    char *strings[] = { nerdctl->binary,   nerdctl->address,         nerdctl->data_root,
                        nerdctl->cni_path, nerdctl->cni_netconfpath, nerdctl->cgroup_manager,
                        config->runsc,     config->kubelet_root };
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        free(strings[i]);
    free(config->binds);
    free(config->loggers);
    free(config);
}

/* ---- forms of values ------------------------------------------------------------------------ */

static bool is_path(const char *text)
{
    return path_is_clean(text) && text[1];
}

static bool is_env_name(const char *text)
{
    char name[ENV_NAME_MAX];
    const char *value;
    char *entry CLEANUP_FREE = xasprintf("%s=", text);
    return env_split(entry, name, &value) && !*value;
}

/* Keys that mean something to a runtime cannot be waved through. */
static bool is_free_annotation(const char *text)
{
    static const char *const taken[] = { "dev.gvisor.", "io.kubernetes.cri", "io.containerd.",
                                         "io.utter.",   "io.katacontainers", "nerdctl/",
                                         "run.oci.",    "org.systemd.",      "cni." };
    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        if (text_starts(text, taken[i]))
            return false;
    }
    return *text && strlen(text) < 256;
}

static bool is_cgroup_parent(const char *text)
{
    return is_path(text) || (name_is_plain(text) && text_ends(text, ".slice"));
}

static bool is_text(const char *text)
{
    return *text != 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static CHECKED enum err_kind get_object(const json_t *tree, const char *key,
                                        const char *const names[], const json_t **out,
                                        struct err *err)
{
    *out = json_object_get(tree, key);
    if (*out && !json_is_object(*out))
        return err_set(err, ERR_INVALID, "\"%s\" must be an object", key);
    return *out ? json_only_keys(*out, names, key, err) : ERR_OK;
}

static CHECKED enum err_kind get_list(const json_t *tree, const char *key,
                                      bool (*fits)(const char *), const char *what, char ***out,
                                      struct err *err)
{
    const json_t *value = json_object_get(tree, key);
    size_t n = json_array_size(value);
    if (!value)
        return ERR_OK;
    if (!json_is_array(value) || n > 1024)
        return err_set(err, ERR_INVALID, "\"%s\" must be an array of at most 1024", key);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (!text || !fits(text))
            return err_set(err, ERR_INVALID, "\"%s\" entry %zu must be %s", key, i, what);
    }
    list_free(*out);
    *out = xcalloc(n + 1, sizeof(**out));
    for (size_t i = 0; i < n; i++)
        (*out)[i] = xstrdup(json_string_value(json_array_get(value, i)));
    return ERR_OK;
}

static CHECKED enum err_kind get_path(const json_t *tree, const char *key, char **out,
                                      struct err *err)
{
    const char *text = NULL;
    if (json_get_string(tree, key, false, &text, err))
        return err->kind;
    if (!text)
        return ERR_OK;
    if (!is_path(text))
        return err_set(err, ERR_INVALID, "\"%s\" must be an absolute path without . and ..", key);
    free(*out);
    *out = xstrdup(text);
    return ERR_OK;
}

static CHECKED enum err_kind read_max(struct policy_config *config, const json_t *tree,
                                      struct err *err)
{
    static const char *const names[] = { "memory", "cpus", "pids", "nofile", NULL };
    const json_t *max;
    if (get_object(tree, "max", names, &max, err) || !max)
        return err->kind;
    if (json_get_int(max, "memory", false, 32 * MIB, INT64_MAX / 2, &config->max_memory, err) ||
        json_get_int(max, "pids", false, 8, 1 << 16, &config->max_pids, err) ||
        json_get_int(max, "nofile", false, 16, 1 << 20, &config->max_nofile, err))
        return err->kind;
    const json_t *cpus = json_object_get(max, "cpus");
    double value = json_number_value(cpus);
    if (cpus && (!json_is_number(cpus) || !(value >= 0.1 && value <= 1024)))
        return err_set(err, ERR_INVALID, "\"cpus\" must be a number from 0.1 to 1024");
    if (cpus)
        config->max_cpu_milli = (int64_t)(value * 1000 + 0.5);
    return ERR_OK;
}

static CHECKED enum err_kind read_bind(struct policy_config *config, const json_t *entry,
                                       struct err *err)
{
    static const char *const names[] = { "source", "rw", "size", NULL };
    struct policy_bind_entry bind = { 0 };
    const char *source;
    if (!json_is_object(entry))
        return err_set(err, ERR_INVALID, "\"binds\" must be an array of objects");
    if (json_only_keys(entry, names, "binds", err) ||
        json_get_string(entry, "source", true, &source, err) ||
        json_get_bool(entry, "rw", false, &bind.rw, err) ||
        json_get_int(entry, "size", false, 1, INT64_MAX / 2, &bind.size, err))
        return err->kind;
    if (!is_path(source))
        return err_set(err, ERR_INVALID, "binds: \"source\" must be an absolute path but \"/\"");
    if (bind.size && !bind.rw)
        return err_set(err, ERR_INVALID, "binds: \"size\" without \"rw\": true");
    bind.source = xstrdup(source);
    config->binds = xreallocarray(config->binds, config->n_binds + 1, sizeof(*config->binds));
    config->binds[config->n_binds++] = bind;
    return ERR_OK;
}

static CHECKED enum err_kind read_binds(struct policy_config *config, const json_t *tree,
                                        struct err *err)
{
    const json_t *binds = json_object_get(tree, "binds");
    if (binds && (!json_is_array(binds) || json_array_size(binds) > 1024))
        return err_set(err, ERR_INVALID, "\"binds\" must be an array of objects");
    for (size_t i = 0; i < json_array_size(binds); i++) {
        if (read_bind(config, json_array_get(binds, i), err))
            return err->kind;
    }
    return ERR_OK;
}

static CHECKED enum err_kind read_network(struct policy_config *config, const json_t *tree,
                                          struct err *err)
{
    static const char *const names[] = { "cri", "max_ports", "netns_dirs", NULL };
    const json_t *network;
    const char *cri = "internal";
    if (get_object(tree, "network", names, &network, err) || !network)
        return err->kind;
    if (json_get_string(network, "cri", false, &cri, err) ||
        json_get_int(network, "max_ports", false, 2, 64, &config->network_max_ports, err) ||
        get_list(network, "netns_dirs", is_path, "an absolute path", &config->netns_dirs, err))
        return err->kind;
    config->network_cri_cluster = strcmp(cri, "cluster") == 0;
    if (!config->network_cri_cluster && strcmp(cri, "internal") != 0)
        return err_set(err, ERR_INVALID, "network: \"cri\" must be \"internal\" or \"cluster\"");
    return ERR_OK;
}

static CHECKED enum err_kind read_times(struct policy_config *config, const json_t *tree,
                                        struct err *err)
{
    static const char *const names[] = { "max", "default", NULL };
    static const char *const quota_names[] = { "max", NULL };
    const json_t *timeout, *quota;
    if (get_object(tree, "timeout", names, &timeout, err) ||
        get_object(tree, "disk-quota", quota_names, &quota, err))
        return err->kind;
    if (timeout &&
        (json_get_int(timeout, "max", false, 1, 315360000, &config->timeout_max, err) ||
         json_get_int(timeout, "default", false, 1, 315360000, &config->timeout_default, err)))
        return err->kind;
    if (config->timeout_default > config->timeout_max)
        return err_set(err, ERR_INVALID, "timeout: \"default\" %lld is over \"max\" %lld",
                       (long long)config->timeout_default, (long long)config->timeout_max);
    if (!quota)
        return ERR_OK;
    return json_get_int(quota, "max", false, 4096, INT64_MAX / 2, &config->disk_quota_max, err);
}

static CHECKED enum err_kind read_nerdctl(struct policy_config *config, const json_t *tree,
                                          struct err *err)
{
    static const char *const outer[] = { "nerdctl", NULL };
    static const char *const names[] = { "binary",   "address",         "data-root",
                                         "cni-path", "cni-netconfpath", "cgroup-manager",
                                         NULL };
    const json_t *hooks, *entry;
    const char *manager = NULL;
    struct policy_nerdctl *nerdctl = &config->nerdctl;
    if (get_object(tree, "hooks", outer, &hooks, err) ||
        get_object(hooks, "nerdctl", names, &entry, err) || !entry)
        return err->kind;
    if (get_path(entry, "binary", &nerdctl->binary, err) ||
        get_path(entry, "address", &nerdctl->address, err) ||
        get_path(entry, "data-root", &nerdctl->data_root, err) ||
        get_path(entry, "cni-path", &nerdctl->cni_path, err) ||
        get_path(entry, "cni-netconfpath", &nerdctl->cni_netconfpath, err) ||
        json_get_string(entry, "cgroup-manager", false, &manager, err))
        return err->kind;
    if (manager && strcmp(manager, "cgroupfs") != 0 && strcmp(manager, "systemd") != 0)
        return err_set(err, ERR_INVALID, "\"cgroup-manager\" must be \"cgroupfs\" or \"systemd\"");
    if (manager)
        nerdctl->cgroup_manager = xstrdup(manager);
    return ERR_OK;
}

static CHECKED enum err_kind read_logger(struct policy_config *config, const json_t *entry,
                                         struct err *err)
{
    static const char *const names[] = { "path", "args", NULL };
    const char *path, *key;
    json_t *value;
    if (!json_is_object(entry))
        return err_set(err, ERR_INVALID, "loggers: \"binary\" must be an array of objects");
    if (json_only_keys(entry, names, "loggers", err) ||
        json_get_string(entry, "path", true, &path, err))
        return err->kind;
    json_t *args = json_object_get(entry, "args");
    if (!is_path(path) || (args && !json_is_object(args)))
        return err_set(err, ERR_INVALID, "loggers: an absolute \"path\" and an object \"args\"");
    size_t n = json_object_size(args), i = 0;
    json_object_foreach(args, key, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_INVALID, "loggers: \"%s\" must be a string", key);
    }
    char **keys = xcalloc(n + 1, sizeof(*keys)), **values = xcalloc(n + 1, sizeof(*values));
    json_object_foreach(args, key, value)
    {
        keys[i] = xstrdup(key);
        values[i++] = xstrdup(json_string_value(value));
    }
    add_logger(config, path, keys, values);
    return ERR_OK;
}

static CHECKED enum err_kind read_loggers(struct policy_config *config, const json_t *tree,
                                          struct err *err)
{
    static const char *const names[] = { "binary", "file", NULL };
    const json_t *loggers;
    if (get_object(tree, "loggers", names, &loggers, err) || !loggers)
        return err->kind;
    const json_t *binary = json_object_get(loggers, "binary");
    if (binary && (!json_is_array(binary) || json_array_size(binary) > 64))
        return err_set(err, ERR_INVALID, "loggers: \"binary\" must be an array of objects");
    for (size_t i = 0; i < json_array_size(binary); i++) {
        if (read_logger(config, json_array_get(binary, i), err))
            return err->kind;
    }
    return get_list(loggers, "file", is_path, "an absolute path", &config->log_prefixes, err);
}

static CHECKED enum err_kind read_lists(struct policy_config *config, const json_t *tree,
                                        struct err *err)
{
    static const char path[] = "an absolute path without . and ..";
    if (get_list(tree, "env", is_env_name, "an environment name", &config->env, err) ||
        get_list(tree, "annotations", is_free_annotation, "a key that no runtime reads",
                 &config->annotations, err) ||
        get_list(tree, "snapshotter-roots", is_path, path, &config->snapshotter_roots, err) ||
        get_list(tree, "cgroup-parents", is_cgroup_parent, "an absolute path or NAME.slice",
                 &config->cgroup_parents, err) ||
        get_list(tree, "pause-argv", is_text, "a string", &config->pause_argv, err))
        return err->kind;
    if (!config->pause_argv[0])
        return err_set(err, ERR_INVALID, "\"pause-argv\" must name a program");
    return ERR_OK;
}

enum err_kind policy_config_parse(const json_t *tree, struct policy_config **out, struct err *err)
{
    static const char *const names[] = {
        "max",     "env",      "annotations",  "binds",   "snapshotter-roots", "cgroup-parents",
        "network", "pod-uids", "pause-argv",   "timeout", "disk-quota",        "hooks",
        "loggers", "runsc",    "kubelet-root", NULL,
    };
    struct err scratch = { 0 };
    err = err ? err : &scratch;
    err->kind = ERR_OK;
    struct policy_config *config CLEANUP(policy_config_freep) = policy_config_new_default();
    if (!json_is_object(tree))
        return err_set(err, ERR_INVALID, "not an object");
    if (json_only_keys(tree, names, "policy", err) || read_max(config, tree, err) ||
        read_lists(config, tree, err) || read_binds(config, tree, err) ||
        read_network(config, tree, err) || read_times(config, tree, err) ||
        read_nerdctl(config, tree, err) || read_loggers(config, tree, err) ||
        json_get_int(tree, "pod-uids", false, 1, 64, &config->pod_uids, err) ||
        get_path(tree, "runsc", &config->runsc, err) ||
        get_path(tree, "kubelet-root", &config->kubelet_root, err))
        return err->kind;
    *out = STEAL(config);
    return ERR_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

/* The system's file: nobody but root may change what it names. Another (--config of the program):
 * nobody but root and the caller may change it. */
static CHECKED enum err_kind check_owner(const char *path, struct err *err)
{
    struct stat st;
    if (strcmp(path, POLICY_CONFIG_PATH) == 0)
        return fs_root_only(path, err);
    if (lstat(path, &st) < 0)
        return err_sys(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_PRECONDITION, "%s: not a regular file", path);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022))
        return err_set(err, ERR_PRECONDITION,
                       "%s: can be changed by others; make it root's and chmod go-w", path);
    return ERR_OK;
}

enum err_kind policy_config_load(const char *path, struct policy_config **out, struct err *err)
{
    struct err scratch;
    struct stat st;
    json_t *tree CLEANUP_JSON = NULL;
    err = err ? err : &scratch;
    if (strcmp(path, POLICY_CONFIG_PATH) == 0 && lstat(path, &st) < 0 && errno == ENOENT) {
        *out = policy_config_new_default();
        return ERR_OK;
    }
    if (check_owner(path, err) || json_strict_load_file(path, JSON_SIZE_MAX, &tree, err))
        return err->kind;
    if (policy_config_parse(tree, out, err))
        return err_prefix(err, "%s", path);
    return ERR_OK;
}
