#include "shim/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/text.h"

#define UNMOUNTS_MAX 64

/* Opens a source and proves that what was opened lies below the roots: no component was a link, so
 * the text is the path. */
static CHECKED enum err_kind open_source(const struct rootfs_roots *roots, const char *path,
                                         int flags, int *out, struct err *err)
{
    char safe[256];
    if (!rootfs_below(roots, path))
        return err_set(err, ERR_PRECONDITION,
                       "rootfs-source: %s is not below a snapshotter's directory "
                       "(use containerd's snapshotters, or add its root to snapshotter-roots)",
                       text_safe(path, safe, sizeof(safe)));
    enum err_kind kind = fs_open_real(AT_FDCWD, path, flags, out, err);
    if (kind)
        (void)err_prefix(err, "rootfs-source");
    return kind;
}

/* Directories of one overlay as open descriptors: what mount(2) gets are their /proc/self/fd names,
 * so nothing is looked up again and long lower chains fit in a page. */
struct opened {
    int fds[ROOTFS_LOWER_MAX + 2];
    size_t n;
};

static void opened_close(struct opened *o)
{
    for (size_t i = 0; i < o->n; i++)
        (void)close(o->fds[i]);
    o->n = 0;
}

static CHECKED enum err_kind open_dir(struct opened *o, const struct rootfs_roots *roots,
                                      const char *path, int *fd, struct err *err)
{
    enum err_kind kind = open_source(roots, path, O_PATH | O_DIRECTORY, fd, err);
    if (!kind)
        o->fds[o->n++] = *fd;
    return kind;
}

static CHECKED enum err_kind overlay_options(struct opened *o, const struct rootfs_layer *layer,
                                             const struct rootfs_roots *roots, struct buf *options,
                                             struct err *err)
{
    int fd = -1;
    enum err_kind kind = ERR_OK;
    for (size_t i = 0; i < layer->n_lower; i++) {
        if ((kind = open_dir(o, roots, layer->lower[i], &fd, err)))
            return kind;
        buf_printf(options, "%s/proc/self/fd/%d", i ? ":" : "lowerdir=", fd);
    }
    if (layer->upper) {
        if ((kind = open_dir(o, roots, layer->upper, &fd, err)))
            return kind;
        buf_printf(options, ",upperdir=/proc/self/fd/%d", fd);
        if ((kind = open_dir(o, roots, layer->work, &fd, err)))
            return kind;
        buf_printf(options, ",workdir=/proc/self/fd/%d", fd);
    }
    if (layer->extra)
        buf_printf(options, ",%s", layer->extra);
    return options->failed ? err_set(err, ERR_INVALID, "rootfs-source: overlay options too long")
                           : ERR_OK;
}

static unsigned long mount_flags(const struct rootfs_layer *layer)
{
    return MS_NODEV | MS_NOSUID | (layer->ro ? MS_RDONLY : 0UL);
}

static CHECKED enum err_kind mount_overlay(const struct rootfs_layer *layer,
                                           const struct rootfs_roots *roots, const char *target,
                                           struct err *err)
{
    struct opened o CLEANUP(opened_close) = { .n = 0 };
    struct buf options CLEANUP(buf_fini);
    buf_init(&options, 4095);
    enum err_kind kind = overlay_options(&o, layer, roots, &options, err);
    if (kind)
        return kind;
    bool one = layer->n_lower == 1 && !layer->upper;
    if (one)
        return err_set(err, ERR_INVALID, "rootfs-source: overlay with a single lower directory");
    if (mount("overlay", target, "overlay", mount_flags(layer), buf_cstr(&options)) != 0)
        return err_sys(err, errno, "rootfs: overlay");
    return ERR_OK;
}

static CHECKED enum err_kind mount_tree_fd(int fd, const char *target, bool ro, struct err *err)
{
    int tree CLEANUP_FD =
        (int)syscall(SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0)
        return err_sys(err, errno, "rootfs: open_tree");
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | (ro ? MOUNT_ATTR_RDONLY : 0U),
    };
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) != 0)
        return err_sys(err, errno, "rootfs: mount_setattr");
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return err_sys(err, errno, "rootfs: move_mount");
    return ERR_OK;
}

static CHECKED enum err_kind mount_bind(const struct rootfs_layer *layer,
                                        const struct rootfs_roots *roots, const char *target,
                                        struct err *err)
{
    int fd CLEANUP_FD = -1;
    enum err_kind kind = open_source(roots, layer->source, O_PATH | O_DIRECTORY, &fd, err);
    return kind ? kind : mount_tree_fd(fd, target, layer->ro, err);
}

