/* A cgroup's directory: taken only when nobody is in it, emptied, removed. Declared in
 * shim/cgroup.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "shim/cgroup.h"
#include "shim/cgroup_file.h"

#define DEPTH_MAX 16
#define REMOVE_TRIES 40
#define RETRY_NS 5000000L

static void pause_briefly(void)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = RETRY_NS }, NULL);
}

static bool is_dir(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static pid_t pid_in(const char *dir)
{
    char *text CLEANUP_FREE = NULL;
    if (cgroup_file_read(dir, "cgroup.procs", &text, NULL) || !*text)
        return 0;
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    return pid > 0 ? pid : -1;
}

/* The name of a child cgroup; NULL if there is none. */
static char *child_of(const char *dir)
{
    DIR *d CLEANUP_DIR = opendir(dir);
    if (!d)
        return NULL;
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_type == DT_DIR && strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            return xstrdup(e->d_name);
    }
    return NULL;
}

static pid_t pid_below(const char *dir, int depth)
{
    pid_t pid = pid_in(dir);
    if (pid || depth == 0)
        return pid;
    DIR *d CLEANUP_DIR = opendir(dir);
    if (!d)
        return 0;
    for (const struct dirent *e; !pid && (e = readdir(d));) {
        if (e->d_type != DT_DIR || !strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        char *path CLEANUP_FREE = xasprintf("%s/%s", dir, e->d_name);
        pid = pid_below(path, depth - 1);
    }
    return pid;
}

pid_t cgroup_some_pid(const struct cgroup_host *host, const char *path)
{
    pid_t pid = 0;
    for (size_t i = 0; i < host->n && !pid; i++) {
        char *dir CLEANUP_FREE = xasprintf("%s%s", host->hierarchies[i].mount, path);
        pid = pid_below(dir, DEPTH_MAX);
    }
    return pid;
}

static enum err_kind refuse_if_used(const struct cgroup_host *host, const char *path,
                                    struct err *err)
{
    pid_t pid = cgroup_some_pid(host, path);
    if (pid > 0)
        return err_set(err, ERR_PRECONDITION, "cgroup %s is in use by process %d", path, (int)pid);
    if (pid < 0)
        return err_set(err, ERR_PRECONDITION, "cgroup %s is in use by a process outside our view",
                       path);
    for (size_t i = 0; i < host->n; i++) {
        char *dir CLEANUP_FREE = xasprintf("%s%s", host->hierarchies[i].mount, path);
        char *child CLEANUP_FREE = child_of(dir);
        if (child)
            return err_set(err, ERR_PRECONDITION, "cgroup %s has a child cgroup %s", path, child);
    }
    return ERR_OK;
}

/* Removal may have to wait a moment for the kernel to let go of dead processes. */
static enum err_kind remove_dir(const char *dir, struct err *err)
{
    for (int i = 0; rmdir(dir) && errno != ENOENT; i++) {
        if (errno != EBUSY || i == REMOVE_TRIES)
            return err_sys(err, errno, "remove %s", dir);
        pause_briefly();
    }
    return ERR_OK;
}

static enum err_kind remove_leaf(const struct cgroup_host *host, const char *path, struct err *err)
{
    for (size_t i = 0; i < host->n; i++) {
        char *dir CLEANUP_FREE = xasprintf("%s%s", host->hierarchies[i].mount, path);
        if (remove_dir(dir, err))
            return err->kind;
    }
    return ERR_OK;
}

/* How many bytes of the path name something that is there in any hierarchy. */
static size_t existing_len(const struct cgroup_host *host, const char *path)
{
    size_t best = 0;
    for (size_t len = 1; path[len - 1]; len++) {
        if (path[len] != '/' && path[len] != 0)
            continue;
        for (size_t i = 0; i < host->n; i++) {
            char *dir CLEANUP_FREE =
                xasprintf("%s%.*s", host->hierarchies[i].mount, (int)len, path);
            if (is_dir(dir))
                best = len;
        }
        if (!path[len])
            break;
    }
    return best;
}

enum err_kind cgroup_claim(const struct cgroup_host *host, struct cgroup_path *path,
                           struct err *err)
{
    if (refuse_if_used(host, path->path, err) || remove_leaf(host, path->path, err))
        return err->kind;
    path->keep_len = existing_len(host, path->path);
    return ERR_OK;
}

/* Parents that were not there before, from the leaf upwards, as long as they are empty. */
static void remove_parents(const struct cgroup_host *host, const struct cgroup_path *path)
{
    char *parent CLEANUP_FREE = xstrdup(path->path);
    for (char *slash; (slash = strrchr(parent, '/')) && slash != parent;) {
        *slash = 0;
        if (strlen(parent) <= path->keep_len)
            return;
        for (size_t i = 0; i < host->n; i++) {
            char *dir CLEANUP_FREE = xasprintf("%s%s", host->hierarchies[i].mount, parent);
            (void)rmdir(dir);
        }
    }
}

enum err_kind cgroup_remove(const struct cgroup_host *host, const struct cgroup_path *path,
                            struct err *err)
{
    enum err_kind kind = refuse_if_used(host, path->path, err);
    for (int i = 0; kind == ERR_PRECONDITION && i < REMOVE_TRIES; i++) {
        pause_briefly(); /* the last of the sandbox may still be on its way out */
        kind = refuse_if_used(host, path->path, err);
    }
    if (kind || remove_leaf(host, path->path, err))
        return err->kind;
    /* systemd drops a scope's unit by itself once its cgroup is empty. Slices are systemd's. */
    if (!path->systemd)
        remove_parents(host, path);
    return ERR_OK;
}

static char *lock_file(const char *lock_dir, const struct cgroup_path *path)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *p = path->path; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 0x100000001b3;
    return xasprintf("%s/cgroup-%016" PRIx64 ".lock", lock_dir, hash);
}

