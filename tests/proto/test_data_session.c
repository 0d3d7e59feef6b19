/* proto/data_session: each message comes back as it was sent; every other form is refused. */
#include "proto/data_session.h"

#include <string.h>

#include "tests/test.h"

static void round_trip(const struct data_message *m)
{
    char packet[DATA_PACKET_MAX];
    struct data_message back;
    struct err err = { 0 };
    size_t len = data_message_encode(m, packet);
    if (data_message_decode(packet, len, &back, &err))
        fail_msg("%s: %s", packet, err.msg);
    /* What decodes to the same members encodes to the same bytes; `why` is the one member not
     * compared so. */
    char again[DATA_PACKET_MAX];
    assert_int_equal(data_message_encode(&back, again), len);
    assert_string_equal(again, packet);
}

static void test_round_trips(void **state)
{
    (void)state;
    round_trip(&(struct data_message){ .op = DATA_OPEN,
                                       .id = "r1",
                                       .n_scope = 2,
                                       .scope = { "a", "b-c" },
                                       .calls = 10,
                                       .bytes = 1 << 20,
                                       .ms = 30000 });
    round_trip(&(struct data_message){ .op = DATA_END, .id = "r1" });
    round_trip(&(struct data_message){ .op = DATA_OPENED, .id = "r1" });
    round_trip(&(struct data_message){ .op = DATA_REFUSED, .id = "r1", .why = "no such upstream" });
    round_trip(&(struct data_message){
        .op = DATA_ENDED, .id = "r1", .calls = 3, .bytes = 99, .tainted = true });
}

static void test_largest_fits(void **state)
{
    (void)state;
    struct data_message m = { .op = DATA_OPEN,
                              .n_scope = DATA_SCOPE_MAX,
                              .calls = 1000000,
                              .bytes = INT64_C(1) << 40,
                              .ms = DATA_OPEN_MS_MAX };
    memset(m.id, 'x', DATA_ID_MAX);
    for (size_t i = 0; i < DATA_SCOPE_MAX; i++)
        memset(m.scope[i], 'y', DATA_UPSTREAM_MAX);
    round_trip(&m);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{\"op\":\"open\",\"id\":\"a\"}",
        "{\"op\":\"end\"}",
        "{\"op\":\"end\",\"id\":\"\"}",
        "{\"op\":\"end\",\"id\":\"a b\"}",
        "{\"op\":\"end\",\"id\":\"a\",\"more\":1}",
        "{\"op\":\"END\",\"id\":\"a\"}",
        "{\"op\":\"open\",\"id\":\"a\",\"scope\":[],\"calls\":1,\"bytes\":1,\"ms\":1}",
        "{\"op\":\"open\",\"id\":\"a\",\"scope\":[\"..\"],\"calls\":1,\"bytes\":1,\"ms\":1}",
        "{\"op\":\"open\",\"id\":\"a\",\"scope\":[\"b\"],\"calls\":-1,\"bytes\":1,\"ms\":1}",
        "{\"op\":\"open\",\"id\":\"a\",\"scope\":[\"b\"],\"calls\":1,\"bytes\":1,\"ms\":0}",
        "{\"op\":\"open\",\"id\":\"a\",\"scope\":[\"b\"],\"calls\":1.5,\"bytes\":1,\"ms\":1}",
        "{\"op\":\"ended\",\"id\":\"a\",\"calls\":1,\"bytes\":1}",
        "{\"op\":\"ended\",\"id\":\"a\",\"calls\":1,\"bytes\":1,\"tainted\":\"false\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct data_message m;
        if (data_message_decode(bad[i], strlen(bad[i]), &m, NULL) != ERR_INVALID)
            fail_msg("accepted: %s", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_largest_fits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
