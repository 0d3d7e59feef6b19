/*
 * The strict engine: plain HTTP/1.1 to one peer that is not trusted, a fresh connection per call.
 * Nothing the peer sends can be read in two ways, and nothing follows the one answer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "base/text.h"
#include "http/client_internal.h"

#define READ_SIZE 65536
#define INTERIM_MAX 8

struct strict {
    struct http_call *call;
    struct loop_watch watch;
    struct loop_timer kick; /* goes on after a pause */
    int fd;
    struct buf out; /* request head */
    size_t out_sent, body_sent;
    bool connected, send_over, eof;
    enum http_method method;
    struct buf in; /* head in progress, or body bytes the user paused at */
    unsigned interim;
    enum http_framing framing;
    uint64_t left;
    struct chunked chunked;
};

static void on_event(struct loop_watch *watch, uint32_t events);

/* ---- the request ---- */

struct target {
    struct http_str host; /* without port */
    int port;
    struct http_str authority, path;
};

static bool split_url(const char *url, struct target *out, char *host, size_t host_size)
{
    if (strncasecmp(url, "http://", 7) != 0)
        return false;
    const char *p = url + 7;
    size_t n = strcspn(p, "/?");
    out->authority = (struct http_str){ p, n };
    out->path = (struct http_str){ p + n, strlen(p + n) };
    int port = -1;
    if (!http_authority_parse(out->authority, host, host_size, &port))
        return false;
    out->port = port < 0 ? 80 : port;
    return true;
}

static bool is_name(const char *name, const char *const *list)
{
    for (; *list; list++) {
        if (strcasecmp(name, *list) == 0)
            return true;
    }
    return false;
}

static void build_request(struct strict *s, const struct http_call_spec *spec,
                          const struct target *target)
{
    static const char *const ours[] = { "Host", "Content-Length", "Connection", "Transfer-Encoding",
                                        NULL };
    struct buf *b = &s->out;
    buf_printf(b, "%s %s%.*s HTTP/1.1\r\n", spec->method,
               target->path.len == 0 || target->path.p[0] == '?' ? "/" : "", (int)target->path.len,
               target->path.p);
    const char *host = NULL;
    for (size_t i = 0; i < spec->n_headers; i++) {
        if (strcasecmp(spec->headers[i].name, "Host") == 0)
            host = spec->headers[i].value;
    }
    if (host)
        buf_printf(b, "Host: %s\r\n", host);
    else
        buf_printf(b, "Host: %.*s\r\n", (int)target->authority.len, target->authority.p);
    for (size_t i = 0; i < spec->n_headers; i++) {
        if (!is_name(spec->headers[i].name, ours))
            buf_printf(b, "%s: %s\r\n", spec->headers[i].name, spec->headers[i].value);
    }
    static const char *const with_body[] = { "POST", "PUT", "PATCH", NULL };
    if (spec->body_len || spec->has_body || is_name(spec->method, with_body))
        buf_printf(b, "Content-Length: %zu\r\n", spec->body_len);
    buf_append_str(b, "Connection: close\r\n\r\n");
}

/* ---- connecting ---- */

static bool numeric_address(const char *text, int port, struct sockaddr_storage *out,
                            socklen_t *len)
{
    struct sockaddr_in *in4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    char plain[64];
    size_t n = strlen(text);
    memset(out, 0, sizeof(*out));
    if (n >= sizeof(plain))
        return false;
    bool bracketed = n > 2 && text[0] == '[';
    memcpy(plain, text + bracketed, n + 1 - bracketed);
    if (bracketed)
        plain[n - 2] = '\0';
    if (inet_pton(AF_INET, strcmp(plain, "localhost") == 0 ? "127.0.0.1" : plain, &in4->sin_addr) ==
        1) {
        in4->sin_family = AF_INET;
        in4->sin_port = htons((uint16_t)port);
        *len = sizeof(*in4);
        return true;
    }
    if (inet_pton(AF_INET6, plain, &in6->sin6_addr) != 1)
        return false;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons((uint16_t)port);
    *len = sizeof(*in6);
    return true;
}

