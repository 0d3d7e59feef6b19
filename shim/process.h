/*
 * What a container's first process and an exec have in common: state, streams, exit, waiters.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "shim/streams.h"
#include "shim/task_state.h"

#define PROCESS_WAITERS_MAX 1024

struct exit_status {
    bool known;
    uint32_t code; /* exit code, or 128 + signal */
    struct timespec at;
};

struct process;
/* Called once when the process has exited. */
typedef void process_wait_fn(void *arg, const struct process *process);

struct process {
    enum task_state state;
    uint32_t pid; /* the sandbox's: the guest's processes have none on the host */
    bool terminal;
    char *in; /* as the caller wrote them; "" for none */
    char *out;
    char *err;
    struct streams *streams; /* NULL before they are opened and after deletion */
    struct exit_status exit;
    struct process_waiter {
        process_wait_fn *fn;
        void *arg;
    } * waiters;
    size_t n_waiters;
};

void process_init(struct process *p, const struct streams_request *request);
/* Waiters that are still there are told: what they waited for is gone. */
void process_fini(struct process *p);

/* fn is called at once if the process has exited. ERR_UNAVAILABLE beyond PROCESS_WAITERS_MAX. */
CHECKED enum err_kind process_wait(struct process *p, process_wait_fn *fn, void *arg,
                                   struct err *err);
/* Records the exit and wakes the waiters. The first call counts; false on a later one. */
bool process_exited(struct process *p, uint32_t code);
void process_wake(struct process *p);
