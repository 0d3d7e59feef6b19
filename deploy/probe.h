/*
 * The proof from inside: what a handler's namespace can reach before a handler is in it.
 *
 * A listener is opened for the test on the host, on every address; from inside the namespace,
 * connections go out to all of the host's addresses at that port and to the places a handler must
 * never see. All must fail, and the control, a listener in the gate's namespace, must answer: a
 * test that cannot reach anything proves nothing.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "deploy/plan.h"
#include "deploy/settings.h"

/* `others`: array of "a.b.c.d:port" that belong to other slugs. ERR_PRECONDITION names what was
 * reached. */
CHECKED enum err_kind probe_isolation(const struct plan *plan, const struct settings *settings,
                                      const json_t *others, struct err *err);

/* Waits until address:port takes a connection made from inside `netns`. */
CHECKED enum err_kind probe_wait(const char *netns, const char *address, int port, int wait_ms,
                                 struct err *err);
