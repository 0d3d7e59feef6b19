/* Answers: one piece or streamed, and what the socket does not take at once. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "http/conn.h"

/* ---- bytes out ---- */

static void out_deadline(struct conn *conn, size_t len)
{
    uint64_t now = loop_now_ms(conn->server->loop);
    if (!conn->flush_limit_ms)
        conn->flush_limit_ms =
            now + conn->server->config.write_ms + (uint64_t)len * 1000 / CONN_SLOWEST_BYTES_PER_S;
    uint64_t left = conn->flush_limit_ms > now ? conn->flush_limit_ms - now : 1;
    conn_deadline(conn,
                  left < conn->server->config.write_ms ? left : conn->server->config.write_ms);
}

/* Sends both pieces as far as the socket takes them; the rest is kept. */
void conn_write(struct conn *conn, const void *a, size_t a_len, const void *b, size_t b_len)
{
    if (conn->fd < 0)
        return;
    size_t taken = 0;
    if (conn->out.len == 0) {
        struct iovec iov[2] = { { .iov_len = a_len }, { .iov_len = b_len } };
        memcpy(&iov[0].iov_base, &a, sizeof(a)); /* iovec is not const-correct */
        memcpy(&iov[1].iov_base, &b, sizeof(b));
        struct msghdr msg = { .msg_iov = iov, .msg_iovlen = b_len ? 2 : 1 };
        ssize_t n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            conn_close(conn);
            return;
        }
        taken = n > 0 ? (size_t)n : 0;
        conn->server->stats.bytes_out += taken;
    }
    if (taken == a_len + b_len)
        return;
    size_t from_a = taken < a_len ? taken : a_len;
    size_t from_b = taken - from_a;
    if (from_a < a_len)
        buf_append(&conn->out, (const char *)a + from_a, a_len - from_a);
    if (from_b < b_len)
        buf_append(&conn->out, (const char *)b + from_b, b_len - from_b);
    out_deadline(conn, a_len + b_len);
}

void conn_flush(struct conn *conn)
{
    if (conn->fd < 0 || conn->out.len == 0)
        return;
    ssize_t n = send(conn->fd, conn->out.data, conn->out.len, MSG_NOSIGNAL);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            conn_close(conn);
        return;
    }
    conn->server->stats.bytes_out += (uint64_t)n;
    buf_consume(&conn->out, (size_t)n);
    if (conn->out.len) {
        out_deadline(conn, conn->out.len);
        return;
    }
    buf_fini(&conn->out);
    buf_init(&conn->out, SIZE_MAX / 2);
    conn->flush_limit_ms = 0;
    conn_deadline(conn, conn->state == CONN_BODY ? conn->server->config.body_ms : 0);
    struct http_request *r = conn->request;
    if (r && r->streaming && r->drained_fn)
        r->drained_fn(r, r->drained_arg);
}

/* ---- heads ---- */

