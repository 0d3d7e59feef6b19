#include "deploy/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

struct logfile {
    char *path; /* without .log */
    size_t half;
    size_t rate;
    int fd;
    size_t written; /* to the current file */
    int64_t window; /* start of the current second */
    size_t in_window;
    uint64_t dropped; /* lines */
    bool told;        /* dropped has been written out in this window */
};

static enum err_kind open_current(struct logfile *log, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s.log", log->path);
    struct stat st;
    int fd CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "%s", path);
    log->written = (size_t)st.st_size;
    log->fd = steal_fd(&fd);
    return ERR_OK;
}

enum err_kind logfile_open(const char *path, size_t half, size_t rate, struct logfile **out,
                           struct err *err)
{
    struct logfile *log CLEANUP(logfile_freep) = xcalloc(1, sizeof(*log));
    log->path = xstrdup(path);
    log->half = half;
    log->rate = rate;
    log->fd = -1;
    if (open_current(log, err))
        return err->kind;
    *out = STEAL(log);
    return ERR_OK;
}

static void rotate(struct logfile *log)
{
    char *path CLEANUP_FREE = xasprintf("%s.log", log->path);
    char *before CLEANUP_FREE = xasprintf("%s.log.1", log->path);
    own_close_(&log->fd);
    (void)rename(path, before);
    (void)!open_current(log, ERR_IGNORED);
}

static void tell_dropped(const struct logfile *log)
{
    char *path CLEANUP_FREE = xasprintf("%s.dropped", log->path);
    char text[32];
    int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", log->dropped);
    (void)!fs_write(path, text, (size_t)n, 0600, false, ERR_IGNORED);
}

static void drop(struct logfile *log, const char *data, size_t len)
{
    uint64_t lines = 0;
    for (const char *p = data; (p = memchr(p, '\n', len - (size_t)(p - data))); p++)
        lines++;
    log->dropped += lines ? lines : 1;
    if (!log->told)
        tell_dropped(log);
    log->told = true;
}

void logfile_add(struct logfile *log, const void *data, size_t len, int64_t now_ms)
{
    if (now_ms - log->window >= 1000 || now_ms < log->window) {
        log->window = now_ms;
        log->in_window = 0;
        log->told = false;
    }
    if (log->in_window + len > log->rate || len > log->half) {
        drop(log, data, len);
        return;
    }
    log->in_window += len;
    if (log->written + len > log->half)
        rotate(log);
    if (log->fd < 0 || fs_write_fd(log->fd, data, len, ERR_IGNORED)) {
        drop(log, data, len);
        return;
    }
    log->written += len;
}

uint64_t logfile_dropped(const struct logfile *log)
{
    return log->dropped;
}

void logfile_free(struct logfile *log)
{
    if (!log)
        return;
    if (log->dropped)
        tell_dropped(log);
    own_close_(&log->fd);
    free(log->path);
    free(log);
}
