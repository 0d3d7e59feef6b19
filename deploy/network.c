/*
 * Bridges and members, through ip(8), bridge(8) and the CNI plugins.
 */
#include "deploy/network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/netns.h"
#include "deploy/proc.h"

#define OUT_MAX (1024 * 1024)
#define CNI_VERSION "1.0.0"

#define RUN(err, ...)                                                                              \
    proc_run(                                                                                      \
        &(struct proc){ .argv = (const char *const[]){ __VA_ARGS__, NULL }, .timeout_ms = 15000 }, \
        NULL, err)

/* `ip -j …` as JSON. */
static enum err_kind ip_json(const char *const argv[], json_t **out, struct err *err)
{
    struct buf text CLEANUP(buf_fini);
    buf_init(&text, OUT_MAX);
    struct proc proc = { .argv = argv, .timeout_ms = 15000 };
    if (proc_run(&proc, &text, err))
        return err->kind;
    *out = text.len ? json_loadb((const char *)text.data, text.len, 0, NULL) : json_array();
    return *out ? ERR_OK : err_set(err, ERR_INTERNAL, "ip: unreadable answer");
}

/* ---- ownership ---- */

/* An address that says whose bridge it is already in the moment of its creation; an alias can only
 * follow.
 */
static void owner_address(const char *alias, char out[18])
{
    char digest[DIGEST_SIZE];
    digest_of(alias, strlen(alias), digest);
    const char *h = digest + 7;
    (void)snprintf(out, 18, "02:75:74:%.2s:%.2s:%.2s", h, h + 2, h + 4);
}

enum owner { OWNER_NONE, OWNER_US, OWNER_OTHER };

