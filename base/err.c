#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {
    [ERR_OK] = "ok",
    [ERR_INVALID] = "invalid",
    [ERR_NOT_FOUND] = "not found",
    [ERR_EXISTS] = "exists",
    [ERR_PRECONDITION] = "refused",
    [ERR_DENIED] = "denied",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_TIMEOUT] = "timeout",
    [ERR_UNSUPPORTED] = "unsupported",
    [ERR_INTERNAL] = "internal",
};

const char *err_kind_name(enum err_kind kind)
{
    return kind_names[kind];
}

enum err_kind err_set(struct err *err, enum err_kind kind, const char *fmt, ...)
{
    if (!err)
        return kind;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    err->kind = kind;
    return kind;
}

static enum err_kind kind_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ESRCH:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
        return ERR_DENIED;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EPIPE:
        return ERR_UNAVAILABLE;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR:
        return ERR_INVALID;
    case ENOSYS:
    case EOPNOTSUPP:
        return ERR_UNSUPPORTED;
    default:
        return ERR_INTERNAL;
    }
}

enum err_kind err_sys(struct err *err, int errnum, const char *fmt, ...)
{
    enum err_kind kind = kind_of_errno(errnum);
    if (!err)
        return kind;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(err->msg))
        (void)snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", strerror(errnum));
    err->kind = kind;
    return kind;
}

enum err_kind err_prefix(struct err *err, const char *fmt, ...)
{
    if (!err)
        return ERR_INTERNAL;
    char old[sizeof(err->msg)];
    memcpy(old, err->msg, sizeof(old));
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(err->msg))
        (void)snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", old);
    return err->kind;
}
