/*
 * Moves bytes from one descriptor to another on the loop, with one bounded buffer.
 *
 * A full receiver stops the reading (back-pressure), so memory stays at PUMP_BUFFER. Used for the
 * terminal and for file:// logs only: plain FIFOs are handed to the sandbox as they are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

#define PUMP_BUFFER 8192

struct pump;

/* The source has ended (or failed) and everything read has been written, or the receiver is gone.
 * Both descriptors are closed already. May free the pump. */
typedef void pump_done_fn(void *arg);

struct pump {
    struct loop *loop;
    int from; /* owned; -1 when ended */
    int to;   /* owned */
    struct loop_watch from_watch;
    struct loop_watch to_watch;
    size_t start; /* buffered bytes are [start, end) */
    size_t end;
    bool to_is_file; /* regular files cannot be watched and do not block */
    bool ended;
    pump_done_fn *done; /* may be NULL */
    void *arg;
    uint8_t buffer[PUMP_BUFFER];
};

/* Takes both descriptors, also on failure, and sets them non-blocking. */
CHECKED enum err_kind pump_start_take(struct pump *pump, struct loop *loop, int from, int to,
                                      pump_done_fn *done, void *arg, struct err *err);
/* Stops and closes both; fine on a zeroed or a finished pump. */
void pump_stop(struct pump *pump);
bool pump_active(const struct pump *pump);
