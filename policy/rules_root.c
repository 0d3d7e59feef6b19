/* Rules over the root file system: the spec's /root, and the mounts of the Create request that
 * bring it. Sources are judged as text here and by openat2 in the shim. */
#include <string.h>

#include "base/text.h"
#include "policy/check.h"

void check_root_path(struct policy_check_run *run)
{
    const char *path = member_str(json_object_get(run->spec, "root"), "path");
    const char *bundle = run->context.bundle;
    if (strcmp(path, "rootfs") == 0)
        return;
    size_t n = bundle ? strlen(bundle) : 0;
    if (!bundle || strncmp(path, bundle, n) != 0 || strcmp(path + n, "/rootfs") != 0)
        policy_find(run, "/root/path", "root.path is \"%s\"", path);
}

void check_root_readonly(struct policy_check_run *run)
{
    const json_t *value = json_object_get(json_object_get(run->spec, "root"), "readonly");
    if (!json_is_true(value))
        policy_find(run, "/root/readonly", "root.readonly is %s", value ? "false" : "missing");
}

/* ---- Create's rootfs mounts ----------------------------------------------------------------- */

#define ROOTFS_MOUNTS_MAX 8
#define LAYERS_MAX 512

static bool is_overlay(const json_t *mount)
{
    return strcmp(member_str(mount, "type"), "overlay") == 0;
}

void check_rootfs_type(struct policy_check_run *run)
{
    static const char *const types[] = { "overlay", "bind", "erofs", "ext4" };
    const json_t *mounts = run->context.rootfs;
    if (!mounts) {
        policy_note(run, "verified at start: where the root file system comes from");
        return;
    }
    if (json_array_size(mounts) == 0 || json_array_size(mounts) > ROOTFS_MOUNTS_MAX)
        policy_find(run, "", "%zu root file system mounts, 1 to %d are taken",
                    json_array_size(mounts), ROOTFS_MOUNTS_MAX);
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const char *type = member_str(json_array_get(mounts, i), "type");
        size_t k = 0;
        while (k < ARRAY_LEN(types) && strcmp(types[k], type) != 0)
            k++;
        if (k == ARRAY_LEN(types))
            policy_find(run, at("/%zu/type", i).s, "root file system of type \"%s\"", type);
    }
}

/* /snapshots/N, or below it; btrfs parts them by what they are. The folder of all of them is every
 * other container's too. */
static bool is_one_snapshot(const char *rest)
{
    static const char *const folders[] = { "/snapshots/", "/active/", "/view/" };
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        size_t n = strlen(folders[i]);
        size_t digits = text_starts(rest, folders[i]) ? strspn(rest + n, "0123456789") : 0;
        if (digits > 0 && (rest[n + digits] == 0 || rest[n + digits] == '/'))
            return true;
    }
    return false;
}

/* One snapshot of <containerd root>/io.containerd.snapshotter.v1.NAME, or strictly below a
 * configured root and not its folder of all snapshots. */
static bool source_is_allowed(const struct policy_check_run *run, const char *path)
{
    static const char plugin[] = "/io.containerd.snapshotter.v1.";
    const char *root = run->context.containerd_root;
    size_t n = strlen(root);
    if (!path_is_clean(path))
        return false;
    if (strncmp(path, root, n) == 0 && text_starts(path + n, plugin)) {
        const char *name = path + n + strlen(plugin);
        size_t k = strcspn(name, "/");
        return k > 0 && is_one_snapshot(name + k);
    }
    for (char **dir = run->config->snapshotter_roots; dir && *dir; dir++) {
        const char *rest = path_below(path, *dir) ? path + strlen(*dir) : "";
        if (*rest && strcmp(rest, "/snapshots") != 0)
            return true;
    }
    return false;
}

/* An image is read by the host kernel's own file system code, so its bytes must be a snapshotter's:
 * a file that came with an image's layers is not one. <plugin>/snapshots/N of blockfile, and the
 * files that erofs makes beside N's directories; the same below a configured root. */
static bool is_image_place(const char *rest)
{
    static const char *const names[] = { "", "/layer.erofs", "/fsmeta.erofs", "/rwlayer.img" };
    if (!text_starts(rest, "/snapshots/"))
        return false;
    rest += strlen("/snapshots/");
    size_t digits = strspn(rest, "0123456789");
    for (size_t i = 0; digits > 0 && i < ARRAY_LEN(names); i++) {
        if (strcmp(rest + digits, names[i]) == 0)
            return true;
    }
    return false;
}

