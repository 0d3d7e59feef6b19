/*
 * Capability sets as the OCI documents write them (lists of names), as the Sentry takes them (bit
 * masks). Used by the test-only program alone: the rules allow a guest none.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "shim/control.h"

/* `doc` is process.capabilities; NULL or null is none. ERR_INVALID names a capability that this
 * build does not know. CAP_NET_RAW is left out of every set, as runsc leaves it out of a container
 * that is not started with --net-raw. */
CHECKED enum err_kind caps_read(const json_t *doc, struct control_caps *out, struct err *err);
