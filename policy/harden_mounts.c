/* The mounts that runsc gets: options added, what is missing inserted, binds made harmless. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/bind.h"
#include "policy/harden.h"

#define TMPFS_MIN 4096

static void append(json_t *options, const char *option)
{
    json_array_append_new(options, json_string(option));
}

static void append_size(json_t *options, int64_t size)
{
    char *text CLEANUP_FREE = xasprintf("size=%lld", (long long)size);
    append(options, text);
}

static json_t *mount_new(const char *destination, const char *type, const char *options)
{
    json_t *list = json_array();
    while (*options) {
        size_t n = strcspn(options, ",");
        json_array_append_new(list, json_stringn(options, n));
        options += n + (options[n] == ',');
    }
    return json_pack("{s:s,s:s,s:s,s:o}", "destination", destination, "type", type, "source", type,
                     "options", list);
}

/* ---- options of what is no bind ----------------------------------------------------------------
 */

/* Adds what is not there; returns how many were added. */
static size_t add_flags(json_t *options, const struct mount_view *mount, const char **words)
{
    const struct {
        bool there;
        const char *name;
    } flags[] = { { mount->noexec, "noexec" },
                  { mount->nosuid, "nosuid" },
                  { mount->nodev, "nodev" } };
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if (!flags[i].there) {
            append(options, flags[i].name);
            words[n++] = flags[i].name;
        }
    }
    return n;
}

static void remove_size(json_t *options)
{
    for (size_t i = json_array_size(options); i-- > 0;) {
        const char *option = json_string_value(json_array_get(options, i));
        if (option && text_starts(option, "size="))
            json_array_remove(options, i);
    }
}

static bool is_tmpfs(const struct mount_view *mount)
{
    return !mount->bind && strcmp(mount->type, "tmpfs") == 0;
}

static json_t *options_of(json_t *mount)
{
    json_t *options = json_object_get(mount, "options");
    if (!options) {
        options = json_array();
        json_object_set_new(mount, "options", options);
    }
    return options;
}

static void harden_plain(struct harden *harden, json_t *json, const struct mount_view *mount)
{
    json_t *options = options_of(json);
    struct at here = at("/mounts%s", mount->destination);
    const char *words[3] = { "", "", "" };
    bool dev = strcmp(mount->destination, "/dev") == 0;
    size_t n = strcmp(mount->type, "devpts") == 0 ? 0 : add_flags(options, mount, words);
    if (n)
        changes_add(harden->changes, here.s, "added %s%s%s%s%s", words[0], n > 1 ? "," : "",
                    words[1], n > 2 ? "," : "", words[2]);
    if (is_tmpfs(mount) && mount->size == MOUNT_SIZE_NONE) {
        append_size(options, TOOL_TMPFS_SIZE);
        changes_add(harden->changes, here.s, "absent size set to 64m");
    }
    /* Only uid 0 can write there. (On old runsc a read-only /dev costs `> /dev/null`.) */
    if (dev && harden->plan->disk_quota && harden->plan->uid == 0 && !mount->ro) {
        append(options, "ro");
        changes_add(harden->changes, here.s, "made read-only: gVisor does not bound its size");
    }
}

/* ---- binds --------------------------------------------------------------------------------------
 */

static void plan_bind(struct harden *harden, const struct policy_bind *bind)
{
    struct policy_plan *plan = harden->plan;
    plan->binds = xreallocarray(plan->binds, plan->n_binds + 1, sizeof(*plan->binds));
    plan->binds[plan->n_binds++] = *bind;
}

static struct policy_bind bind_of(const struct harden *harden, const struct mount_view *mount,
                                  enum mount_kind kind, size_t index)
{
    const struct policy_bind_entry *entry;
    struct policy_bind bind = { .mount = index,
                                .destination = mount->destination,
                                .source = mount->source };
    switch (kind) {
    case MOUNT_TERMINATION_LOG:
        bind.kind = POLICY_BIND_TERMINATION_LOG;
        bind.rw = true;
        break;
    case MOUNT_EMPTY_DIR:
        bind.kind = POLICY_BIND_EMPTY_DIR;
        bind.rw = !mount->ro;
        break;
    case MOUNT_LISTED:
        entry = bind_entry_find(mount->source, harden->config);
        bind.kind = POLICY_BIND_OPERATOR;
        bind.rw = !mount->ro && entry && entry->rw;
        bind.size = bind.rw ? entry->size : 0;
        break;
    case MOUNT_TOOL_FILE:
    case MOUNT_OTHER:
    case MOUNT_SHM:
    case MOUNT_SERVICE_ACCOUNT:
        bind.kind = POLICY_BIND_TOOL_FILE;
        break;
    }
    return bind;
}

