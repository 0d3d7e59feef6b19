/*
 * HTTP/1.1 server on base/loop: one thread, keep-alive, pipelining in order, strict heads
 * (http/message.h), bounded bodies, a deadline on everything a peer can be slow at.
 *
 * Always true: a request handed to `on_request` is ended exactly once by its user (http_answer, or
 * http_answer_begin … http_answer_end or http_answer_reset), also after its client left; until
 * then the request and everything read from it stay valid. A connection carries one request at a
 * time: the next head is parsed after the answer went out. What was wrong with a head or a body's
 * framing is answered by the server itself and the connection closed; such requests are never
 * seen by the user. A slow or dead peer holds its own connection only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "http/message.h"

struct http_server;
struct http_request;

/* A complete, valid head. The body, if any, has not been read. */
typedef void http_request_fn(void *arg, struct http_request *request);
/* A head or body that the server refused by itself (metrics, logs). Peer as http_request_peer(). */
typedef void http_refused_fn(void *arg, const char *peer, struct http_fault fault);

struct http_server_config {
    /* zero takes the default in brackets */
    uint32_t header_ms;     /* first byte of a head to its end [5000] */
    uint32_t body_ms;       /* whole body [15000] */
    uint32_t write_ms;      /* no byte taken by the client for this long: closed [15000] */
    uint32_t idle_ms;       /* between requests [75000] */
    size_t max_connections; /* [20000]; at the cap the longest idle one (or the oldest with an
                               incomplete head) makes room, else the newcomer is closed */
    bool reuse_port;        /* SO_REUSEPORT: a standby can listen beside this one, and gets its
                               connections once this one has stopped listening */
    bool allow_connect;     /* hand CONNECT and TRACE to on_request; else 405 by the server */
    /* required */
    http_request_fn *on_request;
    http_refused_fn *on_refused; /* may be NULL */
    void *arg;
};

/* Config is copied. The loop is borrowed and must outlive the server. */
CHECKED enum err_kind http_server_new(struct loop *loop, const struct http_server_config *config,
                                      struct http_server **out, struct err *err);
/* Closes listeners and connections. Requests in the users' hands are gone with it: end them first.
 */
void http_server_free(struct http_server *server);
DEFINE_CLEANUP(struct http_server, http_server_free, http_server_freep)

/* Listens on "127.0.0.1:8402", "[::1]:8402", "0.0.0.0:0" (any port) or "unix:/path" (mode 0660; a
 * stale socket file is replaced, a live one is ERR_EXISTS). May be called several times. */
CHECKED enum err_kind http_server_listen(struct http_server *server, const char *address,
                                         struct err *err);
/* The port of the n-th listener (for ":0"); -1 for unix or none. */
int http_server_port(const struct http_server *server, size_t n);
/* Listeners off; connections live on. */
void http_server_stop_listening(struct http_server *server);
/* From now on every answer closes its connection; idle connections are closed at once. Listeners
 * stay. */
void http_server_drain(struct http_server *server);
/* Changes the deadlines and caps for what starts from now on (reload). Callbacks stay. */
void http_server_reconfigure(struct http_server *server, const struct http_server_config *config);

struct http_server_stats {
    size_t connections; /* open now */
    size_t active;      /* with a request in the user's hands */
    uint64_t accepted;  /* since start */
    uint64_t rejected;  /* over max_connections */
    uint64_t requests;  /* handed to on_request */
    uint64_t refused;   /* refused by the server */
    uint64_t timeouts;  /* closed by a deadline */
    uint64_t bytes_out;
};
void http_server_stats(const struct http_server *server, struct http_server_stats *out);

/* ---- a request ---- */

