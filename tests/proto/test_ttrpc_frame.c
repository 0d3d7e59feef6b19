/* proto/ttrpc_frame: frames in any cut, limits, garbage. */
#include "proto/ttrpc_frame.h"

#include <string.h>

#include "base/own.h"
#include "tests/test.h"

static void test_header_on_the_wire(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    char data[0xe6] = { 0 };
    struct ttrpc_header h = { .length = 0xe6, .stream = 1, .type = TTRPC_REQUEST };
    ttrpc_frame_append(&b, &h, data);
    /* As seen from containerd 1.6. */
    static const uint8_t want[] = { 0, 0, 0, 0xe6, 0, 0, 0, 1, 1, 0 };
    assert_int_equal(b.len, sizeof(want) + sizeof(data));
    assert_memory_equal(b.data, want, sizeof(want));
    buf_fini(&b);
}

static void append(struct buf *b, uint32_t stream, const char *text)
{
    struct ttrpc_header h = { .length = (uint32_t)strlen(text),
                              .stream = stream,
                              .type = TTRPC_REQUEST,
                              .flags = TTRPC_REMOTE_CLOSED };
    ttrpc_frame_append(b, &h, text);
}

/* Feeds `step` bytes at a time and checks the three frames that come out. */
static void check_cut(const struct buf *wire, size_t step)
{
    static const char *const want[] = { "one", "", "three" };
    struct ttrpc_reader r;
    ttrpc_reader_init(&r);
    size_t n = 0;
    for (size_t at = 0; at < wire->len; at += step) {
        size_t len = wire->len - at < step ? wire->len - at : step;
        ttrpc_reader_feed(&r, wire->data + at, len);
        struct ttrpc_header h;
        const uint8_t *data;
        enum ttrpc_read got;
        while ((got = ttrpc_reader_next(&r, &h, &data)) != TTRPC_READ_MORE) {
            assert_int_equal(got, TTRPC_READ_FRAME);
            assert_in_range(n, 0, 2);
            assert_int_equal(h.stream, n + 7);
            assert_int_equal(h.flags, TTRPC_REMOTE_CLOSED);
            assert_int_equal(h.length, strlen(want[n]));
            assert_memory_equal(data, want[n], h.length);
            n++;
        }
    }
    assert_int_equal(n, 3);
    ttrpc_reader_fini(&r);
}

static void test_any_cut(void **state)
{
    (void)state;
    struct buf wire;
    buf_init(&wire, 4096);
    append(&wire, 7, "one");
    append(&wire, 8, "");
    append(&wire, 9, "three");
    for (size_t step = 1; step <= wire.len; step++)
        check_cut(&wire, step);
    buf_fini(&wire);
}

static void feed_zeros(struct ttrpc_reader *r, size_t n)
{
    static const uint8_t zeros[TTRPC_FEED_MAX];
    ttrpc_reader_feed(r, zeros, n);
}

static void test_largest_frame_passes(void **state)
{
    (void)state;
    struct ttrpc_reader r;
    ttrpc_reader_init(&r);
    static const uint8_t head[] = { 0, 0x40, 0, 0, 0, 0, 0, 1, 1, 0 };
    struct ttrpc_header h;
    const uint8_t *data;
    ttrpc_reader_feed(&r, head, sizeof(head));
    for (size_t i = 0; i < TTRPC_DATA_MAX / TTRPC_FEED_MAX; i++) {
        assert_int_equal(ttrpc_reader_next(&r, &h, &data), TTRPC_READ_MORE);
        feed_zeros(&r, TTRPC_FEED_MAX);
    }
    assert_int_equal(ttrpc_reader_next(&r, &h, &data), TTRPC_READ_FRAME);
    assert_int_equal(h.length, TTRPC_DATA_MAX);
    assert_int_equal(ttrpc_reader_next(&r, &h, &data), TTRPC_READ_MORE);
    assert_null(r.in.data); /* an idle reader holds nothing */
    ttrpc_reader_fini(&r);
}

static void test_too_long_is_skipped_without_memory(void **state)
{
    (void)state;
    struct ttrpc_reader r;
    ttrpc_reader_init(&r);
    static const uint8_t head[] = { 0, 0x40, 0, 1, 0, 0, 0, 5, 1, 0 };
    struct ttrpc_header h;
    const uint8_t *data;
    ttrpc_reader_feed(&r, head, sizeof(head));
    assert_int_equal(ttrpc_reader_next(&r, &h, &data), TTRPC_READ_TOO_LONG);
    assert_int_equal(h.stream, 5);
    for (size_t i = 0; i < TTRPC_DATA_MAX / TTRPC_FEED_MAX; i++) {
        assert_int_equal(ttrpc_reader_next(&r, &h, &data), TTRPC_READ_MORE);
        feed_zeros(&r, TTRPC_FEED_MAX);
        assert_in_range(r.in.cap, 0, TTRPC_FEED_MAX + 64);
    }
    /* One byte of it is left, then a frame in the same feed. */
    struct buf wire;
    buf_init(&wire, 4096);
    buf_append(&wire, "\0", 1);
    append(&wire, 7, "after");
    ttrpc_reader_feed(&r, wire.data, wire.len);
    assert_int_equal(ttrpc_reader_next(&r, &h, &data), TTRPC_READ_FRAME);
    assert_int_equal(h.stream, 7);
    buf_fini(&wire);
    ttrpc_reader_fini(&r);
}

static void test_garbage(void **state)
{
    (void)state;
    struct ttrpc_reader r;
    ttrpc_reader_init(&r);
    struct ttrpc_header h;
    const uint8_t *data;
    ttrpc_reader_feed(&r, "GET", 3);
    assert_int_equal(ttrpc_reader_next(&r, &h, &data), TTRPC_READ_GARBAGE);
    ttrpc_reader_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_on_the_wire),
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_largest_frame_passes),
        cmocka_unit_test(test_too_long_is_skipped_without_memory),
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
