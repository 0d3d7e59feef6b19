/* gate/data_session: opened, refused, lost; a silent or dead proxy is never taken for one that
 * answered. */
#include "gate/data_session.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fs.h"
#include "tests/test.h"

struct house {
    char dir[64];
    char path[96];
    struct loop *loop;
    struct data_session *session;
    int listener;
    struct loop_timer timer;
    int results;
    enum data_result result;
    struct data_message answer;
};

static void turn_over(struct loop_timer *timer)
{
    loop_stop(timer->loop);
}

static void turn(struct house *h, uint64_t ms)
{
    loop_after(h->loop, &h->timer, ms, turn_over, NULL);
    assert_int_equal(loop_run(h->loop, NULL), 0);
}

static void listen_now(struct house *h)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", h->path);
    (void)unlink(h->path);
    h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(h->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(h->listener, 4), 0);
}

static void house_init(struct house *h, bool listening)
{
    *h = (struct house){ .dir = "/tmp/utter-test-gds.XXXXXX", .listener = -1 };
    assert_non_null(mkdtemp(h->dir));
    (void)snprintf(h->path, sizeof(h->path), "%s/s", h->dir);
    assert_int_equal(loop_new(&h->loop, NULL), 0);
    if (listening)
        listen_now(h);
    assert_int_equal(data_session_new(h->loop, h->path, &h->session, NULL), 0);
}

static void house_fini(struct house *h)
{
    data_session_free(h->session);
    loop_cancel(&h->timer);
    loop_free(h->loop);
    if (h->listener >= 0)
        close(h->listener);
    assert_int_equal(fs_remove_tree(h->dir, NULL), 0);
}

static void note(void *arg, enum data_result result, const struct data_message *answer)
{
    struct house *h = arg;
    h->results++;
    h->result = result;
    h->answer = *answer;
}

static const struct data_message opening = { .op = DATA_OPEN,
                                             .id = "r1",
                                             .n_scope = 1,
                                             .scope = { "api" },
                                             .calls = 5,
                                             .bytes = 100,
                                             .ms = 60000 };

static struct data_message received(int fd)
{
    char packet[DATA_PACKET_MAX];
    struct data_message m = { 0 };
    ssize_t n = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
    assert_true(n > 0);
    assert_int_equal(data_message_decode(packet, (size_t)n, &m, NULL), 0);
    return m;
}

static void answer(int fd, enum data_op op, const char *id)
{
    struct data_message m = { .op = op, .calls = 2, .bytes = 9, .tainted = true, .why = "because" };
    char packet[DATA_PACKET_MAX];
    strcpy(m.id, id);
    size_t len = data_message_encode(&m, packet);
    assert_int_equal(send(fd, packet, len, 0), len);
}

static void test_open_end(void **state)
{
    (void)state;
    struct house h;
    struct data_pending pending;
    house_init(&h, true);
    int proxy CLEANUP_FD = accept(h.listener, NULL, NULL);
    assert_true(data_session_up(h.session));
    data_session_open(h.session, &opening, &pending, note, &h);
    assert_int_equal(received(proxy).op, DATA_OPEN);
    answer(proxy, DATA_OPENED, "someone-else");
    turn(&h, 5);
    assert_int_equal(h.results, 0);
    answer(proxy, DATA_OPENED, "r1");
    turn(&h, 5);
    assert_int_equal(h.results, 1);
    assert_int_equal(h.result, DATA_RESULT_OK);
    data_session_end(h.session, "r1", &pending, note, &h);
    assert_int_equal(received(proxy).op, DATA_END);
    answer(proxy, DATA_ENDED, "r1");
    turn(&h, 5);
    assert_int_equal(h.result, DATA_RESULT_OK);
    assert_int_equal(h.answer.calls, 2);
    assert_true(h.answer.tainted);
    house_fini(&h);
}

