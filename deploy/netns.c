#include "deploy/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fs.h"
#include "base/own.h"

#define NSFS_MAGIC 0x6e736673
#define SELF "/proc/thread-self/ns/net"

static enum err_kind write_sysctl(const char *path, const char *value, bool must, struct err *err)
{
    int fd CLEANUP_FD = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !must)
        return ERR_OK; /* a kernel without IPv6 */
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    return fs_write_fd(fd, value, strlen(value), err);
}

static enum err_kind loopback_up(struct err *err)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd CLEANUP_FD = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &request))
        return err_sys(err, errno, "bring lo up");
    return ERR_OK;
}

/* A new namespace inherits the host's forwarding; one that forwards is a way from the edge to the
 * handler. */
static enum err_kind settle(struct err *err)
{
    if (write_sysctl("/proc/sys/net/ipv4/ip_forward", "0", true, err) ||
        write_sysctl("/proc/sys/net/ipv6/conf/all/forwarding", "0", false, err) ||
        write_sysctl("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1", false, err) ||
        write_sysctl("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1", false, err))
        return err->kind;
    /* The data proxy listens on port 80 without a capability: in here low ports are nobody's. */
    if (write_sysctl("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", true, err))
        return err->kind;
    return loopback_up(err);
}

static void come_back(int home)
{
    if (setns(home, CLONE_NEWNET))
        abort();
}

static enum err_kind make_in_thread(const char *path, struct err *err)
{
    int home CLEANUP_FD = open(SELF, O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return err_sys(err, errno, SELF);
    if (unshare(CLONE_NEWNET))
        return err_sys(err, errno, "new network namespace");
    enum err_kind kind = settle(err);
    if (!kind && mount(SELF, path, NULL, MS_BIND, NULL))
        kind = err_sys(err, errno, "mount %s", path);
    come_back(home);
    return kind;
}

enum err_kind netns_make(const char *path, struct err *err)
{
    char *dir CLEANUP_FREE = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    if (fs_mkdirs(dir, 0700, err) || netns_remove(path, err))
        return err_prefix(err, "namespace");
    int fd CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);
    if (fd < 0)
        return err_sys(err, errno, "namespace %s", path);
    return make_in_thread(path, err);
}

bool netns_is_there(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == NSFS_MAGIC;
}

enum err_kind netns_remove(const char *path, struct err *err)
{
    while (netns_is_there(path)) {
        if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW))
            return err_sys(err, errno, "unmount %s", path);
    }
    if (unlink(path) && errno != ENOENT)
        return err_sys(err, errno, "remove %s", path);
    return ERR_OK;
}

enum err_kind netns_within(const char *path, netns_fn *fn, void *arg, struct err *err)
{
    int home CLEANUP_FD = open(SELF, O_RDONLY | O_CLOEXEC);
    int there CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (home < 0)
        return err_sys(err, errno, SELF);
    if (there < 0)
        return err_sys(err, errno, "namespace %s", path);
    if (setns(there, CLONE_NEWNET))
        return err_sys(err, errno, "enter namespace %s", path);
    enum err_kind kind = fn(arg, err);
    come_back(home);
    return kind;
}
