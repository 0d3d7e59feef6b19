/* Paths that an API client names: stdio, loggers, the root file system. */
#include "tests/policy/help.h"

#define SNAPSHOTS "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
#define EROFS "/var/lib/containerd/io.containerd.snapshotter.v1.erofs/snapshots"
#define BLOCKFILE "/var/lib/containerd/io.containerd.snapshotter.v1.blockfile/snapshots"
#define NATIVE "/var/lib/containerd/io.containerd.snapshotter.v1.native/snapshots"
#define NERDCTL_LOG                                                                                \
    "binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=%2Fvar%2Flib%2Fnerdctl%2F7c619e09"

static struct policy_config *config;

static enum policy_stdio_kind stdio_kind(const char *uri, const char *which, bool *refused,
                                         struct policy_stdio *out)
{
    struct policy_context context = { .ns = "nd", .id = "x" };
    struct policy_report report;
    json_t *spec CLEANUP_JSON = load_spec("nerdctl23-hardened-network-none");
    policy_report_init(&report);
    policy_check_stdio(uri, which, spec, &context, config, out, &report);
    *refused = report.n > 0;
    if (report.n)
        expect_rules(&report, "stdio", uri);
    policy_report_fini(&report);
    return out->kind;
}

static void test_stdio_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        enum policy_stdio_kind kind;
        const char *path;
    } cases[] = {
        { "", POLICY_STDIO_NONE, "" },
        { "/run/containerd/fifo/1/x-stdout", POLICY_STDIO_FIFO, "/run/containerd/fifo/1/x-stdout" },
        { "file:///var/log/handlers/a/b.log", POLICY_STDIO_FILE, "a/b.log" },
        { NERDCTL_LOG, POLICY_STDIO_BINARY, "/usr/local/bin/nerdctl" },
        { "binary:///usr/local/bin/utter-log", POLICY_STDIO_BINARY, "/usr/local/bin/utter-log" },
        { "binary:///opt/log?a=1&b=x%20y", POLICY_STDIO_BINARY, "/opt/log" },
        { "binary:///opt/log?b=x%20y&a=1", POLICY_STDIO_BINARY, "/opt/log" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy_stdio out;
        bool refused;
        assert_int_equal(stdio_kind(cases[i].uri, "stdout", &refused, &out), cases[i].kind);
        assert_false(refused);
        assert_string_equal(out.path, cases[i].path);
    }
}

static void test_stdio_refused(void **state)
{
    (void)state;
    static const char *const uris[] = {
        "relative",
        "/",
        "/run/../etc/shadow",
        "/run//x",
        "fifo:///run/x",
        "/proc/self/fd/3",
        "/dev/fd/3",
        "/run/initctl",
        "/var/run/systemd/x",
        "/run/containerd/io.containerd.runtime.v2.task/nd/y/log",
        "/run/containerd/io.containerd.grpc.v1.cri/containers/y/io/1/y-stdout",
        "file:///etc/cron.d/x",
        "file:///var/log/handlers",
        "file:///var/log/handlers/../x",
        "file:///var/log/handlersx/y",
        "file://localhost/var/log/handlers/x",
        "FILE:///var/log/handlers/x",
        "binary:///bin/sh",
        "binary:///bin/sh?-c=id",
        "binary:///usr/local/bin/../bin/utter-log",
        "binary:///usr/local/bin/utter-log?x=y",
        "binary:///usr/local/bin/utter-log#x",
        "binary:///opt/log?a=1",
        "binary:///opt/log?a=1&b=x%20y&c=",
        "binary:///opt/log?a=1&a=1",
        "binary:///opt/log?a=1;b=x%20y",
        "binary:///opt/log?a=1&b=x+y",
        "binary:///opt/log?a=1&b",
        "binary:///opt/log?a=1&b=%00",
        "binary:///opt/log?a=1&b=%zz",
        "binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=/tmp/7c619e09",
        "binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=/var/lib/nerdctl/0badc0de",
        "binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=/var/lib/nerdctl/7c619e09/../x",
        "binary:///usr/local/bin/nerdctl",
        "npipe:////./x",
        "unix:///run/x.sock",
    };
    for (size_t i = 0; i < ARRAY_LEN(uris); i++) {
        struct policy_stdio out;
        bool refused;
        (void)stdio_kind(uris[i], "stderr", &refused, &out);
        if (!refused)
            fail_msg("%s is accepted", uris[i]);
        assert_int_equal(out.kind, POLICY_STDIO_NONE);
    }
    struct policy_stdio out;
    bool refused;
    (void)stdio_kind("binary:///usr/local/bin/utter-log", "stdin", &refused, &out);
    assert_true(refused);
}

