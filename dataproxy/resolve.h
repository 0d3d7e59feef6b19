/*
 * Names to one address, by c-ares on the event loop. The caller judges the address and connects to
 * exactly that one: nothing resolves the name a second time.
 */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/loop.h"

#define RESOLVE_ADDRESSES_MAX 16

struct resolver;
struct resolve;

/* `server` "127.0.0.1:53" is asked instead of the system's resolvers and hosts file; NULL:
 * system's. */
CHECKED enum err_kind resolver_new(struct loop *loop, const char *server, struct resolver **out,
                                   struct err *err);
void resolver_free(struct resolver *resolver); /* pending look-ups end without their callback */
DEFINE_CLEANUP(struct resolver, resolver_free, resolver_freep)

/* n is 0 when the name does not resolve; `why` then says so. Addresses are in the order to try. */
typedef void resolve_fn(void *arg, const struct sockaddr_storage *addresses, size_t n,
                        const char *why);

/* Looks a DNS name or an address literal up. fn is called once, perhaps before this returns. *out,
 * which must live as long as the look-up, names it while it is pending and is NULL afterwards. */
void resolver_lookup(struct resolver *resolver, const char *host, resolve_fn *fn, void *arg,
                     struct resolve **out);
/* The callback will not come. Fine with NULL. */
void resolve_cancel(struct resolve *resolve);
