#include "shim/task_state.h"

#include <assert.h>
#include <stddef.h>

struct cell {
    bool allowed;
    enum task_state next;
    enum err_kind refusal; /* ERR_OK stands for ERR_PRECONDITION */
};

static const struct cell CELLS[TASK_STATE_N][TASK_EVENT_N] = {
    [TASK_CREATED][TASK_START] = { .allowed = true, .next = TASK_RUNNING },
    [TASK_CREATED][TASK_KILL] = { .allowed = true, .next = TASK_CREATED },
    [TASK_CREATED][TASK_UPDATE] = { .allowed = true, .next = TASK_CREATED },
    [TASK_CREATED][TASK_EXITED] = { .allowed = true, .next = TASK_STOPPED },
    [TASK_CREATED][TASK_DELETE] = { .allowed = true, .next = TASK_DELETED },

    [TASK_RUNNING][TASK_EXEC] = { .allowed = true, .next = TASK_RUNNING },
    [TASK_RUNNING][TASK_PAUSE] = { .allowed = true, .next = TASK_PAUSED },
    [TASK_RUNNING][TASK_KILL] = { .allowed = true, .next = TASK_RUNNING },
    [TASK_RUNNING][TASK_UPDATE] = { .allowed = true, .next = TASK_RUNNING },
    [TASK_RUNNING][TASK_EXITED] = { .allowed = true, .next = TASK_STOPPED },

    [TASK_PAUSED][TASK_RESUME] = { .allowed = true, .next = TASK_RUNNING },
    [TASK_PAUSED][TASK_KILL] = { .allowed = true, .next = TASK_PAUSED },
    [TASK_PAUSED][TASK_UPDATE] = { .allowed = true, .next = TASK_PAUSED },
    [TASK_PAUSED][TASK_EXITED] = { .allowed = true, .next = TASK_STOPPED },

    [TASK_STOPPED][TASK_KILL] = { .refusal = ERR_NOT_FOUND },
    [TASK_STOPPED][TASK_DELETE] = { .allowed = true, .next = TASK_DELETED },

    [TASK_DELETED][TASK_KILL] = { .refusal = ERR_NOT_FOUND },
    [TASK_DELETED][TASK_DELETE] = { .refusal = ERR_NOT_FOUND },
};

static const char *const STATES[TASK_STATE_N] = {
    [TASK_CREATED] = "created", [TASK_RUNNING] = "running", [TASK_PAUSED] = "paused",
    [TASK_STOPPED] = "stopped", [TASK_DELETED] = "deleted",
};

static const char *const EVENTS[TASK_EVENT_N] = {
    [TASK_START] = "start",   [TASK_EXEC] = "exec",     [TASK_PAUSE] = "pause",
    [TASK_RESUME] = "resume", [TASK_KILL] = "kill",     [TASK_UPDATE] = "update",
    [TASK_EXITED] = "exit",   [TASK_DELETE] = "delete",
};

const char *task_state_name(enum task_state state)
{
    assert(state < TASK_STATE_N);
    return STATES[state];
}

const char *task_event_name(enum task_event event)
{
    assert(event < TASK_EVENT_N);
    return EVENTS[event];
}

enum err_kind task_may(enum task_state state, enum task_event event, struct err *err)
{
    assert(state < TASK_STATE_N && event < TASK_EVENT_N);
    const struct cell *cell = &CELLS[state][event];
    if (cell->allowed)
        return ERR_OK;
    if (cell->refusal == ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "process already finished");
    return err_set(err, ERR_PRECONDITION, "cannot %s a process that is %s", EVENTS[event],
                   STATES[state]);
}

enum err_kind task_step(enum task_state *state, enum task_event event, struct err *err)
{
    enum err_kind kind = task_may(*state, event, err);
    if (!kind)
        *state = CELLS[*state][event].next;
    return kind;
}
