/*
 * One container of a plan in containerd: started, looked at, ended.
 *
 * Its labels say whose it is: "utter/slug", "utter/role", "utter/hash".
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "deploy/containerd.h"
#include "deploy/image.h"
#include "deploy/plan.h"

enum member_state {
    MEMBER_ABSENT,  /* no container */
    MEMBER_STOPPED, /* a container whose task is not running */
    MEMBER_OTHER,   /* running, but not from this plan */
    MEMBER_RUNNING,
};

CHECKED enum err_kind member_look(struct containerd *cd, const struct plan *plan,
                                  const struct plan_member *member, enum member_state *out,
                                  struct err *err);
/* Snapshot, container, task, start. `spec` stands in for the member's own where it is not NULL.
 * What an earlier attempt left under the id is removed first. The namespace must be attached. */
CHECKED enum err_kind member_start(struct containerd *cd, const struct plan *plan,
                                   const struct plan_member *member, const char *role,
                                   const json_t *spec, struct err *err);
/* Task, container and snapshot of that id; whatever is missing is fine. */
CHECKED enum err_kind member_end(struct containerd *cd, const char *id, int grace_ms,
                                 struct err *err);
/* Ids of the slug's containers, as a JSON array, the caller's. */
CHECKED enum err_kind member_list(struct containerd *cd, const struct slug *slug, json_t **out,
                                  struct err *err);