static void harden_bind(struct harden *harden, json_t *json, const struct mount_view *mount,
                        enum mount_kind kind, size_t index)
{
    struct policy_bind bind = bind_of(harden, mount, kind, index);
    struct at here = at("/mounts%s", mount->destination);
    json_object_set_new(json, "type", json_string("bind"));
    json_object_set_new(json, "options",
                        json_pack("[s,s,s,s,s,s]", "bind", "private", bind.rw ? "rw" : "ro",
                                  "nosuid", "nodev", "noexec"));
    if (!mount->noexec || !mount->nosuid || !mount->nodev || (!bind.rw && !mount->ro))
        changes_add(harden->changes, here.s, "made %s,nosuid,nodev,noexec", bind.rw ? "rw" : "ro");
    plan_bind(harden, &bind);
}

static json_t *shm_new(void)
{
    return mount_new("/dev/shm", "tmpfs", "rw,nosuid,nodev,noexec,mode=1777,size=67108864");
}

/* ---- the list
 * ------------------------------------------------------------------------------------ */

/* A tmpfs on /dev/shm that the pod's own follows (pause of containerd 1.6). */
static bool is_replaced(const struct harden *harden, const struct mount_view *views, size_t n,
                        size_t i)
{
    for (size_t k = i + 1; k < n; k++) {
        if (strcmp(views[k].destination, views[i].destination) == 0 &&
            mount_kind_of(&views[k], harden->spec, harden->context, harden->config) == MOUNT_SHM)
            return true;
    }
    return false;
}

static void append_mount(struct harden *harden, json_t *out, const struct mount_view *mount)
{
    enum mount_kind kind = mount_kind_of(mount, harden->spec, harden->context, harden->config);
    json_t *json = (json_t *)(uintptr_t)mount->json;
    json_object_del(json, "uidMappings");
    json_object_del(json, "gidMappings");
    if (kind == MOUNT_SHM) {
        changes_add(harden->changes, "/mounts/dev/shm",
                    "the pod's bind replaced by a tmpfs of 64m");
        json_array_append_new(out, shm_new());
        return;
    }
    /* gVisor mounts the controllers below it writable, whatever the options say (measured). */
    if (kind == MOUNT_OTHER && strcmp(mount->type, "cgroup") == 0) {
        changes_add(harden->changes, "/mounts/sys/fs/cgroup", "dropped: gVisor ignores its ro");
        return;
    }
    if (kind == MOUNT_OTHER)
        harden_plain(harden, json, mount);
    else
        harden_bind(harden, json, mount, kind, json_array_size(out));
    json_array_append(out, json);
}

static const json_t *find_destination(const json_t *mounts, const char *destination)
{
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);
        if (strcmp(member_str(mount, "destination"), destination) == 0)
            return mount;
    }
    return NULL;
}

/* What runsc makes by itself where the spec has nothing: writable, executable, without a size. */
static const struct {
    const char *destination;
    const char *type;
    const char *options;
} required[] = {
    { "/proc", "proc", "nosuid,noexec,nodev" },
    { "/dev", "tmpfs", "nosuid,noexec,nodev,strictatime,mode=755,size=67108864" },
    { "/dev/pts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5" },
    { "/dev/shm", "tmpfs", "nosuid,noexec,nodev,mode=1777,size=67108864" },
    { "/sys", "sysfs", "nosuid,noexec,nodev,ro" },
    { "/run", "tmpfs", "nosuid,noexec,nodev,mode=755,size=67108864" },
    { "/tmp", "tmpfs", "nosuid,noexec,nodev,mode=1777,size=16777216" },
};

