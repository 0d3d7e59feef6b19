/*
 * What a caller wrote as stdin, stdout or stderr, taken apart. Pure.
 *
 * "" is none; a plain absolute path or fifo://PATH is a FIFO; file://PATH a log file;
 * binary://PATH?k=v a logging program. Everything else, relative paths, control bytes and
 * percent-escapes of NUL included, is ERR_INVALID.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/own.h"

#define STREAM_URI_MAX 4096
#define STREAM_ARGS_MAX 16

enum stream_kind {
    STREAM_NONE,
    STREAM_FIFO,
    STREAM_FILE,
    STREAM_BINARY,
};

struct stream_uri {
    enum stream_kind kind;
    char *path;                      /* owned; NULL for STREAM_NONE */
    char *args[STREAM_ARGS_MAX + 1]; /* owned; k, v, k, v … for STREAM_BINARY; NULL-terminated */
    size_t n_args;
};

/* `which` is "stdin", "stdout" or "stderr", for the message. */
CHECKED enum err_kind stream_uri_parse(const char *text, const char *which, struct stream_uri *out,
                                       struct err *err);
void stream_uri_fini(struct stream_uri *uri);
#define CLEANUP_STREAM_URI CLEANUP(stream_uri_fini)
