#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

static CHECKED enum err_kind read_all(int fd, const char *path, size_t max, char **out, size_t *len,
                                      struct err *err)
{
    struct buf b;
    buf_init(&b, max + 1);
    for (;;) {
        uint8_t *to = buf_reserve(&b, b.max - b.len < 65536 ? b.max - b.len : 65536);
        size_t room = b.max - b.len < 65536 ? b.max - b.len : 65536;
        ssize_t n = to && room ? read(fd, to, room) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int errnum = errno;
            buf_fini(&b);
            return err_sys(err, errnum, "%s", path);
        }
        if (n == 0)
            break;
        b.len += (size_t)n;
    }
    if (b.len > max) {
        buf_fini(&b);
        return err_set(err, ERR_INVALID, "%s: larger than %zu bytes", path, max);
    }
    (void)buf_cstr(&b);
    if (len)
        *len = b.len;
    *out = (char *)STEAL(b.data);
    return ERR_OK;
}

enum err_kind fs_read_at(int dirfd, const char *name, size_t max, char **out, size_t *len,
                         struct err *err)
{
    int fd CLEANUP_FD = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "%s", name);
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(err, errno, "%s", name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "%s: not a regular file", name);
    return read_all(fd, name, max, out, len, err);
}

enum err_kind fs_read(const char *path, size_t max, char **out, size_t *len, struct err *err)
{
    return fs_read_at(AT_FDCWD, path, max, out, len, err);
}

enum err_kind fs_write_fd(int fd, const void *data, size_t len, struct err *err)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "write");
        p += n;
        len -= (size_t)n;
    }
    return ERR_OK;
}

static CHECKED enum err_kind sync_parent(const char *path, struct err *err)
{
    char *copy CLEANUP_FREE = xstrdup(path);
    int fd CLEANUP_FD = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd))
        return err_sys(err, errno, "%s: sync directory", path);
    return ERR_OK;
}

enum err_kind fs_write(const char *path, const void *data, size_t len, mode_t mode, bool durable,
                       struct err *err)
{
    char *tmp CLEANUP_FREE = xasprintf("%s.XXXXXX", path);
    int fd CLEANUP_FD = mkostemp(tmp, O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    enum err_kind kind = fs_write_fd(fd, data, len, err);
    if (!kind && fchmod(fd, mode))
        kind = err_sys(err, errno, "%s: chmod", path);
    if (!kind && durable && fsync(fd))
        kind = err_sys(err, errno, "%s: sync", path);
    if (!kind && rename(tmp, path))
        kind = err_sys(err, errno, "%s: rename", path);
    if (kind) {
        (void)unlink(tmp);
        return kind;
    }
    return durable ? sync_parent(path, err) : ERR_OK;
}

enum err_kind fs_mkdirs(const char *path, mode_t mode, struct err *err)
{
    char *copy CLEANUP_FREE = xstrdup(path);
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        if (mkdir(copy, mode) && errno != EEXIST)
            return err_sys(err, errno, "%s", copy);
        *p = '/';
    }
    if (mkdir(copy, mode) && errno != EEXIST)
        return err_sys(err, errno, "%s", copy);
    return ERR_OK;
}

static CHECKED enum err_kind remove_at(int dirfd, const char *name, dev_t dev, struct err *err)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? ERR_OK : err_sys(err, errno, "%s", name);
    if (st.st_dev != dev)
        return err_set(err, ERR_PRECONDITION, "%s: a mount point", name);
    if (!S_ISDIR(st.st_mode))
        return unlinkat(dirfd, name, 0) && errno != ENOENT ? err_sys(err, errno, "%s", name)
                                                           : ERR_OK;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "%s", name);
    DIR *dir CLEANUP_DIR = fdopendir(fd);
    if (!dir) {
        int errnum = errno;
        (void)close(fd);
        return err_sys(err, errnum, "%s", name);
    }
    enum err_kind kind = ERR_OK;
    for (struct dirent *e; !kind && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            kind = remove_at(fd, e->d_name, dev, err);
    }
    if (!kind && unlinkat(dirfd, name, AT_REMOVEDIR) && errno != ENOENT)
        kind = err_sys(err, errno, "%s", name);
    return kind;
}

enum err_kind fs_remove_tree(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? ERR_OK : err_sys(err, errno, "%s", path);
    return remove_at(AT_FDCWD, path, st.st_dev, err);
}

enum err_kind fs_open_real(int dirfd, const char *path, int flags, int *fd, struct err *err)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long n = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
    if (n < 0)
        return err_sys(err, errno, "%s", path);
    *fd = (int)n;
    return ERR_OK;
}

static bool in_group(gid_t gid)
{
    gid_t groups[64];
    int n = getgroups(64, groups);
    if (gid == getegid())
        return true;
    for (int i = 0; i < n; i++) {
        if (groups[i] == gid)
            return true;
    }
    return false;
}

bool fs_kept(const struct stat *st)
{
    if (!(st->st_mode & 077))
        return true;
    return (st->st_mode & 077) == S_IRGRP && st->st_uid == 0 && st->st_gid != 0 &&
           in_group(st->st_gid);
}

static CHECKED enum err_kind root_only_one(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st))
        return err_sys(err, errno, "%s", path);
    if (st.st_uid != 0)
        return err_set(err, ERR_PRECONDITION, "%s: owned by uid %u, must be root's", path,
                       st.st_uid);
    if (!S_ISLNK(st.st_mode) && (st.st_mode & (S_IWGRP | S_IWOTH)))
        return err_set(err, ERR_PRECONDITION, "%s: writable by others (mode %04o)", path,
                       st.st_mode & 07777);
    return ERR_OK;
}

enum err_kind fs_root_only(const char *path, struct err *err)
{
    char *real CLEANUP_FREE = realpath(path, NULL);
    if (!real)
        return err_sys(err, errno, "%s", path);
    for (;;) {
        enum err_kind kind = root_only_one(real, err);
        char *slash = strrchr(real, '/');
        if (kind || !slash || strcmp(real, "/") == 0)
            return kind;
        slash[slash == real] = 0;
    }
}
