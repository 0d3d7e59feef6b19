/*
 * Who waits for which child process.
 *
 * The shim is a subreaper: what runsc leaves behind (sandbox, gofer, stubs) becomes its child.
 * Every child is reaped at once, known or not, since an unreaped zombie makes runsc say "running"
 * and its delete fail. Records are embedded in their owners.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct child;

/* `wstatus` is a wait status. The record is already off the list and may be freed or reused. */
typedef void child_exit_fn(struct child *child, int wstatus);

struct child {
    pid_t pid; /* 0 while not watched */
    child_exit_fn *fn;
    void *arg; /* the owner's */
    struct child *next;
    struct child **link;
};

struct children {
    struct child *first;
};

void children_watch(struct children *all, struct child *child, pid_t pid, child_exit_fn *fn,
                    void *arg);
void children_unwatch(struct child *child); /* fine on one that is not watched */

/* Reaps every child that has exited. Children that were collected in one go are told of in the
 * order that the kernel gave them. */
void children_reap(struct children *all);

/* The status as containerd wants it: the exit code, or 128 + the signal. */
unsigned children_exit_code(int wstatus);
