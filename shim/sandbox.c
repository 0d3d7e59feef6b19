#include "shim/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/text.h"
#include "shim/bundle.h"

#define NOBODY 65534U
#define GOFER_GRACE_MS 300U
#define PROC "/proc"
#define PANIC_LOG_MAX (4U * 1024 * 1024)

struct sandbox *sandbox_new(const struct sandbox_env *env, const char *id, const char *dir,
                            struct runsc_binary *take_binary)
{
    struct sandbox *sandbox = xcalloc(1, sizeof(*sandbox));
    *sandbox = (struct sandbox){
        .loop = env->loop,
        .id = xstrdup(id),
        .binary = take_binary,
        .cgroups = env->cgroups,
        .cgroup_lock = -1,
        .oom_event = -1,
        .oom_control = -1,
        .pidfd = -1,
    };
    sandbox->runsc = (struct runsc){
        .loop = env->loop,
        .children = env->children,
        .binary = take_binary,
        .root = xasprintf("%s/root", dir),
        .log_dir = xasprintf("%s/log", dir),
    };
    return sandbox;
}

void sandbox_free(struct sandbox *sandbox)
{
    if (!sandbox)
        return;
    children_unwatch(&sandbox->child);
    children_unwatch(&sandbox->gofer);
    loop_cancel(&sandbox->gofer_timer);
    control_free(sandbox->control);
    cgroup_set_free(sandbox->cgroup);
    loop_unwatch(&sandbox->oom_watch);
    if (sandbox->oom_event >= 0)
        (void)close(sandbox->oom_event);
    if (sandbox->oom_control >= 0)
        (void)close(sandbox->oom_control);
    if (sandbox->pidfd >= 0)
        (void)close(sandbox->pidfd);
    if (sandbox->cgroup_lock >= 0)
        cgroup_unlock(BUNDLE_LOCKS, &sandbox->cgroup_path, steal_fd(&sandbox->cgroup_lock));
    runsc_fini(&sandbox->runsc);
    runsc_binary_free(sandbox->binary);
    free(sandbox->pod_uid);
    free(sandbox->pod_namespace);
    free(sandbox->id);
    free(sandbox);
}

static void settle(struct sandbox *sandbox)
{
    if (!sandbox->dead || sandbox->gofer.pid != 0 || sandbox->gone)
        return;
    loop_cancel(&sandbox->gofer_timer);
    sandbox->gone = true;
    sandbox->on_gone(sandbox->arg);
}

/* Whoever of the two is still there after the grace goes too. */
static void on_gofer_timer(struct loop_timer *timer)
{
    struct sandbox *sandbox = timer->arg;
    if (sandbox->dead && sandbox->gofer.pid != 0) {
        (void)kill(sandbox->gofer.pid, SIGKILL);
    } else if (!sandbox->dead && !sandbox->exiting) {
        sandbox->gofer_died = true;
        log_error("gofer_died", log_str("id", sandbox->id), log_int("pid", sandbox->gofer_pid));
        sandbox_kill(sandbox);
    }
}

static void on_sandbox_exit(struct child *child, int wstatus)
{
    struct sandbox *sandbox = child->arg;
    sandbox->dead = true;
    sandbox->wstatus = wstatus;
    if (sandbox->gofer.pid != 0)
        loop_after(sandbox->loop, &sandbox->gofer_timer, GOFER_GRACE_MS, on_gofer_timer, sandbox);
    settle(sandbox);
}

static void on_gofer_exit(struct child *child, int wstatus)
{
    struct sandbox *sandbox = child->arg;
    (void)wstatus;
    if (!sandbox->dead)
        loop_after(sandbox->loop, &sandbox->gofer_timer, GOFER_GRACE_MS, on_gofer_timer, sandbox);
    settle(sandbox);
}

static CHECKED enum err_kind is_ours(pid_t pid, const char *what, struct procinfo *info,
                                     struct err *err)
{
    enum err_kind kind = procinfo_read(PROC, pid, info, err);
    if (kind)
        return err_prefix(err, "%s process %d", what, (int)pid);
    if (info->ppid != getpid())
        return err_set(err, ERR_INTERNAL, "%s process %d is not a child of the shim (parent %d)",
                       what, (int)pid, (int)info->ppid);
    return ERR_OK;
}

