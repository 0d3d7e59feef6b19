/* proto/ttrpc_client and proto/ttrpc_blocking against proto/ttrpc_server. */
#include "proto/ttrpc_client.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <task.pb-c.h>

#include "proto/ttrpc_blocking.h"
#include "proto/ttrpc_server.h"
#include "proto/unpack.h"
#include "tests/test.h"

struct fixture {
    struct loop *loop;
    struct ttrpc_server *server;
    struct ttrpc_client *client;
    char dir[64];
    char path[96];
    struct ttrpc_call *kept;
    int n_done;
    bool free_in_callback;
    bool call_again;
    struct ttrpc_result last;
    char last_message[128];
    uint8_t last_payload[64];
};

static void on_state(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)arg;
    Task__StateResponse response = TASK__STATE_RESPONSE__INIT;
    response.id = ((const Task__StateRequest *)message)->id;
    response.pid = (uint32_t)ttrpc_call_timeout_ms(call);
    ttrpc_reply(call, &response.base);
}

static void on_wait(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    struct fixture *f = arg;
    f->kept = call;
}

static void on_kill(void *arg, struct ttrpc_call *call, const ProtobufCMessage *message)
{
    (void)arg;
    ttrpc_reply_error(call, (enum ttrpc_code)((const Task__KillRequest *)message)->signal, "why");
}

static const struct ttrpc_method methods[] = {
    { "State", &task__state_request__descriptor, on_state, false },
    { "Wait", &task__wait_request__descriptor, on_wait, false },
    { "Kill", &task__kill_request__descriptor, on_kill, false },
};
static struct ttrpc_service service = { "T", methods, ARRAY_LEN(methods), NULL };

