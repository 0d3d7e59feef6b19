/*
 * The gate's side of the data proxy's socket (proto/data_session.h): opens a request before its
 * handler runs, ends it before its answer is judged.
 *
 * Always true: an answer means what the proxy said, LOST means that it is unknown, and unknown is
 * never taken for ended. A lost connection ends every request at the proxy; it is dialled again in
 * the background.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "proto/data_session.h"

#define DATA_ANSWER_MS 100 /* no answer within: LOST */

struct data_session;
struct data_pending;

enum data_result {
    DATA_RESULT_OK, /* opened or ended; for an end, calls, bytes and tainted of the message count */
    DATA_RESULT_REFUSED, /* why of the message says why */
    DATA_RESULT_LOST,    /* no connection, no answer in time, or a broken one */
};

/* Called once, never before data_session_open() or _end() has returned. */
typedef void data_result_fn(void *arg, enum data_result result, const struct data_message *answer);

/* Embedded in its owner; one open or end at a time. */
struct data_pending {
    struct data_pending *next;
    struct data_pending **prev; /* NULL while idle */
    struct data_session *session;
    struct loop_timer timer;
    enum data_op awaited;
    char id[DATA_ID_MAX + 1];
    data_result_fn *fn;
    void *arg;
};

/* Dials `path` now and, whenever it fails or breaks, again after 50 ms doubling to 2 s. loop is
 * borrowed. */
CHECKED enum err_kind data_session_new(struct loop *loop, const char *path,
                                       struct data_session **out, struct err *err);
/* Pending operations end without their callback. */
void data_session_free(struct data_session *session);
DEFINE_CLEANUP(struct data_session, data_session_free, data_session_freep)

/* Connected: a request that needs upstreams may start; else 503 before anything runs. */
bool data_session_up(const struct data_session *session);

/* message: DATA_OPEN with its members. */
void data_session_open(struct data_session *session, const struct data_message *message,
                       struct data_pending *pending, data_result_fn *fn, void *arg);
void data_session_end(struct data_session *session, const char *id, struct data_pending *pending,
                      data_result_fn *fn, void *arg);
/* The callback will not come; fine on an idle one. A request that may be open is ended without
 * waiting. */
void data_pending_cancel(struct data_pending *pending);
