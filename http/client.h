/*
 * Outgoing HTTP/1.1 on base/loop. Two engines behind one call:
 *
 * - libcurl (default): http and https, names, kept-alive connections, certificates verified.
 * - strict (HTTP_CALL_STRICT): plain http to one peer that is not trusted, our own parser
 *   (http/message.h), one fresh connection per call, closed afterwards. Any framing fault, bytes
 *   after the message included, is HTTP_CALL_BAD_ANSWER.
 *
 * Always true: no redirect is followed, no proxy and no variable of the environment is looked at,
 * no request with a body, or by a method other than GET, HEAD and OPTIONS, is ever sent twice
 * (libcurl's silent re-send on a dead kept-alive connection is closed off: such a call ends as
 * HTTP_CALL_BROKEN with `maybe_sent`), nothing of an answer beyond its cap
 * is kept, and `done` is called exactly once per started call unless it is cancelled.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "http/message.h"

struct http_client;
struct http_call;

struct http_client_config {
    const char *ca_file;        /* extra PEM bundle instead of the system's; NULL: system's */
    const char *const *resolve; /* "host:port:address", as CURLOPT_RESOLVE; may be NULL */
    size_t n_resolve;
    const char *user_agent; /* NULL: "utter/<version>" */
    uint32_t connect_ms;    /* [3000] name, TCP and TLS together */
    uint32_t idle_ms;       /* kept-alive connections older than this are not reused [15000] */
};

/* Strings are copied. The loop is borrowed and must outlive the client. One curl_global_init per
 * process is done inside. */
CHECKED enum err_kind http_client_new(struct loop *loop, const struct http_client_config *config,
                                      struct http_client **out, struct err *err);
/* Cancels what is running (no done callbacks). */
void http_client_free(struct http_client *client);
DEFINE_CLEANUP(struct http_client, http_client_free, http_client_freep)

enum http_call_outcome {
    HTTP_CALL_OK,         /* a complete answer: status, fields, body */
    HTTP_CALL_NO_CONNECT, /* name, TCP or TLS failed: no byte of the request has left */
    HTTP_CALL_TIMEOUT,    /* deadline passed; see maybe_sent */
    HTTP_CALL_BROKEN,     /* connection ended before the answer was complete; see maybe_sent */
    HTTP_CALL_TOO_LARGE,  /* head or body beyond the cap */
    HTTP_CALL_BAD_ANSWER, /* not HTTP, or framing that has no single reading */
    HTTP_CALL_ABORTED,    /* on_head or on_data said stop */
    HTTP_CALL_DENIED,     /* `guard` refused every address: no byte has left */
};

struct http_result {
    enum http_call_outcome outcome;
    bool maybe_sent; /* some byte of the request may have reached the peer */
    /* with HTTP_CALL_OK; status also whenever a final head was read (else 0) */
    int status;
    const struct http_field *fields; /* final head only; valid during the callback */
    size_t n_fields;
    enum http_framing framing; /* HTTP_FRAMED_CLOSE: the peer did not say where its body ends */
    const uint8_t *body;       /* valid during the callback; empty when on_data took it */
    size_t body_len;
    uint64_t ms;         /* from start to end */
    uint64_t connect_ms; /* of which before the connection was usable; 0 when reused */
    char why[256];       /* for logs: what went wrong, without the peer's bytes; "" when OK */
};

/* First field by name (case ignored) or NULL. */
const struct http_field *http_result_find(const struct http_result *result, const char *name);

typedef void http_call_done_fn(void *arg, const struct http_result *result);
/* Streaming: the final head (status, fields, n_fields, framing are set). False stops the call. */
typedef bool http_call_head_fn(void *arg, const struct http_result *head);
enum http_data {
    HTTP_DATA_GO,    /* took all of it */
    HTTP_DATA_PAUSE, /* took none: hand the same bytes again after http_call_resume() */
    HTTP_DATA_STOP,  /* HTTP_CALL_ABORTED */
};
typedef enum http_data http_call_data_fn(void *arg, const void *data, size_t len);

/* Sees each address right before it is connected to; false: not this one. */
typedef bool http_call_guard_fn(void *arg, const struct sockaddr *address, socklen_t len);

enum {
    HTTP_CALL_STRICT = 1, /* our own engine: see the file header; http:// or unix_socket only */
    HTTP_CALL_FRESH = 2,  /* libcurl: a new connection, not kept */
};

struct http_call_spec {
    const char *method; /* "GET", "POST", … */
    const char *url;    /* http:// or https://, path percent-encoded, sent as given */
    const struct http_header *headers; /* Host, Content-Length, Connection are set by us; a Host
                                          here replaces the URL's */
    size_t n_headers;
    const void *body; /* borrowed until done or cancelled */
    size_t body_len;
    bool has_body; /* send Content-Length even when body_len is 0 (POST and PUT always do) */
    const char *unix_socket; /* connect here instead; URL still gives Host and path */
    const char *connect_to; /* numeric address ("192.0.2.1", "2001:db8::1") to connect to instead of
                               resolving the URL's host; TLS still checks the URL's name */
    http_call_guard_fn *guard; /* may be NULL; sees new connections only, so calls of one client to
                                  one host must use guards that decide alike */
    const char *userpwd;       /* "user:password" for Basic (libcurl only); may be NULL */
    const char *aws_sigv4;     /* CURLOPT_AWS_SIGV4, signs with userpwd; may be NULL */
    uint32_t deadline_ms;      /* whole call, required */
    size_t response_max; /* bytes of body, required unless on_data is given (then 0: no cap) */
    unsigned flags;
    http_call_head_fn *on_head; /* may be NULL */
    http_call_data_fn *on_data; /* may be NULL: the body is collected */
    http_call_done_fn *done;    /* never called before http_call_start() has returned */
    void *arg;
};

/* Starts a call. Everything of *spec but body and arg is copied. Errors are about the spec (a bad
 * URL, a header that is not sendable), never about the peer. The call belongs to the client; *out
 * may be NULL. It ends right after its done callback returns. */
CHECKED enum err_kind http_call_start(struct http_client *client, const struct http_call_spec *spec,
                                      struct http_call **out, struct err *err);
/* Ends a call without its done callback. Safe anywhere, in its own on_head and on_data too, but not
 * in its done. */
void http_call_cancel(struct http_call *call);
void http_call_resume(struct http_call *call); /* after HTTP_DATA_PAUSE */

struct http_client_stats {
    size_t running;
    uint64_t calls;
    uint64_t connects; /* new connections made */
    uint64_t failures; /* outcome other than HTTP_CALL_OK */
    uint64_t timeouts;
};
void http_client_stats(const struct http_client *client, struct http_client_stats *out);

/* For programs that do one thing: starts a call and runs the loop until it is done. The result's
 * pointers are copied into *store (the caller's, http_stored_fini()). `done`, on_* of the spec are
 * ignored. */
struct http_stored {
    struct http_result result;
    char *bytes; /* owns what result points to */
};
CHECKED enum err_kind http_call_wait(struct loop *loop, struct http_client *client,
                                     const struct http_call_spec *spec, struct http_stored *store,
                                     struct err *err);
void http_stored_fini(struct http_stored *store);

const char *http_call_outcome_name(enum http_call_outcome outcome);
