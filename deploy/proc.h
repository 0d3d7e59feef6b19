/*
 * Running a program and waiting for it: no shell, an environment of our own, no descriptor but 0,
 * 1, 2.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct proc {
    const char *const
        *argv; /* argv[0] is an absolute path, or a name looked up in the usual places */
    const char *const *env; /* further NAME=value entries, or NULL */
    const char *input;      /* given on stdin, or NULL: /dev/null */
    int timeout_ms;         /* then it is killed */
};

/* Exit status into *status (128 + signal when killed by one). stdout into out (may be NULL),
 * stderr's beginning into the error where the program could not be run; the bytes of both are
 * bounded by out->max. ERR_TIMEOUT, ERR_NOT_FOUND (no such program), ERR_INTERNAL. */
CHECKED enum err_kind proc_status(const struct proc *proc, int *status, struct buf *out,
                                  struct err *err);
/* As above, and a status other than 0 is ERR_INTERNAL with what the program said. */
CHECKED enum err_kind proc_run(const struct proc *proc, struct buf *out, struct err *err);
