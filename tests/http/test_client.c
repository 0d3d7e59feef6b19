/* http/client, both engines, against a scripted peer over real sockets. */
#include "tests/test.h"

#include "tests/http/peer.h"

#include <sys/mman.h>

#include "base/loop.h"
#include "http/client.h"

/* ---- the peer: answers by the number in the path, then closes ---- */

struct script {
    const char *name, *bytes;
    enum http_call_outcome strict, lenient; /* what each engine makes of it */
    const char *body;
};

#define OK200 "HTTP/1.1 200 OK\r\n"
#define BAD HTTP_CALL_BAD_ANSWER
#define FINE HTTP_CALL_OK
#define BROKEN HTTP_CALL_BROKEN

static const struct script SCRIPTS[] = {
    { "length", OK200 "Content-Length: 3\r\n\r\nabc", FINE, FINE, "abc" },
    { "chunked", OK200 "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", FINE, FINE,
      "abc" },
    { "close", OK200 "\r\nabc", FINE, FINE, "abc" },
    { "interim", "HTTP/1.1 103 Early\r\nX: y\r\n\r\n" OK200 "Content-Length: 3\r\n\r\nabc", FINE,
      FINE, "abc" },
    { "status 500", "HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nabc", FINE, FINE, "abc" },
    { "B3 two answers", OK200 "Content-Length: 3\r\n\r\nabc" OK200 "Content-Length: 3\r\n\r\nxyz",
      BAD, FINE, "abc" },
    { "B3 longer than length", OK200 "Content-Length: 3\r\n\r\nabcd", BAD, FINE, "abc" },
    { "B3 shorter than length", OK200 "Content-Length: 4\r\n\r\nabc", BROKEN, BROKEN, NULL },
    { "B3 CL and TE",
      OK200 "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", BAD,
      BAD, NULL },
    { "B3 two CL", OK200 "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", BAD, BAD, NULL },
    { "B3 no last chunk", OK200 "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", BROKEN, BROKEN,
      NULL },
    { "B3 broken chunk", OK200 "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n", BAD,
      BROKEN, NULL },
    { "B3 after last chunk", OK200 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nX", BAD, FINE, "" },
    { "B3 101", "HTTP/1.1 101 Switch\r\nUpgrade: x\r\n\r\n", BAD, BAD, NULL },
    { "B3 body on 204", "HTTP/1.1 204 No\r\n\r\nabc", BAD, FINE, "" },
    { "B3 bare LF", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", BAD, BAD, NULL },
    { "B3 fold", OK200 "X: a\r\n b\r\nContent-Length: 3\r\n\r\nabc", BAD, BAD, NULL },
    { "B3 bare CR", OK200 "X: a\rSet-Cookie: b\r\nContent-Length: 3\r\n\r\nabc", BAD, BAD, NULL },
    { "B3 1.0 chunked", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD, BAD,
      NULL },
    { "B3 garbage", "hello", BROKEN, BAD, NULL },
    { "B3 0.9", "<html>\r\n\r\n", BAD, BAD, NULL },
    { "B3 2.0", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", BAD, BAD, NULL },
    { "nothing", "", BROKEN, BROKEN, NULL },
    { "head cut", OK200 "Content-Len", BROKEN, BROKEN, NULL },
    { "too large by length", OK200 "Content-Length: 101\r\n\r\n", HTTP_CALL_TOO_LARGE,
      HTTP_CALL_TOO_LARGE, NULL },
    { "B19 redirect",
      "HTTP/1.1 308 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 3\r\n\r\nabc", FINE,
      FINE, "abc" },
};
enum {
    N_SCRIPTS = sizeof(SCRIPTS) / sizeof(SCRIPTS[0]),
    ENDLESS = 900,
    FLOOD,
    HANG,
    DROP_SECOND,
    BIG_OK
};

/* Shared with the child. */
struct seen {
    int requests;
    int bodies;
    char head[8192];
};
static struct seen *seen;

static bool read_request(int fd)
{
    char buf[8192];
    size_t len = 0;
    char *end = NULL;
    while (!end && len + 1 < sizeof(buf)) {
        ssize_t n = recv(fd, buf + len, sizeof(buf) - 1 - len, 0);
        if (n <= 0)
            return false;
        len += (size_t)n;
        buf[len] = '\0';
        end = strstr(buf, "\r\n\r\n");
    }
    const char *cl = strcasestr(buf, "\r\nContent-Length: ");
    size_t want = cl ? strtoul(cl + 18, NULL, 10) : 0;
    for (size_t have = len - (size_t)(end + 4 - buf); have < want;) {
        ssize_t n = recv(fd, buf, sizeof(buf) - 1, 0);
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    memcpy(seen->head, buf, len + 1);
    seen->requests++;
    seen->bodies += want > 0;
    return true;
}

static void write_all(int fd, const char *s)
{
    peer_send(fd, s, strlen(s));
}

static void special(int fd, unsigned long n)
{
    static char piece[65536];
    memset(piece, 'e', sizeof(piece));
    if (n == ENDLESS) {
        write_all(fd, OK200 "\r\n");
        for (int i = 0; i < 1000 && send(fd, piece, sizeof(piece), MSG_NOSIGNAL) > 0; i++)
            ;
    } else if (n == FLOOD) {
        for (int i = 0; i < 100; i++)
            write_all(fd, "HTTP/1.1 100 Go\r\n\r\n");
        write_all(fd, OK200 "Content-Length: 0\r\n\r\n");
    } else if (n == HANG) {
        usleep(1500000);
    } else if (n == BIG_OK) {
        write_all(fd, OK200 "Content-Length: 655360\r\n\r\n");
        for (int i = 0; i < 10; i++)
            peer_send(fd, piece, sizeof(piece));
    } else if (n == DROP_SECOND) { /* keeps alive once; reads the next request and closes */
        write_all(fd, OK200 "Content-Length: 3\r\n\r\none");
        if (read_request(fd))
            usleep(1000);
    }
}

static void serve(int fd)
{
    if (!read_request(fd))
        return;
    const char *slash = strchr(seen->head, '/');
    unsigned long n = slash ? strtoul(slash + 1, NULL, 10) : 0;
    if (n >= N_SCRIPTS)
        special(fd, n);
    else
        write_all(fd, SCRIPTS[n].bytes);
}

static void peer(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fork() == 0) {
            serve(fd);
            _exit(0);
        }
        close(fd);
    }
}

static pid_t peer_pid;
static int peer_port;
static struct loop *loop;
static struct http_client *client;

static int setup(void **state)
{
    (void)state;
    struct err err;
    struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(sa);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bind(listener, (struct sockaddr *)&sa, len) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&sa, &len))
        return -1;
    peer_port = ntohs(sa.sin_port);
    peer_pid = fork();
    if (peer_pid == 0)
        peer(listener);
    close(listener);
    return loop_new(&loop, &err) ||
           http_client_new(loop, &(struct http_client_config){ 0 }, &client, &err);
}