static enum err_kind find_address(const struct http_call_spec *spec, const char *host, int port,
                                  struct sockaddr_storage *sa, socklen_t *len, struct err *err)
{
    if (spec->unix_socket) {
        struct sockaddr_un *sun = (struct sockaddr_un *)sa;
        memset(sa, 0, sizeof(*sa));
        if (strlen(spec->unix_socket) >= sizeof(sun->sun_path))
            return err_set(err, ERR_INVALID, "socket path is too long");
        sun->sun_family = AF_UNIX;
        memcpy(sun->sun_path, spec->unix_socket, strlen(spec->unix_socket) + 1);
        *len = sizeof(*sun);
        return ERR_OK;
    }
    if (!numeric_address(spec->connect_to ? spec->connect_to : host, port, sa, len))
        return err_set(err, ERR_INVALID, "%s is no numeric address", host);
    return ERR_OK;
}

static void on_start_failed(struct loop_timer *timer)
{
    struct http_call *call = timer->arg;
    call_finish(call, call->denied ? HTTP_CALL_DENIED : HTTP_CALL_NO_CONNECT,
                call->fault_why ? call->fault_why : "cannot connect");
}

static void on_deadline(struct loop_timer *timer)
{
    struct http_call *call = timer->arg;
    call_finish(call, call->strict->connected ? HTTP_CALL_TIMEOUT : HTTP_CALL_NO_CONNECT,
                "deadline passed");
}

static void watch(struct strict *s)
{
    struct http_call *call = s->call;
    uint32_t want = (s->send_over ? 0U : (uint32_t)EPOLLOUT) |
                    (s->connected && !call->paused ? (uint32_t)EPOLLIN : 0U);
    if (s->watch.loop && s->watch.events == want)
        return;
    if (loop_watch(call->client->loop, &s->watch, s->fd, want, on_event, s, NULL)) {
        call->fault_why = "cannot watch the connection";
        loop_after(call->client->loop, &call->timer, 0, on_start_failed, call);
    }
}

/* A peer that cannot be had is the peer's fault and comes by `done`, not by the return value. */
static void connect_now(struct strict *s, const struct sockaddr_storage *sa, socklen_t len)
{
    struct http_call *call = s->call;
    uint64_t deadline = call->deadline_ms;
    call->fault_why = NULL;
    if (call->guard && !call->guard(call->arg, (const struct sockaddr *)sa, len)) {
        call->denied = true;
        call->fault_why = "every address was refused";
    } else {
        s->fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int on = 1;
        if (s->fd >= 0 && sa->ss_family != AF_UNIX)
            (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (s->fd < 0)
            call->fault_why = "no descriptor for a connection";
        else if (connect(s->fd, (const struct sockaddr *)sa, len) && errno != EINPROGRESS)
            call->fault_why = errno == EAGAIN ? "peer's queue is full" : "connection refused";
    }
    call->client->stats.connects++;
    if (call->fault_why)
        loop_after(call->client->loop, &call->timer, 0, on_start_failed, call);
    else {
        loop_after(call->client->loop, &call->timer, deadline, on_deadline, call);
        watch(s);
    }
}

enum err_kind strict_engine_start(struct http_call *call, const struct http_call_spec *spec,
                                  struct err *err)
{
    struct target target = { 0 };
    char host[256];
    struct sockaddr_storage sa;
    socklen_t len = 0;
    if (!split_url(spec->url, &target, host, sizeof(host)))
        return err_set(err, ERR_INVALID, "not an http:// URL");
    if (find_address(spec, host, target.port, &sa, &len, err))
        return err ? err->kind : ERR_INVALID;
    struct strict *s = xcalloc(1, sizeof(*s));
    call->strict = s;
    s->call = call;
    s->fd = -1;
    s->method = http_method_of((struct http_str){ spec->method, strlen(spec->method) });
    buf_init(&s->out, (size_t)4 * HTTP_HEAD_MAX);
    buf_init(&s->in, HTTP_HEAD_MAX + READ_SIZE);
    build_request(s, spec, &target);
    if (s->out.failed)
        return err_set(err, ERR_INVALID, "request head is too large");
    connect_now(s, &sa, len);
    return ERR_OK;
}

void strict_engine_end(struct http_call *call)
{
    struct strict *s = STEAL(call->strict);
    if (!s)
        return;
    loop_unwatch(&s->watch);
    loop_cancel(&s->kick);
    own_close_(&s->fd);
    buf_wipe(&s->out);
    buf_fini(&s->in);
    free(s);
}

/* ---- sending ---- */

static void send_more(struct strict *s)
{
    struct http_call *call = s->call;
    while (!s->send_over) {
        bool head = s->out_sent < s->out.len;
        const char *p = head ? (const char *)s->out.data + s->out_sent : call->body + s->body_sent;
        size_t n = head ? s->out.len - s->out_sent : call->body_len - s->body_sent;
        if (n == 0) {
            s->send_over = true;
            return;
        }
        ssize_t sent = send(s->fd, p, n, MSG_NOSIGNAL | (head && call->body_len ? MSG_MORE : 0));
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0) { /* the peer may have answered without reading everything */
            s->send_over = true;
            return;
        }
        call->result.maybe_sent = true;
        *(head ? &s->out_sent : &s->body_sent) += (size_t)sent;
    }
}

