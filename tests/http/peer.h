/* A server of ours in a child process, and blocking raw sockets to talk to it. */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline int peer_connect(int port)
{
    struct sockaddr_in sa = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

static inline void peer_send(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

/* Reads until `want` appears, the peer closes or `ms` pass. Returns what came, terminated. *closed
 * says whether the end was seen. */
static inline size_t peer_read(int fd, char *out, size_t size, const char *want, int ms,
                               bool *closed)
{
    size_t len = 0;
    out[0] = '\0';
    *closed = false;
    while (len + 1 < size) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (want && strstr(out, want))
            return len;
        if (poll(&p, 1, ms) <= 0)
            return len;
        ssize_t n = recv(fd, out + len, size - len - 1, 0);
        if (n <= 0) {
            *closed = true;
            return len;
        }
        len += (size_t)n;
        out[len] = '\0';
    }
    return len;
}

/* One connection, one exchange: sends, reads to the end or 2 s of silence. */
static inline bool peer_exchange(int port, const char *bytes, size_t len, char *out, size_t size)
{
    bool closed;
    int fd = peer_connect(port);
    peer_send(fd, bytes, len);
    peer_read(fd, out, size, NULL, 300, &closed);
    close(fd);
    return closed;
}

static inline int64_t peer_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
