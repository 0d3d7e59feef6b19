/* Rules over /mounts and what belongs to it. */
#include <string.h>

#include "base/text.h"
#include "policy/bind.h"

#define TMPFS_MIN 4096

static enum mount_kind kind_of(const struct policy_check_run *run, size_t i)
{
    return mount_kind_of(&run->mounts[i], run->spec, &run->context, run->config);
}

/* ---- type --------------------------------------------------------------------------------------
 */

/* Where each type may be mounted; tmpfs is the one that may be anywhere else. */
static const struct {
    const char *type;
    const char *destination;
} places[] = {
    { "proc", "/proc" },
    { "sysfs", "/sys" },
    { "devpts", "/dev/pts" },
    { "mqueue", "/dev/mqueue" },
    { "cgroup", "/sys/fs/cgroup" },
};

void check_mount_type(struct policy_check_run *run)
{
    size_t n = json_array_size(json_object_get(run->spec, "mounts"));
    if (n > MOUNTS_MAX)
        policy_find(run, "/mounts", "%zu mounts, at most %d", n, MOUNTS_MAX);
    for (size_t i = 0; i < run->n_mounts; i++) {
        const struct mount_view *mount = &run->mounts[i];
        size_t k = 0;
        while (k < ARRAY_LEN(places) && strcmp(places[k].type, mount->type) != 0)
            k++;
        if (mount->bind ? strcmp(mount->type, "bind") != 0 && *mount->type &&
                              strcmp(mount->type, "none") != 0
                        : k == ARRAY_LEN(places) && strcmp(mount->type, "tmpfs") != 0)
            policy_find(run, at("/mounts/%zu/type", i).s, "%s of type \"%s\"%s", mount->destination,
                        mount->type, mount->bind ? " with option bind" : "");
    }
}

/* ---- destination -------------------------------------------------------------------------------
 */

static bool is_place(const struct mount_view *mount, const char **must_be)
{
    const char *destination = mount->destination;
    bool tmpfs = !mount->bind && strcmp(mount->type, "tmpfs") == 0;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        bool there = strcmp(places[i].destination, destination) == 0;
        bool type = !mount->bind && strcmp(places[i].type, mount->type) == 0;
        *must_be = places[i].destination;
        if (there || type)
            return there && type;
    }
    *must_be = NULL;
    if (path_below(destination, "/proc") || path_below(destination, "/sys"))
        return false;
    if (strcmp(destination, "/dev") == 0)
        return tmpfs;
    if (strcmp(destination, "/dev/shm") == 0 || strcmp(destination, "/dev/termination-log") == 0)
        return tmpfs || mount->bind;
    return !path_below(destination, "/dev");
}

/* The pause container of containerd 1.6 has /dev/shm twice: as a tmpfs, then the pod's. */
static bool may_repeat(const struct policy_check_run *run, size_t i, size_t k)
{
    return run->context.role == POLICY_ROLE_PAUSE && !run->mounts[i].bind && i < k &&
           kind_of(run, k) == MOUNT_SHM;
}

/* Mounted below a bind, the mount point would be made in the bind's source; mounted before its
 * parent, it would be covered and the parent's options hold. */
static void check_against(struct policy_check_run *run, size_t i, size_t k)
{
    const char *mine = run->mounts[k].destination, *other = run->mounts[i].destination;
    if (!path_below(mine, other))
        return;
    struct at here = at("/mounts/%zu/destination", k);
    if (strcmp(mine, other) == 0) {
        if (i < k && !may_repeat(run, i, k))
            policy_find(run, here.s, "%s is mounted twice", mine);
    } else if (run->mounts[i].bind) {
        policy_find(run, here.s, "%s lies inside the bind on %s", mine, other);
    } else if (i > k) {
        policy_find(run, here.s, "%s is mounted before %s, which covers it", mine, other);
    }
}

void check_mount_destination(struct policy_check_run *run)
{
    for (size_t k = 0; k < run->n_mounts; k++) {
        const struct mount_view *mount = &run->mounts[k];
        struct at here = at("/mounts/%zu/destination", k);
        const char *must_be;
        if (!path_is_clean(mount->destination) || !mount->destination[1])
            policy_find(run, here.s, "destination \"%s\"", mount->destination);
        else if (!is_place(mount, &must_be))
            policy_find(run, here.s, "%s on %s", mount->bind ? "a bind" : mount->type,
                        mount->destination);
        for (size_t i = 0; i < run->n_mounts; i++) {
            if (i != k)
                check_against(run, i, k);
        }
    }
}