static const char *date(struct http_server *server)
{
    time_t now = time(NULL);
    if (now != server->date_second) {
        struct tm tm;
        gmtime_r(&now, &tm);
        strftime(server->date, sizeof(server->date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        server->date_second = now;
    }
    return server->date;
}

static void put(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

static bool put_headers(struct buf *b, const struct http_header *headers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t name = strlen(headers[i].name), value = strlen(headers[i].value);
        if (!http_token_valid(headers[i].name, name) || !http_value_valid(headers[i].value, value))
            return false;
        uint8_t *to = buf_reserve(b, name + value + 4);
        if (!to)
            return false;
        memcpy(to, headers[i].name, name);
        memcpy(to + name, ": ", 2);
        memcpy(to + name + 2, headers[i].value, value);
        memcpy(to + name + 2 + value, "\r\n", 2);
        b->len += name + value + 4;
    }
    return true;
}

static void put_digits(struct buf *b, uint64_t n)
{
    char text[24];
    char *p = text + sizeof(text);
    do {
        *--p = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    buf_append(b, p, (size_t)(text + sizeof(text) - p));
}

/* The head into server->scratch. length -1: chunked; -2: delimited by close; -3: none. */
static bool build_head(struct conn *conn, int status, const struct http_header *headers, size_t n,
                       int64_t length)
{
    struct buf *b = &conn->server->scratch;
    buf_clear(b);
    put(b, "HTTP/1.1 ");
    put_digits(b, (uint64_t)status);
    put(b, " ");
    put(b, http_reason(status));
    put(b, "\r\n");
    put(b, date(conn->server));
    if (!put_headers(b, headers, n))
        return false;
    if (length >= 0) {
        put(b, "Content-Length: ");
        put_digits(b, (uint64_t)length);
        put(b, "\r\n");
    } else if (length == -1)
        put(b, "Transfer-Encoding: chunked\r\n");
    if (conn->close_after)
        put(b, "Connection: close\r\n");
    else if (conn->request->head.minor == 0)
        put(b, "Connection: keep-alive\r\n");
    put(b, "\r\n");
    return !b->failed;
}

static bool has_no_body(const struct http_request *r, int status)
{
    return r->head.method == HTTP_HEAD || status == 204 || status == 304;
}

/* Unread input decides whether the connection can live on; the head must say so. */
static void decide_close(struct conn *conn, bool close)
{
    if (close || conn->server->draining)
        conn->close_after = true;
    if (body_unread(conn) == UINT64_MAX)
        conn->close_after = conn->linger = true;
}

void http_answer(struct http_request *r, const struct http_answer *answer)
{
    struct conn *conn = r->conn;
    assert(conn->request == r && !r->streaming);
    conn_enter(conn);
    conn->sent_fn = answer->sent;
    conn->sent_arg = answer->sent_arg;
    if (conn->fd >= 0) {
        decide_close(conn, answer->close);
        bool bare = answer->status == 204 || answer->status == 304;
        bool silent = has_no_body(r, answer->status);
        bool fine = build_head(conn, answer->status, answer->headers, answer->n_headers,
                               bare ? -3 : (int64_t)answer->body_len);
        if (!fine) { /* a header of ours that cannot be sent: say nothing rather than half of it */
            static const char broken[] = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: "
                                         "0\r\nConnection: close\r\n\r\n";
            conn->close_after = true;
            conn_write(conn, broken, sizeof(broken) - 1, NULL, 0);
        } else {
            conn_write(conn, conn->server->scratch.data, conn->server->scratch.len, answer->body,
                       silent ? 0 : answer->body_len);
        }
    }
    conn_request_done(conn);
    conn_advance(conn);
    conn_leave(conn);
}

void http_answer_text(struct http_request *r, int status, const char *text)
{
    static const struct http_header headers[] = {
        { "Content-Type", "text/plain; charset=utf-8" },
        { "Cache-Control", "no-store" },
    };
    char *body CLEANUP_FREE = xasprintf("%s\n", text);
    http_answer(r, &(struct http_answer){ .status = status,
                                          .headers = headers,
                                          .n_headers = ARRAY_LEN(headers),
                                          .body = body,
                                          .body_len = strlen(body) });
}

/* ---- streaming ---- */

void http_answer_begin(struct http_request *r, int status, const struct http_header *headers,
                       size_t n_headers, int64_t content_length)
{
    struct conn *conn = r->conn;
    assert(conn->request == r && !r->streaming);
    conn_enter(conn);
    r->streaming = true;
    r->no_body_out = has_no_body(r, status);
    r->length_left = content_length;
    if (conn->fd >= 0) {
        bool by_close = content_length < 0 && r->head.minor == 0;
        decide_close(conn, by_close);
        r->chunked_out = content_length < 0 && !by_close && !r->no_body_out;
        int64_t form = content_length >= 0 ? content_length : by_close ? -2 : -1;
        if (status == 204 || status == 304)
            form = -3;
        if (build_head(conn, status, headers, n_headers, form))
            conn_write(conn, conn->server->scratch.data, conn->server->scratch.len, NULL, 0);
        else
            conn_reset(conn);
    }
    conn_leave(conn);
}

void http_answer_write(struct http_request *r, const void *data, size_t len)
{
    struct conn *conn = r->conn;
    assert(r->streaming);
    if (len == 0 || conn->fd < 0 || r->no_body_out)
        return;
    conn_enter(conn);
    if (r->length_left >= 0) {
        if (len > (uint64_t)r->length_left)
            conn_reset(
                conn); /* more than was declared: our user's bug must not frame a second answer */
        else
            r->length_left -= (int64_t)len;
    }
    if (r->chunked_out) {
        char size[32];
        int n = snprintf(size, sizeof(size), "%zx\r\n", len);
        conn_write(conn, size, (size_t)n, data, len);
        conn_write(conn, "\r\n", 2, NULL, 0);
    } else {
        conn_write(conn, data, len, NULL, 0);
    }
    conn_leave(conn);
}

size_t http_answer_pending(const struct http_request *r)
{
    return r->conn->out.len;
}

void http_request_on_drained(struct http_request *r, http_drained_fn *fn, void *arg)
{
    r->drained_fn = fn;
    r->drained_arg = arg;
}

void http_answer_end(struct http_request *r)
{
    struct conn *conn = r->conn;
    assert(r->streaming);
    conn_enter(conn);
    if (r->length_left > 0 && !r->no_body_out)
        conn_reset(conn);
    else if (r->chunked_out)
        conn_write(conn, "0\r\n\r\n", 5, NULL, 0);
    conn_request_done(conn);
    conn_advance(conn);
    conn_leave(conn);
}

void http_answer_reset(struct http_request *r)
{
    struct conn *conn = r->conn;
    conn_enter(conn);
    r->gone = true; /* the user knows */
    conn_reset(conn);
    conn_request_done(conn);
    conn_leave(conn);
}