static int teardown(void **state)
{
    (void)state;
    http_client_free(client);
    loop_free(loop);
    kill(peer_pid, SIGKILL);
    waitpid(peer_pid, NULL, 0);
    return 0;
}

static void call(unsigned long n, struct http_call_spec spec, struct http_stored *store)
{
    struct err err = { 0 };
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/%lu", peer_port, n);
    spec.url = url;
    spec.method = spec.method ? spec.method : "GET";
    spec.deadline_ms = spec.deadline_ms ? spec.deadline_ms : 5000;
    spec.response_max = spec.response_max ? spec.response_max : 100;
    if (http_call_wait(loop, client, &spec, store, &err))
        fail_msg("call %lu: %s", n, err.msg);
}

static void run_scripts(unsigned flags)
{
    for (unsigned long i = 0; i < N_SCRIPTS; i++) {
        const struct script *s = &SCRIPTS[i];
        struct http_stored store;
        call(i, (struct http_call_spec){ .flags = flags }, &store);
        enum http_call_outcome want = flags & HTTP_CALL_STRICT ? s->strict : s->lenient;
        if (store.result.outcome != want)
            fail_msg("%s: got %s (%s), want %s", s->name,
                     http_call_outcome_name(store.result.outcome), store.result.why,
                     http_call_outcome_name(want));
        if (want == FINE) {
            assert_int_equal(store.result.body_len, strlen(s->body));
            assert_memory_equal(store.result.body, s->body, strlen(s->body));
        }
        http_stored_fini(&store);
    }
}

static void test_scripts_strict(void **state)
{
    (void)state;
    run_scripts(HTTP_CALL_STRICT);
}

static void test_scripts_libcurl(void **state)
{
    (void)state;
    run_scripts(HTTP_CALL_FRESH);
}

