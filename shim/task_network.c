#include "shim/task_network.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/netns.h"

static CHECKED enum err_kind same_namespace(int a, const char *path, bool *same, struct err *err)
{
    struct stat sa;
    struct stat sb;
    if (fstat(a, &sa) != 0 || stat(path, &sb) != 0)
        return err_sys(err, errno, "%s", path);
    *same = sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    return ERR_OK;
}

static CHECKED enum err_kind not_the_hosts(int fd, struct err *err)
{
    static const char *const OURS[] = { "/proc/self/ns/net", "/proc/1/ns/net" };
    for (size_t i = 0; i < ARRAY_LEN(OURS); i++) {
        bool same = true;
        enum err_kind kind = same_namespace(fd, OURS[i], &same, err);
        /* In a container that lacks CAP_SYS_PTRACE the init of another user namespace cannot be
         * looked at; its namespaces cannot be entered from there either. */
        if (kind == ERR_DENIED && i > 0)
            continue;
        if (kind)
            return kind;
        if (same)
            return err_set(err, ERR_PRECONDITION, "network: the namespace is the host's");
    }
    *err = (struct err){ 0 };
    return ERR_OK;
}

enum err_kind task_network_prepare(struct task *task, struct err *err)
{
    if (!task->plan.netns)
        return ERR_OK;
    enum err_kind kind = netns_open(task->plan.netns, &task->netns_fd, err);
    if (kind)
        return err_prefix(err, "network");
    if ((kind = not_the_hosts(task->netns_fd, err)) || task->role == POLICY_ROLE_WORKLOAD)
        return kind;
    struct stat st;
    if (fstat(task->netns_fd, &st) != 0)
        return err_sys(err, errno, "network");
    pid_t user = netns_some_user("/proc", st.st_dev, st.st_ino, NULL, 0);
    if (user != 0)
        return err_set(err, ERR_PRECONDITION,
                       "network: %s is in use by process %d (give each container its own)",
                       task->plan.netns, (int)user);
    return ERR_OK;
}

static CHECKED enum err_kind open_sandbox_ns(const struct task *task, int *fd, struct err *err)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)task->sandbox->pid);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return err_sys(err, errno, "%s", path);
    if (!pidfd_alive(task->sandbox->pidfd))
        return err_set(err, ERR_UNAVAILABLE, "the sandbox has exited");
    return ERR_OK;
}

static CHECKED enum err_kind judge(const struct task *task, int fd, bool closed, struct err *err)
{
    bool none = task->plan.network == POLICY_NETWORK_NONE;
    struct netns_want want = {
        .mode = none                          ? NETNS_NONE
                : task->plan.network_internal ? NETNS_INTERNAL
                                              : NETNS_CLUSTER,
        .address = task->plan.network_address,
        .address_required = task->plan.network_address != NULL,
        .max_ports = (size_t)task->shim->config->network_max_ports,
        .ipv6_closed = closed,
    };
    enum err_kind kind = netns_check(fd, &want, err);
    return kind == ERR_PRECONDITION ? err_prefix(err, "network") : kind;
}

enum err_kind task_network_verify(struct task *task, struct err *err)
{
    int fd CLEANUP_FD = -1;
    enum err_kind kind = open_sandbox_ns(task, &fd, err);
    if (kind)
        return kind;
    if ((kind = not_the_hosts(fd, err)))
        return kind;
    if (task->netns_fd >= 0) {
        bool same = false;
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", task->netns_fd);
        if ((kind = same_namespace(fd, path, &same, err)))
            return kind;
        if (!same)
            return err_set(err, ERR_PRECONDITION,
                           "network: the sandbox is in another namespace than asked for");
    }
    return judge(task, fd, false, err);
}

enum err_kind task_network_close(struct task *task, struct err *err)
{
    int fd CLEANUP_FD = -1;
    enum err_kind kind = open_sandbox_ns(task, &fd, err);
    if (kind)
        return kind;
    bool closed = task->plan.network == POLICY_NETWORK_NONE || task->plan.network_internal;
    if (closed && (kind = netns_close_ipv6(fd, err)))
        return err_prefix(err, "closing IPv6");
    return judge(task, fd, closed, err);
}
