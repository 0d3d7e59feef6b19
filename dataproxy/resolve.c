#include "dataproxy/resolve.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/own.h"

#define SOCKETS_MAX 32
#define QUERY_MS 2000
#define TRIES 2

/* c-ares tells which sockets it wants watched; each has a slot here while it is open. */
struct slot {
    struct loop_watch watch;
    struct resolver *resolver;
    int fd;
    bool used;
};

struct resolver {
    struct loop *loop;
    ares_channel channel;
    bool open;
    struct slot slot[SOCKETS_MAX];
    struct loop_timer timer;
};

struct resolve {
    resolve_fn *fn; /* NULL once cancelled */
    void *arg;
    struct resolve **out; /* the caller's */
};

static void arm_timer(struct resolver *resolver);

static void on_socket(struct loop_watch *watch, uint32_t events)
{
    struct slot *slot = watch->arg;
    struct resolver *resolver = slot->resolver;
    int fd = slot->fd;
    ares_process_fd(resolver->channel,
                    events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? fd : ARES_SOCKET_BAD,
                    events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
    arm_timer(resolver);
}

static void on_timer(struct loop_timer *timer)
{
    struct resolver *resolver = timer->arg;
    ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    arm_timer(resolver);
}

static void arm_timer(struct resolver *resolver)
{
    struct timeval tv;
    if (!ares_timeout(resolver->channel, NULL, &tv)) {
        loop_cancel(&resolver->timer);
        return;
    }
    uint64_t ms = (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1;
    loop_after(resolver->loop, &resolver->timer, ms, on_timer, resolver);
}

static struct slot *slot_of(struct resolver *resolver, int fd, bool make)
{
    struct slot *free_slot = NULL;
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (resolver->slot[i].used && resolver->slot[i].fd == fd)
            return &resolver->slot[i];
        if (!resolver->slot[i].used && !free_slot)
            free_slot = &resolver->slot[i];
    }
    if (make && free_slot)
        *free_slot = (struct slot){ .resolver = resolver, .fd = fd, .used = true };
    return make ? free_slot : NULL;
}

/* c-ares: the socket's wishes changed; none left means it is about to be closed. */
static void on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct resolver *resolver = arg;
    struct slot *slot = slot_of(resolver, fd, readable || writable);
    if (!slot)
        return;
    if (!readable && !writable) {
        loop_unwatch(&slot->watch);
        slot->used = false;
        return;
    }
    uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0);
    if (loop_watch(resolver->loop, &slot->watch, fd, events, on_socket, slot, NULL))
        slot->used = false; /* the look-up then ends by its own time limit */
}

enum err_kind resolver_new(struct loop *loop, const char *server, struct resolver **out,
                           struct err *err)
{
    struct resolver *resolver CLEANUP(resolver_freep) = xcalloc(1, sizeof(*resolver));
    char dns_only[] = "b";
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH, /* an upstream's name is whole; no search list completes it */
        .timeout = QUERY_MS,
        .tries = TRIES,
        .sock_state_cb = on_state,
        .sock_state_cb_data = resolver,
        .lookups = dns_only,
    };
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
    if (server)
        mask |= ARES_OPT_LOOKUPS;
    resolver->loop = loop;
    int status = ares_library_init(ARES_LIB_INIT_ALL);
    if (status == ARES_SUCCESS)
        status = ares_init_options(&resolver->channel, &options, mask);
    if (status != ARES_SUCCESS)
        return err_set(err, ERR_INTERNAL, "resolver: %s", ares_strerror(status));
    resolver->open = true;
    if (server && ares_set_servers_ports_csv(resolver->channel, server) != ARES_SUCCESS)
        return err_set(err, ERR_INVALID, "resolver \"%s\" must be ADDRESS:PORT", server);
    *out = STEAL(resolver);
    return ERR_OK;
}

void resolver_free(struct resolver *resolver)
{
    if (!resolver)
        return;
    loop_cancel(&resolver->timer);
    if (resolver->open)
        ares_destroy(resolver->channel); /* look-ups end with ARES_EDESTRUCTION */
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        loop_unwatch(&resolver->slot[i].watch);
    free(resolver);
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *answer)
{
    (void)timeouts;
    struct resolve *resolve = arg;
    struct sockaddr_storage addresses[RESOLVE_ADDRESSES_MAX] = { 0 };
    size_t n = 0;
    const struct ares_addrinfo_node *node = answer ? answer->nodes : NULL;
    for (; node && n < RESOLVE_ADDRESSES_MAX; node = node->ai_next) {
        if (node->ai_addrlen <= sizeof(addresses[n]))
            memcpy(&addresses[n++], node->ai_addr, node->ai_addrlen);
    }
    if (answer)
        ares_freeaddrinfo(answer);
    if (resolve->fn)
        *resolve->out = NULL;
    if (resolve->fn && status != ARES_EDESTRUCTION)
        resolve->fn(resolve->arg, addresses, n, n ? NULL : ares_strerror(status));
    free(resolve);
}

static bool literal(const char *host, struct sockaddr_storage *out)
{
    struct sockaddr_in in = { .sin_family = AF_INET };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
    char inner[64];
    size_t n = strlen(host);
    if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
        memcpy(out, &in, sizeof(in));
        return true;
    }
    if (host[0] != '[' || n < 3 || n > sizeof(inner))
        return false;
    memcpy(inner, host + 1, n - 2);
    inner[n - 2] = 0;
    if (inet_pton(AF_INET6, inner, &in6.sin6_addr) != 1)
        return false;
    memcpy(out, &in6, sizeof(in6));
    return true;
}

void resolver_lookup(struct resolver *resolver, const char *host, resolve_fn *fn, void *arg,
                     struct resolve **out)
{
    struct sockaddr_storage address = { 0 };
    *out = NULL;
    if (literal(host, &address)) {
        fn(arg, &address, 1, NULL);
        return;
    }
    struct resolve *resolve = xcalloc(1, sizeof(*resolve));
    *resolve = (struct resolve){ .fn = fn, .arg = arg, .out = out };
    const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
                                               .ai_socktype = SOCK_STREAM,
                                               .ai_flags = ARES_AI_ADDRCONFIG };
    *out = resolve;
    ares_getaddrinfo(resolver->channel, host, NULL, &hints, on_answer, resolve);
    arm_timer(resolver);
}

void resolve_cancel(struct resolve *resolve)
{
    if (!resolve)
        return;
    *resolve->out = NULL;
    resolve->fn = NULL;
}
