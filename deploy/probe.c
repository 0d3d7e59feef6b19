#include "deploy/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "deploy/netns.h"

#define TARGETS_MAX 256
#define WAIT_MS 300

struct target {
    struct sockaddr_storage to;
    socklen_t len;
    int fd;       /* -1: refused at once */
    bool reached; /* somebody answered, be it with a refusal */
    bool connected;
    char name[80];
};

struct probe {
    struct target *targets;
    size_t n;
    unsigned scope; /* index of eth0 inside */
};

static void probe_fini(struct probe *p)
{
    for (size_t i = 0; i < p->n; i++)
        own_close_(&p->targets[i].fd);
    free(p->targets);
}

static struct target *target_new(struct probe *p)
{
    if (p->n == TARGETS_MAX)
        return NULL;
    struct target *t = &p->targets[p->n++];
    *t = (struct target){ .fd = -1 };
    return t;
}

static void add_v4(struct probe *p, const char *what, struct in_addr address, uint16_t port)
{
    struct target *t = target_new(p);
    if (!t)
        return;
    char text[INET_ADDRSTRLEN] = "";
    struct sockaddr_in *to = (struct sockaddr_in *)&t->to;
    *to =
        (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = address };
    t->len = sizeof(*to);
    (void)inet_ntop(AF_INET, &address, text, sizeof(text));
    (void)snprintf(t->name, sizeof(t->name), "%s %s:%u", what, text, port);
}

static void add_v6(struct probe *p, const char *what, const struct in6_addr *address, uint16_t port)
{
    struct target *t = target_new(p);
    if (!t)
        return;
    char text[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)&t->to;
    *to = (struct sockaddr_in6){ .sin6_family = AF_INET6,
                                 .sin6_port = htons(port),
                                 .sin6_addr = *address };
    t->len = sizeof(*to);
    (void)inet_ntop(AF_INET6, address, text, sizeof(text));
    (void)snprintf(t->name, sizeof(t->name), "%s [%s]:%u", what, text, port);
}

static void add_text(struct probe *p, const char *what, const char *address, uint16_t port)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        add_v4(p, what, v4, port);
    else if (inet_pton(AF_INET6, address, &v6) == 1)
        add_v6(p, what, &v6, port);
}

static enum err_kind add_host(struct probe *p, uint16_t port, struct err *err)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list))
        return err_sys(err, errno, "addresses of this host");
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (!i->ifa_addr || (i->ifa_flags & IFF_LOOPBACK))
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            add_v4(p, "this host", ((const struct sockaddr_in *)i->ifa_addr)->sin_addr, port);
        else if (i->ifa_addr->sa_family == AF_INET6)
            add_v6(p, "this host", &((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, port);
    }
    freeifaddrs(list);
    return ERR_OK;
}

static void add_resolvers(struct probe *p)
{
    char line[256], address[64];
    FILE *f CLEANUP_FILE = fopen("/etc/resolv.conf", "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "nameserver %63s", address) == 1)
            add_text(p, "the resolver", address, 53);
    }
}

