/*
 * Inside policy/: what nerdctl writes into a spec. Its OCI hook runs as root on the host and does
 * what annotations tell it, so both are read strictly here and nothing else of them is passed on.
 */
#pragma once

#include "policy/check.h"

/* The names in annotation nerdctl/networks, a new reference; NULL if absent or no array of names.
 */
json_t *nerdctl_networks(const json_t *spec);
/* No network at all: [] or ["none"]. */
bool nerdctl_networks_none(const json_t *names);
/* A hook of nerdctl's is in the spec (whether it may stay is rule hooks' to say). */
bool spec_has_hook(const json_t *spec, const char *event);
/* A network other than none: a namespace path, or a createRuntime hook that attaches one. */
bool spec_network_attached(const json_t *spec);
/* The path of the network namespace, "" if none. */
const char *spec_netns(const json_t *spec);
/* <data-root>/<8 hex>/<kind>/<ns>/<id>: is `path` that directory, or (with file) that file in it?
 */
bool nerdctl_path_is(const char *path, const struct policy_context *context,
                     const struct policy_config *config, const char *kind, const char *file);
/* nerdctl/ keys that nerdctl writes and that make nothing happen but what rule nerdctl has judged.
 */
bool nerdctl_key_is_known(const char *key);
/* Those of them that the hook reads (nerdctl's pkg/ocihook): only these are handed on. */
bool nerdctl_key_is_read_by_hook(const char *key);
/* Our own hook, a new reference: event is "createRuntime" or "postStop". cgroup_manager is what
 * the caller's hook said, NULL if nothing. */
json_t *nerdctl_hook_new(const struct policy_context *context, const struct policy_config *config,
                         const char *event, const char *cgroup_manager);
/* The caller's --cgroup-manager in its first hook of that event, NULL if none. */
const char *nerdctl_hook_cgroup_manager(const json_t *spec, const char *event);
