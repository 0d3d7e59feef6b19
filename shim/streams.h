/*
 * Where a process's stdin, stdout and stderr go.
 *
 * A FIFO is opened without waiting and without following a link, must be a FIFO by fstat, and is
 * handed to the sandbox itself: no copying. stdout and stderr are opened read-write, so a reader
 * that goes away blocks the writer instead of killing it, and a restarted containerd finds the
 * rest. The shim keeps a writer of stdin until CloseIO. Terminals and file:// logs are the only
 * bytes that pass through the shim. Logging programs run only as the operator's configuration has
 * them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "shim/children.h"
#include "shim/stream_uri.h"

struct streams;

struct streams_request {
    const char *in;
    const char *out;
    const char *err;
    bool terminal;
};

/* What the operator allows beside FIFOs. */
struct streams_rules {
    /* ERR_OK if the logging program, log file or FIFO that `uri` names is allowed. Of a FIFO this
     * is the path it really has, whatever links the caller's path goes through. */
    enum err_kind (*allowed)(void *arg, const struct stream_uri *uri, struct err *err);
    void *arg;
};

struct streams_env {
    struct loop *loop;
    struct children *children;
    struct streams_rules rules;
    const char *ns; /* for loggers: CONTAINER_NAMESPACE */
    const char *id; /* CONTAINER_ID */
};

/* Told once: ERR_OK when every logging program says that it is ready, else why not. */
typedef void streams_ready_fn(void *arg, const struct err *err);

/* Opens everything that the request names. ERR_INVALID for what is not a FIFO or malformed,
 * ERR_PRECONDITION for a logger that is not allowed. */
CHECKED enum err_kind streams_open(const struct streams_env *env,
                                   const struct streams_request *request, struct streams **out,
                                   struct err *err);

/* What the process gets as 0, 1 and 2; borrowed. A null device of our own where there is none, and
 * for a terminal whose console comes later. */
void streams_child_fds(const struct streams *s, int fds[3]);
/* The child has its copies: closes ours, but for the held writer of stdin. */
void streams_handed_over(struct streams *s);

/* Calls fn (now or later) when loggers are ready; nothing to wait for is ready. */
void streams_when_ready(struct streams *s, streams_ready_fn *fn, void *arg);

/* A pair of a fresh terminal: the shim keeps the master and relays it; *slave is the caller's. */
CHECKED enum err_kind streams_open_pty(struct streams *s, int *slave, struct err *err);
/* Takes the master of the console and starts to relay. */
CHECKED enum err_kind streams_take_console(struct streams *s, int master, struct err *err);
CHECKED enum err_kind streams_resize(struct streams *s, unsigned width, unsigned height,
                                     struct err *err);
bool streams_terminal(const struct streams *s);

void streams_close_stdin(struct streams *s);
/* The process has exited: lets go of stdin. Output still in a terminal or a file is moved on. */
void streams_process_gone(struct streams *s);

void streams_free(struct streams *s);
DEFINE_CLEANUP(struct streams, streams_free, streams_freep)
