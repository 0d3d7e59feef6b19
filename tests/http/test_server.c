/* http/server over real sockets: the server runs in a child, the test speaks raw bytes to it. */
#include "tests/test.h"

#include "tests/http/peer.h"

#include <fcntl.h>

#include "base/loop.h"
#include "http/server.h"

#define BODY_MAX 1000

/* ---- the child ---- */

static void on_body(struct http_request *r, enum http_body result, const void *data, size_t len,
                    void *arg)
{
    (void)arg;
    switch (result) {
    case HTTP_BODY_OK:
        http_answer(r, &(struct http_answer){ .status = 200, .body = data, .body_len = len });
        return;
    case HTTP_BODY_TOO_LARGE:
        http_answer_text(r, 413, "too large");
        return;
    case HTTP_BODY_TIMEOUT:
        http_answer_text(r, 408, "timeout");
        return;
    case HTTP_BODY_BAD:
        http_answer_text(r, 400, "bad body");
        return;
    case HTTP_BODY_GONE:
    default:
        http_answer_text(r, 400, "gone");
        return;
    }
}

static struct loop *the_loop;

struct late {
    struct loop_timer timer;
    struct http_request *request;
    int beats;
};

static void on_late(struct loop_timer *timer)
{
    struct late *late = timer->arg;
    http_answer_text(late->request, 200, http_request_gone(late->request) ? "was gone" : "late");
    free(late);
}

static void on_gone(struct http_request *r, void *arg)
{
    (void)r;
    int fd = open(arg, O_CREAT | O_WRONLY, 0600);
    close(fd);
}

static char gone_path[] = "/tmp/ut-http-gone.XXXXXX";

static void on_beat(struct loop_timer *timer)
{
    struct late *late = timer->arg;
    if (late->beats-- == 0) {
        http_answer_end(late->request);
        free(late);
        return;
    }
    http_answer_write(late->request, "beat ", 5);
    loop_after(the_loop, &late->timer, 5, on_beat, late);
}

static void on_request(void *arg, struct http_request *r)
{
    (void)arg;
    const struct http_head *head = http_request_head(r);
    if (http_str_is(head->path, "/echo")) {
        http_request_read_body(r, BODY_MAX, on_body, NULL);
    } else if (http_str_is(head->path, "/late") || http_str_is(head->path, "/stream")) {
        struct late *late = calloc(1, sizeof(*late));
        late->request = r;
        late->beats = 3;
        http_request_on_gone(r, on_gone, gone_path);
        if (http_str_is(head->path, "/late")) {
            loop_after(the_loop, &late->timer, 100, on_late, late);
        } else {
            http_answer_begin(r, 200, NULL, 0, -1);
            loop_after(the_loop, &late->timer, 5, on_beat, late);
        }
    } else if (http_str_is(head->path, "/short")) {
        http_answer_begin(r, 200, NULL, 0, 10);
        http_answer_write(r, "12345", 5);
        http_answer_end(r);
    } else if (http_str_is(head->path, "/reset")) {
        http_answer_begin(r, 200, NULL, 0, -1);
        http_answer_write(r, "part", 4);
        http_answer_reset(r);
    } else if (http_str_is(head->path, "/evil")) {
        const struct http_header bad = { "X-A", "b\r\nSet-Cookie: c" };
        http_answer(r, &(struct http_answer){ .status = 200, .headers = &bad, .n_headers = 1 });
    } else if (http_str_is(head->path, "/big")) {
        static char big[4 << 20];
        memset(big, 'b', sizeof(big));
        http_answer(r,
                    &(struct http_answer){ .status = 200, .body = big, .body_len = sizeof(big) });
    } else {
        const struct http_header h = { "X-Path", "seen" };
        http_answer(
            r, &(struct http_answer){
                   .status = 200, .headers = &h, .n_headers = 1, .body = "hi\n", .body_len = 3 });
    }
}

static void serve(int report, struct http_server_config config)
{
    struct err err;
    struct http_server *server;
    config.on_request = on_request;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (loop_new(&the_loop, &err) || http_server_new(the_loop, &config, &server, &err) ||
        http_server_listen(server, "127.0.0.1:0", &err))
        _exit(1);
    int port = http_server_port(server, 0);
    if (write(report, &port, sizeof(port)) != sizeof(port) || loop_run(the_loop, &err))
        _exit(1);
    _exit(0);
}

