/*
 * The reading half of Create: spec, policy, runsc, without a side effect on the host.
 */
#pragma once

#include "base/err.h"
#include "shim/task.h"

/* Fills bundle, role, spec, plan, limits and sandbox (a new one for a root container) of the task.
 * ERR_INVALID or ERR_PRECONDITION carries the refusal line. */
CHECKED enum err_kind task_judge(struct task *task, const struct task_create_request *request,
                                 struct err *err);

/* The environment in which a task's streams are opened: loggers as the policy has them. */
void task_streams_env(struct task *task, struct streams_env *env);

/* The context in which the policy judges further documents of this task. */
struct policy_context task_policy_context(const struct task *task);