static bool image_is_allowed(const struct policy_check_run *run, const char *path)
{
    static const char *const plugins[] = { "/io.containerd.snapshotter.v1.erofs",
                                           "/io.containerd.snapshotter.v1.blockfile" };
    size_t n = strlen(run->context.containerd_root);
    for (size_t i = 0; i < ARRAY_LEN(plugins); i++) {
        if (strncmp(path, run->context.containerd_root, n) == 0 &&
            text_starts(path + n, plugins[i]) && is_image_place(path + n + strlen(plugins[i])))
            return true;
    }
    for (char **dir = run->config->snapshotter_roots; dir && *dir; dir++) {
        if (path_below(path, *dir) && is_image_place(path + strlen(*dir)))
            return true;
    }
    return false;
}

/* Every layer of a lowerdir list. ':' parts layers; nothing may be escaped. */
static void check_layers(struct policy_check_run *run, size_t mount, const char *list)
{
    char layer[4096];
    size_t count = 0;
    for (const char *p = list;; count++) {
        size_t n = strcspn(p, ":");
        bool fits = n < sizeof(layer) && count < LAYERS_MAX;
        if (fits) {
            memcpy(layer, p, n);
            layer[n] = 0;
        }
        if (!fits || !source_is_allowed(run, layer)) {
            policy_find(run, at("/%zu/options", mount).s, "layer \"%s\"",
                        fits ? layer : "(too long or too many)");
            return;
        }
        if (!p[n])
            return;
        p += n + 1;
    }
}

static void check_overlay_option(struct policy_check_run *run, size_t mount, const char *option)
{
    static const char *const directories[] = { "upperdir=", "workdir=" };
    if (text_starts(option, "lowerdir="))
        check_layers(run, mount, option + strlen("lowerdir="));
    for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
        if (text_starts(option, directories[i]) &&
            !source_is_allowed(run, option + strlen(directories[i])))
            policy_find(run, at("/%zu/options", mount).s, "%s", option);
    }
}

void check_rootfs_source(struct policy_check_run *run)
{
    const json_t *mounts = run->context.rootfs;
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);
        const json_t *options = json_object_get(mount, "options");
        if (!is_overlay(mount)) {
            const char *source = member_str(mount, "source");
            const char *type = member_str(mount, "type");
            bool image = strcmp(type, "erofs") == 0 || strcmp(type, "ext4") == 0;
            if (!source_is_allowed(run, source) || (image && !image_is_allowed(run, source)))
                policy_find(run, at("/%zu/source", i).s, "root file system from \"%s\"", source);
            continue;
        }
        for (size_t k = 0; k < json_array_size(options); k++) {
            const char *option = json_string_value(json_array_get(options, k));
            check_overlay_option(run, i, option ? option : "");
        }
    }
}

static bool option_in(const char *option, const char *const *list)
{
    for (; *list; list++) {
        size_t n = strlen(*list);
        if ((*list)[n - 1] == '=' ? text_starts(option, *list) : strcmp(option, *list) == 0)
            return true;
    }
    return false;
}

static bool rootfs_option_is_allowed(const char *type, const char *option)
{
    static const char *const flags[] = { "ro",      "rw",         "nosuid",   "nodev",    "noexec",
                                         "noatime", "nodiratime", "relatime", "lazytime", NULL };
    static const char *const bind[] = { "bind", "rbind", "private", "rprivate", NULL };
    static const char *const overlay[] = {
        "lowerdir=", "upperdir=",      "workdir=",       "index=off", "index=on",
        "userxattr", "metacopy=off",   "xino=off",       "xino=on",   "redirect_dir=off",
        "volatile",  "fsync=volatile", "nfs_export=off", NULL
    };
    static const char *const image[] = { "loop", NULL };
    if (option_in(option, flags))
        return true;
    if (strcmp(type, "bind") == 0)
        return option_in(option, bind);
    return option_in(option, strcmp(type, "overlay") == 0 ? overlay : image);
}

static void check_target(struct policy_check_run *run, size_t i, const char *target)
{
    char *absolute CLEANUP_FREE = xasprintf("/%s", target);
    if (*target && !path_is_clean(absolute))
        policy_find(run, at("/%zu/target", i).s, "target \"%s\"", target);
}

void check_rootfs_options(struct policy_check_run *run)
{
    const json_t *mounts = run->context.rootfs;
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);
        const json_t *options = json_object_get(mount, "options");
        check_target(run, i, member_str(mount, "target"));
        for (size_t k = 0; k < json_array_size(options); k++) {
            const char *option = json_string_value(json_array_get(options, k));
            if (!option || strchr(option, '\\') || strchr(option, ',') ||
                !rootfs_option_is_allowed(member_str(mount, "type"), option))
                policy_find(run, at("/%zu/options/%zu", i, k).s, "root file system option \"%s\"",
                            option ? option : "");
        }
    }
}
