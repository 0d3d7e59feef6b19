/* The command line in every form that containerd uses, and both kinds of standard input. */
#include "shim/bootstrap.h"

#include <bootstrap.pb-c.h>
#include <google.pb-c.h>
#include <string.h>

#include "proto/unpack.h"
#include "tests/test.h"

#define ARGS(...)                                                                                  \
    (const char *const[]){ "shim", __VA_ARGS__ },                                                  \
        (int)(sizeof((const char *const[]){ "shim", __VA_ARGS__ }) / sizeof(char *))

static enum err_kind parse(const char *const *argv, int argc, struct bootstrap *out,
                           struct err *err)
{
    return bootstrap_args(argc, argv, out, err);
}

static void test_start_as_observed(void **ctx)
{
    (void)ctx;
    struct bootstrap b;
    struct err err = { 0 };
    assert_int_equal(
        parse(ARGS("-namespace", "default", "-address", "/run/c.sock", "-publish-binary",
                   "/usr/bin/containerd", "-id", "c1", "-debug", "start"),
              &b, &err),
        ERR_OK);
    assert_int_equal(b.action, BOOTSTRAP_START);
    assert_string_equal(b.ns, "default");
    assert_string_equal(b.id, "c1");
    assert_string_equal(b.address, "/run/c.sock");
    assert_true(b.debug);
    assert_null(b.bundle);
}

static void test_delete_with_equals_and_two_dashes(void **ctx)
{
    (void)ctx;
    struct bootstrap b;
    struct err err = { 0 };
    assert_int_equal(parse(ARGS("--namespace=k8s.io", "--address=/a", "-id=x", "-bundle", "/b",
                                "-debug=false", "-socket", "/s", "delete", "-nonsense"),
                           &b, &err),
                     ERR_OK);
    assert_int_equal(b.action, BOOTSTRAP_DELETE);
    assert_string_equal(b.ns, "k8s.io");
    assert_string_equal(b.bundle, "/b");
    assert_false(b.debug);
}

static void test_version_and_info_need_nothing_else(void **ctx)
{
    (void)ctx;
    struct bootstrap b;
    struct err err = { 0 };
    assert_int_equal(parse(ARGS("-v"), &b, &err), ERR_OK);
    assert_int_equal(b.action, BOOTSTRAP_VERSION);
    assert_int_equal(parse(ARGS("-info"), &b, &err), ERR_OK);
    assert_int_equal(b.action, BOOTSTRAP_INFO);
}

static void test_refusals(void **ctx)
{
    (void)ctx;
    struct bootstrap b;
    struct err err = { 0 };
    assert_int_equal(parse(ARGS("-wat"), &b, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "-wat"));
    assert_int_equal(parse(ARGS("-id"), &b, &err), ERR_INVALID);
    assert_int_equal(parse(ARGS("-debug=perhaps", "start"), &b, &err), ERR_INVALID);
    assert_int_equal(parse(ARGS("run"), &b, &err), ERR_INVALID);
    assert_int_equal(parse(ARGS("-id", "x", "-address", "/a", "start"), &b, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "-namespace"));
    assert_int_equal(parse(ARGS("-namespace", "", "-id", "x", "-address", "/a", "start"), &b, &err),
                     ERR_INVALID);
    assert_int_equal(
        parse(ARGS("-namespace", "n", "-id", "../x", "-address", "/a", "start"), &b, &err),
        ERR_INVALID);
    assert_non_null(strstr(err.msg, "-id"));
    assert_int_equal(parse(ARGS("-namespace", "n", "-id", "x", "start"), &b, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "-address"));
    const char *const nothing[] = { "shim" };
    assert_int_equal(bootstrap_args(1, nothing, &b, &err), ERR_INVALID);
}

static void test_identifiers(void **ctx)
{
    (void)ctx;
    assert_true(bootstrap_identifier("a"));
    assert_true(bootstrap_identifier("k8s.io"));
    assert_true(bootstrap_identifier("a-b_c.d"));
    assert_false(bootstrap_identifier(NULL));
    assert_false(bootstrap_identifier(""));
    assert_false(bootstrap_identifier(".."));
    assert_false(bootstrap_identifier("a..b"));
    assert_false(bootstrap_identifier("-a"));
    assert_false(bootstrap_identifier("a-"));
    assert_false(bootstrap_identifier("a/b"));
    char long_one[78];
    memset(long_one, 'a', 77);
    long_one[77] = '\0';
    assert_false(bootstrap_identifier(long_one));
    long_one[76] = '\0';
    assert_true(bootstrap_identifier(long_one));
}

static struct bootstrap started(void)
{
    return (struct bootstrap){ .action = BOOTSTRAP_START, .ns = "default", .id = "c1" };
}

static void test_params_on_stdin(void **ctx)
{
    (void)ctx;
    Bootstrap__BootstrapParams p = BOOTSTRAP__BOOTSTRAP_PARAMS__INIT;
    p.instance_id = proto_str("c1");
    p.namespace_ = proto_str("default");
    p.log_level = -4;
    p.containerd_ttrpc_address = proto_str("/run/c.sock.ttrpc");
    p.socket_dir = proto_str("/run/s");
    uint8_t bytes[256];
    size_t n = protobuf_c_message_pack(&p.base, bytes);
    struct bootstrap b = started();
    bootstrap_stdin(bytes, n, &b);
    assert_true(b.debug);
    assert_string_equal(b.socket_dir, "/run/s");
    assert_string_equal(b.params_ttrpc, "/run/c.sock.ttrpc");

    p.namespace_ = proto_str("other"); /* not ours: it is something else that parses alike */
    n = protobuf_c_message_pack(&p.base, bytes);
    b = started();
    bootstrap_stdin(bytes, n, &b);
    assert_false(b.debug);
    assert_string_equal(b.socket_dir, "");
}

static void test_socket_dir_too_long_is_ignored(void **ctx)
{
    (void)ctx;
    Bootstrap__BootstrapParams p = BOOTSTRAP__BOOTSTRAP_PARAMS__INIT;
    p.instance_id = proto_str("c1");
    p.namespace_ = proto_str("default");
    p.socket_dir = proto_str("/run/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    uint8_t bytes[256];
    size_t n = protobuf_c_message_pack(&p.base, bytes);
    struct bootstrap b = started();
    bootstrap_stdin(bytes, n, &b);
    assert_string_equal(b.socket_dir, "");
}

static void test_any_on_stdin_changes_nothing(void **ctx)
{
    (void)ctx;
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    any.type_url = proto_str("runtimeoptions.v1.Options");
    any.value = proto_bytes("\x12\x09/etc/evil", 11);
    uint8_t bytes[256];
    size_t n = protobuf_c_message_pack(&any.base, bytes);
    struct bootstrap b = started();
    struct bootstrap before = b;
    bootstrap_stdin(bytes, n, &b);
    assert_memory_equal(&b, &before, sizeof(b));
    bootstrap_stdin((const uint8_t *)"\xff\xff\xff", 3, &b);
    assert_memory_equal(&b, &before, sizeof(b));
    bootstrap_stdin(NULL, 0, &b);
    assert_memory_equal(&b, &before, sizeof(b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_as_observed),
        cmocka_unit_test(test_delete_with_equals_and_two_dashes),
        cmocka_unit_test(test_version_and_info_need_nothing_else),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_identifiers),
        cmocka_unit_test(test_params_on_stdin),
        cmocka_unit_test(test_socket_dir_too_long_is_ignored),
        cmocka_unit_test(test_any_on_stdin_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
