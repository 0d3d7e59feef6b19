#include "shim/netns.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "shim/netlink.h"

#define NSFS_MAGIC 0x6e736673
#define LOOK_TRIES 5

/* ---- entering ---------------------------------------------------------------------------- */

/* Runs fn inside the namespace. There is no way on for a process that cannot come back. */
static enum err_kind inside(int netns_fd, enum err_kind (*fn)(void *arg, struct err *err),
                            void *arg, struct err *err)
{
    int home CLEANUP_FD = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return err_sys(err, errno, "/proc/self/ns/net");
    if (setns(netns_fd, CLONE_NEWNET))
        return err_sys(err, errno, "enter network namespace");
    enum err_kind kind = fn(arg, err);
    if (setns(home, CLONE_NEWNET)) {
        log_error("netns_lost", log_str("error", strerror(errno)));
        abort();
    }
    return kind;
}

static enum err_kind open_socket(void *arg, struct err *err)
{
    return netlink_open(arg, err);
}

enum err_kind netns_open(const char *path, int *out, struct err *err)
{
    struct statfs fs;
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_sys(err, errno, "network namespace %s", path);
    /* The file system first: the ioctl means other things to other kinds of file. */
    if (fstatfs(fd, &fs) || fs.f_type != NSFS_MAGIC || ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNET)
        return err_set(err, ERR_INVALID, "%s is not a network namespace", path);
    *out = steal_fd(&fd);
    return ERR_OK;
}

/* ---- looking ----------------------------------------------------------------------------- */

static enum err_kind too_many(const char *what, struct err *err)
{
    return err_set(err, ERR_PRECONDITION, "the network namespace has too many %s", what);
}

static enum err_kind take_link(void *arg, const void *body, const struct netlink_attrs *attrs,
                               struct err *err)
{
    struct netns_view *view = arg;
    struct ifinfomsg info;
    memcpy(&info, body, sizeof(info));
    if (view->n_links == NETNS_LINKS_MAX)
        return too_many("links", err);
    struct netns_link *link = &view->links[view->n_links++];
    *link = (struct netns_link){ .index = info.ifi_index,
                                 .loopback = (info.ifi_flags & IFF_LOOPBACK) != 0,
                                 .up = (info.ifi_flags & IFF_UP) != 0,
                                 .peer_netnsid = -1 };
    uint32_t v;
    if (!netlink_text(attrs->of[IFLA_IFNAME], link->name, sizeof(link->name)))
        return err_set(err, ERR_INTERNAL, "netlink: a link without a name");
    if (netlink_u32(attrs->of[IFLA_LINK], &v))
        link->peer_index = (int)v;
    if (netlink_u32(attrs->of[IFLA_LINK_NETNSID], &v))
        link->peer_netnsid = (int)v;
    if (netlink_u32(attrs->of[IFLA_MASTER], &v))
        link->master = (int)v;
    const struct rtattr *nested = attrs->of[IFLA_LINKINFO];
    if (nested) {
        struct netlink_attrs kinds;
        netlink_attrs_parse((const uint8_t *)nested + RTA_LENGTH(0), RTA_PAYLOAD(nested), &kinds);
        if (!netlink_text(kinds.of[IFLA_INFO_KIND], link->kind, sizeof(link->kind)))
            (void)snprintf(link->kind, sizeof(link->kind), "?");
    }
    return ERR_OK;
}

/* 4 or 16 bytes as the family wants; false for anything else. */
static bool take_ip(const struct rtattr *attr, int family, uint8_t out[16])
{
    size_t want = family == AF_INET ? 4 : 16;
    if (!attr || RTA_PAYLOAD(attr) != want)
        return false;
    memcpy(out, (const uint8_t *)attr + RTA_LENGTH(0), want);
    return true;
}