const struct http_head *http_request_head(const struct http_request *request);
/* "192.0.2.1:4711", "[2001:db8::1]:4711" or "unix"; valid as long as the request. */
const char *http_request_peer(const struct http_request *request);
/* The peer's address alone ("192.0.2.1"), for limits and X-Forwarded-For; "" for unix. */
#define HTTP_ADDRESS_MAX 46
void http_request_peer_address(const struct http_request *request, char out[HTTP_ADDRESS_MAX]);
/* Uid of the peer process on a unix listener; -1 otherwise. */
int64_t http_request_peer_uid(const struct http_request *request);
/* Milliseconds of CLOCK_BOOTTIME when the head was complete. */
uint64_t http_request_started_ms(const struct http_request *request);
/* The user's own pointer; NULL until set. */
void http_request_set_arg(struct http_request *request, void *arg);
void *http_request_arg(const struct http_request *request);

enum http_body {
    HTTP_BODY_OK,        /* data/len is the whole body (len 0 where there is none) */
    HTTP_BODY_TOO_LARGE, /* beyond max, by Content-Length or while reading: answer 413 */
    HTTP_BODY_TIMEOUT,   /* body_ms passed: answer 408 */
    HTTP_BODY_BAD,       /* chunked framing broken: answer 400 */
    HTTP_BODY_GONE,      /* the client left; still end the request (nothing will be sent) */
};
typedef void http_body_fn(struct http_request *request, enum http_body result, const void *data,
                          size_t len, void *arg);

/* Reads the body up to `max` bytes and calls fn once, before returning where everything is here
 * already. Sends 100 Continue when it was asked for and the length is within max. At most once per
 * request. data belongs to the request and stays until it is ended. After any result but
 * HTTP_BODY_OK the connection closes once the request is answered. A request that is answered
 * without reading its body keeps its connection only if the rest is at most 64 KiB and known. */
void http_request_read_body(struct http_request *request, size_t max, http_body_fn *fn, void *arg);
/* Frees a body that was read and is not needed while the request waits on: `data` is gone. */
void http_request_drop_body(struct http_request *request);

/* Calls fn once when the client closes or resets its side while the request is in the user's
 * hands. Half-closing counts: an answer is still sent as far as the socket takes it. NULL disarms.
 */
typedef void http_gone_fn(struct http_request *request, void *arg);
void http_request_on_gone(struct http_request *request, http_gone_fn *fn, void *arg);
bool http_request_gone(const struct http_request *request);

/* ---- answering ---- */

/* Called once when the answer was handed to the kernel completely (sent true) or could not be
 * (client gone, write deadline). The request does not exist any more. */
typedef void http_sent_fn(void *arg, bool sent);

struct http_answer {
    int status;                        /* 200..599 */
    const struct http_header *headers; /* without Date, Content-Length, Connection,
                                          Transfer-Encoding: the server's own */
    size_t n_headers;
    const void *body; /* borrowed for the call; not sent to HEAD, nor with 204 and 304 */
    size_t body_len;
    bool close;         /* close the connection afterwards */
    http_sent_fn *sent; /* may be NULL */
    void *sent_arg;
};

/* Sends a whole answer and ends the request. Never fails: a client that is gone is not told. */
void http_answer(struct http_request *request, const struct http_answer *answer);
/* A fixed text/plain answer "<text>\n" with Cache-Control: no-store; for refusals. */
void http_answer_text(struct http_request *request, int status, const char *text);

/* Streaming: head now, body in pieces. content_length -1: chunked (close-delimited on HTTP/1.0).
 * A declared length must be met exactly before http_answer_end(), else the connection is reset. */
void http_answer_begin(struct http_request *request, int status, const struct http_header *headers,
                       size_t n_headers, int64_t content_length);
/* Queues a piece (copied where the socket does not take it at once). */
void http_answer_write(struct http_request *request, const void *data, size_t len);
/* Bytes queued and not yet taken by the socket: the sign to pause the source. */
size_t http_answer_pending(const struct http_request *request);
/* Calls fn whenever the queue has become empty after having held something. NULL disarms. */
typedef void http_drained_fn(struct http_request *request, void *arg);
void http_request_on_drained(struct http_request *request, http_drained_fn *fn, void *arg);
void http_answer_end(struct http_request *request);   /* complete; ends the request */
void http_answer_reset(struct http_request *request); /* cut by RST: no client can take it for
                                                         complete; ends the request; fine before
                                                         http_answer_begin too */
