/*
 * The nearest spec that passes: one finding after another is mended by its rule, until none is left
 * that can be. A finding points at what is wrong, so most are mended by taking that away.
 */
#include <string.h>

#include "base/text.h"
#include "policy/check.h"

#define ROUNDS_MAX 300

struct mend {
    json_t *spec;
    const struct policy_context *context;
    const struct policy_config *config;
    const char *at; /* of the finding */
};

/* ---- by pointer -------------------------------------------------------------------------------
 */

static json_t *parent_of(json_t *root, const char *pointer, char *last, size_t size)
{
    const char *slash = strrchr(pointer, '/');
    size_t n = 0;
    if (!slash)
        return NULL;
    char *parent CLEANUP_FREE = xstrndup(pointer, (size_t)(slash - pointer));
    for (const char *p = slash + 1; *p && n + 1 < size; p++) {
        bool escape = *p == '~' && (p[1] == '0' || p[1] == '1');
        last[n++] = escape ? (p[1] == '0' ? '~' : '/') : *p;
        p += escape;
    }
    last[n] = 0;
    return json_at(root, parent);
}

/* Takes away what the finding points at; whether there was something. */
static bool remove_at(struct mend *mend)
{
    char last[320];
    uint64_t index;
    json_t *parent = parent_of(mend->spec, mend->at, last, sizeof(last));
    if (json_is_array(parent) && text_u64(last, &index))
        return json_array_remove(parent, index) == 0;
    return json_is_object(parent) && json_object_del(parent, last) == 0;
}

/* The object at the pointer's end, made where it is missing. */
static json_t *object_in(json_t *root, const char *pointer)
{
    char name[64];
    json_t *here = root;
    while (*pointer == '/') {
        size_t n = strcspn(++pointer, "/");
        memcpy(name, pointer, n);
        name[n] = 0;
        json_t *next = json_object_get(here, name);
        if (!json_is_object(next)) {
            next = json_object();
            json_object_set_new(here, name, next);
        }
        here = next;
        pointer += n;
    }
    return here;
}

static bool set_in(struct mend *mend, const char *object, const char *key, json_t *value)
{
    return json_object_set_new(object_in(mend->spec, object), key, value) == 0;
}

/* The mount that the finding is in. */
static json_t *mount_of(struct mend *mend)
{
    uint64_t index;
    const char *digits = mend->at + strlen("/mounts/");
    if (!text_starts(mend->at, "/mounts/"))
        return NULL;
    char *text CLEANUP_FREE = xstrndup(digits, strcspn(digits, "/"));
    return text_u64(text, &index) ? json_array_get(json_object_get(mend->spec, "mounts"), index)
                                  : NULL;
}

static bool remove_mount(struct mend *mend)
{
    char *pointer CLEANUP_FREE = xstrdup(mend->at);
    char *end = strchr(pointer + 1, '/');
    end = end ? strchr(end + 1, '/') : NULL;
    if (end)
        *end = 0;
    struct mend whole = *mend;
    whole.at = pointer;
    return remove_at(&whole);
}

static void remove_options(json_t *options, const char *const *names)
{
    for (size_t i = json_array_size(options); i-- > 0;) {
        const char *option = json_string_value(json_array_get(options, i));
        for (const char *const *name = names; option && *name; name++) {
            size_t n = strlen(*name);
            if ((*name)[n - 1] == '=' ? text_starts(option, *name) : strcmp(option, *name) == 0) {
                json_array_remove(options, i);
                break;
            }
        }
    }
}

static bool set_options(struct mend *mend, const char *const *out, const char *const *in)
{
    json_t *mount = mount_of(mend);
    json_t *options = json_object_get(mount, "options");
    if (!mount)
        return false;
    if (!options) {
        options = json_array();
        json_object_set_new(mount, "options", options);
    }
    remove_options(options, out);
    remove_options(options, in);
    for (; *in; in++)
        json_array_append_new(options, json_string(*in));
    return true;
}

/* ---- by rule ----------------------------------------------------------------------------------
 */

static bool mend_privileges(struct mend *mend)
{
    return set_in(mend, "/process", "noNewPrivileges", json_true());
}

static bool mend_capabilities(struct mend *mend)
{
    return set_in(mend, "/process", "capabilities", json_object());
}

static bool mend_user(struct mend *mend)
{
    return set_in(mend, "/process", "user", json_pack("{s:i,s:i}", "uid", 65532, "gid", 65532));
}

static bool mend_cwd(struct mend *mend)
{
    return set_in(mend, "/process", "cwd", json_string("/"));
}

static bool mend_root_path(struct mend *mend)
{
    return set_in(mend, "/root", "path", json_string("rootfs"));
}

static bool mend_readonly(struct mend *mend)
{
    return set_in(mend, "/root", "readonly", json_true());
}

static bool mend_memory(struct mend *mend)
{
    return set_in(mend, "/linux/resources", "memory",
                  json_pack("{s:I}", "limit", (json_int_t)mend->config->max_memory));
}

static bool mend_cpu(struct mend *mend)
{
    return set_in(mend, "/linux/resources", "cpu",
                  json_pack("{s:I,s:I}", "quota", (json_int_t)mend->config->max_cpu_milli * 100,
                            "period", (json_int_t)100000));
}

