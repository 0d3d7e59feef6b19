/* Root file systems: what is taken apart and refused, and real mounts from descriptors. */
#include "shim/rootfs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "tests/test.h"

static enum err_kind parse(const char *type, const char *source, const char *const *options,
                           size_t n, struct rootfs_layer *out, struct err *err)
{
    struct rootfs_request r = {
        .type = type, .source = source, .target = "", .options = options, .n_options = n
    };
    return rootfs_parse(&r, out, err);
}

static void refused(const char *type, const char *const *options, size_t n, const char *what)
{
    struct rootfs_layer layer;
    struct err err = { 0 };
    assert_int_not_equal(parse(type, "/x", options, n, &layer, &err), ERR_OK);
    if (!strstr(err.msg, what))
        fail_msg("%s does not name %s", err.msg, what);
}

static void test_overlay(void **ctx)
{
    (void)ctx;
    const char *const options[] = { "index=off", "workdir=/s/1/work", "upperdir=/s/1/fs",
                                    "lowerdir=/s/3/fs:/s/2/fs" };
    struct rootfs_layer layer CLEANUP(rootfs_layer_fini);
    struct err err = { 0 };
    assert_int_equal(parse("overlay", "overlay", options, 4, &layer, &err), ERR_OK);
    assert_int_equal(layer.n_lower, 2);
    assert_string_equal(layer.lower[1], "/s/2/fs");
    assert_string_equal(layer.upper, "/s/1/fs");
    assert_string_equal(layer.work, "/s/1/work");
    assert_string_equal(layer.extra, "index=off");
}

static void test_overlay_refusals(void **ctx)
{
    (void)ctx;
    refused("overlay", (const char *const[]){ "lowerdir=/a", "metacopy=on" }, 2, "metacopy=on");
    refused("overlay", (const char *const[]){ "lowerdir=/a", "index=off,metacopy=on" }, 2, "index");
    refused("overlay", (const char *const[]){ "lowerdir=/a", "upperdir=/b" }, 2, "workdir");
    refused("overlay", (const char *const[]){ "upperdir=/b", "workdir=/c" }, 2, "lowerdir");
    refused("overlay", (const char *const[]){ "lowerdir=/a::/b" }, 1, "lowerdir");
    refused("overlay", (const char *const[]){ "lowerdir=/a", "lowerdir=/b" }, 2, "lowerdir=/b");
    refused("overlay", (const char *const[]){ "lowerdir=/a", "suid" }, 2, "suid");
    refused("tmpfs", NULL, 0, "tmpfs");
    refused("", NULL, 0, "mount type");
    refused("bind", (const char *const[]){ "exec" }, 1, "exec");
    struct rootfs_request r = { .type = "bind", .source = "/a", .target = "../etc" };
    struct rootfs_layer layer;
    struct err err = { 0 };
    assert_int_equal(rootfs_parse(&r, &layer, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "../etc"));
}

static void test_below(void **ctx)
{
    (void)ctx;
    char mine[] = "/data/snaps";
    char *const further[] = { mine, NULL };
    const struct rootfs_roots roots = { .containerd_root = "/var/lib/containerd",
                                        .further = further };
    assert_true(rootfs_below(
        &roots, "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs"));
    assert_true(rootfs_below(&roots, "/data/snaps/a"));
    assert_false(rootfs_below(&roots, "/data/snaps"));
    assert_false(rootfs_below(&roots, "/data/snapshots/a"));
    assert_false(rootfs_below(&roots, "/"));
    assert_false(rootfs_below(&roots, "/etc"));
    assert_false(rootfs_below(&roots, "/var/lib/containerd/io.containerd.content.v1.content/x"));
    assert_false(
        rootfs_below(&roots, "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"));
    assert_false(rootfs_below(
        &roots, "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/../../../../etc"));
    assert_false(rootfs_below(&roots, "data/snaps/a"));
    assert_false(rootfs_below(&roots, "/data/snaps//a"));
}

/* A root of its own with a snapshotter's directory. */
struct place {
    char dir[64];
    char lower[160];
    char upper[160];
    char work[160];
    char target[160];
};