/* "a.b.c.d:port" */
static void add_other(struct probe *p, const char *what, const char *text)
{
    char address[64];
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (!colon || (size_t)(colon - text) >= sizeof(address) || !text_u64(colon + 1, &port))
        return;
    memcpy(address, text, (size_t)(colon - text));
    address[colon - text] = '\0';
    add_text(p, what, address, (uint16_t)port);
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

/* Inside the namespace: every connection is begun; sockets keep their namespace when we leave. */
static enum err_kind begin_all(void *arg, struct err *err)
{
    struct probe *p = arg;
    unsigned scope = if_nametoindex("eth0");
    if (scope == 0)
        return err_set(err, ERR_INTERNAL, "the namespace has no eth0");
    for (size_t i = 0; i < p->n; i++) {
        struct target *t = &p->targets[i];
        t->fd = socket(t->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (t->fd < 0)
            continue;
        if (t->to.ss_family == AF_INET6) {
            struct sockaddr_in6 *to = (struct sockaddr_in6 *)&t->to;
            if (IN6_IS_ADDR_LINKLOCAL(&to->sin6_addr))
                to->sin6_scope_id = scope;
        }
        int rc = connect(t->fd, (struct sockaddr *)&t->to, t->len);
        t->connected = rc == 0;
        t->reached = rc == 0 || errno == ECONNREFUSED;
        if (rc != 0 && errno != EINPROGRESS)
            own_close_(&t->fd);
    }
    return ERR_OK;
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* A refusal (RST) is an answer too: someone is there. */
static void note_end(struct target *t)
{
    int why = 0;
    socklen_t len = sizeof(why);
    (void)getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &why, &len);
    t->connected = why == 0;
    t->reached = why == 0 || why == ECONNREFUSED;
    own_close_(&t->fd);
}

static void wait_all(struct probe *p, int ms)
{
    int64_t until = now_ms() + ms;
    for (;;) {
        struct pollfd fds[TARGETS_MAX];
        size_t index[TARGETS_MAX], n = 0;
        for (size_t i = 0; i < p->n; i++) {
            if (p->targets[i].fd < 0 || p->targets[i].reached)
                continue;
            fds[n] = (struct pollfd){ .fd = p->targets[i].fd, .events = POLLOUT };
            index[n++] = i;
        }
        int64_t left = until - now_ms();
        if (n == 0 || left <= 0 || poll(fds, (nfds_t)n, (int)left) <= 0)
            return;
        for (size_t i = 0; i < n; i++) {
            if (fds[i].revents)
                note_end(&p->targets[index[i]]);
        }
    }
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

static void bare(const char *cidr, char out[20])
{
    (void)snprintf(out, 20, "%.*s", (int)strcspn(cidr, "/"), cidr);
}

static enum err_kind run(const struct plan *plan, struct probe *p, uint16_t control_port,
                         struct err *err)
{
    char gate[20];
    bare(plan->gate.address, gate);
    add_text(p, "control", gate, control_port);
    size_t control = p->n - 1;
    if (netns_within(plan->handler.netns, begin_all, p, err))
        return err->kind;
    wait_all(p, WAIT_MS);
    for (size_t i = 0; i < control; i++) {
        if (p->targets[i].reached)
            return err_set(err, ERR_PRECONDITION, "from the handler's network %s can be reached",
                           p->targets[i].name);
    }
    if (!p->targets[control].connected)
        return err_set(err, ERR_PRECONDITION,
                       "from the handler's network the gate cannot be reached (%s): a firewall of "
                       "this host drops a bridge's own traffic",
                       p->targets[control].name);
    return ERR_OK;
}

enum err_kind probe_isolation(const struct plan *plan, const struct settings *settings,
                              const json_t *others, struct err *err)
{
    struct probe p CLEANUP(probe_fini) = { .targets = xcalloc(TARGETS_MAX, sizeof(struct target)) };
    int host CLEANUP_FD = -1;
    uint16_t port = 0;
    struct listener control = { .fd = -1 };
    char edge[16];
    if (listen_any(&host, &port, err) || add_host(&p, port, err))
        return err->kind;
    if (pool_address(settings->edge, 1, edge))
        add_text(&p, "the edge network", edge, port);
    for (size_t i = 0; i < json_array_size(others) && i < 100; i++)
        add_other(&p, "another slug", json_string_value(json_array_get(others, i)));
    add_text(&p, "the metadata service", "169.254.169.254", 80);
    add_text(&p, "the metadata service", "fd00:ec2::254", 80);
    add_text(&p, "the internet", "1.1.1.1", 443);
    add_resolvers(&p);
    if (netns_within(plan->gate.netns, open_control, &control, err))
        return err->kind;
    enum err_kind kind = run(plan, &p, control.port, err);
    own_close_(&control.fd);
    return kind;
}

enum err_kind probe_wait(const char *netns, const char *address, int port, int wait_ms,
                         struct err *err)
{
    int64_t until = now_ms() + wait_ms;
    while (now_ms() < until) {
        struct probe p CLEANUP(probe_fini) = { .targets =
                                                   xcalloc(TARGETS_MAX, sizeof(struct target)) };
        add_text(&p, "", address, (uint16_t)port);
        if (netns_within(netns, begin_all, &p, err))
            return err->kind;
        wait_all(&p, 500);
        if (p.targets[0].connected)
            return ERR_OK;
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    return err_set(err, ERR_TIMEOUT, "nothing listens on %s:%d after %d ms", address, port,
                   wait_ms);
}