static pid_t start(const struct http_server_config *config, int *port)
{
    int report[2];
    assert_int_equal(pipe(report), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        serve(report[1], *config);
    assert_int_equal(read(report[0], port, sizeof(*port)), sizeof(*port));
    close(report[0]);
    close(report[1]);
    return pid;
}

static void stop(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it has not crashed */
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static const char PLAIN[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
static pid_t server_pid;
static int server_port;

static int setup(void **state)
{
    (void)state;
    close(mkstemp(gone_path));
    unlink(gone_path);
    server_pid =
        start(&(struct http_server_config){ .header_ms = 400, .body_ms = 500 }, &server_port);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop(server_pid);
    unlink(gone_path);
    return 0;
}

/* ---- the tests ---- */

#define H "Host: a\r\n"

static void expect(const char *name, const char *bytes, const char *want, bool want_closed)
{
    static char out[65536];
    bool closed = peer_exchange(server_port, bytes, strlen(bytes), out, sizeof(out));
    if (!strstr(out, want))
        fail_msg("%s: want \"%s\", got:\n%s", name, want, out);
    if (closed != want_closed)
        fail_msg("%s: closed is %d:\n%s", name, closed, out);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static void test_answers_and_keeps_alive(void **state)
{
    (void)state;
    expect("GET", "GET / HTTP/1.1\r\n" H "\r\n", "X-Path: seen\r\nContent-Length: 3\r\n", false);
    expect("close", "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "Connection: close", true);
    expect("1.0", "GET / HTTP/1.0\r\n\r\n", "hi\n", true);
    expect("1.0 keep", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "Connection: keep-alive",
           false);
    expect("POST", "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello", "\r\n\r\nhello",
           false);
    expect("chunked",
           "POST /echo HTTP/1.1\r\n" H
           "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
           "\r\n\r\nhello", false);
    expect("empty body", "POST /echo HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
           "Content-Length: 0", false);
}

static void test_pipelining_in_order(void **state)
{
    (void)state;
    static char out[65536];
    static const char three[] = "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\none"
                                "GET /late HTTP/1.1\r\n" H "\r\n"
                                "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\ntwo"
                                "GET / HTTP/1.1\r\n" H "\r\n";
    assert_false(peer_exchange(server_port, three, sizeof(three) - 1, out, sizeof(out)));
    assert_int_equal(count(out, "HTTP/1.1 200"), 4);
    const char *one = strstr(out, "one"), *late = strstr(out, "late"), *two = strstr(out, "two");
    assert_true(one && late && two && one < late && late < two);
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    static const char bytes[] = "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                                "4\r\nslow\r\n0\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n";
    char out[4096];
    bool closed;
    int fd = peer_connect(server_port);
    for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
        peer_send(fd, bytes + i, 1);
        usleep(500);
    }
    peer_read(fd, out, sizeof(out), "hi\n", 1000, &closed);
    assert_non_null(strstr(out, "slow"));
    assert_non_null(strstr(out, "hi\n"));
    close(fd);
}

/* B2: refused, closed, and what follows on the connection is never answered. */
static void test_smuggling_closes_and_answers_nothing_more(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\n" H "Content-Length : 3\r\n\r\n",
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n",
        "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\n" H "\n\n",
        "GET / HTTP/1.1\r\n" H H "\r\n",
        "GET / HTTP/1.1\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char bytes[512], out[4096];
        snprintf(bytes, sizeof(bytes), "%s%s", heads[i], "abcGET / HTTP/1.1\r\n" H "\r\n");
        bool closed = peer_exchange(server_port, bytes, strlen(bytes), out, sizeof(out));
        if (!closed || strncmp(out, "HTTP/1.1 400 ", 13) != 0 || count(out, "HTTP/1.1") != 1)
            fail_msg("head %zu: closed %d\n%s", i, closed, out);
    }
}

static void test_methods_and_forms(void **state)
{
    (void)state;
    expect("TRACE", "TRACE / HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 405 ", true);
    expect("CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "HTTP/1.1 405 ", true);
    expect("2.0", "GET / HTTP/2.0\r\n" H "\r\n", "HTTP/1.1 505 ", true);
    expect("Expect foo", "GET / HTTP/1.1\r\n" H "Expect: x\r\n\r\n", "HTTP/1.1 417 ", true);
    char out[4096];
    static const char head[] = "HEAD / HTTP/1.1\r\n" H "\r\n";
    peer_exchange(server_port, head, sizeof(head) - 1, out, sizeof(out));
    assert_non_null(strstr(out, "Content-Length: 3\r\n"));
    assert_null(strstr(out, "hi\n"));
}

/* B14: the cap, one byte either side, in both framings, and mid-stream. */
static void test_body_cap(void **state)
{
    (void)state;
    static char bytes[8192], out[8192];
    for (int extra = 0; extra < 2; extra++) {
        int n =
            snprintf(bytes, sizeof(bytes), "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n",
                     BODY_MAX + extra);
        memset(bytes + n, 'x', BODY_MAX + 1);
        bool closed =
            peer_exchange(server_port, bytes, (size_t)(n + BODY_MAX + extra), out, sizeof(out));
        assert_true(strncmp(out, extra ? "HTTP/1.1 413" : "HTTP/1.1 200", 12) == 0);
        assert_int_equal(closed, extra);
        n = snprintf(bytes, sizeof(bytes),
                     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
                     BODY_MAX);
        memset(bytes + n, 'y', BODY_MAX);
        n += BODY_MAX;
        n += snprintf(bytes + n, 64, extra ? "\r\n1\r\nz\r\n0\r\n\r\n" : "\r\n0\r\n\r\n");
        closed = peer_exchange(server_port, bytes, (size_t)n, out, sizeof(out));
        assert_true(strncmp(out, extra ? "HTTP/1.1 413" : "HTTP/1.1 200", 12) == 0);
        assert_int_equal(closed, extra);
    }
    expect("huge chunk",
           "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
           "HTTP/1.1 413", true);
    expect("broken chunk",
           "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd",
           "HTTP/1.1 400", true);
}

static void test_expect_continue(void **state)
{
    (void)state;
    char out[4096];
    bool closed;
    int fd = peer_connect(server_port);
    static const char head[] =
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    peer_send(fd, head, sizeof(head) - 1);
    peer_read(fd, out, sizeof(out), "100 Continue\r\n\r\n", 1000, &closed);
    assert_string_equal(out, "HTTP/1.1 100 Continue\r\n\r\n");
    peer_send(fd, "body", 4);
    peer_read(fd, out, sizeof(out), "body", 1000, &closed);
    assert_non_null(strstr(out, "HTTP/1.1 200 OK"));
    close(fd);
    expect("oversize",
           "POST /echo HTTP/1.1\r\n" H "Content-Length: 4000\r\nExpect: 100-continue\r\n\r\n",
           "HTTP/1.1 413", true);
    static char none[4096];
    static const char over[] =
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 4000\r\nExpect: 100-continue\r\n\r\n";
    peer_exchange(server_port, over, sizeof(over) - 1, none, sizeof(none));
    assert_null(strstr(none, "100 Continue"));
}

/* An answer before the body: the body is read away or the connection ends; never parsed as a head.
 */
static void test_unread_body(void **state)
{
    (void)state;
    char out[8192];
    static const char small[] =
        "POST / HTTP/1.1\r\n" H "Content-Length: 32\r\n\r\nGET /evil HTTP/1.1\r\n" H "\r\nG"
        "GET / HTTP/1.1\r\n" H "\r\n";
    assert_false(peer_exchange(server_port, small, sizeof(small) - 1, out, sizeof(out)));
    assert_int_equal(count(out, "HTTP/1.1 200"), 2);
    expect("large", "POST / HTTP/1.1\r\n" H "Content-Length: 999999\r\n\r\n", "Connection: close",
           true);
    expect("chunked",
           "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n" H
           "\r\n",
           "Connection: close", true);
    expect("100", "POST / HTTP/1.1\r\n" H "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
           "Connection: close", true);
}

static void test_streaming(void **state)
{
    (void)state;
    expect("stream", "GET /stream HTTP/1.1\r\n" H "\r\n",
           "Transfer-Encoding: chunked\r\n\r\n5\r\nbeat \r\n5\r\nbeat \r\n5\r\nbeat \r\n0\r\n\r\n",
           false);
    expect("stream 1.0", "GET /stream HTTP/1.0\r\n\r\n", "\r\n\r\nbeat beat beat ", true);
    char out[4096];
    assert_true(
        peer_exchange(server_port, "GET /short HTTP/1.1\r\n" H "\r\n", 32, out, sizeof(out)));
    assert_true(
        peer_exchange(server_port, "GET /reset HTTP/1.1\r\n" H "\r\n", 32, out, sizeof(out)));
    assert_null(strstr(out, "0\r\n\r\n"));
    expect("header of ours with CRLF", "GET /evil HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 500", true);
}

static void test_deadlines(void **state)
{
    (void)state;
    char out[4096];
    bool closed;
    int64_t t = peer_now_ms();
    int fd = peer_connect(server_port);
    peer_send(fd, "GET / HTTP/1.1\r\n", 16);
    peer_read(fd, out, sizeof(out), NULL, 3000, &closed);
    assert_true(closed);
    assert_in_range(peer_now_ms() - t, 300, 1500);
    close(fd);
    t = peer_now_ms();
    fd = peer_connect(server_port);
    static const char body[] = "POST /echo HTTP/1.1\r\n" H "Content-Length: 9\r\n\r\nabc";
    peer_send(fd, body, sizeof(body) - 1);
    peer_read(fd, out, sizeof(out), NULL, 3000, &closed);
    assert_non_null(strstr(out, "HTTP/1.1 408"));
    assert_in_range(peer_now_ms() - t, 400, 2500);
    close(fd);
}

/* The user hears of a client that left, and another client is served meanwhile. */
static void test_gone(void **state)
{
    (void)state;
    char out[4096];
    static const char late[] = "GET /late HTTP/1.1\r\n" H "\r\n";
    unlink(gone_path);
    int fd = peer_connect(server_port);
    peer_send(fd, late, sizeof(late) - 1);
    usleep(50000);
    struct linger hard = { 1, 0 };
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
    peer_exchange(server_port, PLAIN, sizeof(PLAIN) - 1, out, sizeof(out));
    assert_int_equal(access(gone_path, F_OK), 0);
    /* Half-closed: told as gone, still answered. */
    bool closed;
    fd = peer_connect(server_port);
    peer_send(fd, late, sizeof(late) - 1);
    shutdown(fd, SHUT_WR);
    peer_read(fd, out, sizeof(out), NULL, 2000, &closed);
    assert_non_null(strstr(out, "was gone"));
    close(fd);
}

/* B13: a reader that takes nothing costs its own connection and no other. */
static void test_slow_reader(void **state)
{
    (void)state;
    int port;
    pid_t pid = start(&(struct http_server_config){ .write_ms = 300 }, &port);
    static const char big[] = "GET /big HTTP/1.1\r\n" H "\r\n";
    int slow = peer_connect(port);
    peer_send(slow, big, sizeof(big) - 1);
    int64_t t = peer_now_ms();
    char out[4096];
    bool closed;
    int fd = peer_connect(port);
    peer_send(fd, PLAIN, sizeof(PLAIN) - 1);
    peer_read(fd, out, sizeof(out), "hi\n", 1000, &closed);
    assert_non_null(strstr(out, "hi\n"));
    assert_true(peer_now_ms() - t < 500);
    usleep(600000);
    size_t got = 0;
    ssize_t n;
    static char sink[1 << 20];
    while ((n = recv(slow, sink, sizeof(sink), 0)) > 0)
        got += (size_t)n;
    assert_true(got < (4 << 20));
    close(slow);
    close(fd);
    /* A whole one arrives whole. */
    fd = peer_connect(port);
    peer_send(fd, big, sizeof(big) - 1);
    for (got = 0; got < (4 << 20) && (n = recv(fd, sink, sizeof(sink), 0)) > 0;)
        got += (size_t)n;
    assert_true(got > (4 << 20));
    close(fd);
    stop(pid);
}

static void test_connection_cap(void **state)
{
    (void)state;
    int port, fds[12];
    pid_t pid = start(&(struct http_server_config){ .max_connections = 8 }, &port);
    char out[4096];
    bool closed;
    for (int i = 0; i < 12; i++) {
        fds[i] = peer_connect(port);
        peer_send(fds[i], PLAIN, sizeof(PLAIN) - 1);
        peer_read(fds[i], out, sizeof(out), "hi\n", 1000, &closed);
        assert_non_null(strstr(out, "hi\n")); /* an idle one made room */
    }
    peer_read(fds[0], out, sizeof(out), NULL, 500, &closed);
    assert_true(closed);
    for (int i = 0; i < 12; i++)
        close(fds[i]);
    stop(pid);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_and_keeps_alive),
        cmocka_unit_test(test_pipelining_in_order),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_smuggling_closes_and_answers_nothing_more),
        cmocka_unit_test(test_methods_and_forms),
        cmocka_unit_test(test_body_cap),
        cmocka_unit_test(test_expect_continue),
        cmocka_unit_test(test_unread_body),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_connection_cap),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
