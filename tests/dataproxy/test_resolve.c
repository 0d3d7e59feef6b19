/* dataproxy/resolve: literals, a scripted resolver that changes its answer, silence, cancelling. */
#include "dataproxy/resolve.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "tests/test.h"

/* Answers each A query with the next of the given addresses; AAAA with nothing; "silent.test"
 * never. */
struct script {
    int fd;
    int port;
    int n_answers;
    volatile int stop;
    pthread_t thread;
};

static const uint8_t addresses[][4] = { { 93, 184, 216, 34 }, { 127, 0, 0, 1 } };

static size_t answer_of(struct script *script, uint8_t *packet, size_t len)
{
    size_t name_end = 12;
    while (name_end < len && packet[name_end])
        name_end += packet[name_end] + 1u;
    uint16_t type = (uint16_t)(packet[name_end + 1] << 8 | packet[name_end + 2]);
    len = name_end + 5;
    packet[2] = 0x84;
    packet[3] = 0;
    memset(packet + 6, 0, 6);
    if (type != 1)
        return len;
    packet[7] = 1;
    static const uint8_t record[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4 };
    memcpy(packet + len, record, sizeof(record));
    memcpy(packet + len + sizeof(record), addresses[script->n_answers++ % 2], 4);
    return len + sizeof(record) + 4;
}

static void *serve(void *arg)
{
    struct script *script = arg;
    while (!script->stop) {
        uint8_t packet[600];
        struct sockaddr_in from;
        socklen_t from_len = sizeof(from);
        struct pollfd p = { .fd = script->fd, .events = POLLIN };
        if (poll(&p, 1, 50) != 1)
            continue;
        ssize_t n = recvfrom(script->fd, packet, 512, 0, (struct sockaddr *)&from, &from_len);
        if (n < 17 || memmem(packet, (size_t)n, "silent", 6))
            continue;
        size_t len = answer_of(script, packet, (size_t)n);
        (void)sendto(script->fd, packet, len, 0, (struct sockaddr *)&from, from_len);
    }
    return NULL;
}

static struct script script;

static int start(void **state)
{
    (void)state;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    script.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(script.fd, (struct sockaddr *)&at, sizeof(at)) ||
        getsockname(script.fd, (struct sockaddr *)&at, &len))
        return -1;
    script.port = ntohs(at.sin_port);
    return pthread_create(&script.thread, NULL, serve, &script);
}

static int stop(void **state)
{
    (void)state;
    script.stop = 1;
    pthread_join(script.thread, NULL);
    return close(script.fd);
}

struct result {
    struct loop *loop;
    size_t n;
    char first[64];
    char why[64];
    int called;
};

static void note(void *arg, const struct sockaddr_storage *found, size_t n, const char *why)
{
    struct result *result = arg;
    result->called++;
    result->n = n;
    (void)snprintf(result->why, sizeof(result->why), "%s", why ? why : "");
    if (n && found->ss_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)found)->sin_addr, result->first,
                  sizeof(result->first));
    else if (n)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)found)->sin6_addr, result->first,
                  sizeof(result->first));
    loop_stop(result->loop);
}

static void look_up(struct loop *loop, struct resolver *resolver, const char *host,
                    struct result *result)
{
    struct resolve *pending;
    *result = (struct result){ .loop = loop };
    resolver_lookup(resolver, host, note, result, &pending);
    if (!result->called)
        assert_int_equal(loop_run(loop, NULL), 0);
    assert_null(pending);
    assert_int_equal(result->called, 1);
}

static struct resolver *scripted(struct loop *loop)
{
    char server[32];
    struct resolver *resolver = NULL;
    (void)snprintf(server, sizeof(server), "127.0.0.1:%d", script.port);
    assert_int_equal(resolver_new(loop, server, &resolver, NULL), 0);
    return resolver;
}

static void test_literals(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct resolver *resolver CLEANUP(resolver_freep) = scripted(loop);
    struct result result;
    look_up(loop, resolver, "192.0.2.7", &result);
    assert_string_equal(result.first, "192.0.2.7");
    look_up(loop, resolver, "[2001:db8::1]", &result);
    assert_string_equal(result.first, "2001:db8::1");
}

/* What rebinding is made of: the second look-up of one name answers differently. Each is reported
 * as it is. */
static void test_changing_answer(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct resolver *resolver CLEANUP(resolver_freep) = scripted(loop);
    struct result result;
    look_up(loop, resolver, "rebind.test", &result);
    assert_string_equal(result.first, "93.184.216.34");
    look_up(loop, resolver, "rebind.test", &result);
    assert_string_equal(result.first, "127.0.0.1");
}

static void test_cancel_and_free(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct resolver *resolver CLEANUP(resolver_freep) = scripted(loop);
    struct result result = { .loop = loop };
    struct resolve *pending;
    struct resolve *left;
    resolver_lookup(resolver, "silent.test", note, &result, &pending);
    resolver_lookup(resolver, "silent.test", note, &result, &left);
    assert_non_null(pending);
    resolve_cancel(pending);
    assert_null(pending);
    resolver_free(STEAL(resolver));
    assert_null(left);
    assert_int_equal(result.called, 0);
}

static void test_bad_server(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    assert_int_equal(loop_new(&loop, NULL), 0);
    struct resolver *resolver CLEANUP(resolver_freep) = NULL;
    assert_int_equal(resolver_new(loop, "not an address", &resolver, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_changing_answer),
        cmocka_unit_test(test_cancel_and_free),
        cmocka_unit_test(test_bad_server),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
