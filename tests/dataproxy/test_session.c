/* dataproxy/session: open and end over the real socket; a closed or foreign peer leaves nothing
 * open. */
#include "dataproxy/session.h"

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
    struct requests *requests;
    struct session_server *server;
    struct loop_timer timer;
};

static void turn_over(struct loop_timer *timer)
{
    loop_stop(timer->loop);
}

/* Lets the loop work for a while. */
static void turn(struct house *h)
{
    loop_after(h->loop, &h->timer, 20, turn_over, NULL);
    assert_int_equal(loop_run(h->loop, NULL), 0);
}

static void house_init(struct house *h, int64_t gate_uid)
{
    *h = (struct house){ .dir = "/tmp/utter-test-session.XXXXXX" };
    assert_non_null(mkdtemp(h->dir));
    (void)snprintf(h->path, sizeof(h->path), "%s/s", h->dir);
    assert_int_equal(loop_new(&h->loop, NULL), 0);
    h->requests = requests_new();
    struct err err = { 0 };
    if (session_server_new(h->loop, h->path, gate_uid, h->requests, &h->server, &err))
        fail_msg("%s", err.msg);
}

static void house_fini(struct house *h)
{
    session_server_free(h->server);
    requests_free(h->requests);
    loop_free(h->loop);
    assert_int_not_equal(access(h->path, F_OK), 0);
    assert_int_equal(fs_remove_tree(h->dir, NULL), 0);
}

static int dial(const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static struct data_message ask(struct house *h, int fd, const struct data_message *m)
{
    char packet[DATA_PACKET_MAX];
    struct data_message answer = { 0 };
    size_t len = data_message_encode(m, packet);
    assert_int_equal(send(fd, packet, len, 0), len);
    turn(h);
    ssize_t n = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
    assert_true(n > 0);
    assert_int_equal(data_message_decode(packet, (size_t)n, &answer, NULL), 0);
    return answer;
}

static size_t n_open(struct house *h)
{
    struct requests_stats stats;
    requests_stats(h->requests, &stats);
    return stats.open;
}

static const struct data_message opening = { .op = DATA_OPEN,
                                             .id = "r1",
                                             .n_scope = 1,
                                             .scope = { "api" },
                                             .calls = 5,
                                             .bytes = 100,
                                             .ms = 60000 };
static const struct data_message ending = { .op = DATA_END, .id = "r1" };

static void test_open_and_end(void **state)
{
    (void)state;
    struct house h;
    house_init(&h, getuid());
    int fd CLEANUP_FD = dial(h.path);
    assert_int_equal(ask(&h, fd, &opening).op, DATA_OPENED);
    assert_int_equal(n_open(&h), 1);
    struct data_message again = ask(&h, fd, &opening);
    assert_int_equal(again.op, DATA_REFUSED);
    assert_non_null(strstr(again.why, "known already"));
    assert_int_equal(ask(&h, fd, &ending).op, DATA_ENDED);
    assert_int_equal(ask(&h, fd, &ending).op, DATA_REFUSED);
    assert_int_equal(n_open(&h), 0);
    house_fini(&h);
}

static void test_closed_peer_ends_its_requests(void **state)
{
    (void)state;
    struct house h;
    house_init(&h, getuid());
    int fd CLEANUP_FD = dial(h.path);
    int other CLEANUP_FD = dial(h.path);
    struct data_message second = opening;
    strcpy(second.id, "r2");
    assert_int_equal(ask(&h, fd, &opening).op, DATA_OPENED);
    assert_int_equal(ask(&h, other, &second).op, DATA_OPENED);
    assert_int_equal(ask(&h, other, &ending).op, DATA_REFUSED);
    own_close_(&fd);
    turn(&h);
    assert_int_equal(n_open(&h), 1);
    assert_int_equal(session_server_peers(h.server), 1);
    house_fini(&h);
}

static void test_foreign_uid(void **state)
{
    (void)state;
    struct house h;
    house_init(&h, (int64_t)getuid() + 1);
    int fd CLEANUP_FD = dial(h.path);
    char packet[DATA_PACKET_MAX];
    size_t len = data_message_encode(&opening, packet);
    (void)send(fd, packet, len, MSG_NOSIGNAL);
    turn(&h);
    assert_int_equal(n_open(&h), 0);
    /* Closed, with our packet unread on the other side: an end of file or a reset. */
    assert_true(recv(fd, packet, sizeof(packet), MSG_DONTWAIT) <= 0);
    house_fini(&h);
}

static void test_garbage_drops_the_peer(void **state)
{
    (void)state;
    struct house h;
    house_init(&h, getuid());
    static char huge[DATA_PACKET_MAX + 100];
    memset(huge, ' ', sizeof(huge));
    const char *const packets[] = { "x", "{\"op\":\"opened\",\"id\":\"r1\"}", huge };
    const size_t lengths[] = { 1, strlen(packets[1]), sizeof(huge) };
    for (size_t i = 0; i < ARRAY_LEN(packets); i++) {
        int fd CLEANUP_FD = dial(h.path);
        struct data_message m = opening;
        (void)snprintf(m.id, sizeof(m.id), "r%zu", i + 10);
        assert_int_equal(ask(&h, fd, &m).op, DATA_OPENED);
        assert_int_equal(send(fd, packets[i], lengths[i], 0), lengths[i]);
        turn(&h);
        assert_int_equal(n_open(&h), 0);
        assert_int_equal(session_server_peers(h.server), 0);
    }
    house_fini(&h);
}

static void test_second_proxy_and_stale_socket(void **state)
{
    (void)state;
    struct house h;
    house_init(&h, getuid());
    struct session_server *second = NULL;
    assert_int_equal(session_server_new(h.loop, h.path, getuid(), h.requests, &second, NULL),
                     ERR_EXISTS);
    session_server_free(h.server);
    h.server = NULL;
    int stale = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", h.path);
    assert_int_equal(bind(stale, (struct sockaddr *)&at, sizeof(at)), 0);
    close(stale);
    assert_int_equal(session_server_new(h.loop, h.path, getuid(), h.requests, &h.server, NULL), 0);
    house_fini(&h);
}

static void test_deadline_without_end(void **state)
{
    (void)state;
    struct house h;
    house_init(&h, getuid());
    int fd CLEANUP_FD = dial(h.path);
    struct data_message brief = opening;
    brief.ms = 1;
    assert_int_equal(ask(&h, fd, &brief).op, DATA_OPENED);
    for (int i = 0; i < 50 && n_open(&h); i++)
        turn(&h);
    assert_int_equal(n_open(&h), 0);
    house_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_and_end),
        cmocka_unit_test(test_closed_peer_ends_its_requests),
        cmocka_unit_test(test_foreign_uid),
        cmocka_unit_test(test_garbage_drops_the_peer),
        cmocka_unit_test(test_second_proxy_and_stale_socket),
        cmocka_unit_test(test_deadline_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
