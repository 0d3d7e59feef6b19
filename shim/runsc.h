/*
 * The runsc command line: what is not asked of the sandbox's control socket.
 *
 * Global flags are pinned here, in one table, and never come from a request, a runtime option or an
 * annotation. Every call has its own log file, a deadline (create and start 60 s, everything else
 * 10 s) after which it is killed, and a scrubbed environment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/loop.h"
#include "shim/children.h"
#include "shim/runsc_binary.h"

#define RUNSC_LONG_MS 60000U
#define RUNSC_SHORT_MS 10000U
#define RUNSC_ARGS_MAX 64

/* How one sandbox's runsc is called, the same for each of its calls. */
struct runsc {
    struct loop *loop;
    struct children *children;
    const struct runsc_binary *binary; /* borrowed */
    char *root;                        /* owned: --root, one directory per sandbox */
    char *log_dir;                     /* owned: where logs of calls go, 0700 */
    bool network_sandbox;              /* --network=sandbox, else none */
    bool systemd_cgroup;
};

void runsc_fini(struct runsc *runsc);

/* Builds `path flags… verb rest…` as a NULL-terminated vector of owned strings; free with
 * runsc_argv_free(). Pure. */
char **runsc_argv(const struct runsc *runsc, const char *log, const char *const *verb);
void runsc_argv_free(char **argv);

struct runsc_call {
    const char *const *verb; /* {"create", "--bundle", …, NULL} */
    int fds[3];              /* -1: /dev/null */
    unsigned deadline_ms;
    bool start_mask; /* hide /proc/sys/net from this call */
};

/* err is ERR_OK when runsc exited with 0; ERR_TIMEOUT when it was killed at its deadline; else what
 * its log says (ERR_NOT_FOUND where it says that the container does not exist). */
typedef void runsc_done_fn(void *arg, const struct err *err);

/* Starts a call; fn is told of its end from the loop. Not started: the error is returned and fn is
 * not called. */
CHECKED enum err_kind runsc_start(const struct runsc *runsc, const struct runsc_call *call,
                                  runsc_done_fn *fn, void *arg, struct err *err);

/*
 * A call that is started ahead of its time and waits where it opens its log, before it has looked
 * at anything: the ten milliseconds that the program needs to get there pass while the caller is
 * busy with something else. It is ended if nobody wants it within RUNSC_HELD_MS.
 */
#define RUNSC_HELD_MS 5000U
struct runsc_held;

/* Only call->verb and fds are read here, and not kept. The result is the caller's. */
CHECKED enum err_kind runsc_hold(const struct runsc *runsc, const struct runsc_call *call,
                                 struct runsc_held **out, struct err *err);
/* Lets it go on; takes it in any case. False: it has ended, nothing was done, make the call anew.
 * Otherwise fn is told as by runsc_start(). */
CHECKED bool runsc_release(struct runsc_held *held, runsc_done_fn *fn, void *arg);
/* Ends it; fine on NULL. */
void runsc_held_free(struct runsc_held *held);

/* The same, waiting for the end: for the delete command, which has no loop. */
CHECKED enum err_kind runsc_run_waiting(const struct runsc *runsc, const struct runsc_call *call,
                                        struct err *err);

/* The message of the last line of level error in a JSON log, cut to out; false if there is none. */
bool runsc_log_error(const char *text, size_t len, char *out, size_t out_size);