static enum err_kind take_address(void *arg, const void *body, const struct netlink_attrs *attrs,
                                  struct err *err)
{
    struct netns_view *view = arg;
    struct ifaddrmsg info;
    memcpy(&info, body, sizeof(info));
    if (info.ifa_family != AF_INET && info.ifa_family != AF_INET6)
        return ERR_OK;
    if (view->n_addresses == NETNS_ADDRESSES_MAX)
        return too_many("addresses", err);
    struct netns_address *a = &view->addresses[view->n_addresses++];
    *a = (struct netns_address){ .link = (int)info.ifa_index,
                                 .family = info.ifa_family,
                                 .prefix = info.ifa_prefixlen };
    /* On point-to-point links IFA_ADDRESS is the far end; IFA_LOCAL is ours. */
    if (!take_ip(attrs->of[IFA_LOCAL], a->family, a->bytes) &&
        !take_ip(attrs->of[IFA_ADDRESS], a->family, a->bytes))
        return err_set(err, ERR_INTERNAL, "netlink: an address that cannot be read");
    return ERR_OK;
}

static enum err_kind take_route(void *arg, const void *body, const struct netlink_attrs *attrs,
                                struct err *err)
{
    struct netns_view *view = arg;
    struct rtmsg info;
    memcpy(&info, body, sizeof(info));
    if (info.rtm_flags & RTM_F_CLONED)
        return ERR_OK;
    if (view->n_routes == NETNS_ROUTES_MAX)
        return too_many("routes", err);
    struct netns_route *r = &view->routes[view->n_routes++];
    *r = (struct netns_route){ .family = info.rtm_family,
                               .prefix = info.rtm_dst_len,
                               .type = info.rtm_type,
                               .table = info.rtm_table,
                               .scope = info.rtm_scope,
                               .gateway = attrs->of[RTA_GATEWAY] || attrs->of[RTA_VIA] ||
                                          attrs->of[RTA_MULTIPATH] || attrs->of[RTA_NH_ID] };
    uint32_t v;
    if (netlink_u32(attrs->of[RTA_OIF], &v))
        r->link = (int)v;
    if (info.rtm_dst_len && !take_ip(attrs->of[RTA_DST], r->family, r->dst))
        return err_set(err, ERR_INTERNAL, "netlink: a route that cannot be read");
    return ERR_OK;
}

/* Everything that a socket's namespace has. */
static enum err_kind read_all(int nl, struct netns_view *view, struct err *err)
{
    static const struct netlink_dump links = { RTM_GETLINK, RTM_NEWLINK, AF_UNSPEC,
                                               sizeof(struct ifinfomsg) };
    static const struct netlink_dump addresses = { RTM_GETADDR, RTM_NEWADDR, AF_UNSPEC,
                                                   sizeof(struct ifaddrmsg) };
    static const struct netlink_dump routes4 = { RTM_GETROUTE, RTM_NEWROUTE, AF_INET,
                                                 sizeof(struct rtmsg) };
    static const struct netlink_dump routes6 = { RTM_GETROUTE, RTM_NEWROUTE, AF_INET6,
                                                 sizeof(struct rtmsg) };
    view->n_links = view->n_addresses = view->n_routes = 0;
    if (netlink_dump(nl, &links, take_link, view, err) ||
        netlink_dump(nl, &addresses, take_address, view, err) ||
        netlink_dump(nl, &routes4, take_route, view, err))
        return err->kind;
    /* Without IPv6 in the kernel its routes are asked of nobody. */
    if (access("/proc/sys/net/ipv6", F_OK) == 0 &&
        netlink_dump(nl, &routes6, take_route, view, err))
        return err->kind;
    return ERR_OK;
}

/* A change in the middle of a dump only means to look again. */
static enum err_kind read_steadily(int netns_fd, struct netns_view *view, struct err *err)
{
    enum err_kind kind = ERR_UNAVAILABLE;
    for (int i = 0; i < LOOK_TRIES && kind == ERR_UNAVAILABLE; i++) {
        int nl CLEANUP_FD = -1;
        kind = netns_fd < 0 ? netlink_open(&nl, err) : inside(netns_fd, open_socket, &nl, err);
        if (!kind)
            kind = read_all(nl, view, err);
    }
    return kind;
}