/* ---- the answer ---- */

/* What reading came to. */
enum read_state { READ_MORE, READ_DONE, READ_FAILED };

static enum read_state fail(struct strict *s, enum http_call_outcome outcome, const char *why)
{
    s->call->fault = outcome;
    s->call->fault_why = why;
    return READ_FAILED;
}

static enum read_state begin_body(struct strict *s, const struct http_head *head)
{
    struct http_call *call = s->call;
    call->head_done = true;
    call->result.status = head->status;
    call->result.n_fields = head->n_fields;
    call->result.framing = head->framing;
    s->framing = head->framing;
    s->left = head->framing == HTTP_FRAMED_LENGTH ? head->content_length : 0;
    chunked_init(&s->chunked);
    if (head->status == 101)
        return fail(s, HTTP_CALL_BAD_ANSWER, "peer switched protocols");
    if (!call->on_data && s->left > call->response_max)
        return fail(s, HTTP_CALL_TOO_LARGE, "body is larger than the cap");
    if (!call_tell_head(call))
        return fail(s, HTTP_CALL_ABORTED, "stopped by its user");
    return READ_MORE;
}

static enum read_state take_head(struct strict *s)
{
    struct http_call *call = s->call;
    while (!call->head_done) {
        struct http_head head;
        struct http_fault fault = { 0 };
        enum http_parsed parsed = http_parse_response((const char *)s->in.data, s->in.len,
                                                      s->method, call->fields, &head, &fault);
        if (parsed == HTTP_PARTIAL)
            return READ_MORE;
        if (parsed == HTTP_REFUSED)
            return fail(s, HTTP_CALL_BAD_ANSWER, fault.why);
        if (head.status < 200 && head.status != 101) {
            if (++s->interim > INTERIM_MAX)
                return fail(s, HTTP_CALL_BAD_ANSWER, "too many interim answers");
            buf_consume(&s->in, head.size);
            continue;
        }
        buf_append(&call->head, s->in.data, head.size);
        http_head_rebase(&head, (const char *)s->in.data, (const char *)call->head.data,
                         call->fields);
        buf_consume(&s->in, head.size);
        if (begin_body(s, &head) == READ_FAILED)
            return READ_FAILED;
    }
    return READ_MORE;
}

static enum read_state give(struct strict *s, const char *data, size_t len, bool *paused)
{
    switch (call_take_data(s->call, data, len)) {
    case CALL_TOOK:
        return READ_MORE;
    case CALL_PAUSED:
        *paused = true;
        return READ_MORE;
    case CALL_OVER:
        return fail(s, HTTP_CALL_TOO_LARGE, "body is larger than the cap");
    case CALL_STOP:
    default:
        return fail(s, HTTP_CALL_ABORTED, "stopped by its user");
    }
}

/* One piece of a chunked body. A paused piece is fed again: the decoder's state is put back. */
static enum read_state take_chunk(struct strict *s, const char *data, size_t len, size_t *used,
                                  bool *paused)
{
    struct chunked before = s->chunked;
    const char *piece = NULL;
    size_t piece_len = 0;
    switch (chunked_feed(&s->chunked, data, len, used, &piece, &piece_len)) {
    case CHUNKED_MORE:
        return READ_MORE;
    case CHUNKED_DONE:
        s->framing = HTTP_FRAMED_NONE;
        return READ_DONE;
    case CHUNKED_BAD:
        return fail(s, HTTP_CALL_BAD_ANSWER, "broken chunked framing");
    case CHUNKED_DATA:
    default:
        break;
    }
    enum read_state state = give(s, piece, piece_len, paused);
    if (*paused) {
        s->chunked = before;
        *used = 0;
    }
    return state;
}

