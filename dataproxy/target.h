/*
 * From a handler's request head to upstream, path and token: the two ways to ask.
 *
 *   GET /<upstream>/path  with Host: data            token in Utter-Data-Token
 *   GET http://host/path  as to any HTTP proxy       token there, or in Proxy-Authorization
 * (Bearer, or Basic's password)
 *
 * Pure.
 */
#pragma once

#include "base/err.h"
#include "dataproxy/config.h"
#include "http/message.h"

struct target {
    const struct upstream *upstream;
    char *path;  /* owned; relative to the upstream, held to upstream_path_valid() */
    char *query; /* owned; NULL: none */
};

void target_fini(struct target *target);

/* ERR_UNSUPPORTED: a method that no upstream can have (CONNECT, TRACE, OPTIONS …), for 405.
 * ERR_INVALID for 400, ERR_NOT_FOUND for 404. The line tells the handler's author what to write
 * instead. */
CHECKED enum err_kind target_read(const struct config *config, const struct http_head *head,
                                  struct target *out, struct err *err);

/* The token's text, the caller's. ERR_DENIED when there is none, more than one, or two that differ.
 */
CHECKED enum err_kind target_token(const struct http_head *head, char **out, struct err *err);