enum err_kind netns_look(int netns_fd, struct netns_view **out, struct err *err)
{
    struct netns_view *view CLEANUP_FREE = xcalloc(1, sizeof(*view));
    struct stat st;
    if (fstat(netns_fd, &st))
        return err_sys(err, errno, "network namespace");
    view->dev = st.st_dev;
    view->ino = st.st_ino;
    if (read_steadily(netns_fd, view, err))
        return err_prefix(err, "network namespace");
    *out = STEAL(view);
    return ERR_OK;
}

/* ---- the far side ------------------------------------------------------------------------ */

static bool same_namespace(const char *path, const struct netns_view *view)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == view->dev && st.st_ino == view->ino;
}

static const struct netns_link *by_index(const struct netns_view *view, int index)
{
    for (size_t i = 0; i < view->n_links; i++) {
        if (view->links[i].index == index)
            return &view->links[i];
    }
    return NULL;
}

static bool in_network(const struct netns_address *a, const uint8_t *net, int family,
                       unsigned prefix)
{
    if (a->family != family)
        return false;
    for (unsigned bit = 0; bit < prefix; bit += 8) {
        unsigned n = prefix - bit < 8 ? prefix - bit : 8;
        uint8_t mask = (uint8_t)(0xff << (8 - n));
        if ((a->bytes[bit / 8] ^ net[bit / 8]) & mask)
            return false;
    }
    return true;
}

/* An address of ours that the guest would reach as a neighbour: the kernel answers on any link for
 * any of its addresses. */
static void find_host_address(const struct netns_view *view, const struct netns_view *home,
                              struct netns_outside *out)
{
    for (size_t i = 0; i < view->n_addresses; i++) {
        const struct netns_address *net = &view->addresses[i];
        const struct netns_link *link = by_index(view, net->link);
        bool link_local = net->family == AF_INET6 && net->bytes[0] == 0xfe;
        if (!link || link->loopback || link_local)
            continue;
        for (size_t k = 0; k < home->n_addresses; k++) {
            if (in_network(&home->addresses[k], net->bytes, net->family, net->prefix))
                (void)inet_ntop(net->family, home->addresses[k].bytes, out->host_address,
                                sizeof(out->host_address));
        }
    }
}

static void look_at_bridge(const struct netns_view *home, const struct netns_link *bridge,
                           struct netns_outside *out)
{
    (void)snprintf(out->bridge, sizeof(out->bridge), "%s", bridge->name);
    for (size_t i = 0; i < home->n_addresses; i++)
        out->bridge_addresses += home->addresses[i].link == bridge->index;
    for (size_t i = 0; i < home->n_links; i++) {
        const struct netns_link *port = &home->links[i];
        if (port->master != bridge->index)
            continue;
        out->bridge_ports++;
        /* A veth whose other end is here too would bring the host onto the bridge. */
        if (strcmp(port->kind, "veth") != 0 || port->peer_netnsid < 0)
            (void)snprintf(out->bad_port, sizeof(out->bad_port), "%s", port->name);
    }
    /* A bridge that is itself a port, or a VLAN's base, leads on to somewhere. */
    if (bridge->master)
        (void)snprintf(out->bad_port, sizeof(out->bad_port), "%s", bridge->name);
    for (size_t i = 0; i < home->n_links; i++) {
        const struct netns_link *upper = &home->links[i];
        if (upper->peer_index == bridge->index && upper->peer_netnsid < 0 &&
            strcmp(upper->kind, "veth") != 0)
            (void)snprintf(out->bad_port, sizeof(out->bad_port), "%s", upper->name);
    }
}

