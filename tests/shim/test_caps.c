/* shim/caps: names to masks, NET_RAW left out, unknown names told. */
#include "shim/caps.h"

#include <linux/capability.h>

#include "base/json.h"
#include "tests/test.h"

static json_t *doc(const char *text)
{
    json_error_t error;
    json_t *out = json_loads(text, 0, &error);
    if (!out)
        fail_msg("%s", error.text);
    return out;
}

static void test_sets(void **state)
{
    (void)state;
    json_t *caps CLEANUP_JSON = doc(
        "{\"permitted\":[\"CAP_CHOWN\",\"CAP_CHECKPOINT_RESTORE\"],\"effective\":[\"CAP_CHOWN\"],"
        "\"bounding\":[\"CAP_SYS_ADMIN\"],\"inheritable\":[\"CAP_KILL\"],\"ambient\":[\"CAP_BPF\"]"
        "}");
    struct control_caps out;
    struct err err = { 0 };
    assert_int_equal(caps_read(caps, &out, &err), ERR_OK);
    assert_true(out.permitted == ((UINT64_C(1) << 40) | 1));
    assert_true(out.effective == 1);
    assert_true(out.bounding == UINT64_C(1) << 21);
    assert_true(out.inheritable == UINT64_C(1) << 5);
    assert_true(out.ambient == UINT64_C(1) << 39);
}

static void test_all_names_differ(void **state)
{
    (void)state;
    uint64_t seen = 0;
    static const char *const SOME[] = { "CHOWN", "NET_ADMIN", "MKNOD", "SYSLOG", "AUDIT_READ" };
    for (size_t i = 0; i < ARRAY_LEN(SOME); i++) {
        char text[80];
        (void)snprintf(text, sizeof(text), "{\"bounding\":[\"CAP_%s\"]}", SOME[i]);
        json_t *caps CLEANUP_JSON = doc(text);
        struct control_caps out;
        struct err err = { 0 };
        assert_int_equal(caps_read(caps, &out, &err), ERR_OK);
        assert_int_equal(__builtin_popcountll(out.bounding), 1);
        assert_false(seen & out.bounding);
        seen |= out.bounding;
    }
}

static void test_none(void **state)
{
    (void)state;
    struct control_caps out = { 1, 1, 1, 1, 1 };
    struct err err = { 0 };
    assert_int_equal(caps_read(NULL, &out, &err), ERR_OK);
    assert_true(!out.permitted && !out.inheritable && !out.effective && !out.bounding &&
                !out.ambient);
}

static void test_net_raw_is_left_out(void **state)
{
    (void)state;
    json_t *caps CLEANUP_JSON = doc("{\"effective\":[\"CAP_NET_RAW\",\"CAP_SETUID\"]}");
    struct control_caps out;
    struct err err = { 0 };
    assert_int_equal(caps_read(caps, &out, &err), ERR_OK);
    assert_true(out.effective == UINT64_C(1) << CAP_SETUID);
}

static void test_unknown_names(void **state)
{
    (void)state;
    static const char *const BAD[] = { "[\"CAP_\"]",      "[\"CHOWN\"]", "[\"cap_chown\"]",
                                       "[\"CAP_FLY\"]",   "[7]",         "[\"\"]",
                                       "[\"CAP_CHOWN \"]" };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        char text[80];
        (void)snprintf(text, sizeof(text), "{\"permitted\":%s}", BAD[i]);
        json_t *caps CLEANUP_JSON = doc(text);
        struct control_caps out;
        struct err err = { 0 };
        if (caps_read(caps, &out, &err) != ERR_INVALID)
            fail_msg("%s is taken", BAD[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),          cmocka_unit_test(test_all_names_differ),
        cmocka_unit_test(test_none),          cmocka_unit_test(test_net_raw_is_left_out),
        cmocka_unit_test(test_unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
