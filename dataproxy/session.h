/*
 * The socket on which gates open and end requests (proto/data_session.h): SOCK_SEQPACKET, peers by
 * uid.
 *
 * A gate's closed connection ends all requests it opened. Nothing is served while no gate is
 * connected.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "dataproxy/requests.h"

#define SESSION_PEERS_MAX 8

struct session_server;

/* Listens on `path` (mode 0666: who may speak is decided by SO_PEERCRED and the directory it lies
 * in; a stale socket file is replaced, a live one is ERR_EXISTS). Only processes of gate_uid are
 * heard. loop and requests are borrowed. */
CHECKED enum err_kind session_server_new(struct loop *loop, const char *path, int64_t gate_uid,
                                         struct requests *requests, struct session_server **out,
                                         struct err *err);
/* Ends every request of every peer. */
void session_server_free(struct session_server *server);
DEFINE_CLEANUP(struct session_server, session_server_free, session_server_freep)

size_t session_server_peers(const struct session_server *server);
