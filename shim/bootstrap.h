/*
 * How containerd calls the shim: argument vector, environment and standard input, for every
 * containerd from 1.6 to 2.x. Pure: bytes and strings in, a struct out.
 *
 * Standard input is a google.protobuf.Any (up to 2.2, only with runtime options) or BootstrapParams
 * (from 2.3, always). Each parses as the other, so it is BootstrapParams exactly if its id and
 * namespace are those of the command line. Runtime options are read by nobody: what an API caller
 * can name must not change how runsc runs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BOOTSTRAP_STDIN_MAX (10U * 1024 * 1024)
#define BOOTSTRAP_SOCKET_DIR_MAX 42

enum bootstrap_action {
    BOOTSTRAP_NONE,
    BOOTSTRAP_START,
    BOOTSTRAP_DELETE,
    BOOTSTRAP_VERSION, /* -v, -version */
    BOOTSTRAP_INFO,    /* -info */
    BOOTSTRAP_HELP,
};

struct bootstrap {
    enum bootstrap_action action;
    const char *ns; /* these borrow from argv and environment */
    const char *id;
    const char *address; /* containerd's gRPC socket */
    const char *publish_binary;
    const char *bundle; /* NULL: the working directory */
    const char *ttrpc_address;
    bool debug;
    char socket_dir[BOOTSTRAP_SOCKET_DIR_MAX + 1]; /* "" unless BootstrapParams names one */
    char params_ttrpc[256];                        /* the same */
};

/* Go's flag syntax: -x v, -x=v, --x. The action is the first word that is no flag. ERR_INVALID says
 * which argument is wrong. An id or namespace that is not a containerd identifier (letters, digits,
 * . _ -, at most 76 bytes, no separator at an end) is refused where it is needed. */
CHECKED enum err_kind bootstrap_args(int argc, const char *const *argv, struct bootstrap *out,
                                     struct err *err);

/* What came on standard input, judged against the command line. Garbage is no error: it is options
 * that nobody reads. */
void bootstrap_stdin(const uint8_t *data, size_t len, struct bootstrap *boot);

/* containerd's identifier rule. */
bool bootstrap_identifier(const char *s);
