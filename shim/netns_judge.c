/* The verdict on a network namespace. Pure; declared in shim/netns.h. */
#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "shim/netns.h"

static void fault(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void fault(struct buf *b, const char *fmt, ...)
{
    char text[240];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_printf(b, "%s%s", b->len ? "; " : "", text);
}

static const struct netns_link *link_of(const struct netns_view *view, int index)
{
    for (size_t i = 0; i < view->n_links; i++) {
        if (view->links[i].index == index)
            return &view->links[i];
    }
    return NULL;
}

/* Devices that a module puts into every new namespace, down and without an address; the Sentry
 * takes only links that are up. */
static bool is_placeholder(const struct netns_link *link)
{
    static const char *const kinds[] = { "sit",    "ipip",      "gre",       "gretap",
                                         "erspan", "vti",       "vti6",      "ip6tnl",
                                         "ip6gre", "ip6gretap", "ip6erspan", "ip6vti" };
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!link->up && strcmp(link->kind, kinds[i]) == 0)
            return true;
    }
    return false;
}

/* The link that is to be the sandbox's, NULL if there is none. Everything else is a fault. */
static const struct netns_link *judge_links(const struct netns_view *view, enum netns_mode mode,
                                            struct buf *b)
{
    const struct netns_link *veth = NULL;
    for (size_t i = 0; i < view->n_links; i++) {
        const struct netns_link *link = &view->links[i];
        if (link->loopback || is_placeholder(link))
            continue;
        if (mode == NETNS_NONE)
            fault(b,
                  "link %s is there, but the container asked for no network (leave it out, or "
                  "choose an internal network)",
                  link->name);
        else if (strcmp(link->kind, "veth") != 0)
            fault(b, "link %s is %s%s, not one end of a veth pair", link->name,
                  link->kind[0] ? "a " : "", link->kind[0] ? link->kind : "a physical device");
        else if (veth)
            fault(b, "link %s is there beside %s (one network only)", link->name, veth->name);
        else
            veth = link;
    }
    return veth;
}

static void show(const struct netns_address *a, char out[64])
{
    char ip[INET6_ADDRSTRLEN] = "?";
    (void)inet_ntop(a->family, a->bytes, ip, sizeof(ip));
    (void)snprintf(out, 64, "%s/%u", ip, (unsigned)a->prefix);
}

static bool is_local_only(const struct netns_address *a)
{
    static const uint8_t loopback6[16] = { [15] = 1 };
    if (a->family == AF_INET)
        return a->bytes[0] == 127;
    return memcmp(a->bytes, loopback6, 16) == 0 ||
           (a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80);
}

static void judge_ipv6(const struct netns_view *view, const struct netns_want *want, struct buf *b)
{
    char text[64];
    if (want->mode == NETNS_CLUSTER)
        return;
    for (size_t i = 0; i < view->n_addresses; i++) {
        const struct netns_address *a = &view->addresses[i];
        if (a->family != AF_INET6 || (!want->ipv6_closed && is_local_only(a)))
            continue;
        show(a, text);
        fault(b, "IPv6 address %s is there", text);
    }
}

static void judge_address(const struct netns_view *view, const struct netns_link *veth,
                          const struct netns_want *want, struct buf *b)
{
    char text[64] = "";
    size_t n = 0;
    for (size_t i = 0; i < view->n_addresses; i++) {
        const struct netns_address *a = &view->addresses[i];
        const struct netns_link *link = link_of(view, a->link);
        if (a->family != AF_INET)
            continue;
        show(a, text);
        if (link && link == veth)
            n++;
        else if (!is_local_only(a))
            fault(b, "address %s is on %s", text, link ? link->name : "no link");
        if (link == veth && want->address && strcmp(text, want->address) != 0)
            fault(b, "address is %s, not %s", text, want->address);
    }
    if (n == 0 && want->address)
        fault(b, "address %s is not there", want->address);
    if (n > 1 && want->mode != NETNS_CLUSTER)
        fault(b, "%s has %zu IPv4 addresses (one only)", veth->name, n);
}

