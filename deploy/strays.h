/*
 * Shims that nobody knows any more. containerd cancels what a client asked for when the client
 * dies; a shim that it had just started may then serve for ever without a task, a bundle or a
 * record (seen with the runc shim of 1.6).
 *
 * They are found by their command line: "containerd-shim-…", our containerd's address and
 * namespace, and the container's id.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/* Ids of all shims of that containerd and namespace that run now, as a JSON array (an id may be
 * there twice); the caller's. */
CHECKED enum err_kind strays_ids(const char *address, const char *ns, json_t **out,
                                 struct err *err);
/* Ends the shims of a container that has no task: left a second to go by themselves, told to
 * (SIGTERM), then killed. ERR_TIMEOUT when one stays even so. */
CHECKED enum err_kind strays_end(const char *address, const char *ns, const char *id,
                                 struct err *err);
