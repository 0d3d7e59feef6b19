/*
 * One HTTP/1.x message head, parsed strictly, and the two ways a body is delimited. Pure: no I/O.
 *
 * Always true: a head that is accepted has exactly one reading. Everything two readers could see
 * differently (RFC 9112 section 11.2: request smuggling) is refused: Content-Length beside
 * Transfer-Encoding, a second Content-Length, Transfer-Encoding, Host or Expect, any coding but
 * "chunked", Transfer-Encoding on HTTP/1.0, obs-fold, bare CR or LF, NUL and other control bytes,
 * blanks before the colon, empty or non-token names. Nothing is decoded: the target is the bytes
 * that came.
 *
 * Sources: RFC 9110, RFC 9112.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 32768     /* bytes, request or status line and fields together */
#define HTTP_TARGET_MAX 8192    /* bytes; longer is 414 */
#define HTTP_FIELDS_MAX 100     /* more is 431 */
#define HTTP_CHUNK_LINE_MAX 256 /* bytes of a chunk size line, extensions included */
#define HTTP_TRAILER_MAX 4096   /* bytes of trailer fields, which are read and dropped */

/* A slice of outside bytes: borrowed, not terminated, never NULL when len > 0. */
struct http_str {
    const char *p;
    size_t len;
};

/* A field as it was sent, without the blanks around the value. Name is a token, value has no
 * control byte but HTAB. */
struct http_field {
    struct http_str name;
    struct http_str value;
};

/* A field to send. Both terminated and borrowed for the call. A name that is no token or a value
 * with CR, LF, NUL or another control byte is our bug and makes the sender refuse the message. */
struct http_header {
    const char *name;
    const char *value;
};

enum http_method {
    HTTP_OTHER, /* a token that is none of the below: see http_head.method_name */
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_TRACE,
    HTTP_CONNECT,
};

/* RFC 9112 section 3.2. */
enum http_form {
    HTTP_FORM_ORIGIN,    /* /path?query */
    HTTP_FORM_ABSOLUTE,  /* http://authority/path?query or https://… */
    HTTP_FORM_AUTHORITY, /* host:port, CONNECT only */
    HTTP_FORM_ASTERISK,  /* *, OPTIONS only */
};

enum http_framing {
    HTTP_FRAMED_NONE,    /* no body follows */
    HTTP_FRAMED_LENGTH,  /* content_length bytes follow (0 is possible) */
    HTTP_FRAMED_CHUNKED, /* the chunked coding follows */
    HTTP_FRAMED_CLOSE,   /* responses only: all until the connection ends, cut or complete alike */
};

/* Filled by the parsers below. All slices point into the bytes that were parsed. */
struct http_head {
    /* requests */
    enum http_method method;
    struct http_str method_name;
    struct http_str target; /* as sent */
    enum http_form form;
    struct http_str scheme;    /* absolute-form: "http" or "https" as sent; else empty */
    struct http_str authority; /* absolute- or authority-form: from the target; else the Host
                                  field; empty only on HTTP/1.0 without Host */
    struct http_str path;      /* origin- and absolute-form: from the first '/', without the query;
                                  "/" where an absolute-form has none; asterisk-form: "*" */
    struct http_str query;     /* without the '?'; p is NULL where there is no '?' */
    bool expect_continue;      /* Expect: 100-continue on HTTP/1.1 */

    /* responses */
    int status;
    struct http_str reason;

    /* both */
    int minor;                 /* 0 or 1: HTTP/1.0 or HTTP/1.1 */
    struct http_field *fields; /* the array given to the parser */
    size_t n_fields;
    enum http_framing framing;
    uint64_t
        content_length; /* for HTTP_FRAMED_LENGTH; on an answer without body also what HEAD said */
    bool has_content_length;
    bool keep_alive; /* by version and Connection */
    size_t size;     /* bytes of the head, blank line and skipped leading CRLFs included */
};

enum http_parsed {
    HTTP_PARSED,  /* the head is complete; head->size bytes belong to it */
    HTTP_PARTIAL, /* well formed so far; come again with more bytes (the same ones first) */
    HTTP_REFUSED, /* never acceptable: answer fault->status, then close */
};

/* What was wrong: a status (400, 413, 414, 417, 421, 431, 501, 505) and a fixed line for logs and
 * for the peer. */
struct http_fault {
    int status;
    const char *why; /* static */
};

/* Parses a request head from the first bytes of a connection or after a previous message. Needs all
 * bytes from the start of the head each time; at most HTTP_HEAD_MAX (431 beyond, 414 when the
 * target is the cause). `fields` has room for HTTP_FIELDS_MAX. On HTTP_REFUSED only *fault is set,
 * on HTTP_PARTIAL nothing. An Expect other than 100-continue is 417. CONNECT and TRACE are parsed
 * like any method: refusing them is the caller's. */
enum http_parsed http_parse_request(const char *data, size_t len, struct http_field *fields,
                                    struct http_head *head, struct http_fault *fault);

/* Parses a response head to a request made with `method` (no body follows HEAD, 1xx, 204, 304).
 * As strict as the request parser. fault->status is 502. Interim 1xx heads are returned as such. */
enum http_parsed http_parse_response(const char *data, size_t len, enum http_method method,
                                     struct http_field *fields, struct http_head *head,
                                     struct http_fault *fault);

/* Fields by name, case ignored. The first match or NULL; how many there are. */
const struct http_field *http_find(const struct http_head *head, const char *name);
size_t http_count(const struct http_head *head, const char *name);

bool http_str_is(struct http_str s, const char *text);        /* same bytes */
bool http_str_is_nocase(struct http_str s, const char *text); /* ASCII case ignored */
char *http_str_dup(struct http_str s);                        /* terminated copy, the caller's */
/* Whether a comma-separated list (Connection, TE, Accept) has this token, case ignored, parameters
 * after ';' ignored. */
bool http_list_has(struct http_str list, const char *token);

enum http_method http_method_of(struct http_str name); /* case-sensitive, as the RFC wants */
const char *http_method_name(enum http_method method); /* NULL for HTTP_OTHER */
const char *http_reason(int status);                   /* "Payment Required"; "Unknown" */

bool http_token_valid(const char *s, size_t len); /* a field name or method */
bool http_value_valid(const char *s, size_t len); /* a field value: no control byte but HTAB */

/* Moves all slices of a head from one copy of its bytes to another, fields array included. */
void http_head_rebase(struct http_head *head, const char *from, const char *to,
                      struct http_field *fields);

/* host[:port] as in Host: reg-name, IPv4 or [IPv6], port 0..65535. Host is lower-cased into `host`
 * (at least 256 bytes), without brackets stripped; *port is -1 where absent. False when malformed.
 */
bool http_authority_parse(struct http_str authority, char *host, size_t host_size, int *port);
