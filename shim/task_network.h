/*
 * The network a task's sandbox is in, compared with what its plan says.
 */
#pragma once

#include "base/err.h"
#include "shim/task.h"

/* Before create: opens the namespace that the spec names; it must not be the host's, nor in use by
 * anything outside the task's pod. */
CHECKED enum err_kind task_network_prepare(struct task *task, struct err *err);
/* After create, hooks included: the sandbox is in that very namespace (or a fresh one), with
 * nothing in it but what the plan allows. */
CHECKED enum err_kind task_network_verify(struct task *task, struct err *err);
/* Just before start: closes IPv6 and looks again. */
CHECKED enum err_kind task_network_close(struct task *task, struct err *err);