static void on_oom(struct loop_watch *watch, uint32_t events)
{
    struct sandbox *sandbox = watch->arg;
    uint64_t count;
    (void)events;
    if (read(sandbox->oom_event, &count, sizeof(count)) != (ssize_t)sizeof(count))
        return;
    loop_unwatch(&sandbox->oom_watch);
    /* The removal of the cgroup wakes this too, but it cannot be removed while the sandbox lives.
     */
    if (sandbox->dead || !pidfd_alive(sandbox->pidfd))
        return;
    log_warn("out_of_memory", log_str("id", sandbox->id));
    sandbox->out_of_memory = true;
    sandbox_kill(sandbox);
}

/* Best effort: what is missed here is still counted when the sandbox has gone. */
static void watch_oom(struct sandbox *sandbox)
{
    if (sandbox->cgroups->version != CGROUP_V1)
        return;
    char *control CLEANUP_FREE = xasprintf("%s/memory.oom_control", sandbox->cgroup->memory);
    char *events CLEANUP_FREE = xasprintf("%s/cgroup.event_control", sandbox->cgroup->memory);
    sandbox->oom_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sandbox->oom_control = open(control, O_RDONLY | O_CLOEXEC);
    int fd CLEANUP_FD = open(events, O_WRONLY | O_CLOEXEC);
    char line[32];
    int n = snprintf(line, sizeof(line), "%d %d", sandbox->oom_event, sandbox->oom_control);
    struct err err = { 0 };
    if (sandbox->oom_event < 0 || sandbox->oom_control < 0 || fd < 0 ||
        write(fd, line, (size_t)n) != n ||
        loop_watch(sandbox->loop, &sandbox->oom_watch, sandbox->oom_event, EPOLLIN, on_oom, sandbox,
                   &err))
        log_warn("oom_watch", log_str("id", sandbox->id), log_str("why", err.msg));
}

enum err_kind sandbox_adopt(struct sandbox *sandbox, sandbox_gone_fn *fn, void *arg,
                            struct err *err)
{
    struct control_state_file state;
    enum err_kind kind =
        control_state_file_read(sandbox->runsc.root, sandbox->id, sandbox->id, &state, err);
    if (kind)
        return err_prefix(err, "runsc's state file");
    if (state.sandbox_pid <= 1)
        return err_set(err, ERR_INTERNAL, "runsc's state file names no sandbox process");
    struct procinfo info;
    if ((kind = pidfd_get(state.sandbox_pid, &sandbox->pidfd, err)))
        return err_prefix(err, "sandbox process");
    if ((kind = is_ours(state.sandbox_pid, "sandbox", &info, err)))
        return kind;
    sandbox->on_gone = fn;
    sandbox->arg = arg;
    sandbox->pid = state.sandbox_pid;
    sandbox->start_ticks = info.start_ticks;
    struct children *children = sandbox->runsc.children;
    children_watch(children, &sandbox->child, state.sandbox_pid, on_sandbox_exit, sandbox);
    if (state.gofer_pid > 1 && is_ours(state.gofer_pid, "gofer", &info, err) == ERR_OK) {
        sandbox->gofer_pid = state.gofer_pid;
        children_watch(children, &sandbox->gofer, state.gofer_pid, on_gofer_exit, sandbox);
    }
    sandbox->control = control_new(sandbox->loop, sandbox->runsc.root, &state);
    kind = cgroup_set_of(sandbox->cgroups, sandbox->pid, &sandbox->cgroup, err);
    if (kind)
        return err_prefix(err, "cgroup of the sandbox");
    watch_oom(sandbox);
    return ERR_OK;
}

void sandbox_add_uid(struct sandbox *sandbox, int64_t uid)
{
    for (size_t i = 0; i < sandbox->n_uids; i++)
        if (sandbox->uids[i] == uid)
            return;
    if (sandbox->n_uids < SANDBOX_UIDS_MAX)
        sandbox->uids[sandbox->n_uids++] = uid;
}

void sandbox_kill(struct sandbox *sandbox)
{
    struct err ignored;
    if (sandbox->pidfd >= 0 && !sandbox->dead &&
        pidfd_kill(sandbox->pidfd, SIGKILL, &ignored) != ERR_OK)
        log_debug("sandbox_kill", log_str("id", sandbox->id), log_str("why", ignored.msg));
}

bool sandbox_alive(const struct sandbox *sandbox)
{
    return sandbox->pid != 0 && !sandbox->dead;
}

