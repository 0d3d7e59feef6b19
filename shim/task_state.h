/*
 * What a process (a container's first one or an exec) may go through, as one table.
 *
 * Pure. task_step() is the only writer of a state: task.c asks with task_may() before it acts and
 * steps once the act has succeeded; an exit seen from outside steps the same way. What the table
 * does not name is refused.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

enum task_state {
    TASK_CREATED, /* made, not started */
    TASK_RUNNING,
    TASK_PAUSED,
    TASK_STOPPED, /* has exited, its status is kept */
    TASK_DELETED,
    TASK_STATE_N
};

enum task_event {
    TASK_START,
    TASK_EXEC,
    TASK_PAUSE,
    TASK_RESUME,
    TASK_KILL,
    TASK_UPDATE,
    TASK_EXITED,
    TASK_DELETE,
    TASK_EVENT_N
};

/* ERR_OK if `event` is fine in `state`; ERR_NOT_FOUND for a signal to what has finished (clients
 * and CRI's stop logic rely on it); else ERR_PRECONDITION, naming both. */
CHECKED enum err_kind task_may(enum task_state state, enum task_event event, struct err *err);

/* As task_may(), and moves *state on. */
CHECKED enum err_kind task_step(enum task_state *state, enum task_event event, struct err *err);

const char *task_state_name(enum task_state state);
const char *task_event_name(enum task_event event);