static void make_place(struct place *p)
{
    struct err err = { 0 };
    (void)strcpy(p->dir, "/tmp/ut-rootfs.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    const char *snaps = "io.containerd.snapshotter.v1.overlayfs/snapshots";
    (void)snprintf(p->lower, sizeof(p->lower), "%s/%s/1/fs", p->dir, snaps);
    (void)snprintf(p->upper, sizeof(p->upper), "%s/%s/2/fs", p->dir, snaps);
    (void)snprintf(p->work, sizeof(p->work), "%s/%s/2/work", p->dir, snaps);
    (void)snprintf(p->target, sizeof(p->target), "%s/rootfs", p->dir);
    assert_int_equal(fs_mkdirs(p->lower, 0755, &err), ERR_OK);
    assert_int_equal(fs_mkdirs(p->upper, 0755, &err), ERR_OK);
    assert_int_equal(fs_mkdirs(p->work, 0755, &err), ERR_OK);
    assert_int_equal(fs_mkdirs(p->target, 0755, &err), ERR_OK);
    char file[200];
    (void)snprintf(file, sizeof(file), "%s/hello", p->lower);
    assert_int_equal(fs_write(file, "hi", 2, 0644, false, &err), ERR_OK);
}

static void remove_place(struct place *p)
{
    struct err err = { 0 };
    assert_int_equal(rootfs_unmount(p->target, &err), ERR_OK);
    assert_int_equal(fs_remove_tree(p->dir, &err), ERR_OK);
}

static bool has_hello(const struct place *p)
{
    char file[200];
    (void)snprintf(file, sizeof(file), "%s/hello", p->target);
    return access(file, F_OK) == 0;
}

static bool may_mount(void)
{
    return geteuid() == 0;
}

static void test_mount_bind_and_overlay(void **ctx)
{
    (void)ctx;
    if (!may_mount())
        skip();
    struct place p;
    make_place(&p);
    const struct rootfs_roots roots = { .containerd_root = p.dir };
    const char *const bind_options[] = { "rbind", "ro" };
    struct rootfs_request bind = {
        .type = "bind", .source = p.lower, .target = "", .options = bind_options, .n_options = 2
    };
    struct err err = { 0 };
    if (rootfs_mount(&bind, 1, &roots, p.target, &err))
        fail_msg("%s", err.msg);
    assert_true(has_hello(&p));
    char file[200];
    (void)snprintf(file, sizeof(file), "%s/x", p.target);
    assert_int_not_equal(fs_write(file, "x", 1, 0644, false, &err), ERR_OK);
    assert_int_equal(rootfs_unmount(p.target, &err), ERR_OK);
    assert_false(has_hello(&p));
    assert_int_equal(rootfs_unmount(p.target, &err), ERR_OK); /* absent is fine */
    remove_place(&p);
}

static void test_links_are_not_followed(void **ctx)
{
    (void)ctx;
    if (!may_mount())
        skip();
    struct place p;
    make_place(&p);
    const struct rootfs_roots roots = { .containerd_root = p.dir };
    char link[220];
    (void)snprintf(link, sizeof(link), "%s/evil", p.upper);
    assert_int_equal(symlink("/etc", link), 0);
    struct rootfs_request bind = { .type = "bind", .source = link, .target = "" };
    struct err err = { 0 };
    assert_int_not_equal(rootfs_mount(&bind, 1, &roots, p.target, &err), ERR_OK);
    char lower[512];
    (void)snprintf(lower, sizeof(lower), "lowerdir=%s:%s", p.lower, link);
    const char *const options[] = { lower };
    struct rootfs_request overlay = {
        .type = "overlay", .target = "", .options = options, .n_options = 1
    };
    assert_int_not_equal(rootfs_mount(&overlay, 1, &roots, p.target, &err), ERR_OK);
    const char *const root_lower[] = { "lowerdir=/" };
    overlay.options = root_lower;
    assert_int_not_equal(rootfs_mount(&overlay, 1, &roots, p.target, &err), ERR_OK);
    assert_non_null(strstr(err.msg, "rootfs-source"));
    assert_int_not_equal(rootfs_mount(NULL, 0, &roots, p.target, &err), ERR_OK);
    assert_false(has_hello(&p));
    remove_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlay),
        cmocka_unit_test(test_overlay_refusals),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_mount_bind_and_overlay),
        cmocka_unit_test(test_links_are_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
