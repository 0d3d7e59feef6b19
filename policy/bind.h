/*
 * Inside policy/: what a bind is for, and which sources are right for it. Text only; the shim opens
 * what is named without following symlinks and judges the file.
 */
#pragma once

#include "policy/check.h"

/* What the mount is by its destination and source, in a container of that role. */
enum mount_kind mount_kind_of(const struct mount_view *mount, const json_t *spec,
                              const struct policy_context *context,
                              const struct policy_config *config);
/* The tool's own file for exactly this container: nerdctl's, CRI's, kubelet's or utter's. */
bool bind_is_tool_file(const struct mount_view *mount, const json_t *spec,
                       const struct policy_context *context, const struct policy_config *config);
/* The operator's entry that allows this source, NULL if none does. */
const struct policy_bind_entry *bind_entry_find(const char *source,
                                                const struct policy_config *config);
/* Why this source is never allowed, listed or not ("state of containerd"); NULL: it is not. */
const char *bind_is_state(const char *source, const struct policy_context *context,
                          const struct policy_config *config);