/* ---- options -----------------------------------------------------------------------------------
 */

static bool option_in(const char *option, const char *const *list)
{
    for (; *list; list++) {
        size_t n = strlen(*list);
        if ((*list)[n - 1] == '=' ? text_starts(option, *list) : strcmp(option, *list) == 0)
            return true;
    }
    return false;
}

/* runsc hands these to the Sentry's tmpfs joined by commas: "mode=755,size=9g" would be two. */
static bool tmpfs_value_is_plain(const struct mount_view *mount, const char *option)
{
    const char *value = strchr(option, '=');
    bool dev = strcmp(mount->destination, "/dev") == 0;
    if (!value || text_starts(option, "size=")) /* sizes: rule tmpfs-size */
        return !strchr(option, ',');
    size_t n = strlen(++value);
    if (text_starts(option, "mode="))
        return n > 0 && n <= 5 && strspn(value, "01234567") == n &&
               (!dev || strcmp(value + (value[0] == '0'), "755") == 0);
    return !dev && n > 0 && n <= 10 && strspn(value, "0123456789") == n;
}

static bool option_is_known(const struct mount_view *mount, const char *option)
{
    static const char *const flags[] = { "ro",         "rw",          "nosuid",
                                         "noexec",     "nodev",       "relatime",
                                         "norelatime", "strictatime", "nostrictatime",
                                         "noatime",    "nodiratime",  NULL };
    static const char *const bind[] = { "bind",   "rbind", "private", "rprivate", "slave",
                                        "rslave", "suid",  "dev",     "exec",     "sync",
                                        "async",  "rro",   NULL };
    static const char *const tmpfs[] = { "size=", "mode=", "uid=", "gid=",
                                         "suid",  "dev",   "exec", NULL };
    static const char *const devpts[] = { "newinstance", "ptmxmode=0666", "mode=0620",
                                          "mode=620",    "gid=5",         NULL };
    if (option_in(option, flags))
        return true;
    if (mount->bind)
        return option_in(option, bind);
    if (strcmp(mount->type, "tmpfs") == 0)
        return option_in(option, tmpfs) && tmpfs_value_is_plain(mount, option);
    return strcmp(mount->type, "devpts") == 0 && option_in(option, devpts);
}

void check_mount_options(struct policy_check_run *run)
{
    for (size_t i = 0; i < run->n_mounts; i++) {
        const json_t *options = json_object_get(run->mounts[i].json, "options");
        for (size_t k = 0; k < json_array_size(options); k++) {
            const char *option = json_string_value(json_array_get(options, k));
            if (option && !option_is_known(&run->mounts[i], option))
                policy_find(run, at("/mounts/%zu/options/%zu", i, k).s, "option \"%s\" of %s",
                            option, run->mounts[i].destination);
        }
    }
    const char *propagation = member_str(json_object_get(run->spec, "linux"), "rootfsPropagation");
    static const char *const private_[] = { "private", "rprivate", "slave", "rslave", NULL };
    if (*propagation && !option_in(propagation, private_))
        policy_find(run, "/linux/rootfsPropagation", "rootfsPropagation is \"%s\"", propagation);
}

void check_mount_readonly(struct policy_check_run *run)
{
    for (size_t i = 0; i < run->n_mounts; i++) {
        const struct mount_view *mount = &run->mounts[i];
        if ((strcmp(mount->type, "sysfs") == 0 || strcmp(mount->type, "cgroup") == 0) && !mount->ro)
            policy_find(run, at("/mounts/%zu/options", i).s, "%s is writable", mount->destination);
    }
}

/* ---- tmpfs -------------------------------------------------------------------------------------
 */

static bool is_tmpfs(const struct mount_view *mount)
{
    return !mount->bind && strcmp(mount->type, "tmpfs") == 0;
}

/* Tools write these by themselves without one or the other option: added, not refused. */
static bool is_tools_own(const struct mount_view *mount)
{
    return strcmp(mount->destination, "/dev") == 0 || strcmp(mount->destination, "/run") == 0 ||
           strcmp(mount->destination, "/dev/shm") == 0;
}