static enum read_state take_piece(struct strict *s, const char *data, size_t len, size_t *used,
                                  bool *paused)
{
    enum read_state state;
    switch (s->framing) {
    case HTTP_FRAMED_CHUNKED:
        return take_chunk(s, data, len, used, paused);
    case HTTP_FRAMED_LENGTH:
        *used = len < s->left ? len : (size_t)s->left;
        state = *used ? give(s, data, *used, paused) : READ_MORE;
        if (*paused)
            *used = 0;
        s->left -= *used;
        return state == READ_MORE && s->left == 0 ? READ_DONE : state;
    case HTTP_FRAMED_CLOSE:
        *used = len;
        state = len ? give(s, data, len, paused) : READ_MORE;
        if (*paused)
            *used = 0;
        return state;
    case HTTP_FRAMED_NONE:
    default:
        *used = 0;
        return READ_DONE;
    }
}

/* Uses up s->in as far as it goes. */
static enum read_state consume(struct strict *s)
{
    enum read_state state = take_head(s);
    if (state != READ_MORE || !s->call->head_done)
        return state;
    size_t at = 0;
    bool paused = false;
    do {
        size_t used = 0;
        state = take_piece(s, (const char *)s->in.data + at, s->in.len - at, &used, &paused);
        at += used;
    } while (state == READ_MORE && !paused && at < s->in.len);
    buf_consume(&s->in, at);
    if (state == READ_DONE && s->in.len)
        return fail(s, HTTP_CALL_BAD_ANSWER, "bytes after the answer");
    return state;
}

static enum read_state at_eof(struct strict *s)
{
    if (!s->call->head_done)
        return fail(s, HTTP_CALL_BROKEN, "connection closed before an answer");
    if (s->framing == HTTP_FRAMED_CLOSE)
        return READ_DONE;
    return fail(s, HTTP_CALL_BROKEN, "connection closed inside the body");
}

/* After a complete answer nothing may follow. */
static enum read_state check_silence(struct strict *s)
{
    char byte;
    if (s->eof || recv(s->fd, &byte, 1, MSG_DONTWAIT) <= 0)
        return READ_DONE;
    return fail(s, HTTP_CALL_BAD_ANSWER, "bytes after the answer");
}

static enum read_state read_more(struct strict *s)
{
    uint8_t *to = buf_reserve(&s->in, READ_SIZE);
    if (!to)
        return fail(s, HTTP_CALL_BAD_ANSWER, "head is larger than the cap");
    ssize_t n = recv(s->fd, to, READ_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return READ_MORE;
    if (n < 0)
        return fail(s, HTTP_CALL_BROKEN, "connection reset");
    s->eof = n == 0;
    s->in.len += (size_t)n;
    if (s->eof && s->in.len == 0)
        return at_eof(s);
    enum read_state state = consume(s);
    if (state == READ_MORE && s->eof && !s->call->paused)
        return at_eof(s);
    return state == READ_DONE ? check_silence(s) : state;
}

static void conclude(struct strict *s, enum read_state state)
{
    struct http_call *call = s->call;
    if (state == READ_FAILED)
        call_finish(call, call->fault, call->fault_why);
    else if (state == READ_DONE)
        call_finish(call, HTTP_CALL_OK, NULL);
    else
        watch(s);
}

static void on_connected(struct strict *s)
{
    int error = 0;
    socklen_t len = sizeof(error);
    (void)getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    s->connected = error == 0;
    s->call->result.connect_ms = loop_now_ms(s->call->client->loop) - s->call->started_ms;
}

static void on_event(struct loop_watch *watch_, uint32_t events)
{
    struct strict *s = watch_->arg;
    if (!s->connected) {
        on_connected(s);
        if (!s->connected) {
            call_finish(s->call, HTTP_CALL_NO_CONNECT, "connection refused");
            return;
        }
    }
    if (events & EPOLLOUT)
        send_more(s);
    if (s->call->paused) {
        if (events & (EPOLLHUP | EPOLLERR))
            loop_unwatch(&s->watch); /* reported at every turn; resuming watches again */
        else
            watch(s);
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        conclude(s, read_more(s));
    else
        watch(s);
}

static void on_kick(struct loop_timer *timer)
{
    struct strict *s = timer->arg;
    if (s->call->paused)
        return;
    enum read_state state = s->in.len ? consume(s) : READ_MORE;
    if (state == READ_MORE && s->eof && !s->call->paused)
        state = at_eof(s);
    conclude(s, state);
}

void strict_engine_resume(struct http_call *call)
{
    struct strict *s = call->strict;
    loop_after(call->client->loop, &s->kick, 0, on_kick, s);
}
