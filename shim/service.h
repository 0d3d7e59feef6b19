/*
 * The Task service, v2 and v3, over ttrpc: one row per method. The only place where messages become
 * calls and error kinds become status codes.
 */
#pragma once

#include "base/err.h"
#include "proto/ttrpc_server.h"
#include "shim/task.h"

struct service;

/* Asked to leave: no container is left (or the caller insisted), and the answer has been given. */
typedef void service_shutdown_fn(void *arg);

struct service *service_new(struct shim *shim, service_shutdown_fn *shutdown, void *arg);
void service_free(struct service *service);
DEFINE_CLEANUP(struct service, service_free, service_freep)

/* Both services, for ttrpc_server_new(); valid as long as the service. */
const struct ttrpc_service *service_tables(const struct service *service, size_t *n);
