/* Reading a request body, bounded, for its user. */
#include <string.h>

#include "http/conn.h"

void body_finish(struct conn *conn, enum http_body result)
{
    struct http_request *r = conn->request;
    conn_deadline(conn, 0);
    r->body_done = result == HTTP_BODY_OK;
    if (result != HTTP_BODY_OK)
        conn->close_after = conn->linger = true;
    conn->state = CONN_BUSY;
    r->body_fn(r, result, r->body.len ? r->body.data : (const uint8_t *)"", r->body.len,
               r->body_arg);
}

static void use(struct conn *conn, size_t n)
{
    conn->view += n;
    conn->view_len -= n;
}

static void pump_length(struct conn *conn)
{
    struct http_request *r = conn->request;
    uint64_t n = conn->view_len < r->body_left ? conn->view_len : r->body_left;
    buf_append(&r->body, conn->view, (size_t)n);
    use(conn, (size_t)n);
    r->body_left -= n;
    if (r->body_left == 0)
        body_finish(conn, HTTP_BODY_OK);
}

static void pump_chunked(struct conn *conn)
{
    struct http_request *r = conn->request;
    for (;;) {
        size_t used, piece_len = 0;
        const char *piece = NULL;
        enum chunked_status s =
            chunked_feed(&r->chunked, conn->view, conn->view_len, &used, &piece, &piece_len);
        use(conn, used);
        switch (s) {
        case CHUNKED_MORE: /* a size that cannot fit need not be waited for */
            if (r->chunked.left > r->body_max - r->body.len)
                body_finish(conn, HTTP_BODY_TOO_LARGE);
            return;
        case CHUNKED_DONE:
            body_finish(conn, HTTP_BODY_OK);
            return;
        case CHUNKED_BAD:
            body_finish(conn, HTTP_BODY_BAD);
            return;
        case CHUNKED_DATA:
        default:
            break;
        }
        if (piece_len + r->chunked.left > r->body_max - r->body.len) {
            body_finish(conn, HTTP_BODY_TOO_LARGE);
            return;
        }
        buf_append(&r->body, piece, piece_len);
    }
}

void body_pump(struct conn *conn)
{
    if (conn->request->head.framing == HTTP_FRAMED_CHUNKED)
        pump_chunked(conn);
    else
        pump_length(conn);
}

void http_request_read_body(struct http_request *r, size_t max, http_body_fn *fn, void *arg)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct conn *conn = r->conn;
    conn_enter(conn);
    r->body_fn = fn;
    r->body_arg = arg;
    r->body_max = max;
    r->body_asked = true;
    if (r->gone && conn->fd < 0) {
        body_finish(conn, HTTP_BODY_GONE);
    } else if (r->head.framing == HTTP_FRAMED_LENGTH && r->head.content_length > max) {
        body_finish(conn, HTTP_BODY_TOO_LARGE);
    } else if (r->head.framing == HTTP_FRAMED_NONE ||
               (r->head.framing == HTTP_FRAMED_LENGTH && r->body_left == 0)) {
        body_finish(conn, HTTP_BODY_OK);
    } else {
        conn->state = CONN_BODY;
        conn_deadline(conn, conn->server->config.body_ms);
        if (r->head.expect_continue && conn->view_len == 0)
            conn_write(conn, go_on, sizeof(go_on) - 1, NULL, 0);
        if (conn->fd >= 0 && conn->state == CONN_BODY)
            body_pump(conn);
    }
    conn_leave(conn);
}

uint64_t body_unread(const struct conn *conn)
{
    const struct http_request *r = conn->request;
    if (r->body_done || r->head.framing == HTTP_FRAMED_NONE)
        return 0;
    if (r->body_asked || r->head.framing == HTTP_FRAMED_CHUNKED)
        return UINT64_MAX;
    bool may_not_come = r->head.expect_continue && conn->view_len == 0;
    return r->body_left > CONN_DRAIN_MAX || (may_not_come && r->body_left) ? UINT64_MAX
                                                                           : r->body_left;
}

void http_request_drop_body(struct http_request *r)
{
    if (r->body_done)
        buf_fini(&r->body);
}
