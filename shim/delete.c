/*
 * delete: what containerd runs when a shim is gone, after every normal deletion too, and at its own
 * start for bundles that nobody answers for. Idempotent, silent, and done within containerd's 5 s.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <task.pb-c.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own.h"
#include "base/text.h"
#include "shim/binds.h"
#include "shim/bundle.h"
#include "shim/cgroup.h"
#include "shim/cgroup_parents.h"
#include "shim/commands.h"
#include "shim/procinfo.h"
#include "shim/rootfs.h"
#include "shim/runsc.h"

#define KILL_MS 1000
#define SHIM_MS 1000
#define RUNSC_MS 2500U

/* Kills the very process that the state file names: same pid, same start. */
static void kill_sandbox(const struct bundle_state *state)
{
    int pidfd CLEANUP_FD = -1;
    struct procinfo info;
    struct err err;
    if (state->pid <= 1 || pidfd_get((pid_t)state->pid, &pidfd, &err) ||
        procinfo_read("/proc", (pid_t)state->pid, &info, &err) ||
        info.start_ticks != (uint64_t)state->start_ticks)
        return;
    if (pidfd_kill(pidfd, SIGKILL, &err) == ERR_OK) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        (void)poll(&p, 1, KILL_MS);
    }
}

/* containerd has lost this shim, or is done with it: it must not go on alone, making or keeping
 * what is taken away here. Asked to leave it delivers its last events; one that cannot is killed.
 */
static void end_shim(const struct bundle_state *state)
{
    int pidfd CLEANUP_FD = -1;
    struct procinfo info;
    struct err err;
    if (state->shim_pid <= 1 || pidfd_get((pid_t)state->shim_pid, &pidfd, &err) ||
        procinfo_read("/proc", (pid_t)state->shim_pid, &info, &err) ||
        info.start_ticks != (uint64_t)state->shim_ticks || pidfd_kill(pidfd, SIGTERM, &err))
        return;
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    bool ended = poll(&p, 1, SHIM_MS) == 1;
    if (!ended && state->exit_code < 0 && pidfd_kill(pidfd, SIGKILL, &err) == ERR_OK)
        (void)poll(&p, 1, KILL_MS);
}

/* True while runsc has a record of the container in its root. */
static bool runsc_knows(const char *root, const char *id)
{
    char *prefix CLEANUP_FREE = xasprintf("%s_sandbox:", id);
    DIR *dir CLEANUP_DIR = opendir(root);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        if (text_starts(e->d_name, prefix) && text_ends(e->d_name, ".state"))
            return true;
    return false;
}

static void runsc_delete(const struct bundle_state *state)
{
    char *root CLEANUP_FREE = xasprintf("%s/root", state->run_dir);
    if (!state->runsc || !runsc_knows(root, state->id))
        return;
    struct runsc_binary *binary CLEANUP(runsc_binary_freep) = NULL;
    struct err err;
    if (runsc_binary_get(BUNDLE_CACHE, state->runsc, &binary, &err))
        return;
    struct runsc runsc CLEANUP(runsc_fini) = {
        .binary = binary,
        .root = xstrdup(root),
        .log_dir = xstrdup(state->run_dir),
        .network_sandbox = state->network_sandbox,
        .systemd_cgroup = state->cgroup_systemd,
    };
    const char *verb[] = { "delete", "--force", state->id, NULL };
    struct runsc_call call = { .verb = verb, .fds = { -1, -1, -1 }, .deadline_ms = RUNSC_MS };
    (void)!runsc_run_waiting(&runsc, &call, &err);
}

