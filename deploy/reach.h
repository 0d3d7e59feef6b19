/*
 * Which addresses answer from where the caller stands: connections begun all at once, waited for
 * together. A refusal is an answer too: someone is there.
 *
 * Sockets keep the network namespace they were made in, so that reach_begin may run inside another
 * one and reach_wait outside.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"

#define REACH_MAX 256

struct reach_target {
    struct sockaddr_storage to;
    socklen_t len;
    int fd;         /* -1: refused at once, or over */
    bool reached;   /* somebody answered, be it with a refusal */
    bool connected; /* a listener took it */
    char name[120]; /* what it is, and its address */
};

struct reach {
    struct reach_target *targets;
    size_t n;
};

void reach_init(struct reach *reach);
void reach_fini(struct reach *reach);

/* Addresses of either family, by their bytes or as text; more than REACH_MAX are left out, and so
 * is text that is no address. The pointer is good until reach_fini; NULL: left out. */
struct reach_target *reach_add_v4(struct reach *reach, const char *what, struct in_addr address,
                                  uint16_t port);
struct reach_target *reach_add_v6(struct reach *reach, const char *what,
                                  const struct in6_addr *address, uint16_t port);
struct reach_target *reach_add(struct reach *reach, const char *what, const char *address,
                               uint16_t port);
/* "a.b.c.d:port" or "[v6]:port". */
struct reach_target *reach_add_pair(struct reach *reach, const char *what, const char *text);

/* Begins every connection. Link-local addresses are tried over eth0: ERR_INTERNAL without one. */
CHECKED enum err_kind reach_begin(struct reach *reach, struct err *err);
/* Until all are decided or `ms` are over. */
void reach_wait(struct reach *reach, int ms);
