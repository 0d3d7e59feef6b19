#include "shim/cgroup_parents.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
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

void cgroup_parents_recall(const char *dir, struct cgroup_path *path)
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

void cgroup_parents_forget(const char *dir, const struct cgroup_host *host,
                           const struct cgroup_path *path)
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
