/*
 * How the gate shows itself to its facilitator: a bearer token from a directory, or CDP's JWT made
 * here for each call.
 *
 * The directory is opened before rights are dropped and read again by name whenever the file in it
 * changed, so a rename into it is seen. Tokens live in locked, wiped memory and are never logged.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "gate/config.h"

enum auth_op { AUTH_VERIFY, AUTH_SETTLE, AUTH_SUPPORTED };

struct auth;

/* Opens the directory or key file that the configuration names. ERR_PRECONDITION: modes or owner
 * (a token readable by group or others, or of
 * an account that is neither root nor the one we run as or drop to); ERR_NOT_FOUND; ERR_INVALID:
 * not a key or token. */
CHECKED enum err_kind auth_open(const struct facilitator_config *f, struct auth **out,
                                struct err *err);
void auth_close(struct auth *a);
DEFINE_CLEANUP(struct auth, auth_close, auth_closep)

/* Appends the header lines' values for one call: `authorization` gets "Bearer …" or stays empty,
 * `correlation` the Correlation-Context value or stays empty. host is "name" or "name:port" of the
 * facilitator URL, path its path for this call. now: wall clock, seconds. Wipe both buffers after
 * use (buf_wipe). */
CHECKED enum err_kind auth_headers(struct auth *a, enum auth_op op, const char *method,
                                   const char *host, const char *path, int64_t now,
                                   struct buf *authorization, struct buf *correlation,
                                   struct err *err);
