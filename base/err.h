/*
 * The one error type of all programs: a kind that code acts on and a line that people read.
 *
 * A function that can fail returns `enum err_kind`, is CHECKED, and takes `struct err *err` as its
 * last parameter. ERR_OK is 0, so `if (f(&err))` reads as "if f failed". Only err_set() and
 * err_prefix() write a message. `err` may be NULL where the caller wants the kind alone.
 */
#pragma once

#include <stdarg.h>

#define CHECKED __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

enum err_kind {
    ERR_OK = 0,
    ERR_INVALID,      /* what was handed in is malformed */
    ERR_NOT_FOUND,    /* what was named does not exist */
    ERR_EXISTS,       /* what was to be made exists already */
    ERR_PRECONDITION, /* well formed, but refused in this state or by policy */
    ERR_DENIED,       /* the system or a peer forbids it */
    ERR_UNAVAILABLE,  /* a peer or a resource cannot be had now; later may work */
    ERR_TIMEOUT,      /* no answer within the limit; the outcome is unknown */
    ERR_UNSUPPORTED,  /* not offered by this program or this version of a peer */
    ERR_INTERNAL,     /* a failure of ours or of the system below */
};

/* Lives on the caller's stack. Messages longer than the field are cut, never overrun. */
struct err {
    enum err_kind kind;
    char msg[1024];
};

/* Sets kind and message, returns kind: `return err_set(err, ERR_NOT_FOUND, "task %s", id);` */
enum err_kind err_set(struct err *err, enum err_kind kind, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Like err_set() with ": <strerror(errnum)>" appended; kind is derived from errnum. */
enum err_kind err_sys(struct err *err, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "<text>: " before the message and returns the kind that err holds (ERR_INTERNAL for a NULL
 * err). */
enum err_kind err_prefix(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* "invalid", "not found", …: the kind as a word for logs. Never NULL. */
const char *err_kind_name(enum err_kind kind);

/* For a call whose failure is looked at by nobody: functions may read err->kind, so NULL will not do. */
#define ERR_IGNORED (&(struct err){ .kind = ERR_OK })