/* Whether a route leads only to the network that one of its link's addresses is in. */
static bool is_on_link(const struct netns_view *view, const struct netns_route *r)
{
    for (size_t i = 0; i < view->n_addresses; i++) {
        const struct netns_address *a = &view->addresses[i];
        if (a->family != r->family || a->link != r->link || r->prefix < a->prefix)
            continue;
        bool same = true;
        for (unsigned bit = 0; bit < a->prefix; bit++) {
            unsigned shift = 7 - bit % 8;
            same &= ((a->bytes[bit / 8] ^ r->dst[bit / 8]) >> shift & 1) == 0;
        }
        if (same)
            return true;
    }
    return false;
}

static bool reaches_nothing(const struct netns_route *r)
{
    return r->type == RTN_LOCAL || r->type == RTN_BROADCAST || r->type == RTN_ANYCAST ||
           r->type == RTN_BLACKHOLE || r->type == RTN_UNREACHABLE || r->type == RTN_PROHIBIT;
}

static bool is_link_local6(const struct netns_route *r)
{
    bool fe80 = r->dst[0] == 0xfe && (r->dst[1] & 0xc0) == 0x80 && r->prefix >= 10;
    bool multicast = r->dst[0] == 0xff && r->prefix >= 8;
    static const uint8_t loopback6[16] = { [15] = 1 };
    return r->family == AF_INET6 && !r->gateway &&
           (fe80 || multicast || (r->prefix == 128 && memcmp(r->dst, loopback6, 16) == 0));
}

static void judge_routes(const struct netns_view *view, const struct netns_want *want,
                         struct buf *b)
{
    for (size_t i = 0; i < view->n_routes; i++) {
        const struct netns_route *r = &view->routes[i];
        char ip[INET6_ADDRSTRLEN] = "?";
        if (reaches_nothing(r) || (!want->ipv6_closed && is_link_local6(r)))
            continue;
        (void)inet_ntop(r->family, r->dst, ip, sizeof(ip));
        if (r->prefix == 0)
            fault(b, "there is a default route%s (use an internal network)",
                  r->family == AF_INET6 ? " of IPv6" : "");
        else if (r->gateway)
            fault(b, "there is a route to %s/%u by a gateway", ip, (unsigned)r->prefix);
        else if (!is_on_link(view, r))
            fault(b, "there is a route to %s/%u beyond the link's own network", ip,
                  (unsigned)r->prefix);
    }
}

static void judge_outside(const struct netns_link *veth, const struct netns_outside *o,
                          const struct netns_want *want, struct buf *b)
{
    if (!o->peer_found) {
        fault(b, "the other end of %s is not in the host's network namespace", veth->name);
        return;
    }
    if (!o->bridge[0]) {
        fault(b, "%s, the other end of %s, is on no bridge", o->peer, veth->name);
        return;
    }
    if (o->bridge_addresses)
        fault(b,
              "bridge %s has an IP address, so the host is reachable (use an internal network "
              "without a gateway)",
              o->bridge);
    if (o->bad_port[0])
        fault(b, "bridge %s leads on by %s", o->bridge, o->bad_port);
    if (o->bridge_ports > want->max_ports)
        fault(b, "bridge %s has %zu ports, more than network.max_ports = %zu", o->bridge,
              o->bridge_ports, want->max_ports);
    if (o->host_address[0])
        fault(b, "the host's own address %s is in this network", o->host_address);
}

enum err_kind netns_judge(const struct netns_view *view, const struct netns_outside *outside,
                          const struct netns_want *want, struct err *err)
{
    struct buf b;
    buf_init(&b, 4096);
    if (outside->is_host)
        fault(&b, "it is the host's own network namespace");
    const struct netns_link *veth = judge_links(view, want->mode, &b);
    if (!veth && want->mode != NETNS_NONE && want->address_required)
        fault(&b, "only loopback is there, but a network was asked for");
    judge_address(view, veth, want, &b);
    judge_ipv6(view, want, &b);
    if (want->mode != NETNS_CLUSTER) {
        judge_routes(view, want, &b);
        if (veth)
            judge_outside(veth, outside, want, &b);
    }
    enum err_kind kind = ERR_OK;
    if (b.len || b.failed)
        kind = err_set(err, ERR_PRECONDITION, "%s", b.len ? buf_cstr(&b) : "too many faults");
    buf_fini(&b);
    return kind;
}
