/*
 * How a program gives up what it does not need: user, capabilities, new privileges, core dumps, and
 * every system call that is not on its list.
 *
 * Order: open what needs rights → confine_drop() → open what the new user owns, start threads →
 * confine_filter() → serve. Each step fails closed; none can be undone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* RLIMIT_CORE 0, not dumpable, as many descriptors as the hard limit gives. */
void confine_limits(void);

/* Becomes `user` (its groups only, by /etc/passwd; NULL: stays who it is), clears every capability
 * set and sets no_new_privs, for all threads. ERR_NOT_FOUND: no such user. ERR_DENIED: not root and
 * not already that user. ERR_PRECONDITION: root would remain and root_ok is false. */
CHECKED enum err_kind confine_drop(const char *user, bool root_ok, struct err *err);

enum confine_action {
    CONFINE_ALLOW,
    CONFINE_ERRNO, /* answered with `error` instead of running */
};
enum confine_compare {
    CONFINE_ANY = 0,
    CONFINE_EQUAL,  /* argument == value */
    CONFINE_MASKED, /* (argument & mask) == value */
};

/* One row of a program's list. Several rows of one call are alternatives. */
struct confine_call {
    const char *name; /* of the system call; one that this machine does not have is skipped */
    const char *why;  /* what it is needed for */
    enum confine_action action;
    int error;
    enum confine_compare compare;
    unsigned argument; /* 0-based */
    uint64_t mask, value;
};

/* Installs the list for all threads. A call that no row names kills the process. Needs
 * confine_drop() before. */
CHECKED enum err_kind confine_filter(const struct confine_call *calls, size_t n, struct err *err);

/* Rows that every program on base/loop with threads, sockets, files and TLS needs. */
extern const struct confine_call confine_common[];
extern const size_t confine_common_n;
