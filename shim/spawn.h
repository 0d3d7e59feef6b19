/*
 * One way to start another program: known descriptors, known environment, nothing inherited.
 *
 * The child gets exactly the listed descriptors as 0, 1, 2, …, default signals, an empty signal
 * mask and the environment that is handed in. Everything else is closed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define SPAWN_FDS_MAX 8

struct spawn {
    const char *const *argv; /* NULL-terminated; argv[0] is an absolute path */
    const char *const *envp; /* NULL-terminated; NULL for SPAWN_ENV */
    int fds[SPAWN_FDS_MAX];  /* fds[i] becomes i; -1 is /dev/null */
    size_t n_fds;            /* at least 3 */
    const char *cwd;         /* NULL for "/" */
    bool die_with_parent;    /* SIGKILL when the shim goes */
    bool new_session;
    /* A private mount namespace with an empty tmpfs over /proc/sys/net (facts of releases before
     * 20260810 on new kernels: they take any namespace for the host's). */
    bool mask_proc_sys_net;
    /* Answers membarrier's registration with success instead of waiting for an RCU period; only
     * for releases and platforms that do not use the private command. */
    bool skip_membarrier;
};

/* PATH, HOME and LANG: all that runsc, hooks and loggers get to see. */
extern const char *const SPAWN_ENV[];

/* Forks and executes; returns when the child runs the program, or with the reason why not. */
CHECKED enum err_kind spawn(const struct spawn *what, pid_t *pid, struct err *err);
