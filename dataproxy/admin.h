/* The admin listener: /healthz, /readyz, /metrics (Prometheus text). Nothing here names a path or a
 * secret. */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "dataproxy/egress.h"
#include "dataproxy/proxy.h"
#include "dataproxy/session.h"

struct admin;

/* All borrowed and living longer. */
struct admin_parts {
    struct loop *loop;
    const struct proxy *proxy;
    const struct requests *requests;
    const struct session_server *sessions;
    const struct egress *egress;
};

/* address: "unix:/path" or "127.0.0.1:9403". */
CHECKED enum err_kind admin_new(const struct admin_parts *parts, const char *address,
                                struct admin **out, struct err *err);
void admin_free(struct admin *admin);
DEFINE_CLEANUP(struct admin, admin_free, admin_freep)
