/*
 * A ttrpc server on base/loop: many connections, unary calls, answers in any order and at any time.
 *
 * Always true: a call is answered at most once, and every call that a handler got must be answered
 * (ttrpc_reply*), even when its connection is long gone: the call is a token that outlives the
 * connection, and answering it then only frees it. Only peers with our own effective uid and gid
 * are served (SO_PEERCRED). What a connection can make us hold is bounded: one frame coming in,
 * TTRPC_CALLS_MAX calls pending, TTRPC_OUT_MAX bytes going out; a peer that lets its answers pile
 * up beyond that is disconnected.
 *
 * Answered here, without a handler: unknown service or method (12), a request that does not parse
 * (3), an even or non-increasing stream id (3), a frame over 4 MiB (8, its bytes skipped), Data on
 * an unknown stream (3), a request that wants streaming (12); unknown frame types are ignored, and
 * a first length byte other than 0 (HTTP, TLS, noise) closes the connection.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"

#define TTRPC_CALLS_MAX 1024
#define TTRPC_OUT_MAX (16u * 1024 * 1024)
#define TTRPC_CONNECTIONS_MAX 256

/* gRPC status codes. */
enum ttrpc_code {
    TTRPC_OK = 0,
    TTRPC_CANCELED = 1,
    TTRPC_UNKNOWN = 2,
    TTRPC_INVALID_ARGUMENT = 3,
    TTRPC_DEADLINE_EXCEEDED = 4,
    TTRPC_NOT_FOUND = 5,
    TTRPC_ALREADY_EXISTS = 6,
    TTRPC_PERMISSION_DENIED = 7,
    TTRPC_RESOURCE_EXHAUSTED = 8,
    TTRPC_FAILED_PRECONDITION = 9,
    TTRPC_ABORTED = 10,
    TTRPC_OUT_OF_RANGE = 11,
    TTRPC_UNIMPLEMENTED = 12,
    TTRPC_INTERNAL = 13,
    TTRPC_UNAVAILABLE = 14,
};

struct ttrpc_server;
struct ttrpc_call;
struct ttrpc_method;

/* `message` is the decoded request, owned by the call and valid until it is answered; `arg` is the
 * service's. The handler answers `call` now or later. */
typedef void ttrpc_method_fn(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message);

struct ttrpc_method {
    const char *name;                          /* "Create" */
    const ProtobufCMessageDescriptor *request; /* what the payload is unpacked as; else code 13 */
    ttrpc_method_fn *fn;
    bool lasting; /* may stay unanswered for ever (Wait): gets at most half of TTRPC_CALLS_MAX */
};

/* One row per service name; the same table may stand under several names (task v2 and v3). */
struct ttrpc_service {
    const char *name; /* "containerd.task.v2.Task" */
    const struct ttrpc_method *methods;
    size_t n_methods;
    void *arg;
};

struct ttrpc_server_options {
    const struct ttrpc_service *services; /* borrowed, as are the tables in it */
    size_t n_services;
    /* Called after the number of connections changed; may be NULL. May not free the server. */
    void (*on_connections)(void *arg, size_t n);
    void *arg;
};

/* Serves a listening AF_UNIX stream socket. The fd is taken also on failure. */
CHECKED enum err_kind ttrpc_server_new(struct loop *loop, int take_listen_fd,
                                       const struct ttrpc_server_options *options,
                                       struct ttrpc_server **out, struct err *err);

/* Closes everything. Calls not yet answered stay valid for ttrpc_reply*() as dead tokens. */
void ttrpc_server_free(struct ttrpc_server *server);
DEFINE_CLEANUP(struct ttrpc_server, ttrpc_server_free, ttrpc_server_freep)

size_t ttrpc_server_connections(const struct ttrpc_server *server);

/* Stops accepting and calls `fn` once all answers given so far are in the kernel's hands, or after
 * `ms` milliseconds: for replying to Shutdown and then leaving. `fn` may free the server. */
void ttrpc_server_drain(struct ttrpc_server *server, uint64_t ms, void (*fn)(void *arg), void *arg);

/* What the call was: borrowed until it is answered. */
const char *ttrpc_call_service(const struct ttrpc_call *call);
const char *ttrpc_call_method(const struct ttrpc_call *call);
/* The client's limit in milliseconds, 0 for none. There is no cancel in ttrpc: after it the answer
 * is sent all the same and the client drops it. */
uint64_t ttrpc_call_timeout_ms(const struct ttrpc_call *call);
/* False once the peer that made the call is gone. */
bool ttrpc_call_connected(const struct ttrpc_call *call);

/* Each answers and frees the call. */
void ttrpc_reply(struct ttrpc_call *call, const ProtobufCMessage *message);
void ttrpc_reply_bytes(struct ttrpc_call *call, const void *payload, size_t len);
void ttrpc_reply_empty(struct ttrpc_call *call); /* google.protobuf.Empty: an empty payload */
void ttrpc_reply_error(struct ttrpc_call *call, enum ttrpc_code code, const char *message);
