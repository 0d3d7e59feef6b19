#include "shim/cgroup_parents.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"

/* The length of the parent of the first `len` bytes of path; 0 at the top. */
static size_t parent_len(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len > 0 ? len - 1 : 0;
}

static char *note_file(const char *dir, const char *path, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)path[i]) * 0x100000001b3;
    return xasprintf("%s/parent-%016" PRIx64, dir, hash);
}

enum err_kind cgroup_parents_hold(const char *dir, int *out, struct err *err)
{
    enum err_kind kind = fs_mkdirs(dir, 0700, err);
    if (kind)
        return kind;
    int fd CLEANUP_FD = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Removers keep it for moments only. */
    if (fd < 0 || flock(fd, LOCK_SH) != 0)
        return err_sys(err, errno, "%s", dir);
    *out = steal_fd(&fd);
    return ERR_OK;
}

void cgroup_parents_note(const char *dir, const struct cgroup_path *path)
{
    struct err err = { 0 };
    size_t len = parent_len(path->path, strlen(path->path));
    if (len > path->keep_len && fs_mkdirs(dir, 0700, &err))
        log_warn("cgroup_parents", log_str("why", err.msg));
    for (; len > path->keep_len; len = parent_len(path->path, len)) {
        char *file CLEANUP_FREE = note_file(dir, path->path, len);
        int fd CLEANUP_FD = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            log_warn("cgroup_parents", log_str("file", file));
    }
}

static void recall(const char *dir, struct cgroup_path *path)
{
    size_t len = parent_len(path->path, strlen(path->path));
    for (; len > 0; len = parent_len(path->path, len)) {
        char *file CLEANUP_FREE = note_file(dir, path->path, len);
        if (access(file, F_OK) != 0)
            return;
        size_t above = parent_len(path->path, len);
        if (path->keep_len > above)
            path->keep_len = above;
    }
}

static void forget(const char *dir, const struct cgroup_host *host, const struct cgroup_path *path)
{
    size_t len = parent_len(path->path, strlen(path->path));
    for (; len > 0; len = parent_len(path->path, len)) {
        char *parent CLEANUP_FREE = xstrndup(path->path, len);
        struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(host, parent);
        char *file CLEANUP_FREE = note_file(dir, path->path, len);
        if (set && access(set->memory, F_OK) == 0)
            return;
        (void)unlink(file);
    }
}

enum err_kind cgroup_parents_remove(const char *dir, const struct cgroup_host *host,
                                    const struct cgroup_path *path, struct err *err)
{
    struct cgroup_path wanted = *path;
    int fd CLEANUP_FD = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool alone = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (alone)
        recall(dir, &wanted);
    else
        wanted.keep_len = parent_len(path->path, strlen(path->path));
    enum err_kind kind = cgroup_remove(host, &wanted, err);
    if (alone)
        forget(dir, host, &wanted);
    return kind;
}
