#include "shim/binds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own.h"
#include "base/text.h"
#include "shim/rootfs.h"

static CHECKED enum err_kind judge_source(const struct policy_bind *bind, const struct stat *st,
                                          struct err *err)
{
    char safe[256];
    (void)text_safe(bind->source, safe, sizeof(safe));
    bool file = S_ISREG(st->st_mode);
    bool tool = bind->kind == POLICY_BIND_TOOL_FILE || bind->kind == POLICY_BIND_TERMINATION_LOG;
    if (tool && (!file || st->st_nlink != 1))
        return err_set(err, ERR_PRECONDITION, "bind-source: %s is not a regular file with one link",
                       safe);
    if (bind->kind == POLICY_BIND_EMPTY_DIR && !S_ISDIR(st->st_mode))
        return err_set(err, ERR_PRECONDITION, "bind-source: %s is not a directory", safe);
    if (!file && !S_ISDIR(st->st_mode))
        return err_set(err, ERR_PRECONDITION,
                       "bind-source: %s is neither a regular file nor a directory", safe);
    return ERR_OK;
}

static CHECKED enum err_kind make_target(const char *target, bool dir, struct err *err)
{
    if (dir)
        return mkdir(target, 0700) == 0 ? ERR_OK : err_sys(err, errno, "%s", target);
    int fd CLEANUP_FD = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? ERR_OK : err_sys(err, errno, "%s", target);
}

static CHECKED enum err_kind mount_one(const struct policy_bind *bind, int fd, const char *target,
                                       struct err *err)
{
    int tree CLEANUP_FD =
        (int)syscall(SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0)
        return err_sys(err, errno, "mount %s", bind->destination);
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC |
                    (bind->rw ? 0U : (unsigned)MOUNT_ATTR_RDONLY),
        .propagation = MS_PRIVATE,
    };
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) != 0 ||
        syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return err_sys(err, errno, "mount %s", bind->destination);
    return ERR_OK;
}

static CHECKED enum err_kind bind_one(json_t *mounts, const struct policy_bind *bind,
                                      const char *dir, int *log_fd, struct err *err)
{
    json_t *mount = json_array_get(mounts, bind->mount);
    if (!json_is_object(mount))
        return err_set(err, ERR_INTERNAL, "the plan names mount %zu, which is not there",
                       bind->mount);
    int fd CLEANUP_FD = -1;
    enum err_kind kind = fs_open_real(AT_FDCWD, bind->source, O_PATH, &fd, err);
    if (kind)
        return err_prefix(err, "bind-source");
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(err, errno, "bind-source: %s", bind->source);
    if ((kind = judge_source(bind, &st, err)))
        return kind;
    char *target CLEANUP_FREE = xasprintf("%s/%zu", dir, bind->mount);
    if ((kind = make_target(target, S_ISDIR(st.st_mode), err)))
        return kind;
    if ((kind = mount_one(bind, fd, target, err)))
        return kind;
    if (bind->kind == POLICY_BIND_TERMINATION_LOG)
        *log_fd = steal_fd(&fd);
    (void)json_object_set_new(mount, "source", json_string(target));
    return ERR_OK;
}

enum err_kind binds_mount(json_t *spec, const struct policy_plan *plan, const char *private_dir,
                          int *log_fd, struct err *err)
{
    if (plan->n_binds == 0)
        return ERR_OK;
    char *dir CLEANUP_FREE = xasprintf("%s/binds", private_dir);
    enum err_kind kind = fs_mkdirs(dir, 0700, err);
    json_t *mounts = json_object_get(spec, "mounts");
    for (size_t i = 0; i < plan->n_binds && !kind; i++)
        kind = bind_one(mounts, &plan->binds[i], dir, log_fd, err);
    return kind;
}

enum err_kind binds_unmount(const char *private_dir, struct err *err)
{
    char *dir CLEANUP_FREE = xasprintf("%s/binds", private_dir);
    DIR *d CLEANUP_DIR = opendir(dir);
    if (!d)
        return errno == ENOENT ? ERR_OK : err_sys(err, errno, "%s", dir);
    enum err_kind first = ERR_OK;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        char *target CLEANUP_FREE = xasprintf("%s/%s", dir, e->d_name);
        enum err_kind kind = rootfs_unmount(target, err);
        if (kind && !first)
            first = kind;
    }
    return first;
}
