#include "deploy/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

void reach_init(struct reach *reach)
{
    *reach = (struct reach){ .targets = xcalloc(REACH_MAX, sizeof(struct reach_target)) };
}

void reach_fini(struct reach *reach)
{
    for (size_t i = 0; i < reach->n; i++)
        own_close_(&reach->targets[i].fd);
    free(reach->targets);
    *reach = (struct reach){ 0 };
}

static struct reach_target *target_new(struct reach *reach)
{
    if (reach->n == REACH_MAX)
        return NULL;
    struct reach_target *t = &reach->targets[reach->n++];
    *t = (struct reach_target){ .fd = -1 };
    return t;
}

struct reach_target *reach_add_v4(struct reach *reach, const char *what, struct in_addr address,
                                  uint16_t port)
{
    struct reach_target *t = target_new(reach);
    if (!t)
        return NULL;
    char text[INET_ADDRSTRLEN] = "";
    struct sockaddr_in *to = (struct sockaddr_in *)&t->to;
    *to =
        (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = address };
    t->len = sizeof(*to);
    (void)inet_ntop(AF_INET, &address, text, sizeof(text));
    (void)snprintf(t->name, sizeof(t->name), "%s%s%s:%u", what, *what ? " " : "", text, port);
    return t;
}

struct reach_target *reach_add_v6(struct reach *reach, const char *what,
                                  const struct in6_addr *address, uint16_t port)
{
    struct reach_target *t = target_new(reach);
    if (!t)
        return NULL;
    char text[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)&t->to;
    *to = (struct sockaddr_in6){ .sin6_family = AF_INET6,
                                 .sin6_port = htons(port),
                                 .sin6_addr = *address };
    t->len = sizeof(*to);
    (void)inet_ntop(AF_INET6, address, text, sizeof(text));
    (void)snprintf(t->name, sizeof(t->name), "%s%s[%s]:%u", what, *what ? " " : "", text, port);
    return t;
}

struct reach_target *reach_add(struct reach *reach, const char *what, const char *address,
                               uint16_t port)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        return reach_add_v4(reach, what, v4, port);
    if (inet_pton(AF_INET6, address, &v6) == 1)
        return reach_add_v6(reach, what, &v6, port);
    return NULL;
}

struct reach_target *reach_add_pair(struct reach *reach, const char *what, const char *text)
{
    char address[64];
    const char *colon = strrchr(text, ':');
    bool bracket = text[0] == '[' && colon && colon > text && colon[-1] == ']';
    const char *from = text + bracket;
    uint64_t port;
    if (!colon || !text_u64(colon + 1, &port) || port > 65535)
        return NULL;
    size_t n = (size_t)(colon - from) - bracket;
    if (n >= sizeof(address))
        return NULL;
    memcpy(address, from, n);
    address[n] = '\0';
    return reach_add(reach, what, address, (uint16_t)port);
}

enum err_kind reach_begin(struct reach *reach, struct err *err)
{
    unsigned scope = if_nametoindex("eth0");
    if (scope == 0)
        return err_set(err, ERR_INTERNAL, "the namespace has no eth0");
    for (size_t i = 0; i < reach->n; i++) {
        struct reach_target *t = &reach->targets[i];
        t->fd = socket(t->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (t->fd < 0)
            continue;
        if (t->to.ss_family == AF_INET6) {
            struct sockaddr_in6 *to = (struct sockaddr_in6 *)&t->to;
            if (IN6_IS_ADDR_LINKLOCAL(&to->sin6_addr))
                to->sin6_scope_id = scope;
        }
        int rc = connect(t->fd, (struct sockaddr *)&t->to, t->len);
        t->connected = rc == 0;
        t->reached = rc == 0 || errno == ECONNREFUSED;
        if (rc != 0 && errno != EINPROGRESS)
            own_close_(&t->fd);
    }
    return ERR_OK;
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void note_end(struct reach_target *t)
{
    int why = 0;
    socklen_t len = sizeof(why);
    (void)getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &why, &len);
    t->connected = why == 0;
    t->reached = why == 0 || why == ECONNREFUSED;
    own_close_(&t->fd);
}

void reach_wait(struct reach *reach, int ms)
{
    int64_t until = now_ms() + ms;
    for (;;) {
        struct pollfd fds[REACH_MAX];
        size_t index[REACH_MAX], n = 0;
        for (size_t i = 0; i < reach->n; i++) {
            if (reach->targets[i].fd < 0 || reach->targets[i].reached)
                continue;
            fds[n] = (struct pollfd){ .fd = reach->targets[i].fd, .events = POLLOUT };
            index[n++] = i;
        }
        int64_t left = until - now_ms();
        if (n == 0 || left <= 0 || poll(fds, (nfds_t)n, (int)left) <= 0)
            return;
        for (size_t i = 0; i < n; i++) {
            if (fds[i].revents)
                note_end(&reach->targets[index[i]]);
        }
    }
}