static void test_caps_and_deadlines(void **state)
{
    (void)state;
    static const unsigned engines[] = { 0, HTTP_CALL_STRICT };
    for (int i = 0; i < 2; i++) {
        struct http_stored store;
        call(ENDLESS, (struct http_call_spec){ .flags = engines[i], .response_max = 100000 },
             &store);
        assert_int_equal(store.result.outcome, HTTP_CALL_TOO_LARGE);
        http_stored_fini(&store);
        call(HANG, (struct http_call_spec){ .flags = engines[i], .deadline_ms = 150 }, &store);
        assert_int_equal(store.result.outcome, HTTP_CALL_TIMEOUT);
        assert_true(store.result.maybe_sent);
        assert_in_range(store.result.ms, 100, 1000);
        http_stored_fini(&store);
    }
    struct http_stored store;
    call(FLOOD, (struct http_call_spec){ .flags = HTTP_CALL_STRICT }, &store);
    assert_int_equal(store.result.outcome, HTTP_CALL_BAD_ANSWER);
    http_stored_fini(&store);
}

static void test_no_connection(void **state)
{
    (void)state;
    static const unsigned engines[] = { 0, HTTP_CALL_STRICT };
    for (int i = 0; i < 2; i++) {
        struct err err = { 0 };
        struct http_stored store;
        struct http_call_spec spec = { .method = "POST",
                                       .url = "http://127.0.0.1:1/",
                                       .flags = engines[i],
                                       .deadline_ms = 1000,
                                       .response_max = 1,
                                       .body = "x",
                                       .body_len = 1 };
        assert_int_equal(http_call_wait(loop, client, &spec, &store, &err), ERR_OK);
        assert_int_equal(store.result.outcome, HTTP_CALL_NO_CONNECT);
        assert_false(store.result.maybe_sent);
        http_stored_fini(&store);
    }
}

/* The trap: a kept-alive connection dies after the request was read. It must not be sent again. */
static void test_post_is_never_sent_twice(void **state)
{
    (void)state;
    struct http_stored store;
    seen->requests = seen->bodies = 0;
    for (int i = 0; i < 2; i++) {
        call(DROP_SECOND, (struct http_call_spec){ .method = "POST", .body = "{}", .body_len = 2 },
             &store);
        assert_int_equal(store.result.outcome, i ? HTTP_CALL_BROKEN : HTTP_CALL_OK);
        assert_true(store.result.maybe_sent);
        http_stored_fini(&store);
    }
    usleep(50000);
    assert_int_equal(seen->requests, 2);
    /* Without a body only a new connection keeps libcurl from sending again. */
    seen->requests = 0;
    for (int i = 0; i < 2; i++) {
        call(DROP_SECOND, (struct http_call_spec){ .method = "DELETE" }, &store);
        assert_int_equal(store.result.outcome, HTTP_CALL_OK);
        http_stored_fini(&store);
    }
    assert_int_equal(seen->requests, 2);
}

static void test_request_as_sent(void **state)
{
    (void)state;
    static const unsigned engines[] = { 0, HTTP_CALL_STRICT };
    const struct http_header headers[] = { { "X-One", "1" },
                                           { "Content-Type", "text/x" },
                                           { "Host", "shop.example" } };
    for (int i = 0; i < 2; i++) {
        struct http_stored store;
        call(0,
             (struct http_call_spec){ .method = "PUT",
                                      .flags = engines[i],
                                      .headers = headers,
                                      .n_headers = 3,
                                      .has_body = true },
             &store);
        assert_int_equal(store.result.outcome, HTTP_CALL_OK);
        http_stored_fini(&store);
        assert_int_equal(strncmp(seen->head, "PUT /0 HTTP/1.1\r\n", 17), 0);
        assert_non_null(strstr(seen->head, "\r\nHost: shop.example\r\n"));
        assert_non_null(strstr(seen->head, "\r\nX-One: 1\r\n"));
        assert_non_null(strstr(seen->head, "\r\nContent-Type: text/x\r\n"));
        assert_non_null(strstr(seen->head, "\r\nContent-Length: 0\r\n"));
        assert_null(strstr(seen->head, "\r\nAccept:"));
        assert_null(strstr(seen->head, "\r\nExpect:"));
    }
    struct err err;
    struct http_stored store;
    const struct http_header evil = { "X", "a\r\nY: b" };
    struct http_call_spec spec = { .method = "GET",
                                   .url = "http://127.0.0.1/",
                                   .headers = &evil,
                                   .n_headers = 1,
                                   .deadline_ms = 1 };
    assert_int_equal(http_call_wait(loop, client, &spec, &store, &err), ERR_INVALID);
    spec =
        (struct http_call_spec){ .method = "GET", .url = "http://127.0.0.1/a b", .deadline_ms = 1 };
    assert_int_equal(http_call_wait(loop, client, &spec, &store, &err), ERR_INVALID);
    spec = (struct http_call_spec){
        .method = "GET", .url = "file:///etc/passwd", .deadline_ms = 500, .response_max = 9999
    };
    if (http_call_wait(loop, client, &spec, &store, &err) == ERR_OK) {
        assert_int_equal(store.result.outcome, HTTP_CALL_NO_CONNECT);
        http_stored_fini(&store);
    }
}

