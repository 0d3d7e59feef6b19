#include "shim/procinfo.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own.h"

#define FILE_MAX 65536

static const char *const ns_names[PROCINFO_NS_N] = {
    [PROCINFO_NS_NET] = "net", [PROCINFO_NS_USER] = "user", [PROCINFO_NS_MNT] = "mnt",
    [PROCINFO_NS_PID] = "pid", [PROCINFO_NS_IPC] = "ipc",   [PROCINFO_NS_UTS] = "uts",
};

static enum err_kind read_file(const char *proc, pid_t pid, const char *name, char **out,
                               struct err *err)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%d/%s", proc, (int)pid, name);
    enum err_kind kind = fs_read(path, FILE_MAX, out, NULL, err);
    return kind == ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no process %d", (int)pid) : kind;
}

/* The text after "<name>:\t" at the start of a line, or NULL. */
static const char *status_line(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1;
    }
    return NULL;
}

static bool four_ids(const char *line, unsigned out[4])
{
    return line && sscanf(line, "%u %u %u %u", &out[0], &out[1], &out[2], &out[3]) == 4;
}

static int number_or(const char *line, int absent)
{
    return line ? (int)strtol(line, NULL, 10) : absent;
}

static enum err_kind read_status(const char *proc, struct procinfo *out, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    if (read_file(proc, out->pid, "status", &text, err))
        return err->kind;
    const char *ppid = status_line(text, "PPid");
    const char *caps = status_line(text, "CapEff");
    if (!ppid || !caps || !four_ids(status_line(text, "Uid"), out->uid) ||
        !four_ids(status_line(text, "Gid"), out->gid))
        return err_set(err, ERR_INTERNAL, "process %d: status cannot be read", (int)out->pid);
    out->ppid = (pid_t)strtol(ppid, NULL, 10);
    out->cap_effective = strtoull(caps, NULL, 16);
    out->no_new_privs = number_or(status_line(text, "NoNewPrivs"), -1);
    out->seccomp = number_or(status_line(text, "Seccomp"), -1);
    return ERR_OK;
}

static enum err_kind read_stat(const char *proc, struct procinfo *out, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    if (read_file(proc, out->pid, "stat", &text, err))
        return err->kind;
    /* The command's name may hold anything, a closing parenthesis too: the last one counts. */
    const char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1,
                     " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                     "%" SCNu64,
                     &out->state, &out->start_ticks) != 2)
        return err_set(err, ERR_INTERNAL, "process %d: stat cannot be read", (int)out->pid);
    return ERR_OK;
}

enum err_kind procinfo_read(const char *proc, pid_t pid, struct procinfo *out, struct err *err)
{
    *out = (struct procinfo){ .pid = pid };
    if (read_status(proc, out, err) || read_stat(proc, out, err))
        return err->kind;
    for (size_t i = 0; i < PROCINFO_NS_N; i++) {
        char path[256];
        struct stat st;
        (void)snprintf(path, sizeof(path), "%s/%d/ns/%s", proc, (int)pid, ns_names[i]);
        if (stat(path, &st) == 0)
            out->ns[i] = st.st_ino;
    }
    return ERR_OK;
}

enum err_kind pidfd_get(pid_t pid, int *fd, struct err *err)
{
    *fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (*fd >= 0)
        return ERR_OK;
    if (errno == ESRCH || errno == EINVAL)
        return err_set(err, ERR_NOT_FOUND, "no process %d", (int)pid);
    return err_sys(err, errno, "pidfd_open %d", (int)pid);
}

bool pidfd_alive(int fd)
{
    struct pollfd pfd = { .fd = fd, .events = POLLIN };
    return poll(&pfd, 1, 0) == 0;
}

enum err_kind pidfd_kill(int fd, int signo, struct err *err)
{
    if (syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0)
        return ERR_OK;
    return err_sys(err, errno, "signal %d", signo);
}
