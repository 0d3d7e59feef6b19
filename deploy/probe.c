#include "deploy/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "deploy/netns.h"
#include "deploy/pause.h"

#define WAIT_MS 300

static enum err_kind add_host(struct reach *r, uint16_t port, struct err *err)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list))
        return err_sys(err, errno, "addresses of this host");
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (!i->ifa_addr || (i->ifa_flags & IFF_LOOPBACK))
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            (void)reach_add_v4(r, "this host", ((const struct sockaddr_in *)i->ifa_addr)->sin_addr,
                               port);
        else if (i->ifa_addr->sa_family == AF_INET6)
            (void)reach_add_v6(r, "this host",
                               &((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, port);
    }
    freeifaddrs(list);
    return ERR_OK;
}

static void add_resolvers(struct reach *r)
{
    char line[256], address[64];
    FILE *f CLEANUP_FILE = fopen("/etc/resolv.conf", "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "nameserver %63s", address) == 1)
            (void)reach_add(r, "the resolver", address, 53);
    }
}

/* A listener on every address, v4 and v6; *port is where. */
static enum err_kind listen_any(int *fd, uint16_t *port, struct err *err)
{
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    int s CLEANUP_FD = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int zero = 0;
    if (s < 0 || setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) ||
        bind(s, (struct sockaddr *)&v6, sizeof(v6))) {
        own_close_(&s);
        s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s < 0 || bind(s, (struct sockaddr *)&v4, sizeof(v4)))
            return err_sys(err, errno, "listener for the isolation test");
    }
    if (listen(s, 64) || getsockname(s, (struct sockaddr *)&bound, &len))
        return err_sys(err, errno, "listener for the isolation test");
    *port = ntohs(((struct sockaddr_in *)&bound)->sin_port); /* same place in both forms */
    *fd = steal_fd(&s);
    return ERR_OK;
}

struct listener {
    int fd;
    uint16_t port;
};

static enum err_kind open_control(void *arg, struct err *err)
{
    struct listener *listener = arg;
    return listen_any(&listener->fd, &listener->port, err);
}

static void add_forbidden(struct reach *r, const struct plan *plan, const struct settings *settings,
                          const json_t *others, uint16_t port)
{
    char edge[16];
    if (pool_address(settings->edge, 1, edge))
        (void)reach_add(r, "the edge network", edge, port);
    (void)reach_add(r, "its gate's public port", plan_ip(plan->gate.edge).s, PLAN_GATE_PORT);
    for (size_t i = 0; i < json_array_size(others) && i < 100; i++)
        (void)reach_add_pair(r, "another slug", json_string_value(json_array_get(others, i)));
    (void)reach_add(r, "the metadata service", "169.254.169.254", 80);
    (void)reach_add(r, "the metadata service", "fd00:ec2::254", 80);
    (void)reach_add(r, "the internet", "1.1.1.1", 443);
    add_resolvers(r);
}

enum err_kind probe_open(const struct plan *plan, const struct settings *settings,
                         const json_t *others, struct probe *out, struct err *err)
{
    struct probe p CLEANUP(probe_fini) = { .host = -1, .control_fd = -1 };
    struct listener control = { .fd = -1 };
    uint16_t port = 0;
    reach_init(&p.reach);
    if (listen_any(&p.host, &port, err) || add_host(&p.reach, port, err))
        return err->kind;
    add_forbidden(&p.reach, plan, settings, others, port);
    if (netns_within(plan->gate.netns, open_control, &control, err))
        return err->kind;
    p.control_fd = control.fd;
    p.control = p.reach.n;
    if (!reach_add(&p.reach, "its gate", plan_ip(plan->gate.address).s, control.port))
        return err_set(err, ERR_INTERNAL, "too many addresses to try");
    *out = p;
    p = (struct probe){ .host = -1, .control_fd = -1 };
    return ERR_OK;
}

void probe_fini(struct probe *p)
{
    reach_fini(&p->reach);
    own_close_(&p->host);
    own_close_(&p->control_fd);
}

static enum err_kind begin(void *arg, struct err *err)
{
    return reach_begin(arg, err);
}

enum err_kind probe_isolation(const struct plan *plan, const struct settings *settings,
                              const json_t *others, struct err *err)
{
    struct probe p CLEANUP(probe_fini) = { .host = -1, .control_fd = -1 };
    if (probe_open(plan, settings, others, &p, err) ||
        netns_within(plan->handler.netns, begin, &p.reach, err))
        return err->kind;
    reach_wait(&p.reach, WAIT_MS);
    for (size_t i = 0; i < p.control; i++) {
        if (p.reach.targets[i].reached)
            return err_set(err, ERR_PRECONDITION, "from the handler's network %s can be reached",
                           p.reach.targets[i].name);
    }
    if (!p.reach.targets[p.control].connected)
        return err_set(err, ERR_PRECONDITION,
                       "from the handler's network the gate cannot be reached (%s): a firewall of "
                       "this host drops a bridge's own traffic",
                       p.reach.targets[p.control].name);
    return ERR_OK;
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

enum err_kind probe_wait(const char *netns, const char *address, int port, int wait_ms,
                         struct err *err)
{
    int64_t until = now_ms() + wait_ms;
    while (now_ms() < until) {
        struct reach r CLEANUP(reach_fini) = { 0 };
        reach_init(&r);
        if (!reach_add(&r, "", address, (uint16_t)port))
            return err_set(err, ERR_INTERNAL, "address %s", address);
        if (netns_within(netns, begin, &r, err))
            return err->kind;
        reach_wait(&r, 500);
        if (r.targets[0].connected)
            return ERR_OK;
        pause_ms(10);
    }
    return err_set(err, ERR_TIMEOUT, "nothing listens on %s:%d after %d ms", address, port,
                   wait_ms);
}