static void test_proxy_variables_are_ignored(void **state)
{
    (void)state;
    struct http_stored store;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    call(0, (struct http_call_spec){ .flags = HTTP_CALL_FRESH }, &store);
    assert_int_equal(store.result.outcome, HTTP_CALL_OK);
    http_stored_fini(&store);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
}

/* ---- streaming, guard, cancel ---- */

struct stream {
    struct loop_timer timer;
    struct http_call *call;
    size_t got;
    int pauses, dones;
    enum http_call_outcome outcome;
    bool deny, cancel_inside;
};

static void on_resume(struct loop_timer *timer)
{
    struct stream *s = timer->arg;
    http_call_resume(s->call);
}

static enum http_data on_data(void *arg, const void *data, size_t len)
{
    (void)data;
    struct stream *s = arg;
    if (s->cancel_inside) {
        http_call_cancel(s->call);
        return HTTP_DATA_GO;
    }
    if (s->pauses < 3 && s->got > (size_t)s->pauses * 100000) {
        s->pauses++;
        loop_after(loop, &s->timer, 5, on_resume, s);
        return HTTP_DATA_PAUSE;
    }
    s->got += len;
    return HTTP_DATA_GO;
}

static void on_done(void *arg, const struct http_result *result)
{
    struct stream *s = arg;
    s->dones++;
    s->outcome = result->outcome;
    loop_stop(loop);
}

static bool guard(void *arg, const struct sockaddr *address, socklen_t len)
{
    (void)len;
    struct stream *s = arg;
    assert_int_equal(address->sa_family, AF_INET);
    return !s->deny;
}

static void on_give_up(struct loop_timer *timer)
{
    (void)timer;
    loop_stop(loop);
}

static void stream(struct stream *s, unsigned flags, unsigned long n)
{
    struct err err;
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/%lu", peer_port, n);
    struct http_call_spec spec = { .method = "GET",
                                   .url = url,
                                   .deadline_ms = 5000,
                                   .flags = flags,
                                   .on_data = on_data,
                                   .done = on_done,
                                   .guard = guard,
                                   .arg = s };
    assert_int_equal(http_call_start(client, &spec, &s->call, &err), ERR_OK);
    struct loop_timer give_up = { 0 };
    loop_after(loop, &give_up, s->cancel_inside ? 200 : 4000, on_give_up, NULL);
    assert_int_equal(loop_run(loop, &err), ERR_OK);
    loop_cancel(&give_up);
}

static void test_streaming(void **state)
{
    (void)state;
    static const unsigned engines[] = { HTTP_CALL_FRESH, HTTP_CALL_STRICT };
    for (int i = 0; i < 2; i++) {
        struct stream s = { 0 };
        stream(&s, engines[i], BIG_OK);
        assert_int_equal(s.outcome, HTTP_CALL_OK);
        assert_int_equal(s.got, 655360);
        assert_int_equal(s.pauses, 3);
        assert_int_equal(s.dones, 1);
        s = (struct stream){ .deny = true };
        stream(&s, engines[i], BIG_OK);
        assert_int_equal(s.outcome, HTTP_CALL_DENIED);
        s = (struct stream){ .cancel_inside = true };
        stream(&s, engines[i], BIG_OK);
        assert_int_equal(s.dones, 0);
    }
    struct http_client_stats stats;
    http_client_stats(client, &stats);
    assert_int_equal(stats.running, 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts_strict),  cmocka_unit_test(test_scripts_libcurl),
        cmocka_unit_test(test_no_connection),   cmocka_unit_test(test_post_is_never_sent_twice),
        cmocka_unit_test(test_request_as_sent), cmocka_unit_test(test_proxy_variables_are_ignored),
        cmocka_unit_test(test_streaming),       cmocka_unit_test(test_caps_and_deadlines),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
