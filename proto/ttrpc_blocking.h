/*
 * A ttrpc client that blocks: one connection, one call at a time. For tests, benches and tools that
 * have no loop; the shim itself never uses it.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ttrpc_blocking {
    int fd; /* -1 while closed */
    uint32_t next_stream;
};

/* `address`: a socket path, with or without "unix://". */
CHECKED enum err_kind ttrpc_blocking_open(const char *address, struct ttrpc_blocking *out,
                                          struct err *err);
void ttrpc_blocking_close(struct ttrpc_blocking *client);

/* Calls and waits at most timeout_ms (0: for ever). On success *response is a fresh message of
 * `type` for protobuf_c_message_free_unpacked(); pass type NULL to ignore the payload. An error
 * status becomes its nearest kind with the peer's message, and *code (may be NULL) its number.
 * After ERR_TIMEOUT or ERR_UNAVAILABLE the connection is only good for closing. */
CHECKED enum err_kind ttrpc_blocking_call(struct ttrpc_blocking *client, const char *service,
                                          const char *method, const ProtobufCMessage *request,
                                          uint64_t timeout_ms,
                                          const ProtobufCMessageDescriptor *type,
                                          ProtobufCMessage **response, int *code, struct err *err);
