/* proto/ttrpc_server, spoken to in raw bytes: each row of the table of answers, order, limits. */
#include "proto/ttrpc_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <task.pb-c.h>
#include <ttrpc.pb-c.h>

#include "proto/ttrpc_frame.h"
#include "proto/unpack.h"
#include "tests/test.h"

#define KEPT_MAX 2048

struct fixture {
    struct loop *loop;
    struct ttrpc_server *server;
    char dir[64];
    char path[96];
    struct ttrpc_call *kept[KEPT_MAX];
    size_t n_kept;
    size_t connections;
    bool drained;
    int fd; /* of the client */
    uint32_t next;
    struct ttrpc_reader reader;
};

static void on_state(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)arg;
    const Task__StateRequest *request = (const Task__StateRequest *)message;
    Task__StateResponse response = TASK__STATE_RESPONSE__INIT;
    response.id = request->id;
    response.pid = 42;
    ttrpc_reply(call, &response.base);
}

static void on_wait(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    struct fixture *f = arg;
    assert_in_range(f->n_kept, 0, KEPT_MAX - 1);
    f->kept[f->n_kept++] = call;
}

static void on_kill(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)arg;
    const Task__KillRequest *request = (const Task__KillRequest *)message;
    ttrpc_reply_error(call, TTRPC_FAILED_PRECONDITION,
                      request->signal == 1 ? "bad \xff text" : "utter: refused: no");
}

static void on_pids(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)arg;
    (void)message;
    static uint8_t big[TTRPC_DATA_MAX];
    ttrpc_reply_bytes(call, big, sizeof(big) - 16);
}

static void on_stats(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)arg;
    (void)message;
    static uint8_t big[TTRPC_DATA_MAX];
    ttrpc_reply_bytes(call, big, sizeof(big)); /* with its envelope over the limit */
}

static void on_drained(void *arg)
{
    struct fixture *f = arg;
    f->drained = true;
    loop_stop(f->loop);
}

static void on_shutdown(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    struct fixture *f = arg;
    ttrpc_reply_empty(call);
    ttrpc_server_drain(f->server, 5000, on_drained, f);
}

static const struct ttrpc_method methods[] = {
    { "State", &task__state_request__descriptor, on_state, false },
    { "Wait", &task__wait_request__descriptor, on_wait, true },
    { "Kill", &task__kill_request__descriptor, on_kill, false },
    { "Pids", &task__pids_request__descriptor, on_pids, false },
    { "Stats", &task__stats_request__descriptor, on_stats, false },
    { "Shutdown", &task__shutdown_request__descriptor, on_shutdown, false },
};

static struct ttrpc_service services[] = {
    { "containerd.task.v2.Task", methods, ARRAY_LEN(methods), NULL },
    { "containerd.task.v3.Task", methods, ARRAY_LEN(methods), NULL },
};

static void on_connections(void *arg, size_t n)
{
    ((struct fixture *)arg)->connections = n;
}

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
    return sun;
}

