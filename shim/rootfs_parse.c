/* The pure half of rootfs.h. */
#include "shim/rootfs.h"

#include <string.h>

#include "base/buf.h"
#include "base/text.h"

#define SNAPSHOTTER "io.containerd.snapshotter.v1."

void rootfs_layer_fini(struct rootfs_layer *layer)
{
    free(layer->source);
    for (size_t i = 0; i < layer->n_lower; i++)
        free(layer->lower[i]);
    free(layer->upper);
    free(layer->work);
    free(layer->extra);
    *layer = (struct rootfs_layer){ 0 };
}

/* Absolute, without empty, "." and ".." components. */
static bool path_plain(const char *path)
{
    if (path[0] != '/')
        return false;
    while (*path) {
        path++; /* the slash */
        size_t n = strcspn(path, "/");
        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        path += n;
    }
    return true;
}

static bool below_dir(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    return n > 1 && strncmp(dir, path, n) == 0 && path[n] == '/' && path[n + 1] != '\0';
}

bool rootfs_below(const struct rootfs_roots *roots, const char *path)
{
    if (!path_plain(path))
        return false;
    const char *root = roots->containerd_root;
    if (below_dir(root, path)) {
        const char *rest = path + strlen(root);
        rest += *rest == '/';
        const char *slash = strchr(rest, '/');
        bool named = text_starts(rest, SNAPSHOTTER) && rest[strlen(SNAPSHOTTER)] != '/';
        if (named && slash && slash[1] != '\0')
            return true;
    }
    for (size_t i = 0; roots->further && roots->further[i]; i++)
        if (below_dir(roots->further[i], path))
            return true;
    return false;
}

static CHECKED enum err_kind bad_option(const char *type, const char *option, struct err *err)
{
    char safe[160];
    return err_set(err, ERR_PRECONDITION, "rootfs-source: %s option %s is not allowed", type,
                   text_safe(option, safe, sizeof(safe)));
}

static CHECKED enum err_kind parse_lower(struct rootfs_layer *out, const char *value,
                                         struct err *err)
{
    while (*value) {
        size_t n = strcspn(value, ":");
        if (out->n_lower == ROOTFS_LOWER_MAX)
            return err_set(err, ERR_INVALID, "rootfs-source: more than %d lower directories",
                           ROOTFS_LOWER_MAX);
        if (n == 0 || memchr(value, '\\', n))
            return bad_option("overlay", "lowerdir", err);
        out->lower[out->n_lower++] = xstrndup(value, n);
        value += n;
        value += *value == ':';
    }
    return ERR_OK;
}

static void add_extra(struct rootfs_layer *out, const char *option)
{
    char *joined = out->extra ? xasprintf("%s,%s", out->extra, option) : xstrdup(option);
    free(out->extra);
    out->extra = joined;
}

static bool take_path(char **slot, const char *option, const char *prefix)
{
    if (*slot || !text_starts(option, prefix))
        return false;
    *slot = xstrdup(option + strlen(prefix));
    return true;
}

static CHECKED enum err_kind parse_overlay_option(struct rootfs_layer *out, const char *option,
                                                  struct err *err)
{
    static const char *const EXTRA[] = {
        "index=off",      "userxattr",        "volatile", "metacopy=off",
        "nfs_export=off", "redirect_dir=off", "xino=off", "redirect_dir=nofollow",
    };
    if (text_starts(option, "lowerdir=") && out->n_lower == 0)
        return parse_lower(out, option + strlen("lowerdir="), err);
    if (take_path(&out->upper, option, "upperdir=") || take_path(&out->work, option, "workdir="))
        return ERR_OK;
    if (strchr(option, ','))
        return bad_option("overlay", option, err);
    for (size_t i = 0; i < ARRAY_LEN(EXTRA); i++) {
        if (strcmp(option, EXTRA[i]) == 0) {
            add_extra(out, option);
            return ERR_OK;
        }
    }
    return bad_option("overlay", option, err);
}

static bool common_option(struct rootfs_layer *out, const char *option)
{
    static const char *const NEUTRAL[] = { "rw", "nosuid", "nodev", "noatime", "relatime" };
    if (strcmp(option, "ro") == 0) {
        out->ro = true;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(NEUTRAL); i++)
        if (strcmp(option, NEUTRAL[i]) == 0)
            return true;
    if (out->type == ROOTFS_BIND)
        return strcmp(option, "bind") == 0 || strcmp(option, "rbind") == 0;
    if (out->type == ROOTFS_EROFS || out->type == ROOTFS_EXT4)
        return strcmp(option, "loop") == 0;
    return false;
}

static CHECKED enum err_kind parse_options(const struct rootfs_request *request,
                                           struct rootfs_layer *out, struct err *err)
{
    for (size_t i = 0; i < request->n_options; i++) {
        const char *option = request->options[i];
        if (common_option(out, option))
            continue;
        if (out->type != ROOTFS_OVERLAY)
            return bad_option(request->type, option, err);
        enum err_kind kind = parse_overlay_option(out, option, err);
        if (kind)
            return kind;
    }
    return ERR_OK;
}

static bool find_type(const char *name, enum rootfs_type *out)
{
    static const struct {
        const char *name;
        enum rootfs_type type;
    } TYPES[] = {
        { "overlay", ROOTFS_OVERLAY },
        { "bind", ROOTFS_BIND },
        { "erofs", ROOTFS_EROFS },
        { "ext4", ROOTFS_EXT4 },
    };
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        if (strcmp(name, TYPES[i].name) == 0) {
            *out = TYPES[i].type;
            return true;
        }
    }
    return false;
}

static CHECKED enum err_kind parse_whole(const struct rootfs_request *request,
                                         struct rootfs_layer *out, struct err *err)
{
    char safe[96];
    if (!find_type(request->type ? request->type : "", &out->type))
        return err_set(err, ERR_PRECONDITION,
                       "rootfs-source: mount type %s is not allowed (use overlay, bind, erofs or "
                       "ext4)",
                       text_safe(request->type ? request->type : "", safe, sizeof(safe)));
    if (request->target && *request->target)
        return err_set(err, ERR_PRECONDITION, "rootfs-source: mount target %s is not allowed",
                       text_safe(request->target, safe, sizeof(safe)));
    enum err_kind kind = parse_options(request, out, err);
    if (kind)
        return kind;
    if (out->type != ROOTFS_OVERLAY) {
        out->source = xstrdup(request->source ? request->source : "");
        return ERR_OK;
    }
    if (out->n_lower == 0 || !out->upper != !out->work)
        return err_set(err, ERR_INVALID,
                       "rootfs-source: overlay needs lowerdir, and workdir with "
                       "upperdir");
    return ERR_OK;
}

enum err_kind rootfs_parse(const struct rootfs_request *request, struct rootfs_layer *out,
                           struct err *err)
{
    *out = (struct rootfs_layer){ 0 };
    enum err_kind kind = parse_whole(request, out, err);
    if (kind)
        rootfs_layer_fini(out);
    return kind;
}
