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
#include "deploy/reach.h"
#include "deploy/settings.h"

/* What is tried, with the listeners that must not, and the one that must, be reached. */
struct probe {
    struct reach reach; /* targets before `control` must not answer, that one must */
    size_t control;
    int host;       /* a listener of the host, on every address */
    int control_fd; /* a listener in the gate's namespace */
};
CHECKED enum err_kind probe_open(const struct plan *plan, const struct settings *settings,
                                 const json_t *others, struct probe *out, struct err *err);
void probe_fini(struct probe *probe);

/* `others`: array of "a.b.c.d:port" that belong to other slugs. ERR_PRECONDITION names what was
 * reached. */
CHECKED enum err_kind probe_isolation(const struct plan *plan, const struct settings *settings,
                                      const json_t *others, struct err *err);

/* Waits until address:port takes a connection made from inside `netns`. */
CHECKED enum err_kind probe_wait(const char *netns, const char *address, int port, int wait_ms,
                                 struct err *err);