static void remove_cgroup(const struct bundle_state *state)
{
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = NULL;
    struct err err;
    struct cgroup_path path;
    if (!state->cgroup || cgroup_host_open("/sys/fs/cgroup", "/proc", &host, &err) ||
        cgroup_path_parse(state->cgroup, &path, &err))
        return;
    path.keep_len = (size_t)state->cgroup_keep;
    path.systemd = state->cgroup_systemd;
    const char *slash = strrchr(path.path, '/');
    if (path.systemd && slash)
        (void)snprintf(path.unit, sizeof(path.unit), "%s", slash + 1);
    int lock = -1; /* its holder is gone; with the file, nothing of it is left */
    if (cgroup_lock(BUNDLE_LOCKS, &path, &lock, &err) == ERR_OK)
        cgroup_unlock(BUNDLE_LOCKS, &path, lock);
    if (cgroup_parents_remove(BUNDLE_LOCKS, host, &path, &err) != ERR_PRECONDITION)
        return;
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(host, path.path);
    (void)!cgroup_kill(set, &err);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    (void)!cgroup_parents_remove(BUNDLE_LOCKS, host, &path, &err);
}

/* Only what this program has made: a path of another form in a state file is left alone. */
static bool run_dir_fine(const char *run_dir)
{
    return run_dir && text_starts(run_dir, BUNDLE_RUN "/") && !strstr(run_dir, "..") &&
           strlen(run_dir) == strlen(BUNDLE_RUN "/") + 32;
}

static void clean_sandbox(const struct bundle_state *state)
{
    struct err err;
    end_shim(state);
    kill_sandbox(state);
    runsc_delete(state);
    remove_cgroup(state);
    (void)!fs_remove_tree(state->run_dir, &err);
    if (state->socket)
        (void)unlink(state->socket);
}

static void clean(const char *bundle, const struct bundle_state *state)
{
    bool workload = state->role && strcmp(state->role, "workload") == 0;
    if (state->id && run_dir_fine(state->run_dir)) {
        if (workload) {
            runsc_delete(state);
            remove_cgroup(state);
        } else {
            clean_sandbox(state);
        }
    }
    struct err err;
    char *private CLEANUP_FREE = xasprintf("%s/utter", bundle);
    char *rootfs CLEANUP_FREE = xasprintf("%s/rootfs", bundle);
    (void)!binds_unmount(private, &err);
    (void)!rootfs_unmount(rootfs, &err);
    (void)!fs_remove_tree(private, &err);
}

static CHECKED enum err_kind print_response(const struct bundle_state *state, struct err *err)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    bool known = state->exit_code >= 0;
    Google__Protobuf__Timestamp at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    at.seconds = known ? state->exited_s : now.tv_sec;
    at.nanos = (int32_t)(known ? state->exited_ns : now.tv_nsec);
    Task__DeleteResponse r = TASK__DELETE_RESPONSE__INIT;
    r.pid = (uint32_t)state->pid;
    r.exit_status = known ? (uint32_t)state->exit_code : 137U;
    r.exited_at = &at;
    uint8_t packed[64];
    size_t n = protobuf_c_message_get_packed_size(&r.base);
    if (n > sizeof(packed))
        return err_set(err, ERR_INTERNAL, "response too long");
    (void)protobuf_c_message_pack(&r.base, packed);
    return fs_write_fd(STDOUT_FILENO, packed, n, err);
}

enum err_kind command_delete(const struct bootstrap *boot, struct err *err)
{
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    char cwd[PATH_MAX];
    const char *bundle = boot->bundle;
    if (!bundle || !*bundle) {
        if (!getcwd(cwd, sizeof(cwd)))
            return err_sys(err, errno, "working directory");
        bundle = cwd;
    }
    struct bundle_state state CLEANUP(bundle_state_fini) = { .exit_code = -1 };
    struct err ignored;
    bool ours = bundle_state_load(bundle, &state, &ignored) == ERR_OK && state.id && state.ns &&
                strcmp(state.id, boot->id) == 0 && strcmp(state.ns, boot->ns) == 0;
    if (!ours) {
        bundle_state_fini(&state);
        /* start may have come no further than its socket */
        char *socket CLEANUP_FREE =
            bundle_socket("/run/containerd/s", boot->address, boot->ns, boot->id);
        (void)unlink(socket);
    }
    clean(bundle, &state);
    return print_response(&state, err);
}