static void test_refused(void **state)
{
    (void)state;
    struct house h;
    struct data_pending pending;
    house_init(&h, true);
    int proxy CLEANUP_FD = accept(h.listener, NULL, NULL);
    data_session_open(h.session, &opening, &pending, note, &h);
    answer(proxy, DATA_REFUSED, "r1");
    turn(&h, 5);
    assert_int_equal(h.result, DATA_RESULT_REFUSED);
    assert_string_equal(h.answer.why, "because");
    house_fini(&h);
}

static void test_silence_is_lost_and_ended(void **state)
{
    (void)state;
    struct house h;
    struct data_pending pending;
    house_init(&h, true);
    int proxy CLEANUP_FD = accept(h.listener, NULL, NULL);
    data_session_open(h.session, &opening, &pending, note, &h);
    turn(&h, DATA_ANSWER_MS + 60);
    assert_int_equal(h.results, 1);
    assert_int_equal(h.result, DATA_RESULT_LOST);
    assert_int_equal(received(proxy).op, DATA_OPEN);
    assert_int_equal(received(proxy).op, DATA_END);
    /* A late answer is nobody's. */
    answer(proxy, DATA_OPENED, "r1");
    turn(&h, 5);
    assert_int_equal(h.results, 1);
    house_fini(&h);
}

static void test_death_loses_all_and_is_dialled_again(void **state)
{
    (void)state;
    struct house h;
    struct data_pending pending[2];
    house_init(&h, true);
    int proxy = accept(h.listener, NULL, NULL);
    struct data_message second = opening;
    strcpy(second.id, "r2");
    data_session_open(h.session, &opening, &pending[0], note, &h);
    data_session_open(h.session, &second, &pending[1], note, &h);
    close(proxy);
    close(h.listener);
    turn(&h, 5);
    assert_int_equal(h.results, 2);
    assert_int_equal(h.result, DATA_RESULT_LOST);
    assert_false(data_session_up(h.session));
    listen_now(&h);
    for (int i = 0; i < 100 && !data_session_up(h.session); i++)
        turn(&h, 20);
    assert_true(data_session_up(h.session));
    house_fini(&h);
}

static void test_no_proxy(void **state)
{
    (void)state;
    struct house h;
    struct data_pending pending;
    house_init(&h, false);
    assert_false(data_session_up(h.session));
    data_session_open(h.session, &opening, &pending, note, &h);
    assert_int_equal(h.results, 0);
    turn(&h, 5);
    assert_int_equal(h.result, DATA_RESULT_LOST);
    house_fini(&h);
}

static void test_garbage_hangs_up(void **state)
{
    (void)state;
    struct house h;
    struct data_pending pending;
    house_init(&h, true);
    int proxy CLEANUP_FD = accept(h.listener, NULL, NULL);
    data_session_open(h.session, &opening, &pending, note, &h);
    assert_int_equal(send(proxy, "{}", 2, 0), 2);
    turn(&h, 5);
    assert_int_equal(h.result, DATA_RESULT_LOST);
    assert_false(data_session_up(h.session));
    house_fini(&h);
}

static void test_cancel_ends_what_may_be_open(void **state)
{
    (void)state;
    struct house h;
    struct data_pending pending;
    house_init(&h, true);
    int proxy CLEANUP_FD = accept(h.listener, NULL, NULL);
    data_session_open(h.session, &opening, &pending, note, &h);
    data_pending_cancel(&pending);
    data_pending_cancel(&pending);
    assert_int_equal(received(proxy).op, DATA_OPEN);
    assert_int_equal(received(proxy).op, DATA_END);
    answer(proxy, DATA_OPENED, "r1");
    turn(&h, 5);
    assert_int_equal(h.results, 0);
    house_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_end),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_silence_is_lost_and_ended),
        cmocka_unit_test(test_death_loses_all_and_is_dialled_again),
        cmocka_unit_test(test_no_proxy),
        cmocka_unit_test(test_garbage_hangs_up),
        cmocka_unit_test(test_cancel_ends_what_may_be_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