static enum err_kind owner_of(const char *name, const char *alias, enum owner *out, struct err *err)
{
    const char *const argv[] = { "ip", "-j", "link", "show", "type", "bridge", NULL };
    json_t *links CLEANUP_JSON = NULL;
    char address[18];
    owner_address(alias, address);
    *out = OWNER_NONE;
    if (ip_json(argv, &links, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(links); i++) {
        const json_t *link = json_array_get(links, i);
        const char *found = json_string_value(json_object_get(link, "ifalias"));
        const char *mac = json_string_value(json_object_get(link, "address"));
        const char *ifname = json_string_value(json_object_get(link, "ifname"));
        if (!ifname || strcmp(ifname, name) != 0)
            continue;
        bool ours = found ? strcmp(found, alias) == 0 : mac && strcmp(mac, address) == 0;
        *out = ours ? OWNER_US : OWNER_OTHER;
    }
    return ERR_OK;
}

static enum err_kind set_sysctl(const char *interface, const char *key, const char *value,
                                struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("/proc/sys/net/%s", key);
    char *at = strstr(path, "%");
    char *full CLEANUP_FREE = xasprintf("%.*s%s%s", (int)(at - path), path, interface, at + 1);
    int fd CLEANUP_FD = open(full, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return ERR_OK; /* a kernel without IPv6 */
    if (fd < 0)
        return err_sys(err, errno, "%s", full);
    return fs_write_fd(fd, value, strlen(value), err);
}

/* Made in the order that leaves no moment in which the host can be reached over IPv6. */
static enum err_kind bridge_ensure(const char *name, const char *alias, struct err *err)
{
    enum owner owner;
    char address[18];
    owner_address(alias, address);
    if (owner_of(name, alias, &owner, err))
        return err->kind;
    if (owner == OWNER_OTHER)
        return err_set(err, ERR_PRECONDITION,
                       "bridge %s exists and is not ours (no alias %s); remove it", name, alias);
    if (owner == OWNER_NONE &&
        RUN(err, "ip", "link", "add", name, "address", address, "type", "bridge"))
        return err->kind;
    if (RUN(err, "ip", "link", "set", name, "alias", alias) ||
        set_sysctl(name, "ipv6/conf/%/disable_ipv6", "1", err))
        return err->kind;
    return RUN(err, "ip", "link", "set", name, "up");
}

static enum err_kind bridge_remove(const char *name, const char *alias, struct err *err)
{
    enum owner owner;
    if (owner_of(name, alias, &owner, err))
        return err->kind;
    if (owner != OWNER_US)
        return ERR_OK;
    return RUN(err, "ip", "link", "del", name);
}

enum err_kind network_slug_ensure(const struct plan *plan, struct err *err)
{
    char *alias CLEANUP_FREE = xasprintf("utter:%s", plan->slug.s);
    return bridge_ensure(plan->bridge, alias, err);
}

enum err_kind network_slug_remove(unsigned index, const struct slug *slug, struct err *err)
{
    char *alias CLEANUP_FREE = xasprintf("utter:%s", slug->s);
    char *name CLEANUP_FREE = xasprintf("ut-%u", index);
    return bridge_remove(name, alias, err);
}

/* ---- edge ---- */

static const char edge_alias[] = "utter:edge";
static const char egress_alias[] = "utter:egress";

/* MTU of the device with the default route; 1500 without one. */
static int default_mtu(void)
{
    const char *const argv[] = { "ip", "-j", "route", "show", "default", NULL };
    json_t *routes CLEANUP_JSON = NULL;
    if (ip_json(argv, &routes, ERR_IGNORED))
        return 1500;
    const char *dev = json_string_value(json_object_get(json_array_get(routes, 0), "dev"));
    if (!dev)
        return 1500;
    const char *const link_argv[] = { "ip", "-j", "link", "show", "dev", dev, NULL };
    json_t *link CLEANUP_JSON = NULL;
    if (ip_json(link_argv, &link, ERR_IGNORED))
        return 1500;
    json_int_t mtu = json_integer_value(json_object_get(json_array_get(link, 0), "mtu"));
    return mtu >= 1280 && mtu <= 9000 ? (int)mtu : 1500;
}

/* A bridge with a host address, through which its members leave the host. */
static enum err_kind outer_ensure(const char *bridge, const char *alias, struct pool pool,
                                  struct err *err)
{
    char address[16], mtu[16];
    if (!pool_address(pool, 1, address))
        return err_set(err, ERR_INVALID, "the pool of %s is too small", bridge);
    char *cidr CLEANUP_FREE = xasprintf("%s/%u", address, pool.bits);
    (void)snprintf(mtu, sizeof(mtu), "%d", default_mtu());
    if (bridge_ensure(bridge, alias, err) ||
        RUN(err, "ip", "address", "replace", cidr, "dev", bridge) ||
        RUN(err, "ip", "link", "set", bridge, "mtu", mtu))
        return err->kind;
    return set_sysctl(bridge, "ipv4/conf/%/forwarding", "1", err);
}

enum err_kind network_edge_ensure(const struct settings *settings, struct err *err)
{
    if (outer_ensure(PLAN_EDGE_BRIDGE, edge_alias, settings->edge, err))
        return err_prefix(err, "edge network");
    return ERR_OK;
}

enum err_kind network_egress_ensure(const struct settings *settings, struct err *err)
{
    if (outer_ensure(PLAN_EGRESS_BRIDGE, egress_alias, settings->egress, err))
        return err_prefix(err, "egress network");
    return ERR_OK;
}

enum err_kind network_edge_remove(const struct settings *settings, struct err *err)
{
    (void)settings;
    enum err_kind kind = bridge_remove(PLAN_EGRESS_BRIDGE, egress_alias, err);
    return kind ? kind : bridge_remove(PLAN_EDGE_BRIDGE, edge_alias, err);
}

enum err_kind network_check_pools(const struct settings *settings, struct err *err)
{
    const char *const argv[] = { "ip", "-j", "-4", "route", "show", "table", "all", NULL };
    const struct {
        const char *name;
        struct pool pool;
    } pools[] = { { "internal", settings->internal },
                  { "edge", settings->edge },
                  { "egress", settings->egress } };
    json_t *routes CLEANUP_JSON = NULL;
    if (ip_json(argv, &routes, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(routes); i++) {
        const json_t *route = json_array_get(routes, i);
        const char *to = json_string_value(json_object_get(route, "dst"));
        const char *dev = json_string_value(json_object_get(route, "dev"));
        struct pool taken;
        if (!to || (dev && text_starts(dev, "utter-")) || !pool_parse(to, &taken))
            continue;
        for (size_t p = 0; p < ARRAY_LEN(pools); p++) {
            if (pool_overlaps(taken, pools[p].pool))
                return err_set(err, ERR_PRECONDITION,
                               "this host has a route to %s on %s, within pools.%s; choose another "
                               "network in the settings",
                               to, dev ? dev : "?", pools[p].name);
        }
    }
    return ERR_OK;
}

/* ---- members ---- */

static json_t *bridge_conf(const char *bridge, const char *address, const char *gateway)
{
    json_t *ipam = json_pack("{s:s, s:[{s:s}]}", "type", "static", "addresses", "address", address);
    if (gateway)
        json_object_set_new(ipam, "routes",
                            json_pack("[{s:s, s:s}]", "dst", "0.0.0.0/0", "gw", gateway));
    return json_pack("{s:s, s:s, s:b, s:b, s:b, s:o}", "type", "bridge", "bridge", bridge,
                     "isGateway", 0, "ipMasq", 0, "hairpinMode", 0, "ipam", ipam);
}

static json_t *conflist(const char *name, json_t *take_plugin)
{
    return json_pack("{s:s, s:s, s:[o]}", "cniVersion", CNI_VERSION, "name", name, "plugins",
                     take_plugin);
}

json_t *network_conflists(const struct plan *plan)
{
    char *handler CLEANUP_FREE = xasprintf("utter-%s-handler", plan->slug.s);
    char *gate CLEANUP_FREE = xasprintf("utter-%s-gate", plan->slug.s);
    char *edge CLEANUP_FREE = xasprintf("utter-%s-edge", plan->slug.s);
    json_t *all = json_object();
    json_object_set_new(all, handler,
                        conflist(handler, bridge_conf(plan->bridge, plan->handler.address, NULL)));
    json_object_set_new(all, gate,
                        conflist(gate, bridge_conf(plan->bridge, plan->gate.address, NULL)));
    json_object_set_new(
        all, edge,
        conflist(edge, bridge_conf(PLAN_EDGE_BRIDGE, plan->gate.edge, plan->edge_gateway)));
    if (plan_has_data(plan)) {
        char *data CLEANUP_FREE = xasprintf("utter-%s-data", plan->slug.s);
        char *egress CLEANUP_FREE = xasprintf("utter-%s-egress", plan->slug.s);
        json_object_set_new(all, data,
                            conflist(data, bridge_conf(plan->bridge, plan->data.address, NULL)));
        json_object_set_new(all, egress,
                            conflist(egress, bridge_conf(PLAN_EGRESS_BRIDGE, plan->data.edge,
                                                         plan->egress_gateway)));
    }
    return all;
}

struct attachment {
    const char *command; /* ADD or DEL */
    const char *id;
    const char *netns;
    const char *interface;
    const char *bridge;
    const char *address;
    const char *gateway;
};

/* The same address has the same hardware address whenever it comes back, so that a neighbour that
 * remembers a dead member talks to the new one at once. */
static void member_mac(const struct attachment *a, char out[18])
{
    char *text CLEANUP_FREE = xasprintf("%s %s", a->bridge, a->address);
    owner_address(text, out);
    memcpy(out, "02:75:6d", 8);
}

/* One plugin call; ADD's result into *result (may be NULL). */
static enum err_kind cni(const struct settings *settings, const struct attachment *a,
                         json_t **result, struct err *err)
{
    json_t *conf CLEANUP_JSON = bridge_conf(a->bridge, a->address, a->gateway);
    json_object_set_new(conf, "cniVersion", json_string(CNI_VERSION));
    json_object_set_new(conf, "name", json_sprintf("%s-%s", a->id, a->interface));
    char *input CLEANUP_FREE = json_canonical(conf);
    char *plugin CLEANUP_FREE = xasprintf("%s/bridge", settings->cni_bin);
    char mac[18];
    member_mac(a, mac);
    char *env[] = { xasprintf("CNI_ARGS=IgnoreUnknown=1;MAC=%s", mac),
                    xasprintf("CNI_COMMAND=%s", a->command),
                    xasprintf("CNI_CONTAINERID=%s", a->id),
                    xasprintf("CNI_NETNS=%s", a->netns),
                    xasprintf("CNI_IFNAME=%s", a->interface),
                    xasprintf("CNI_PATH=%s", settings->cni_bin),
                    NULL };
    const char *argv[] = { plugin, NULL };
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, OUT_MAX);
    struct proc proc = {
        .argv = argv, .env = (const char *const *)env, .input = input, .timeout_ms = 60000
    };
    enum err_kind kind = proc_run(&proc, &out, err);
    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    if (kind == ERR_NOT_FOUND)
        return err_set(err, kind, "%s is missing: apt install containernetworking-plugins", plugin);
    if (kind)
        return err_prefix(err, "%s %s of %s", a->command, a->bridge, a->id);
    if (result)
        *result = json_loadb((const char *)out.data, out.len, 0, NULL);
    return ERR_OK;
}

/* The host's end of the new pair: no IPv6, an alias, and on the edge cut off from the other ports.
 */
static enum err_kind settle_port(const json_t *result, const char *id, bool isolated,
                                 struct err *err)
{
    const json_t *interfaces = json_object_get(result, "interfaces");
    for (size_t i = 0; i < json_array_size(interfaces); i++) {
        const json_t *interface = json_array_get(interfaces, i);
        const char *name = json_string_value(json_object_get(interface, "name"));
        const char *sandbox = json_string_value(json_object_get(interface, "sandbox"));
        if (!name || !text_starts(name, "veth") || (sandbox && sandbox[0]))
            continue;
        char *alias CLEANUP_FREE = xasprintf("utter:%s", id);
        if (set_sysctl(name, "ipv6/conf/%/disable_ipv6", "1", err) ||
            RUN(err, "ip", "link", "set", name, "alias", alias))
            return err->kind;
        return isolated ? RUN(err, "bridge", "link", "set", "dev", name, "isolated", "on") : ERR_OK;
    }
    return err_set(err, ERR_INTERNAL, "the bridge plugin named no host interface");
}

static enum err_kind add_one(const struct settings *settings, const struct attachment *a,
                             bool isolated, struct err *err)
{
    json_t *result CLEANUP_JSON = NULL;
    if (cni(settings, a, &result, err))
        return err->kind;
    return settle_port(result, a->id, isolated, err);
}

static struct attachment slug_side(const struct plan *plan, const struct plan_member *m,
                                   const char *command)
{
    return (struct attachment){ .command = command,
                                .id = m->id,
                                .netns = m->netns,
                                .interface = m->edge[0] ? "eth1" : "eth0",
                                .bridge = plan->bridge,
                                .address = m->address };
}

static struct attachment edge_side(const struct plan *plan, const struct plan_member *m,
                                   const char *command)
{
    bool egress = strcmp(m->id, plan->data.id) == 0;
    return (struct attachment){ .command = command,
                                .id = m->id,
                                .netns = m->netns,
                                .interface = "eth0",
                                .bridge = egress ? PLAN_EGRESS_BRIDGE : PLAN_EDGE_BRIDGE,
                                .address = m->edge,
                                .gateway = egress ? plan->egress_gateway : plan->edge_gateway };
}

enum err_kind network_attach(const struct plan *plan, const struct plan_member *member,
                             const struct settings *settings, struct err *err)
{
    if (netns_make(member->netns, err))
        return err->kind;
    struct attachment edge = edge_side(plan, member, "ADD");
    struct attachment slug = slug_side(plan, member, "ADD");
    if (member->edge[0] && add_one(settings, &edge, true, err))
        return err_prefix(err, "edge network");
    if (add_one(settings, &slug, false, err))
        return err_prefix(err, "internal network");
    return ERR_OK;
}

static enum err_kind delete_links(void *arg, struct err *err)
{
    static const char *const names[] = { "eth0", "eth1" };
    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *const argv[] = { "ip", "link", "del", names[i], NULL };
        int status; /* one that is not there is fine */
        if (proc_status(&(struct proc){ .argv = argv, .timeout_ms = 10000 }, &status, NULL, err))
            return err->kind;
    }
    return ERR_OK;
}

void network_clear(const char *netns)
{
    if (netns_is_there(netns))
        (void)!netns_within(netns, delete_links, NULL, ERR_IGNORED);
}

enum err_kind network_detach(const struct plan *plan, const struct plan_member *member,
                             const struct settings *settings, struct err *err)
{
    if (netns_is_there(member->netns)) {
        struct attachment edge = edge_side(plan, member, "DEL");
        struct attachment slug = slug_side(plan, member, "DEL");
        /* A namespace that lost its interface makes DEL complain; its removal is what counts. */
        if (member->edge[0])
            (void)!cni(settings, &edge, NULL, ERR_IGNORED);
        (void)!cni(settings, &slug, NULL, ERR_IGNORED);
    }
    network_clear(member->netns);
    return netns_remove(member->netns, err);
}