void check_tmpfs_options(struct policy_check_run *run)
{
    for (size_t i = 0; i < run->n_mounts; i++) {
        const struct mount_view *mount = &run->mounts[i];
        bool asked = mount->exec || mount->suid || mount->dev;
        bool missing = !mount->noexec || !mount->nosuid || !mount->nodev;
        if (is_tmpfs(mount) && (asked || (missing && !is_tools_own(mount))))
            policy_find(run, at("/mounts/%zu/options", i).s, "tmpfs on %s %s%s%s%s",
                        mount->destination, asked ? "asks for exec, suid or dev" : "without",
                        asked || mount->noexec ? "" : " noexec",
                        asked || mount->nosuid ? "" : " nosuid",
                        asked || mount->nodev ? "" : " nodev");
    }
}

/* What counts against the memory limit: a tool's own default is made to fit instead. */
static bool counts(const struct mount_view *mount)
{
    return is_tmpfs(mount) && mount->size > 0 && strcmp(mount->destination, "/dev") != 0 &&
           !(is_tools_own(mount) && mount->size == TOOL_TMPFS_SIZE);
}

void check_tmpfs_size(struct policy_check_run *run)
{
    int64_t sum = 0, limit = spec_memory(run->spec);
    size_t largest = 0;
    for (size_t i = 0; i < run->n_mounts; i++) {
        const struct mount_view *mount = &run->mounts[i];
        if (!is_tmpfs(mount))
            continue;
        struct at here = at("/mounts/%zu/options", i);
        if (mount->size == MOUNT_SIZE_BAD)
            policy_find(run, here.s, "tmpfs on %s with a size that is none", mount->destination);
        else if (mount->size == MOUNT_SIZE_NONE && !is_tools_own(mount))
            policy_find(run, here.s, "tmpfs on %s without a size", mount->destination);
        else if (mount->size > 0 && mount->size < TMPFS_MIN)
            policy_find(run, here.s, "tmpfs on %s of %lld bytes, at least %d", mount->destination,
                        (long long)mount->size, TMPFS_MIN);
        if (mount->size > run->mounts[largest].size)
            largest = i;
        if (counts(mount) && __builtin_add_overflow(sum, mount->size, &sum))
            sum = INT64_MAX;
    }
    if (limit > 0 && sum > limit)
        policy_find(run, at("/mounts/%zu/options", largest).s,
                    "tmpfs sizes sum up to %lld bytes, the memory limit is %lld", (long long)sum,
                    (long long)limit);
}

/* ---- binds -------------------------------------------------------------------------------------
 */

void check_bind_source(struct policy_check_run *run)
{
    for (size_t i = 0; i < run->n_mounts; i++) {
        const char *source = run->mounts[i].source;
        if (kind_of(run, i) != MOUNT_LISTED)
            continue;
        struct at here = at("/mounts/%zu/source", i);
        const char *state = bind_is_state(source, &run->context, run->config);
        if (!path_is_clean(source))
            policy_find(run, here.s, "bind of \"%s\" on %s", source, run->mounts[i].destination);
        else if (state)
            policy_find(run, here.s, "bind of %s (%s) on %s", source, state,
                        run->mounts[i].destination);
        else if (!bind_entry_find(source, run->config))
            policy_find(run, here.s, "bind of %s on %s", source, run->mounts[i].destination);
        else
            policy_note(run, "verified at start: %s is no socket and no symlink", source);
    }
}

void check_tool_file(struct policy_check_run *run)
{
    for (size_t i = 0; i < run->n_mounts; i++) {
        const struct mount_view *mount = &run->mounts[i];
        if (kind_of(run, i) == MOUNT_TOOL_FILE &&
            !bind_is_tool_file(mount, run->spec, &run->context, run->config))
            policy_find(run, at("/mounts/%zu/source", i).s, "bind of %s on %s", mount->source,
                        mount->destination);
    }
}

void check_service_account(struct policy_check_run *run)
{
    for (size_t i = 0; i < run->n_mounts; i++) {
        if (kind_of(run, i) == MOUNT_SERVICE_ACCOUNT)
            policy_find(run, at("/mounts/%zu/destination", i).s,
                        "the service account's token on %s", run->mounts[i].destination);
    }
}

static void check_paths(struct policy_check_run *run, const char *key)
{
    const json_t *paths = json_object_get(json_object_get(run->spec, "linux"), key);
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *path = json_string_value(json_array_get(paths, i));
        if (path &&
            (!path_is_clean(path) || (!path_below(path, "/proc") && !path_below(path, "/sys"))))
            policy_find(run, at("/linux/%s/%zu", key, i).s, "%s \"%s\"", key, path);
    }
}

void check_masked_paths(struct policy_check_run *run)
{
    check_paths(run, "maskedPaths");
    check_paths(run, "readonlyPaths");
}