/* Behind its parent, which would cover it otherwise; in front of all others. */
static size_t place_of(const json_t *mounts, const char *destination)
{
    for (size_t i = json_array_size(mounts); i-- > 0;) {
        const char *other = member_str(json_array_get(mounts, i), "destination");
        if (*other && path_below(destination, other))
            return i + 1;
    }
    return 0;
}

static void insert_required(struct harden *harden, json_t *mounts)
{
    for (size_t i = 0; i < ARRAY_LEN(required); i++) {
        const char *destination = required[i].destination;
        if (find_destination(mounts, destination))
            continue;
        json_t *mount = mount_new(destination, required[i].type, required[i].options);
        json_array_insert_new(mounts, place_of(mounts, destination), mount);
        changes_add(harden->changes, at("/mounts%s", destination).s, "absent, inserted");
        harden->tmp_inserted |= strcmp(destination, "/tmp") == 0;
    }
}

/* ---- the sum of sizes
 * ----------------------------------------------------------------------------- */

static bool is_shrinkable(const struct harden *harden, const struct mount_view *mount)
{
    bool tools =
        strcmp(mount->destination, "/run") == 0 || strcmp(mount->destination, "/dev/shm") == 0;
    bool tmp = harden->tmp_inserted && strcmp(mount->destination, "/tmp") == 0;
    return is_tmpfs(mount) && (tmp || (tools && mount->size == TOOL_TMPFS_SIZE));
}

static bool is_counted(const struct mount_view *mount)
{
    return is_tmpfs(mount) && mount->size > 0 && strcmp(mount->destination, "/dev") != 0;
}

static int64_t bind_bytes(const struct policy_bind *bind)
{
    return bind->kind == POLICY_BIND_TERMINATION_LOG ? POLICY_TERMINATION_LOG_MAX : bind->size;
}

/* Sizes that no user chose give way until the sum fits the memory limit and the quota. */
static void shrink(struct harden *harden, json_t *mounts)
{
    int64_t fixed = 0, loose = 0, bound = harden->plan->limits.memory;
    size_t n_loose = 0, n;
    struct mount_view *views CLEANUP_FREE = mount_views_read(harden->spec, &n);
    if (harden->plan->disk_quota && harden->plan->disk_quota < bound)
        bound = harden->plan->disk_quota;
    for (size_t i = 0; harden->plan->disk_quota && i < harden->plan->n_binds; i++)
        fixed += bind_bytes(&harden->plan->binds[i]);
    for (size_t i = 0; i < n; i++) {
        if (is_shrinkable(harden, &views[i])) {
            loose += views[i].size;
            n_loose++;
        } else if (is_counted(&views[i])) {
            fixed += views[i].size;
        }
    }
    if (n_loose == 0 || fixed + loose <= bound)
        return;
    int64_t each = (bound - fixed) / (int64_t)n_loose & ~(int64_t)(TMPFS_MIN - 1);
    each = each < TMPFS_MIN ? TMPFS_MIN : each;
    for (size_t i = 0; i < n; i++) {
        if (!is_shrinkable(harden, &views[i]) || views[i].size <= each)
            continue;
        json_t *options = options_of(json_array_get(mounts, i));
        remove_size(options);
        append_size(options, each);
        changes_add(harden->changes, at("/mounts%s", views[i].destination).s,
                    "size set to %lld, to fit the limits", (long long)each);
    }
}

/* The plan's indexes and strings follow the list as it stands in the end. */
static void refresh_plan(struct harden *harden, const json_t *mounts)
{
    for (size_t i = 0; i < harden->plan->n_binds; i++) {
        struct policy_bind *bind = &harden->plan->binds[i];
        for (size_t k = 0; k < json_array_size(mounts); k++) {
            if (member_str(json_array_get(mounts, k), "destination") == bind->destination)
                bind->mount = k;
        }
    }
}

void harden_mounts(struct harden *harden)
{
    size_t n;
    struct mount_view *views CLEANUP_FREE = mount_views_read(harden->spec, &n);
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++) {
        if (!is_replaced(harden, views, n, i))
            append_mount(harden, out, &views[i]);
    }
    insert_required(harden, out);
    json_object_set_new(harden->spec, "mounts", out);
    shrink(harden, out);
    refresh_plan(harden, out);
}
