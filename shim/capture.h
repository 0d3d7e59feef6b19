/*
 * Runs a short-lived program and takes what it prints: with a deadline and an output cap, after
 * which its whole process group is killed. Blocks; for probes at start only.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct capture {
    const char *const *argv; /* argv[0] is an absolute path */
    unsigned deadline_ms;
    size_t cap; /* bytes of stdout and stderr together */
};

/* Both streams into `out` (initialised here, the caller's buf_fini(), also on failure) and the exit
 * code, or 128 + signal. Environment: PATH and HOME only. ERR_TIMEOUT, ERR_INVALID (cap), or what
 * kept it from being run. */
CHECKED enum err_kind capture_run(const struct capture *what, struct buf *out, int *code,
                                  struct err *err);