static int dial(const struct fixture *f)
{
    struct sockaddr_un sun = address(f->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
    return fd;
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    snprintf(f->dir, sizeof(f->dir), "/tmp/ut-proto.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
    struct sockaddr_un sun = address(f->path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(loop_new(&f->loop, NULL), 0);
    services[0].arg = services[1].arg = f;
    struct ttrpc_server_options options = {
        .services = services, .n_services = 2, .on_connections = on_connections, .arg = f
    };
    assert_int_equal(ttrpc_server_new(f->loop, listener, &options, &f->server, NULL), 0);
    ttrpc_reader_init(&f->reader);
    f->fd = dial(f);
    f->next = 1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    ttrpc_server_free(f->server);
    for (size_t i = 0; i < f->n_kept; i++)
        ttrpc_reply_empty(f->kept[i]); /* dead tokens: frees them */
    loop_free(f->loop);
    ttrpc_reader_fini(&f->reader);
    if (f->fd >= 0)
        close(f->fd);
    unlink(f->path);
    rmdir(f->dir);
    free(f);
    return 0;
}

static void stop(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    loop_stop(watch->loop);
}

static void stop_timer(struct loop_timer *timer)
{
    *(bool *)timer->arg = true;
    loop_stop(timer->loop);
}

/* Runs the server until the client's socket is readable (true) or `ms` passed (false). */
static bool pump(struct fixture *f, uint64_t ms)
{
    struct loop_watch watch = { 0 };
    struct loop_timer timer = { 0 };
    bool late = false;
    if (f->fd >= 0)
        assert_int_equal(loop_watch(f->loop, &watch, f->fd, EPOLLIN, stop, NULL, NULL), 0);
    loop_after(f->loop, &timer, ms, stop_timer, &late);
    assert_int_equal(loop_run(f->loop, NULL), 0);
    loop_unwatch(&watch);
    loop_cancel(&timer);
    return !late;
}

static void send_all(struct fixture *f, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len) {
        ssize_t n = send(f->fd, p, len, MSG_NOSIGNAL);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            (void)pump(f, 5);
            continue;
        }
        p += n;
        len -= (size_t)n;
    }
}

static void send_frame(struct fixture *f, uint32_t stream, uint8_t type, uint8_t flags,
                       const void *data, size_t len)
{
    struct buf b;
    buf_init(&b, TTRPC_DATA_MAX + 64);
    struct ttrpc_header h = { (uint32_t)len, stream, type, flags };
    ttrpc_frame_append(&b, &h, data);
    send_all(f, b.data, b.len);
    buf_fini(&b);
}

static uint32_t request(struct fixture *f, const char *service, const char *method,
                        const void *payload, size_t len)
{
    Ttrpc__Request r = TTRPC__REQUEST__INIT;
    r.service = proto_str(service);
    r.method = proto_str(method);
    r.payload = proto_bytes(payload, len);
    uint8_t bytes[512];
    assert_in_range(ttrpc__request__get_packed_size(&r), 0, sizeof(bytes));
    size_t n = ttrpc__request__pack(&r, bytes);
    uint32_t stream = f->next;
    f->next += 2;
    send_frame(f, stream, TTRPC_REQUEST, 0, bytes, n);
    return stream;
}

static uint32_t call(struct fixture *f, const char *method)
{
    return request(f, "containerd.task.v2.Task", method,
                   "\x0a\x02"
                   "c1",
                   4);
}

/* The next answer, an unpacked response for the caller to free; its stream in *stream. */
static Ttrpc__Response *answer(struct fixture *f, uint32_t *stream)
{
    static uint8_t bytes[TTRPC_FEED_MAX];
    for (int i = 0; i < 1000; i++) {
        struct ttrpc_header h;
        const uint8_t *data;
        enum ttrpc_read got = ttrpc_reader_next(&f->reader, &h, &data);
        assert_int_not_equal(got, TTRPC_READ_GARBAGE);
        if (got == TTRPC_READ_FRAME) {
            assert_int_equal(h.type, TTRPC_RESPONSE);
            assert_int_equal(h.flags, 0);
            *stream = h.stream;
            ProtobufCMessage *m =
                proto_unpack(&ttrpc__response__descriptor, data, h.length, 2 * PROTO_UNPACK_MAX);
            assert_non_null(m);
            return (Ttrpc__Response *)m;
        }
        assert_true(pump(f, 5000));
        ssize_t n = recv(f->fd, bytes, sizeof(bytes), 0);
        assert_true(n > 0);
        ttrpc_reader_feed(&f->reader, bytes, (size_t)n);
    }
    fail_msg("no answer");
    return NULL;
}

static void expect(struct fixture *f, uint32_t stream, int code, const char *text)
{
    uint32_t got = 0;
    Ttrpc__Response *r CLEANUP_MESSAGE = answer(f, &got);
    assert_int_equal(got, stream);
    assert_int_equal(r->status ? r->status->code : 0, code);
    if (text)
        assert_string_equal(r->status->message, text);
}

static void expect_closed(struct fixture *f)
{
    char c;
    for (int i = 0; i < 100; i++) {
        assert_true(pump(f, 5000));
        ssize_t n = recv(f->fd, &c, 1, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return;
    }
    fail_msg("not closed");
}

static void test_answers_under_both_names(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = { "containerd.task.v2.Task", "containerd.task.v3.Task" };
    for (size_t i = 0; i < 2; i++) {
        uint32_t stream = request(f, names[i], "State",
                                  "\x0a\x02"
                                  "c1",
                                  4);
        uint32_t got = 0;
        Ttrpc__Response *r CLEANUP_MESSAGE = answer(f, &got);
        assert_int_equal(got, stream);
        assert_null(r->status);
        Task__StateResponse *s =
            task__state_response__unpack(NULL, r->payload.len, r->payload.data);
        assert_string_equal(s->id, "c1");
        assert_int_equal(s->pid, 42);
        task__state_response__free_unpacked(s, NULL);
    }
}

static void test_unknown_names(void **state)
{
    struct fixture *f = *state;
    expect(f, request(f, "containerd.task.v4.Task", "State", "", 0), TTRPC_UNIMPLEMENTED,
           "service containerd.task.v4.Task");
    expect(f, call(f, "Migrate"), TTRPC_UNIMPLEMENTED, "method Migrate");
    expect(f, call(f, "state"), TTRPC_UNIMPLEMENTED, "method state");
    expect(f, call(f, "x\ny"), TTRPC_UNIMPLEMENTED, "method x\\ny");
}

static void test_what_does_not_parse(void **state)
{
    struct fixture *f = *state;
    expect(f, request(f, "containerd.task.v2.Task", "State", "\x0a\x7f", 2), TTRPC_INTERNAL, NULL);
    send_frame(f, f->next, TTRPC_REQUEST, 0, "\x0a\x7fzz", 4);
    expect(f, f->next, TTRPC_INVALID_ARGUMENT, NULL);
    f->next += 2;
    expect(f, call(f, "State"), 0, NULL);
}

static void test_stream_ids(void **state)
{
    struct fixture *f = *state;
    f->next = 4;
    expect(f, call(f, "State"), TTRPC_INVALID_ARGUMENT, "stream id must be odd");
    f->next = 0;
    expect(f, call(f, "State"), TTRPC_INVALID_ARGUMENT, "stream id must be odd");
    f->next = 9;
    expect(f, call(f, "State"), 0, NULL);
    f->next = 9;
    expect(f, call(f, "State"), TTRPC_INVALID_ARGUMENT, "stream id must increase");
    f->next = 7;
    expect(f, call(f, "State"), TTRPC_INVALID_ARGUMENT, "stream id must increase");
    expect(f, call(f, "State"), TTRPC_INVALID_ARGUMENT, NULL);
    expect(f, call(f, "State"), 0, NULL);
}

static void test_other_frames(void **state)
{
    struct fixture *f = *state;
    send_frame(f, 1, 77, 0, "zz", 2); /* unknown: no answer */
    send_frame(f, 1, TTRPC_RESPONSE, 0, "zz", 2);
    send_frame(f, 3, TTRPC_DATA, TTRPC_REMOTE_CLOSED, "zz", 2);
    expect(f, 3, TTRPC_INVALID_ARGUMENT, "data on an unknown stream");
    send_frame(f, 5, TTRPC_REQUEST, TTRPC_REMOTE_OPEN, "", 0);
    expect(f, 5, TTRPC_UNIMPLEMENTED, "streaming is not offered");
    f->next = 7;
    expect(f, call(f, "State"), 0, NULL);
}

static void test_too_long_leaves_it_usable(void **state)
{
    struct fixture *f = *state;
    static const uint8_t head[] = { 0, 0x40, 0, 1, 0, 0, 0, 1, 1, 0 };
    static const uint8_t zeros[65536];
    send_all(f, head, sizeof(head));
    expect(f, 1, TTRPC_RESOURCE_EXHAUSTED, "message over 4 MiB");
    for (size_t i = 0; i < TTRPC_DATA_MAX / sizeof(zeros); i++)
        send_all(f, zeros, sizeof(zeros));
    send_all(f, zeros, 1);
    f->next = 3;
    expect(f, call(f, "State"), 0, NULL);
}

static void test_http_is_closed(void **state)
{
    struct fixture *f = *state;
    send_all(f, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_closed(f);
    assert_int_equal(f->connections, 0);
}

static void test_out_of_order(void **state)
{
    struct fixture *f = *state;
    uint32_t wait = call(f, "Wait");
    uint32_t second = call(f, "Wait");
    expect(f, call(f, "State"), 0, NULL);
    assert_int_equal(f->n_kept, 2);
    assert_string_equal(ttrpc_call_method(f->kept[0]), "Wait");
    assert_string_equal(ttrpc_call_service(f->kept[0]), "containerd.task.v2.Task");
    assert_int_equal(ttrpc_call_timeout_ms(f->kept[0]), 0);
    ttrpc_reply_empty(f->kept[1]);
    expect(f, second, 0, NULL);
    ttrpc_reply_empty(f->kept[0]);
    expect(f, wait, 0, NULL);
    f->n_kept = 0;
}

static void test_token_outlives_connection(void **state)
{
    struct fixture *f = *state;
    (void)call(f, "Wait");
    expect(f, call(f, "State"), 0, NULL);
    assert_true(ttrpc_call_connected(f->kept[0]));
    close(f->fd);
    f->fd = -1;
    (void)pump(f, 20);
    assert_int_equal(f->connections, 0);
    assert_false(ttrpc_call_connected(f->kept[0]));
    ttrpc_reply_error(f->kept[0], TTRPC_UNKNOWN, "late");
    f->n_kept = 0;
    f->fd = dial(f);
    f->next = 1;
    expect(f, call(f, "State"), 0, NULL);
}

static void test_error_texts(void **state)
{
    struct fixture *f = *state;
    expect(f, call(f, "Kill"), TTRPC_FAILED_PRECONDITION, "utter: refused: no");
    expect(f, request(f, "containerd.task.v2.Task", "Kill", "\x18\x01", 2),
           TTRPC_FAILED_PRECONDITION, "bad \\xff text");
    expect(f, call(f, "Stats"), TTRPC_RESOURCE_EXHAUSTED, "answer over 4 MiB");
}

static void test_pending_calls_are_bounded(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < TTRPC_CALLS_MAX / 2; i++)
        (void)call(f, "Wait");
    expect(f, call(f, "Wait"), TTRPC_RESOURCE_EXHAUSTED, "too many calls pending");
    assert_int_equal(f->n_kept, TTRPC_CALLS_MAX / 2);
    expect(f, call(f, "State"), 0, NULL); /* who waits does not lock out who kills */
    for (size_t i = 0; i < f->n_kept; i++)
        ttrpc_reply_empty(f->kept[i]);
    f->n_kept = 0;
    uint32_t stream;
    for (int i = 0; i < TTRPC_CALLS_MAX / 2; i++) {
        Ttrpc__Response *r CLEANUP_MESSAGE = answer(f, &stream);
        assert_null(r->status);
    }
    expect(f, call(f, "State"), 0, NULL);
}

static void test_reader_that_does_not_read(void **state)
{
    struct fixture *f = *state;
    /* Answers of 4 MiB each: the server stops reading requests, nothing is lost, all come. */
    for (int i = 0; i < 8; i++)
        (void)call(f, "Pids");
    (void)pump(f, 20);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t stream;
        Ttrpc__Response *r CLEANUP_MESSAGE = answer(f, &stream);
        assert_int_equal(stream, 1 + 2 * i);
        assert_int_equal(r->payload.len, TTRPC_DATA_MAX - 16);
    }
}

static void test_answers_that_pile_up_cut_the_peer(void **state)
{
    struct fixture *f = *state;
    static uint8_t big[TTRPC_DATA_MAX];
    for (int i = 0; i < 6; i++)
        (void)call(f, "Wait");
    expect(f, call(f, "State"), 0, NULL);
    for (size_t i = 0; i < 6; i++)
        ttrpc_reply_bytes(f->kept[i], big, sizeof(big) - 16);
    f->n_kept = 0;
    assert_int_equal(f->connections, 0);
}

static void test_drain(void **state)
{
    struct fixture *f = *state;
    uint32_t stream = call(f, "Shutdown");
    expect(f, stream, 0, NULL);
    if (!f->drained)
        (void)pump(f, 1000);
    assert_true(f->drained);
}

static void test_drain_waits_for_a_slow_reader(void **state)
{
    struct fixture *f = *state;
    (void)call(f, "Pids");
    uint32_t stream = call(f, "Shutdown");
    assert_true(pump(f, 1000));
    assert_false(f->drained); /* 4 MiB are not in the kernel's hands yet */
    expect(f, 1, 0, NULL);
    expect(f, stream, 0, NULL);
    if (!f->drained)
        (void)pump(f, 100);
    assert_true(f->drained);
}

static void test_other_uid_is_refused(void **state)
{
    struct fixture *f = *state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(f->dir, 0755) | chmod(f->path, 0777), 0);
    (void)pump(f, 20);
    assert_int_equal(f->connections, 1);
    pid_t child = fork();
    if (child == 0) {
        struct sockaddr_un sun = address(f->path);
        char c;
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (setgid(1000) || setuid(1000) || connect(fd, (struct sockaddr *)&sun, sizeof(sun)))
            _exit(2);
        _exit(recv(fd, &c, 1, 0) == 0 ? 0 : 1);
    }
    int status = -1;
    for (int i = 0; i < 100 && waitpid(child, &status, WNOHANG) == 0; i++)
        (void)pump(f, 20);
    assert_int_equal(status, 0);
    assert_int_equal(f->connections, 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answers_under_both_names),
        TEST(test_unknown_names),
        TEST(test_what_does_not_parse),
        TEST(test_stream_ids),
        TEST(test_other_frames),
        TEST(test_too_long_leaves_it_usable),
        TEST(test_http_is_closed),
        TEST(test_out_of_order),
        TEST(test_token_outlives_connection),
        TEST(test_error_texts),
        TEST(test_pending_calls_are_bounded),
        TEST(test_reader_that_does_not_read),
        TEST(test_answers_that_pile_up_cut_the_peer),
        TEST(test_drain),
        TEST(test_drain_waits_for_a_slow_reader),
        TEST(test_other_uid_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
