/* Names that the shim derives, and the state file over versions. */
#include "shim/bundle.h"

#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "tests/test.h"

#define SHA_OF_EXAMPLE "d25aa4ef11a84e954e74a5bcff06557d0b6ea8d0c00243896f29826694bbd888"

static void test_names(void **ctx)
{
    (void)ctx;
    /* echo -n /run/containerd/containerd.sock/default/c1 | sha256sum */
    char *socket CLEANUP_FREE =
        bundle_socket("/run/containerd/s", "/run/containerd/containerd.sock", "default", "c1");
    char *dir CLEANUP_FREE = bundle_run_dir("/run/containerd/containerd.sock", "default", "c1");
    assert_string_equal(socket, "/run/containerd/s/" SHA_OF_EXAMPLE);
    assert_int_equal(strlen(dir), strlen(BUNDLE_RUN "/") + 32);
    assert_memory_equal(dir + strlen(BUNDLE_RUN "/"), SHA_OF_EXAMPLE, 32);
}

static void test_state_round_trip(void **ctx)
{
    (void)ctx;
    char dir[] = "/tmp/ut-bundle.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err err = { 0 };
    char id[] = "c1";
    char ns[] = "default";
    char cgroup[] = "/default/c1";
    struct bundle_state in = { .id = id,
                               .ns = ns,
                               .cgroup = cgroup,
                               .pid = 42,
                               .exit_code = -1,
                               .start_ticks = 7,
                               .cgroup_keep = 8 };
    assert_int_equal(bundle_state_save(dir, &in, &err), ERR_OK);
    struct bundle_state out;
    assert_int_equal(bundle_state_load(dir, &out, &err), ERR_OK);
    assert_string_equal(out.id, "c1");
    assert_string_equal(out.cgroup, "/default/c1");
    assert_null(out.runsc);
    assert_int_equal(out.pid, 42);
    assert_int_equal(out.exit_code, -1);
    assert_int_equal(out.start_ticks, 7);
    bundle_state_fini(&out);
    assert_int_equal(fs_remove_tree(dir, &err), ERR_OK);
    assert_int_equal(bundle_state_load(dir, &out, &err), ERR_NOT_FOUND);
}

static enum err_kind load_text(const char *text)
{
    char dir[] = "/tmp/ut-bundle.XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *path CLEANUP_FREE = xasprintf("%s/utter-state.json", dir);
    struct err err = { 0 };
    assert_int_equal(fs_write(path, text, strlen(text), 0600, false, &err), ERR_OK);
    struct bundle_state out;
    enum err_kind kind = bundle_state_load(dir, &out, &err);
    bundle_state_fini(&out);
    assert_int_equal(fs_remove_tree(dir, &err), ERR_OK);
    return kind;
}

static void test_state_of_other_versions(void **ctx)
{
    (void)ctx;
    assert_int_equal(load_text("{\"version\":9,\"oldest_reader\":1,\"id\":\"x\",\"new\":[]}"),
                     ERR_OK);
    assert_int_equal(load_text("{\"version\":9,\"oldest_reader\":2}"), ERR_INVALID);
    assert_int_equal(load_text("{\"version\":1}"), ERR_INVALID);
    assert_int_equal(load_text("{\"oldest_reader\":1,\"pid\":\"42\"}"), ERR_INVALID);
    assert_int_equal(load_text("{\"oldest_reader\":1,\"pid\":-5}"), ERR_INVALID);
    assert_int_equal(load_text("garbage"), ERR_INVALID);
}

static void test_bundle_open_knows_its_own(void **ctx)
{
    (void)ctx;
    char dir[] = "/tmp/ut-bundle.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err err = { 0 };
    char *path CLEANUP_FREE = xasprintf("%s/state/io.containerd.runtime.v2.task/default/c1", dir);
    char *work CLEANUP_FREE = xasprintf("%s/root/io.containerd.runtime.v2.task/default/c1", dir);
    char *link CLEANUP_FREE = xasprintf("%s/work", path);
    assert_int_equal(fs_mkdirs(path, 0700, &err), ERR_OK);
    assert_int_equal(symlink(work, link), 0);
    struct bundle b;
    if (geteuid() == 0) {
        assert_int_equal(bundle_open(path, "default", "c1", &b, &err), ERR_OK);
        char *root CLEANUP_FREE = xasprintf("%s/root", dir);
        assert_string_equal(b.containerd_root, root);
        bundle_fini(&b);
    }
    assert_int_equal(bundle_open(path, "default", "c2", &b, &err), ERR_INVALID);
    assert_int_equal(bundle_open(path, "other", "c1", &b, &err), ERR_INVALID);
    assert_int_equal(bundle_open("relative", "default", "c1", &b, &err), ERR_INVALID);
    assert_int_equal(fs_remove_tree(dir, &err), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_state_round_trip),
        cmocka_unit_test(test_state_of_other_versions),
        cmocka_unit_test(test_bundle_open_knows_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
