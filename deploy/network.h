/*
 * Networks on the host: a slug's internal bridge, the edge bridge, attachments through CNI plugins,
 * and the few firewall rules.
 *
 * A slug's bridge has no address and no IPv6, so nothing of the host answers on it: that is what
 * isolates, also with an empty ruleset. Bridges are named by index and owned by their alias
 * ("utter:<slug>"); a name that carries another's alias is refused, never adopted.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "deploy/plan.h"
#include "deploy/settings.h"

/* ---- bridges ---- */
/* The slug's: made if missing. */
CHECKED enum err_kind network_slug_ensure(const struct plan *plan, struct err *err);
CHECKED enum err_kind network_slug_remove(unsigned index, const struct slug *slug,
                                          struct err *err); /* absent is fine */
/* The edge: bridge, host address, MTU of the default route's device. */
CHECKED enum err_kind network_edge_ensure(const struct settings *settings, struct err *err);
CHECKED enum err_kind network_edge_remove(const struct settings *settings, struct err *err);
/* The same for the data proxies' way out. */
CHECKED enum err_kind network_egress_ensure(const struct settings *settings, struct err *err);
/* ERR_PRECONDITION where a pool overlaps a route of the host. */
CHECKED enum err_kind network_check_pools(const struct settings *settings, struct err *err);

/* ---- members ---- */
/* A fresh namespace at member->netns, attached: eth0 on the edge where it has an address there
 * (with the default route), else on the slug's bridge; a gate's second interface is on the slug's
 * bridge. */
CHECKED enum err_kind network_attach(const struct plan *plan, const struct plan_member *member,
                                     const struct settings *settings, struct err *err);
/* Detaches and removes the namespace. Whatever is missing is fine. */
CHECKED enum err_kind network_detach(const struct plan *plan, const struct plan_member *member,
                                     const struct settings *settings, struct err *err);
/* Takes the interfaces out of a namespace. A connection whose other end died without a word keeps the namespace
 * in the kernel for minutes after its last process, and with it the host's ends of its interfaces. */
void network_clear(const char *netns);
/* The CNI configuration lists of a plan, by name; for the state directory and `render cni`. */
json_t *network_conflists(const struct plan *plan);

/* ---- firewall ---- */
/* Chains UTTER-FORWARD, UTTER-INPUT and UTTER-NAT, written whole for the given bridges; jumps
 * ensured. */
CHECKED enum err_kind firewall_apply(const struct settings *settings, const json_t *bridges,
                                     struct err *err);
/* What firewall_apply() would write, for iptables-restore. Pure. The caller frees. */
char *firewall_rules(const struct settings *settings, const json_t *bridges, bool nat);
CHECKED enum err_kind firewall_remove(struct err *err);
/* True when the jumps and every line are in force. */
CHECKED enum err_kind firewall_check(const struct settings *settings, const json_t *bridges,
                                     bool *in_force, struct err *err);
