/*
 * What containerd is told, in order.
 *
 * Events are queued, sent one at a time, and stay queued until containerd has taken them: a
 * containerd that is away (or restarts) gets them when it is back. The queue is bounded: when full,
 * the oldest event that is not an exit is dropped, and then the oldest. Nothing here ever blocks a
 * request.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"

#define EVENTS_MAX 2048
#define EVENTS_SEND_MS 5000U
#define EVENTS_RETRY_MAX_MS 5000U

struct events;

/* `address` is containerd's ttrpc socket; NULL or "": there is nobody to tell, and events are
 * dropped. */
CHECKED enum err_kind events_new(struct loop *loop, const char *address, const char *ns,
                                 struct events **out, struct err *err);
void events_free(struct events *events);
DEFINE_CLEANUP(struct events, events_free, events_freep)

size_t events_pending(const struct events *events);
/* Calls fn once when nothing is pending, or after ms: for leaving. fn may free. */
void events_flush(struct events *events, uint64_t ms, void (*fn)(void *arg), void *arg);

struct event_io {
    const char *in;
    const char *out;
    const char *err;
    bool terminal;
};

struct event_mount {
    const char *type;
    const char *source;
    const char *target;
    const char *const *options;
    size_t n_options;
};

void events_create(struct events *events, const char *id, const char *bundle,
                   const struct event_mount *mounts, size_t n, const struct event_io *io,
                   uint32_t pid);
void events_start(struct events *events, const char *id, uint32_t pid);
/* exec_id NULL: the container's first process. */
void events_exit(struct events *events, const char *id, const char *exec_id, uint32_t pid,
                 uint32_t status, struct timespec at);
void events_delete(struct events *events, const char *id, const char *exec_id, uint32_t pid,
                   uint32_t status, struct timespec at);
void events_oom(struct events *events, const char *id);
void events_exec_added(struct events *events, const char *id, const char *exec_id);
void events_exec_started(struct events *events, const char *id, const char *exec_id, uint32_t pid);
void events_paused(struct events *events, const char *id);
void events_resumed(struct events *events, const char *id);
