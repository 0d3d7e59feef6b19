/* proto/unpack: the limit is on memory, not on the bytes that came. */
#include "proto/unpack.h"

#include <string.h>
#include <task.pb-c.h>

#include "base/buf.h"
#include "tests/test.h"

static void test_small_message_that_unpacks_large(void **state)
{
    (void)state;
    /* 200,000 empty mounts: two bytes each on the wire, a whole struct each in memory. */
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 200000; i++)
        buf_append(&b, "\x1a\x00", 2);
    ProtobufCMessage *m =
        proto_unpack(&task__create_task_request__descriptor, b.data, b.len, PROTO_UNPACK_MAX);
    assert_null(m);
    m = proto_unpack(&task__create_task_request__descriptor, b.data, b.len, (size_t)64 << 20);
    assert_non_null(m);
    assert_int_equal(((Task__CreateTaskRequest *)m)->n_rootfs, 200000);
    proto_message_freep(&m);
    buf_fini(&b);
}

static void test_ordinary_message(void **state)
{
    (void)state;
    Task__KillRequest kill = TASK__KILL_REQUEST__INIT;
    kill.id = (char[]){ "c1" };
    kill.signal = 9;
    kill.all = 1;
    uint8_t bytes[64];
    size_t len = task__kill_request__pack(&kill, bytes);
    Task__KillRequest *got CLEANUP_MESSAGE =
        (Task__KillRequest *)proto_unpack(&task__kill_request__descriptor, bytes, len, 4096);
    assert_non_null(got);
    assert_string_equal(got->id, "c1");
    assert_string_equal(got->exec_id, "");
    assert_int_equal(got->signal, 9);
    assert_true(got->all);
    assert_null(proto_unpack(&task__kill_request__descriptor, bytes, len - 1, 4096));
    assert_null(proto_unpack(&task__kill_request__descriptor, bytes, len, 16));
}

static void test_unknown_fields_are_dropped(void **state)
{
    (void)state;
    /* A mount {type "a"} with field number 2^29 in it, and one more of the kind beside it. */
    static const uint8_t bytes[] = { 0x1a, 0x09, 0x0a, 0x01, 'a',  0x80, 0x80, 0x80, 0x80,
                                     0x10, 0x01, 0x80, 0x80, 0x80, 0x80, 0x10, 0x01 };
    Task__CreateTaskRequest *m CLEANUP_MESSAGE = (Task__CreateTaskRequest *)proto_unpack(
        &task__create_task_request__descriptor, bytes, sizeof(bytes), 4096);
    assert_non_null(m);
    assert_int_equal(m->base.n_unknown_fields, 0);
    assert_int_equal(m->n_rootfs, 1);
    assert_int_equal(m->rootfs[0]->base.n_unknown_fields, 0);
    assert_int_equal(task__create_task_request__get_packed_size(m), 5);
    uint8_t again[5];
    assert_int_equal(task__create_task_request__pack(m, again), 5);
    assert_memory_equal(again,
                        "\x1a\x03\x0a\x01"
                        "a",
                        5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_message_that_unpacks_large),
        cmocka_unit_test(test_ordinary_message),
        cmocka_unit_test(test_unknown_fields_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