/* True if the locked file is still the one that the name leads to: the holder before us may have
 * unlinked it. */
static bool lock_current(const char *file, int fd)
{
    struct stat held;
    struct stat named;
    return fstat(fd, &held) == 0 && stat(file, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

enum err_kind cgroup_lock(const char *lock_dir, const struct cgroup_path *path, int *out,
                          struct err *err)
{
    if (fs_mkdirs(lock_dir, 0700, err))
        return err->kind;
    char *file CLEANUP_FREE = lock_file(lock_dir, path);
    for (int i = 0; i < 16; i++) {
        int fd CLEANUP_FD = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return err_sys(err, errno, "%s", file);
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            if (errno == EWOULDBLOCK)
                break;
            return err_sys(err, errno, "%s", file);
        }
        if (lock_current(file, fd)) {
            *out = steal_fd(&fd);
            return ERR_OK;
        }
    }
    return err_set(err, ERR_PRECONDITION, "cgroup %s is taken by another task", path->path);
}

void cgroup_unlock(const char *lock_dir, const struct cgroup_path *path, int fd)
{
    char *file CLEANUP_FREE = lock_file(lock_dir, path);
    (void)unlink(file);
    (void)close(fd);
}

enum err_kind cgroup_kill(const struct cgroup_set *set, struct err *err)
{
    /* Never a mount's root: that would be everybody. */
    for (size_t i = 0; i < set->host->n; i++) {
        if (strcmp(set->memory, set->host->hierarchies[i].mount) == 0)
            return err_set(err, ERR_PRECONDITION, "%s: not a sandbox's cgroup", set->memory);
    }
    if (set->host->version == CGROUP_V2 &&
        cgroup_file_write(set->memory, "cgroup.kill", "1", err) == ERR_OK)
        return ERR_OK;
    pid_t pid = 0;
    for (int round = 0; round < 100 && (pid = pid_in(set->memory)) > 0; round++) {
        (void)kill(pid, SIGKILL);
        if (round % 8 == 7)
            pause_briefly();
    }
    return pid ? err_set(err, ERR_UNAVAILABLE, "%s: process %d does not go", set->memory, (int)pid)
               : ERR_OK;
}