static bool mend_pids(struct mend *mend)
{
    return set_in(mend, "/linux/resources", "pids",
                  json_pack("{s:I}", "limit", (json_int_t)mend->config->max_pids));
}

static bool mend_cgroups_path(struct mend *mend)
{
    if (!id_is_valid(mend->context->id) || !name_is_plain(mend->context->ns))
        return false;
    char *path CLEANUP_FREE = xasprintf("/%s/%s", mend->context->ns, mend->context->id);
    return set_in(mend, "/linux", "cgroupsPath", json_string(path));
}

/* The five of a container of its own. */
static bool mend_namespaces(struct mend *mend)
{
    if (mend->context->role != POLICY_ROLE_SINGLE)
        return false;
    return set_in(mend, "/linux", "namespaces",
                  json_pack("[{s:s},{s:s},{s:s},{s:s},{s:s}]", "type", "pid", "type", "ipc", "type",
                            "uts", "type", "mount", "type", "network"));
}

static bool mend_network(struct mend *mend)
{
    return text_starts(mend->at, "/annotations/") ? remove_at(mend) : mend_namespaces(mend);
}

static bool mend_sys(struct mend *mend)
{
    static const char *const out[] = { "rw", NULL };
    static const char *const in[] = { "ro", NULL };
    return set_options(mend, out, in);
}

static bool mend_tmpfs_options(struct mend *mend)
{
    static const char *const out[] = { "exec", "suid", "dev", NULL };
    static const char *const in[] = { "noexec", "nosuid", "nodev", NULL };
    return set_options(mend, out, in);
}

static bool mend_tmpfs_size(struct mend *mend)
{
    static const char *const out[] = { "size=", NULL };
    static const char *const in[] = { "size=16m", NULL };
    return set_options(mend, out, in);
}

static bool mend_seccomp(struct mend *mend)
{
    return json_object_del(json_object_get(mend->spec, "linux"), "seccomp") == 0;
}

static bool mend_terminal(struct mend *mend)
{
    return json_object_del(json_object_get(mend->spec, "process"), "consoleSize") == 0;
}

static bool mend_disk_quota(struct mend *mend)
{
    return json_object_del(json_object_get(mend->spec, "annotations"), "io.utter.disk-quota") == 0;
}

static const struct {
    const char *rule;
    bool (*mend)(struct mend *mend);
} mends[] = {
    { "schema", remove_at },
    { "field", remove_at },
    { "no-new-privileges", mend_privileges },
    { "capabilities", mend_capabilities },
    { "user", mend_user },
    { "cwd", mend_cwd },
    { "terminal", mend_terminal },
    { "rlimits", remove_at },
    { "cpuset", remove_at },
    { "hostname", remove_at },
    { "env-form", remove_at },
    { "env-name", remove_at },
    { "env-value", remove_at },
    { "env-secret", remove_at },
    { "namespace", mend_namespaces },
    { "user-namespace", remove_at },
    { "network", mend_network },
    { "root-path", mend_root_path },
    { "root-readonly", mend_readonly },
    { "mount-type", remove_mount },
    { "mount-destination", remove_mount },
    { "mount-options", remove_at },
    { "mount-readonly", mend_sys },
    { "tmpfs-options", mend_tmpfs_options },
    { "tmpfs-size", mend_tmpfs_size },
    { "bind-source", remove_mount },
    { "tool-file", remove_mount },
    { "service-account", remove_mount },
    { "masked-paths", remove_at },
    { "memory", mend_memory },
    { "cpu", mend_cpu },
    { "pids", mend_pids },
    { "unified", remove_at },
    { "cgroups-path", mend_cgroups_path },
    { "devices", remove_at },
    { "sysctl", remove_at },
    { "seccomp", mend_seccomp },
    { "selinux", remove_at },
    { "hooks", remove_at },
    { "nerdctl", remove_at },
    { "annotations", remove_at },
    { "timeout", remove_at },
    { "disk-quota", mend_disk_quota },
    { "pod", remove_at },
};

static bool mend_finding(struct mend *mend, const struct policy_finding *finding)
{
    for (size_t i = 0; i < ARRAY_LEN(mends); i++) {
        if (strcmp(mends[i].rule, finding->rule->id) == 0) {
            mend->at = finding->at;
            return mends[i].mend(mend);
        }
    }
    return false;
}

/* Mends the first finding that can be; false when there is none. */
static bool mend_one(struct mend *mend, struct policy_changes *changes)
{
    struct policy_report report;
    bool mended = false;
    policy_report_init(&report);
    policy_check(mend->spec, mend->context, mend->config, &report);
    for (size_t i = 0; i < report.n && !mended; i++) {
        mended = mend_finding(mend, &report.findings[i]);
        if (mended)
            changes_add(changes, report.findings[i].at, "mended %s: %s",
                        report.findings[i].rule->id, report.findings[i].found);
    }
    policy_report_fini(&report);
    return mended;
}

json_t *policy_nearest(const json_t *spec, const struct policy_context *context,
                       const struct policy_config *config, struct policy_changes *changes)
{
    struct policy_guess guess;
    struct policy_context full = *context;
    struct mend mend = { .spec = json_deep_copy(spec), .context = &full, .config = config };
    policy_context_guess(spec, &full, &guess);
    for (int round = 0; round < ROUNDS_MAX && mend_one(&mend, changes); round++)
        continue;
    return mend.spec;
}