/* ---- root file system -------------------------------------------------------------------------
 */

#define OVERLAY(options) "[{\"type\":\"overlay\",\"source\":\"overlay\",\"options\":[" options "]}]"
#define ONE(type, source, options)                                                                 \
    "[{\"type\":\"" type "\",\"source\":\"" source "\",\"options\":[" options "]}]"
#define UPPER "\"upperdir=" SNAPSHOTS "/2/fs\",\"workdir=" SNAPSHOTS "/2/work\""
#define LOWER "\"lowerdir=" SNAPSHOTS "/1/fs:" SNAPSHOTS "/0/fs\""

static void expect_rootfs(const char *mounts, const char *expected)
{
    json_t *spec CLEANUP_JSON = load_spec("nerdctl23-hardened-network-none");
    json_t *rootfs CLEANUP_JSON = parse(mounts);
    struct policy_context context = { .rootfs = rootfs };
    struct policy_report report;
    policy_report_init(&report);
    policy_check(spec, &context, config, &report);
    expect_rules(&report, expected, mounts);
    policy_report_fini(&report);
}

static void test_rootfs(void **state)
{
    (void)state;
    static const struct {
        const char *mounts, *rules;
    } cases[] = {
        { OVERLAY("\"index=off\"," UPPER "," LOWER), "" },
        { OVERLAY(LOWER ",\"ro\",\"userxattr\""), "" },
        { ONE("bind", SNAPSHOTS "/3/fs", "\"rbind\",\"ro\""), "" },
        { ONE("erofs", "/srv/snapshots/snapshots/7/layer.erofs", "\"ro\",\"loop\""), "" },
        { ONE("erofs", EROFS "/7/layer.erofs", "\"ro\",\"loop\""), "" },
        { ONE("ext4", BLOCKFILE "/7", "\"loop\""), "" },
        /* an image that came with a layer is the image's maker's, for the host kernel to read */
        { ONE("ext4", SNAPSHOTS "/3/fs/evil.ext4", "\"ro\""), "rootfs-source" },
        { ONE("erofs", EROFS "/7/fs/layer.erofs", "\"ro\""), "rootfs-source" },
        { ONE("erofs", EROFS "/7/other.erofs", "\"ro\""), "rootfs-source" },
        { ONE("ext4", NATIVE "/7/layer.erofs", "\"ro\""), "rootfs-source" },
        { ONE("ext4", BLOCKFILE "/7/x/snapshots/7", "\"ro\""), "rootfs-source" },
        { ONE("erofs", "/srv/snapshots/x/layer.erofs", "\"ro\""), "rootfs-source" },
        { "[]", "rootfs-type" },
        { ONE("9p", SNAPSHOTS "/3/fs", ""), "rootfs-type" },
        { ONE("proc", SNAPSHOTS "/3/fs", ""), "rootfs-type" },
        { ONE("bind", "/", "\"rbind\",\"ro\""), "rootfs-source" },
        { ONE("bind", "/etc", "\"rbind\",\"ro\""), "rootfs-source" },
        { ONE("bind", SNAPSHOTS "/../../../../../..", "\"rbind\""), "rootfs-source" },
        { ONE("bind", "/var/lib/containerd", "\"rbind\""), "rootfs-source" },
        { ONE("bind", "/var/lib/containerd/io.containerd.content.v1.content/x", "\"rbind\""),
          "rootfs-source" },
        { ONE("bind", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs", "\"rbind\""),
          "rootfs-source" },
        /* the folder of all snapshots is every other container's root too */
        { ONE("bind", SNAPSHOTS, "\"rbind\",\"ro\""), "rootfs-source" },
        { ONE("bind", SNAPSHOTS "/x/fs", "\"rbind\",\"ro\""), "rootfs-source" },
        { ONE("bind", SNAPSHOTS "/3x/fs", "\"rbind\",\"ro\""), "rootfs-source" },
        { ONE("bind", SNAPSHOTS "/../snapshots", "\"rbind\",\"ro\""), "rootfs-source" },
        { ONE("bind", "/srv/snapshots/snapshots", "\"rbind\",\"ro\""), "rootfs-source" },
        { OVERLAY("\"lowerdir=" SNAPSHOTS "\""), "rootfs-source" },
        { ONE("bind", NATIVE "/7", "\"rbind\",\"ro\""), "" },
        { ONE("ext4", "/dev/sda1", "\"ro\""), "rootfs-source" },
        { ONE("erofs", "/srv/snapshots", "\"ro\""), "rootfs-source" },
        { OVERLAY("\"lowerdir=/\""), "rootfs-source" },
        { OVERLAY("\"lowerdir=" SNAPSHOTS "/1/fs:/etc\""), "rootfs-source" },
        { OVERLAY("\"lowerdir=" SNAPSHOTS "/1/fs::/etc\""), "rootfs-source" },
        { OVERLAY("\"lowerdir=\""), "rootfs-source" },
        { OVERLAY(LOWER ",\"upperdir=/etc\""), "rootfs-source" },
        { OVERLAY(LOWER ",\"lowerdir=/etc\""), "rootfs-source" },
        { OVERLAY(LOWER ",\"workdir=/tmp\""), "rootfs-source" },
        { OVERLAY(LOWER ",\"redirect_dir=on\""), "rootfs-options" },
        { OVERLAY(LOWER ",\"metacopy=on\""), "rootfs-options" },
        { OVERLAY(LOWER ",\"lowerdir+=/etc\""), "rootfs-options" },
        { OVERLAY(LOWER ",\"datadir+=/etc\""), "rootfs-options" },
        { OVERLAY("\"ro,lowerdir=/etc\""), "rootfs-options" },
        { OVERLAY(LOWER ",\"bind\""), "rootfs-options" },
        { ONE("bind", SNAPSHOTS "/3/fs", "\"rshared\""), "rootfs-options" },
        { ONE("erofs", EROFS "/3/layer.erofs", "\"device=/dev/sda\""), "rootfs-options" },
        { "[{\"type\":\"bind\",\"source\":\"" SNAPSHOTS "/3/fs\",\"target\":\"../x\"}]",
          "rootfs-options" },
        { "[{\"type\":\"bind\",\"source\":\"" SNAPSHOTS "/3/fs\",\"target\":\"/x\"}]",
          "rootfs-options" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_rootfs(cases[i].mounts, cases[i].rules);
}

static int set_up(void **state)
{
    (void)state;
    struct err err;
    json_t *tree CLEANUP_JSON = parse(
        "{\"loggers\":{\"file\":[\"/var/log/handlers\"],\"binary\":[{\"path\":\"/opt/log\","
        "\"args\":{\"a\":\"1\",\"b\":\"x y\"}}]},\"snapshotter-roots\":[\"/srv/snapshots\"]}");
    return policy_config_parse(tree, &config, &err) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    policy_config_free(config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stdio_accepted),
        cmocka_unit_test(test_stdio_refused),
        cmocka_unit_test(test_rootfs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
