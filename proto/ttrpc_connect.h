/* Reaching a ttrpc server's socket. Private to proto/. */
#pragma once

#include "base/err.h"

/* "unix:///path" or "/path" to a fresh path; ERR_INVALID for anything else or over 107 bytes. */
CHECKED enum err_kind ttrpc_socket_path(const char *address, char **out, struct err *err);

/* A connected stream socket (close-on-exec; `flags` 0 or SOCK_NONBLOCK), the caller's. */
CHECKED enum err_kind ttrpc_connect(const char *path, int flags, int *fd, struct err *err);