/* A free loop device over the image, gone by itself with the last mount. */
static CHECKED enum err_kind loop_over(int image, bool ro, int *device, char *name, size_t size,
                                       struct err *err)
{
    int control CLEANUP_FD = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return err_sys(err, errno, "rootfs: loop device");
    for (int i = 0; i < 8; i++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE);
        if (n < 0)
            return err_sys(err, errno, "rootfs: loop device");
        (void)snprintf(name, size, "/dev/loop%d", n);
        int fd CLEANUP_FD = open(name, (ro ? O_RDONLY : O_RDWR) | O_CLOEXEC);
        if (fd < 0)
            return err_sys(err, errno, "rootfs: %s", name);
        struct loop_config config = {
            .fd = (unsigned)image,
            .info = { .lo_flags = LO_FLAGS_AUTOCLEAR | (ro ? (unsigned)LO_FLAGS_READ_ONLY : 0U) },
        };
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            *device = steal_fd(&fd);
            return ERR_OK;
        }
        if (errno != EBUSY)
            return err_sys(err, errno, "rootfs: %s", name);
    }
    return err_set(err, ERR_UNAVAILABLE, "rootfs: no free loop device");
}

static CHECKED enum err_kind mount_image(const struct rootfs_layer *layer,
                                         const struct rootfs_roots *roots, const char *target,
                                         struct err *err)
{
    const char *type = layer->type == ROOTFS_EROFS ? "erofs" : "ext4";
    bool ro = layer->ro || layer->type == ROOTFS_EROFS;
    int image CLEANUP_FD = -1;
    enum err_kind kind = open_source(roots, layer->source, ro ? O_RDONLY : O_RDWR, &image, err);
    if (kind)
        return kind;
    struct stat st;
    if (fstat(image, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(err, ERR_PRECONDITION,
                       "rootfs-source: %s is not a regular file with one link", layer->source);
    char name[32];
    int device CLEANUP_FD = -1;
    if ((kind = loop_over(image, ro, &device, name, sizeof(name), err)))
        return kind;
    if (mount(name, target, type, mount_flags(layer) | (ro ? MS_RDONLY : 0UL), NULL) != 0)
        return err_sys(err, errno, "rootfs: %s", type);
    return ERR_OK;
}

static CHECKED enum err_kind mount_layer(const struct rootfs_layer *layer,
                                         const struct rootfs_roots *roots, const char *target,
                                         struct err *err)
{
    switch (layer->type) {
    case ROOTFS_OVERLAY:
        return mount_overlay(layer, roots, target, err);
    case ROOTFS_BIND:
        return mount_bind(layer, roots, target, err);
    case ROOTFS_EROFS:
    case ROOTFS_EXT4:
        return mount_image(layer, roots, target, err);
    }
    return err_set(err, ERR_INTERNAL, "rootfs: unknown type");
}

enum err_kind rootfs_mount(const struct rootfs_request *requests, size_t n,
                           const struct rootfs_roots *roots, const char *target, struct err *err)
{
    if (n == 0 || n > ROOTFS_MOUNTS_MAX)
        return err_set(err, ERR_PRECONDITION, "rootfs-source: %zu root mounts (1 to %d are)", n,
                       ROOTFS_MOUNTS_MAX);
    enum err_kind kind = ERR_OK;
    for (size_t i = 0; i < n && !kind; i++) {
        struct rootfs_layer layer CLEANUP(rootfs_layer_fini) = { 0 };
        kind = rootfs_parse(&requests[i], &layer, err);
        if (!kind)
            kind = mount_layer(&layer, roots, target, err);
    }
    struct err ignored;
    if (kind && rootfs_unmount(target, &ignored) != ERR_OK)
        (void)err_prefix(err, "(and the root stays mounted)");
    return kind;
}

enum err_kind rootfs_unmount(const char *target, struct err *err)
{
    for (int i = 0; i < UNMOUNTS_MAX; i++) {
        if (umount2(target, UMOUNT_NOFOLLOW) == 0)
            continue;
        if (errno == EINVAL || errno == ENOENT)
            return ERR_OK; /* not a mount point (any more) */
        if (errno != EBUSY)
            return err_sys(err, errno, "unmount %s", target);
        if (umount2(target, UMOUNT_NOFOLLOW | MNT_DETACH) != 0)
            return err_sys(err, errno, "unmount %s", target);
    }
    return err_set(err, ERR_INTERNAL, "unmount %s: more than %d mounts", target, UNMOUNTS_MAX);
}
