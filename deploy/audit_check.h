/*
 * What the parts of an audit share. Not for others: audit.h is the audit.
 */
#pragma once

#include "deploy/audit.h"
#include "deploy/plan.h"

struct audit {
    struct deploy *d;
    const struct plan *plan;
    unsigned checks;
    unsigned drifts;
};

/* One check: told, and counted as a drift, when it does not hold. */
void audit_expect(struct audit *a, bool holds, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* audit_live.c: what can be reached and done from where the handler stands, found out by a
 * throw-away container under the handler's own runtime, limits, mounts and network, at the address
 * that its next generation would take. Nothing of it stays. */
void audit_live(struct audit *a);

/* audit_mounts.c: the mounts of a trusted member's process against its spec: none more, the
 * read-only ones read-only. */
void audit_mounts(struct audit *a, const struct plan_member *member, uint32_t pid);

/* audit_data.c: the data proxy's files, keys and session against the plan; `running`: also what it
 * says of itself. */
void audit_data(struct audit *a, bool running);
