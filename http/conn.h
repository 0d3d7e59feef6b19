/*
 * Inside of the server: a connection and the request it carries. For http/server*.c only.
 *
 * A connection is freed when its descriptor is closed and no request of it is in the user's hands;
 * never while `depth` counts one of our own frames on the stack.
 */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "http/chunked.h"
#include "http/server.h"

#define CONN_READ_SIZE 65536
#define CONN_DRAIN_MAX 65536 /* an unread body up to this is read away to keep the connection */
#define CONN_LINGER_MS 3000
#define CONN_SLOWEST_BYTES_PER_S 4096 /* a reader slower than this over the whole answer is cut */

struct conn;

struct link { /* in a ring with a head of the same type */
    struct link *prev, *next;
};

struct listener {
    struct http_server *server;
    struct loop_watch watch;
    int fd;
    int port; /* -1: unix */
    char *path;
};

struct http_server {
    struct loop *loop;
    struct http_server_config config;
    struct listener **listeners;
    size_t n_listeners;
    struct loop_timer accept_again; /* out of descriptors: try later */
    struct link idle;               /* waiting for a head, longest first */
    struct link rest;               /* all other connections */
    struct http_server_stats stats;
    bool draining;
    struct buf scratch; /* one answer head at a time */
    time_t date_second;
    char date[48];
    char read_buffer[CONN_READ_SIZE];
};

enum conn_state {
    CONN_HEAD,   /* waits for a head or the rest of one */
    CONN_BODY,   /* reads a body for the user */
    CONN_BUSY,   /* the request is in the user's hands */
    CONN_FLUSH,  /* the answer is complete and on its way out */
    CONN_DRAIN,  /* reads the rest of a body nobody wanted */
    CONN_LINGER, /* our side is shut down; waits for the client to stop sending */
};

struct http_request {
    struct conn *conn;
    struct http_head head;
    void *arg;
    uint64_t started_ms;
    /* reading the body */
    struct buf body;
    size_t body_max;
    uint64_t body_left; /* HTTP_FRAMED_LENGTH */
    struct chunked chunked;
    http_body_fn *body_fn;
    void *body_arg;
    bool body_asked, body_done;
    /* events for the user */
    http_gone_fn *gone_fn;
    void *gone_arg;
    http_drained_fn *drained_fn;
    void *drained_arg;
    bool gone;
    /* streaming an answer */
    bool streaming, chunked_out, no_body_out;
    int64_t length_left;        /* -1: not declared */
    struct http_field fields[]; /* n_fields, then the bytes of the head */
};

struct conn {
    struct link link; /* first: a link is its connection */
    struct http_server *server;
    struct loop_watch watch;
    struct loop_timer timer;
    uint64_t deadline_ms; /* 0: none; the timer may be due earlier and then looks again */
    struct http_request *request;
    struct buf in;  /* bytes read and not yet used */
    struct buf out; /* bytes to send */
    const char *view;
    size_t view_len;
    http_sent_fn *sent_fn;
    void *sent_arg;
    uint64_t flush_limit_ms;
    uint64_t drain_left;
    char *peer_text;
    union {
        struct sockaddr_in6 in6;
        struct sockaddr_in in4;
        struct sockaddr any;
    } peer;
    int fd;
    int depth;
    enum conn_state state;
    bool view_is_in, stalled, half_closed, close_after, linger, was_partial;
};

void link_init(struct link *head);
void link_add(struct link *head, struct link *item); /* at the end */
void link_remove(struct link *item);

/* server_conn.c */
void conn_new(struct http_server *server, int fd, const struct sockaddr *peer, socklen_t len);
void conn_close(struct conn *conn); /* descriptor off; the user is told; frees where possible */
void conn_reset(struct conn *conn); /* the same by RST */
void conn_enter(struct conn *conn);
void conn_leave(struct conn *conn); /* may free it */
void conn_advance(struct conn *conn);
void conn_request_done(struct conn *conn); /* the answer is complete: release the request, go on */
void conn_deadline(struct conn *conn, uint64_t ms_from_now); /* 0: none */

/* server_body.c */
void body_pump(struct conn *conn);
void body_finish(struct conn *conn, enum http_body result);
/* How the unread rest of the body is got rid of: bytes to drain, or UINT64_MAX for "close". */
uint64_t body_unread(const struct conn *conn);

/* server_answer.c */
void conn_write(struct conn *conn, const void *a, size_t a_len, const void *b, size_t b_len);
void conn_flush(struct conn *conn);
