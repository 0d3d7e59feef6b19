/*
 * The event loop: one thread, level-triggered epoll, timers on CLOCK_BOOTTIME, signals as events.
 *
 * Watches and timers are embedded in their owner. A callback may add, change or remove any watch
 * or timer, itself included, and may free its owner after removing them. The loop never frees
 * anything of its users.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/signalfd.h>

#include "base/err.h"
#include "base/own.h"

struct loop;
struct loop_watch;
struct loop_timer;
struct loop_hook;

/* `events` are EPOLLIN, EPOLLOUT, … as epoll reported them. */
typedef void loop_watch_fn(struct loop_watch *watch, uint32_t events);
typedef void loop_timer_fn(struct loop_timer *timer);
typedef void loop_hook_fn(struct loop_hook *hook);
typedef void loop_signal_fn(void *arg, const struct signalfd_siginfo *info);

struct loop_watch {
    loop_watch_fn *fn;
    void *arg; /* the owner's; the loop does not touch it */
    int fd;    /* borrowed; -1 while not watched */
    uint32_t events;
    struct loop *loop;
};

struct loop_timer {
    loop_timer_fn *fn;
    void *arg;
    uint64_t due_ms;   /* loop_now_ms() time */
    size_t heap_index; /* 0 while not armed (the heap is 1-based) */
    struct loop *loop;
};

struct loop_hook {
    loop_hook_fn *fn;
    void *arg;
    struct loop_hook *next;
    struct loop *loop; /* NULL while not added */
};

CHECKED enum err_kind loop_new(struct loop **out, struct err *err);
void loop_free(struct loop *loop);
DEFINE_CLEANUP(struct loop, loop_free, loop_freep)

/* Milliseconds of CLOCK_BOOTTIME as read at the start of this turn. */
uint64_t loop_now_ms(const struct loop *loop);

/* Adds a watch, or changes events and callback of one that is there. Remove it before its fd is
 * closed. */
CHECKED enum err_kind loop_watch(struct loop *loop, struct loop_watch *watch, int fd,
                                 uint32_t events, loop_watch_fn *fn, void *arg, struct err *err);
void loop_unwatch(struct loop_watch *watch); /* fine on one that is not watched (zeroed or fd -1) */

/* Arms (or re-arms) a one-shot timer. */
void loop_after(struct loop *loop, struct loop_timer *timer, uint64_t ms, loop_timer_fn *fn,
                void *arg);
void loop_cancel(struct loop_timer *timer); /* fine on one that is not armed */

/* Blocks the signals of `set` for the process and delivers each by `fn`. Call once. */
CHECKED enum err_kind loop_signals(struct loop *loop, const sigset_t *set, loop_signal_fn *fn,
                                   void *arg, struct err *err);

/* Calls fn each time before the loop waits, and once more when loop_run() ends: what a turn
 * gathered goes out then. In the order in which they were added. */
void loop_before_wait(struct loop *loop, struct loop_hook *hook, loop_hook_fn *fn, void *arg);
void loop_unhook(struct loop_hook *hook); /* fine on one that is not there (zeroed) */

/* Runs until loop_stop(). */
CHECKED enum err_kind loop_run(struct loop *loop, struct err *err);
void loop_stop(struct loop *loop);