static const struct netns_link *only_veth(const struct netns_view *view)
{
    const struct netns_link *found = NULL;
    for (size_t i = 0; i < view->n_links; i++) {
        if (strcmp(view->links[i].kind, "veth") != 0)
            continue;
        if (found)
            return NULL;
        found = &view->links[i];
    }
    return found;
}

enum err_kind netns_look_outside(int netns_fd, const struct netns_view *view,
                                 struct netns_outside *out, struct err *err)
{
    struct netns_view *home CLEANUP_FREE = xcalloc(1, sizeof(*home));
    int nl CLEANUP_FD = -1;
    int nsid = -1;
    *out = (struct netns_outside){ 0 };
    out->is_host =
        same_namespace("/proc/1/ns/net", view) || same_namespace("/proc/self/ns/net", view);
    /* The dump first: it makes the kernel give ids to the namespaces that our veths lead to. */
    if (read_steadily(-1, home, err) || netlink_open(&nl, err) ||
        netlink_nsid(nl, netns_fd, &nsid, err))
        return err_prefix(err, "own network namespace");
    const struct netns_link *veth = only_veth(view);
    const struct netns_link *peer = veth ? by_index(home, veth->peer_index) : NULL;
    find_host_address(view, home, out);
    if (!peer || veth->peer_netnsid < 0 || strcmp(peer->kind, "veth") != 0 ||
        peer->peer_index != veth->index || nsid < 0 || peer->peer_netnsid != nsid)
        return ERR_OK;
    out->peer_found = true;
    (void)snprintf(out->peer, sizeof(out->peer), "%s", peer->name);
    const struct netns_link *bridge = by_index(home, peer->master);
    if (bridge && strcmp(bridge->kind, "bridge") == 0)
        look_at_bridge(home, bridge, out);
    return ERR_OK;
}

/* ---- IPv6 -------------------------------------------------------------------------------- */

static enum err_kind disable_one(const char *path, struct err *err)
{
    char value = 0;
    int fd CLEANUP_FD = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return ERR_OK; /* a kernel without IPv6 */
    if (fd < 0 || pwrite(fd, "1", 1, 0) != 1 || pread(fd, &value, 1, 0) != 1)
        return err_sys(err, errno, "%s", path);
    return value == '1' ? ERR_OK : err_set(err, ERR_INTERNAL, "%s: did not take", path);
}

static enum err_kind disable_ipv6(void *arg, struct err *err)
{
    (void)arg;
    if (disable_one("/proc/sys/net/ipv6/conf/default/disable_ipv6", err))
        return err->kind;
    return disable_one("/proc/sys/net/ipv6/conf/all/disable_ipv6", err);
}

enum err_kind netns_close_ipv6(int netns_fd, struct err *err)
{
    return inside(netns_fd, disable_ipv6, NULL, err);
}

/* ---- all of it --------------------------------------------------------------------------- */

enum err_kind netns_check(int netns_fd, const struct netns_want *want, struct err *err)
{
    struct netns_view *view CLEANUP_FREE = NULL;
    struct netns_outside outside;
    if (netns_look(netns_fd, &view, err) || netns_look_outside(netns_fd, view, &outside, err))
        return err->kind;
    return netns_judge(view, &outside, want, err);
}

pid_t netns_some_user(const char *proc, dev_t dev, ino_t ino, const pid_t *except, size_t n)
{
    DIR *d CLEANUP_DIR = opendir(proc);
    if (!d)
        return 0;
    for (const struct dirent *e; (e = readdir(d));) {
        uint64_t pid;
        struct stat st;
        bool skip = !text_u64(e->d_name, &pid) || pid > INT32_MAX;
        for (size_t i = 0; i < n && !skip; i++)
            skip = except[i] == (pid_t)pid;
        if (skip)
            continue;
        char *path CLEANUP_FREE = xasprintf("%s/%s/ns/net", proc, e->d_name);
        if (stat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino)
            return (pid_t)pid;
    }
    return 0;
}