static void serve(struct fixture *f)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", f->path);
    (void)unlink(f->path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    assert_int_equal(listen(listener, 16), 0);
    service.arg = f;
    struct ttrpc_server_options options = { .services = &service, .n_services = 1 };
    assert_int_equal(ttrpc_server_new(f->loop, listener, &options, &f->server, NULL), 0);
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    snprintf(f->dir, sizeof(f->dir), "/tmp/ut-proto.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
    assert_int_equal(loop_new(&f->loop, NULL), 0);
    serve(f);
    char address[128];
    snprintf(address, sizeof(address), "unix://%s", f->path);
    assert_int_equal(ttrpc_client_new(f->loop, address, &f->client, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    ttrpc_client_free(f->client);
    ttrpc_server_free(f->server);
    if (f->kept)
        ttrpc_reply_empty(f->kept);
    loop_free(f->loop);
    unlink(f->path);
    rmdir(f->dir);
    free(f);
    return 0;
}

static void call(struct fixture *f, const char *method, uint32_t signal, uint64_t timeout_ms);

static void on_done(void *arg, const struct ttrpc_result *result)
{
    struct fixture *f = arg;
    f->n_done++;
    f->last = *result;
    snprintf(f->last_message, sizeof(f->last_message), "%s", result->message);
    assert_in_range(result->payload_len, 0, sizeof(f->last_payload));
    if (result->payload_len)
        memcpy(f->last_payload, result->payload, result->payload_len);
    if (f->call_again) {
        f->call_again = false;
        call(f, "State", 0, 0);
        return;
    }
    if (f->free_in_callback)
        ttrpc_client_free(STEAL(f->client));
    loop_stop(f->loop);
}

static void call(struct fixture *f, const char *method, uint32_t signal, uint64_t timeout_ms)
{
    Task__KillRequest kill = TASK__KILL_REQUEST__INIT;
    kill.id = (char[]){ "c1" };
    kill.signal = signal;
    int before = f->n_done;
    ttrpc_client_call(f->client, "T", method, &kill.base, timeout_ms, on_done, f);
    assert_int_equal(f->n_done, before); /* never from inside */
}

static void stop_timer(struct loop_timer *timer)
{
    loop_stop(timer->loop);
}

static void pump(struct fixture *f, uint64_t ms)
{
    struct loop_timer timer = { 0 };
    loop_after(f->loop, &timer, ms, stop_timer, NULL);
    assert_int_equal(loop_run(f->loop, NULL), 0);
    loop_cancel(&timer);
}

static void test_call(void **state)
{
    struct fixture *f = *state;
    assert_false(ttrpc_client_connected(f->client));
    call(f, "State", 0, 1234);
    pump(f, 5000);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(f->last.kind, ERR_OK);
    assert_int_equal(f->last.code, 0);
    assert_string_equal(f->last_message, "");
    Task__StateResponse *s =
        task__state_response__unpack(NULL, f->last.payload_len, f->last_payload);
    assert_string_equal(s->id, "c1");
    assert_int_equal(s->pid, 1234);
    task__state_response__free_unpacked(s, NULL);
    assert_true(ttrpc_client_connected(f->client));
}

static void test_every_code_has_a_kind(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int code;
        enum err_kind kind;
    } rows[] = {
        { TTRPC_INVALID_ARGUMENT, ERR_INVALID },
        { TTRPC_NOT_FOUND, ERR_NOT_FOUND },
        { TTRPC_ALREADY_EXISTS, ERR_EXISTS },
        { TTRPC_FAILED_PRECONDITION, ERR_PRECONDITION },
        { TTRPC_UNIMPLEMENTED, ERR_UNSUPPORTED },
        { TTRPC_UNAVAILABLE, ERR_UNAVAILABLE },
        { TTRPC_DEADLINE_EXCEEDED, ERR_TIMEOUT },
        { TTRPC_PERMISSION_DENIED, ERR_DENIED },
        { TTRPC_UNKNOWN, ERR_INTERNAL },
        { TTRPC_INTERNAL, ERR_INTERNAL },
        { TTRPC_RESOURCE_EXHAUSTED, ERR_UNAVAILABLE },
        { 99, ERR_INTERNAL },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        call(f, "Kill", (uint32_t)rows[i].code, 0);
        pump(f, 5000);
        assert_int_equal(f->last.kind, rows[i].kind);
        assert_int_equal(f->last.code, rows[i].code);
        assert_string_equal(f->last_message, "why");
    }
    assert_int_equal(ttrpc_code_kind(-1), ERR_INTERNAL);
}

static void test_timeout_and_late_answer(void **state)
{
    struct fixture *f = *state;
    call(f, "Wait", 0, 20);
    pump(f, 5000);
    assert_int_equal(f->last.kind, ERR_TIMEOUT);
    ttrpc_reply_empty(STEAL(f->kept)); /* dropped by the client */
    call(f, "State", 0, 0);
    pump(f, 5000);
    assert_int_equal(f->last.kind, ERR_OK);
    assert_int_equal(f->n_done, 2);
}

static void test_peer_goes_and_comes_back(void **state)
{
    struct fixture *f = *state;
    call(f, "Wait", 0, 0);
    pump(f, 20);
    assert_int_equal(f->n_done, 0);
    ttrpc_server_free(STEAL(f->server));
    ttrpc_reply_empty(STEAL(f->kept));
    pump(f, 5000);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(f->last.kind, ERR_UNAVAILABLE);
    assert_false(ttrpc_client_connected(f->client));
    call(f, "State", 0, 0); /* nobody listens */
    pump(f, 5000);
    assert_int_equal(f->n_done, 2);
    assert_int_equal(f->last.kind, ERR_UNAVAILABLE);
    serve(f);
    call(f, "State", 0, 0);
    pump(f, 5000);
    assert_int_equal(f->n_done, 3);
    assert_int_equal(f->last.kind, ERR_OK);
}

static void test_call_from_a_callback(void **state)
{
    struct fixture *f = *state;
    f->call_again = true;
    call(f, "State", 0, 0);
    pump(f, 5000);
    assert_int_equal(f->n_done, 2);
    assert_int_equal(f->last.kind, ERR_OK);
}

static void test_free_from_a_callback(void **state)
{
    struct fixture *f = *state;
    call(f, "Wait", 0, 0);
    call(f, "State", 0, 0);
    f->free_in_callback = true;
    pump(f, 5000);
    assert_int_equal(f->n_done, 2);
    assert_int_equal(f->last.kind, ERR_UNAVAILABLE); /* Wait's, by the free */
}

static void test_too_many_pending(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i <= TTRPC_CLIENT_CALLS_MAX; i++)
        call(f, "State", 0, 0);
    pump(f, 5000);
    assert_true(f->n_done >= 1);
    while (f->n_done <= TTRPC_CLIENT_CALLS_MAX)
        pump(f, 5000);
    assert_int_equal(f->n_done, TTRPC_CLIENT_CALLS_MAX + 1);
}

static void test_addresses(void **state)
{
    struct fixture *f = *state;
    struct ttrpc_client *client = NULL;
    struct err err;
    char longest[300];
    snprintf(longest, sizeof(longest), "/%0*d", 107, 0);
    static const char *const bad[] = { "", "relative", "unix://", "vsock://1:2", "tcp://1.2.3.4" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(ttrpc_client_new(f->loop, bad[i], &client, &err), ERR_INVALID);
    assert_int_equal(ttrpc_client_new(f->loop, longest, &client, &err), ERR_INVALID);
    longest[107] = 0;
    assert_int_equal(ttrpc_client_new(f->loop, longest, &client, &err), ERR_OK);
    ttrpc_client_free(client);
}

static void test_blocking(void **state)
{
    struct fixture *f = *state;
    pid_t child = fork();
    if (child == 0) {
        enum err_kind rc = loop_run(f->loop, NULL);
        _exit(rc ? 1 : 2);
    }
    struct ttrpc_blocking c;
    struct err err;
    int code;
    Task__StateRequest request = TASK__STATE_REQUEST__INIT;
    request.id = (char[]){ "c9" };
    ProtobufCMessage *m CLEANUP_MESSAGE = NULL;
    assert_int_equal(ttrpc_blocking_open(f->path, &c, &err), 0);
    assert_int_equal(ttrpc_blocking_call(&c, "T", "State", &request.base, 5000,
                                         &task__state_response__descriptor, &m, &code, &err),
                     0);
    assert_string_equal(((Task__StateResponse *)m)->id, "c9");
    assert_int_equal(
        ttrpc_blocking_call(&c, "T", "Nope", &request.base, 5000, NULL, NULL, &code, &err),
        ERR_UNSUPPORTED);
    assert_int_equal(code, TTRPC_UNIMPLEMENTED);
    assert_string_equal(err.msg, "method Nope");
    assert_int_equal(
        ttrpc_blocking_call(&c, "T", "Wait", &request.base, 30, NULL, NULL, &code, &err),
        ERR_TIMEOUT);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ttrpc_blocking_close(&c);
    ttrpc_blocking_close(&c);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_call),
        TEST(test_every_code_has_a_kind),
        TEST(test_timeout_and_late_answer),
        TEST(test_peer_goes_and_comes_back),
        TEST(test_call_from_a_callback),
        TEST(test_free_from_a_callback),
        TEST(test_too_many_pending),
        TEST(test_addresses),
        TEST(test_blocking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
