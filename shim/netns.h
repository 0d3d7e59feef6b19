/*
 * A network namespace, looked into from outside by rtnetlink, and the verdict on it.
 *
 * netns_look() and netns_close_ipv6() enter the namespace for a moment in this thread and come
 * back; if coming back failed the process would be in the wrong namespace, so it aborts.
 * netns_judge() is pure. Always true: anything that could not be read or understood makes the look
 * fail, and a look that failed is never judged: unknown is not "clean".
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"

#define NETNS_LINKS_MAX 64
#define NETNS_ADDRESSES_MAX 256
#define NETNS_ROUTES_MAX 512

struct netns_link {
    int index;
    char name[16];
    char kind[16]; /* "veth", "macvlan", "bridge", …; "" for loopback and physical ones */
    bool loopback;
    bool up;
    int peer_index;   /* IFLA_LINK, 0 none */
    int peer_netnsid; /* IFLA_LINK_NETNSID, -1: peer in the same namespace */
    int master;       /* IFLA_MASTER, 0 none */
};

struct netns_address {
    int link;
    int family; /* AF_INET or AF_INET6 */
    uint8_t bytes[16];
    uint8_t prefix;
};

struct netns_route {
    int family;
    int link; /* 0: none named */
    uint8_t dst[16];
    uint8_t prefix;
    bool gateway; /* any next hop: RTA_GATEWAY, RTA_VIA, multipath */
    uint8_t type; /* RTN_UNICAST, … */
    uint8_t table;
    uint8_t scope;
};

struct netns_view {
    dev_t dev; /* of the namespace's file: what identifies it */
    ino_t ino;
    struct netns_link links[NETNS_LINKS_MAX];
    size_t n_links;
    struct netns_address addresses[NETNS_ADDRESSES_MAX];
    size_t n_addresses;
    struct netns_route routes[NETNS_ROUTES_MAX];
    size_t n_routes;
};

/* What the other ends are, seen from our own namespace. */
struct netns_outside {
    bool is_host;        /* the namespace is pid 1's or our own */
    bool peer_found;     /* the one veth's peer is in our namespace and points back */
    char peer[16];       /* its name */
    char bridge[16];     /* its bridge, "" if none */
    size_t bridge_ports; /* ports of that bridge, the peer included */
    size_t bridge_addresses;
    char bad_port[16]; /* a port that is no veth, or a veth whose other end is in our namespace */
    char host_address[64]; /* an address of ours inside the sandbox's on-link networks, or "" */
};

enum netns_mode {
    NETNS_NONE,     /* nothing but loopback */
    NETNS_INTERNAL, /* lo and one veth on a closed bridge */
    NETNS_CLUSTER,  /* CRI with a policy-enforcing network: one veth, default route allowed */
};

struct netns_want {
    enum netns_mode mode;
    const char *address;   /* "10.9.0.2/24": exactly this; NULL: whatever is there */
    bool address_required; /* the annotation asked for a network: loopback alone is refused */
    size_t max_ports;      /* of the bridge; default 4 */
    bool ipv6_closed;      /* IPv6 has been closed: any IPv6 address is now a refusal */
};

/* Opens a namespace path without following symlinks but for /proc/<pid>/ns/net and the bind mounts
 * of ip-netns; ERR_INVALID unless it is a network namespace (by NS_GET_NSTYPE). fd is the caller's.
 */
CHECKED enum err_kind netns_open(const char *path, int *fd, struct err *err);

/* Everything in the namespace. ERR_PRECONDITION when there is more than the arrays hold. */
CHECKED enum err_kind netns_look(int netns_fd, struct netns_view **out, struct err *err);
/* The far side of `view`'s single veth, and our own addresses against its networks. */
CHECKED enum err_kind netns_look_outside(int netns_fd, const struct netns_view *view,
                                         struct netns_outside *out, struct err *err);

/* net.ipv6.conf.{all,default}.disable_ipv6=1 inside; read back. A kernel without IPv6 is fine. */
CHECKED enum err_kind netns_close_ipv6(int netns_fd, struct err *err);

/* ERR_PRECONDITION with one line listing every fault ("no default route allowed (…); …"). */
CHECKED enum err_kind netns_judge(const struct netns_view *view,
                                  const struct netns_outside *outside,
                                  const struct netns_want *want, struct err *err);

/* All of it in order: open fd → look → outside → judge. */
CHECKED enum err_kind netns_check(int netns_fd, const struct netns_want *want, struct err *err);

/* A process of `proc` that is in the namespace and not in `except` (n pids); 0 if none. */
pid_t netns_some_user(const char *proc, dev_t dev, ino_t ino, const pid_t *except, size_t n);
