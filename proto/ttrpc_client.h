/*
 * A ttrpc client on base/loop, for forwarding events to containerd and for tests.
 *
 * Always true: every call's callback runs exactly once, from the loop or from ttrpc_client_free(),
 * never from inside ttrpc_client_call(). Connects on the first call and again on the first call
 * after the connection broke; nothing is resent by itself. Pending calls are bounded
 * (TTRPC_CLIENT_CALLS_MAX), outgoing bytes too.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"

#define TTRPC_CLIENT_CALLS_MAX 4096

struct ttrpc_client;

struct ttrpc_result {
    /* ERR_OK: the peer answered OK. ERR_UNAVAILABLE: no connection, or it broke before the answer.
     * ERR_TIMEOUT: no answer in time. ERR_INTERNAL: the answer does not parse. For an error status
     * of the peer: its code in `code` and the kind nearest to it. */
    enum err_kind kind;
    int code;               /* gRPC status code, 0 when the peer sent none */
    const char *message;    /* one line for people; "" when OK; borrowed for the callback */
    const uint8_t *payload; /* borrowed for the callback */
    size_t payload_len;
};

typedef void ttrpc_done_fn(void *arg, const struct ttrpc_result *result);

/* `address` is a socket path, with or without "unix://"; copied. Connects later. */
CHECKED enum err_kind ttrpc_client_new(struct loop *loop, const char *address,
                                       struct ttrpc_client **out, struct err *err);
/* Pending calls end with ERR_UNAVAILABLE before this returns. */
void ttrpc_client_free(struct ttrpc_client *client);
DEFINE_CLEANUP(struct ttrpc_client, ttrpc_client_free, ttrpc_client_freep)

/* Sends a request; timeout_ms 0 waits for ever. Also what cannot even be sent (no such socket, too
 * many pending) is told by the callback. */
void ttrpc_client_call(struct ttrpc_client *client, const char *service, const char *method,
                       const ProtobufCMessage *request, uint64_t timeout_ms, ttrpc_done_fn *fn,
                       void *arg);

bool ttrpc_client_connected(const struct ttrpc_client *client);

/* The kind nearest to a gRPC status code. Pure. */
enum err_kind ttrpc_code_kind(int code);