static CHECKED enum err_kind verify_identity(const struct sandbox *sandbox,
                                             const struct procinfo *info, struct err *err)
{
    struct procinfo self;
    enum err_kind kind = procinfo_read(PROC, getpid(), &self, err);
    if (kind)
        return kind;
    for (size_t i = 0; i < 4; i++)
        if (info->uid[i] != NOBODY)
            return err_set(err, ERR_PRECONDITION, "the sandbox runs as uid %u, not %u",
                           (unsigned)info->uid[i], NOBODY);
    if (info->cap_effective != 0)
        return err_set(err, ERR_PRECONDITION, "the sandbox holds capabilities (%llx)",
                       (unsigned long long)info->cap_effective);
    if (info->ns[PROCINFO_NS_USER] == 0 || info->ns[PROCINFO_NS_USER] == self.ns[PROCINFO_NS_USER])
        return err_set(err, ERR_PRECONDITION, "the sandbox is in the host's user namespace");
    if (info->ns[PROCINFO_NS_MNT] == 0 || info->ns[PROCINFO_NS_MNT] == self.ns[PROCINFO_NS_MNT])
        return err_set(err, ERR_PRECONDITION, "the sandbox is in the host's mount namespace");
    if (info->ns[PROCINFO_NS_NET] == 0 || info->ns[PROCINFO_NS_NET] == self.ns[PROCINFO_NS_NET])
        return err_set(err, ERR_PRECONDITION, "the sandbox is in the host's network namespace");
    (void)sandbox;
    return ERR_OK;
}

enum err_kind sandbox_verify_created(const struct sandbox *sandbox, struct err *err)
{
    struct procinfo info;
    enum err_kind kind = procinfo_read(PROC, sandbox->pid, &info, err);
    if (kind)
        return err_prefix(err, "sandbox process");
    if ((kind = verify_identity(sandbox, &info, err)))
        return kind;
    struct cgroup_limits want = {
        .memory = sandbox->limits.memory,
        .memory_swap = sandbox->limits.memory,
        .pids = sandbox->limits.host_pids,
        .cpu_quota = sandbox->limits.cpu_quota,
        .cpu_period = sandbox->limits.cpu_period,
    };
    kind = cgroup_verify(sandbox->cgroup, &sandbox->cgroup_path, &want, err);
    return kind ? kind : cgroup_oom_group(sandbox->cgroup, err);
}

static CHECKED enum err_kind verify_confined(pid_t pid, const char *what, struct err *err)
{
    struct procinfo info;
    enum err_kind kind = procinfo_read(PROC, pid, &info, err);
    if (kind == ERR_NOT_FOUND || (!kind && info.state == 'Z'))
        return ERR_OK;
    if (kind)
        return kind;
    if (info.no_new_privs != 1)
        return err_set(err, ERR_PRECONDITION, "the %s runs without no_new_privs", what);
    if (info.seccomp != 2)
        return err_set(err, ERR_PRECONDITION, "the %s runs without a seccomp filter", what);
    return ERR_OK;
}

enum err_kind sandbox_verify_started(const struct sandbox *sandbox, struct err *err)
{
    enum err_kind kind = verify_confined(sandbox->pid, "sandbox", err);
    if (kind || sandbox->gofer.pid == 0)
        return kind;
    return verify_confined(sandbox->gofer_pid, "gofer", err);
}

bool sandbox_oom(const struct sandbox *sandbox)
{
    uint64_t kills = 0;
    struct err ignored;
    return sandbox->out_of_memory ||
           (sandbox->cgroup && cgroup_oom_kills(sandbox->cgroup, &kills, &ignored) == ERR_OK &&
            kills > 0);
}

bool sandbox_panicked(const struct sandbox *sandbox, char *first, size_t size)
{
    char *path CLEANUP_FREE = xasprintf("%s/panic.log", sandbox->runsc.log_dir);
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    struct err ignored;
    *first = '\0';
    if (fs_read(path, PANIC_LOG_MAX, &text, &len, &ignored) || len == 0)
        return false;
    /* The gofer writes here too, that nobody ever started it, when a created sandbox is killed. */
    const char *panic = strstr(text, "panic:");
    if (!panic)
        panic = strstr(text, "fatal error:");
    (void)text_safe(panic ? panic : "", first, size);
    return panic != NULL;
}
