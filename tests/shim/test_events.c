/* Events against a real ttrpc server: in order, kept while nobody listens, bounded. */
#include "shim/events.h"

#include <events.pb-c.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/ttrpc_server.h"
#include "tests/test.h"

#define GOT_MAX 4096

struct sink {
    struct loop *loop;
    char path[64];
    struct ttrpc_server *server;
    char got[GOT_MAX][24]; /* topics */
    size_t n;
    size_t stop_at;
};

static void on_forward(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    struct sink *s = arg;
    const Events__ForwardRequest *m = (const void *)message;
    assert_true(s->n < GOT_MAX);
    assert_string_equal(m->envelope->namespace_, "ns");
    assert_true(m->envelope->timestamp->seconds > 1000000);
    (void)snprintf(s->got[s->n++], sizeof(s->got[0]), "%s", m->envelope->topic);
    ttrpc_reply_empty(call);
    if (s->n == s->stop_at)
        loop_stop(s->loop);
}

static void serve(struct sink *s)
{
    static const struct ttrpc_method METHODS[] = {
        { "Forward", &events__forward_request__descriptor, on_forward, false },
    };
    static struct ttrpc_service services[1];
    services[0] = (struct ttrpc_service){ .name = "containerd.services.events.ttrpc.v1.Events",
                                          .methods = METHODS,
                                          .n_methods = 1,
                                          .arg = s };
    struct ttrpc_server_options options = { .services = services, .n_services = 1 };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)strcpy(address.sun_path, s->path);
    (void)unlink(s->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    struct err err = { 0 };
    assert_int_equal(ttrpc_server_new(s->loop, fd, &options, &s->server, &err), ERR_OK);
}

static int set_up(void **ctx)
{
    struct sink *s = xcalloc(1, sizeof(*s));
    struct err err = { 0 };
    assert_int_equal(loop_new(&s->loop, &err), ERR_OK);
    (void)snprintf(s->path, sizeof(s->path), "/tmp/ut-events-%d.sock", (int)getpid());
    *ctx = s;
    return 0;
}

static int tear_down(void **ctx)
{
    struct sink *s = *ctx;
    ttrpc_server_free(s->server);
    loop_free(s->loop);
    (void)unlink(s->path);
    free(s);
    return 0;
}

static void on_late(struct loop_timer *timer)
{
    loop_stop(timer->arg);
}

static void run_until(struct sink *s, size_t n, uint64_t ms)
{
    struct loop_timer timer = { 0 };
    struct err err = { 0 };
    s->stop_at = n;
    loop_after(s->loop, &timer, ms, on_late, s->loop);
    assert_int_equal(loop_run(s->loop, &err), ERR_OK);
    loop_cancel(&timer);
}

static void test_in_order(void **ctx)
{
    struct sink *s = *ctx;
    struct events *e CLEANUP(events_freep) = NULL;
    struct err err = { 0 };
    serve(s);
    assert_int_equal(events_new(s->loop, s->path, "ns", &e, &err), ERR_OK);
    struct timespec at = { .tv_sec = 5 };
    struct event_io io = { .in = "", .out = "/o", .err = "" };
    events_create(e, "c", "/b", NULL, 0, &io, 7);
    events_start(e, "c", 7);
    events_oom(e, "c");
    events_exit(e, "c", NULL, 7, 137, at);
    events_delete(e, "c", NULL, 7, 137, at);
    run_until(s, 5, 5000);
    static const char *const WANT[] = { "/tasks/create", "/tasks/start", "/tasks/oom",
                                        "/tasks/exit", "/tasks/delete" };
    assert_int_equal(s->n, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(s->got[i], WANT[i]);
    run_until(s, 99, 50);
    assert_int_equal(events_pending(e), 0);
}

static void test_kept_while_nobody_listens(void **ctx)
{
    struct sink *s = *ctx;
    struct events *e CLEANUP(events_freep) = NULL;
    struct err err = { 0 };
    assert_int_equal(events_new(s->loop, s->path, "ns", &e, &err), ERR_OK);
    events_start(e, "c", 7);
    events_paused(e, "c");
    run_until(s, 99, 100);
    assert_int_equal(events_pending(e), 2);
    serve(s);
    run_until(s, 2, 10000);
    assert_int_equal(s->n, 2);
    assert_string_equal(s->got[0], "/tasks/start");
    assert_string_equal(s->got[1], "/tasks/paused");
}

static void test_bounded_and_exits_go_last(void **ctx)
{
    struct sink *s = *ctx;
    struct events *e CLEANUP(events_freep) = NULL;
    struct err err = { 0 };
    struct timespec at = { .tv_sec = 5 };
    assert_int_equal(events_new(s->loop, s->path, "ns", &e, &err), ERR_OK);
    events_exit(e, "c", NULL, 7, 0, at);
    for (int i = 0; i < EVENTS_MAX + 100; i++)
        events_resumed(e, "c");
    events_exit(e, "d", NULL, 8, 0, at);
    assert_int_equal(events_pending(e), EVENTS_MAX);
    serve(s);
    run_until(s, EVENTS_MAX, 30000);
    assert_int_equal(s->n, EVENTS_MAX);
    assert_string_equal(s->got[0], "/tasks/exit");
    assert_string_equal(s->got[EVENTS_MAX - 1], "/tasks/exit");
}

static void test_nobody_to_tell(void **ctx)
{
    struct sink *s = *ctx;
    struct events *e CLEANUP(events_freep) = NULL;
    struct err err = { 0 };
    assert_int_equal(events_new(s->loop, "", "ns", &e, &err), ERR_OK);
    events_start(e, "c", 7);
    assert_int_equal(events_pending(e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kept_while_nobody_listens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounded_and_exits_go_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_to_tell, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
