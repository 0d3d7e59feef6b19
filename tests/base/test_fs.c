/* base/fs: symlinks are not followed, trees stay inside, writes are whole. */
#include "base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "tests/test.h"

static char dir[] = "/tmp/utter-test-fs.XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    (void)state;
    return (int)fs_remove_tree(dir, NULL);
}

static void test_read_write(void **state)
{
    (void)state;
    struct err err;
    char *path CLEANUP_FREE = xasprintf("%s/a/b/file", dir);
    char *parent CLEANUP_FREE = xasprintf("%s/a/b", dir);
    char *link_path CLEANUP_FREE = xasprintf("%s/link", dir);
    assert_int_equal(fs_mkdirs(parent, 0700, &err), 0);
    assert_int_equal(fs_write(path, "hello", 5, 0600, true, &err), 0);
    char *text CLEANUP_FREE = NULL;
    size_t len;
    assert_int_equal(fs_read(path, 5, &text, &len, &err), 0);
    assert_string_equal(text, "hello");
    char *none CLEANUP_FREE = NULL;
    assert_int_equal(fs_read(path, 4, &none, NULL, &err), ERR_INVALID);
    assert_int_equal(symlink(path, link_path), 0);
    assert_int_equal(fs_read(link_path, 5, &none, NULL, &err), ERR_INVALID);
    int fd CLEANUP_FD = -1;
    assert_int_equal(fs_open_real(AT_FDCWD, link_path, O_RDONLY, &fd, &err), ERR_INVALID);
    assert_int_equal(fs_read("/dev/null", 5, &none, NULL, &err), ERR_INVALID);
}

static void test_remove_tree_keeps_link_target(void **state)
{
    (void)state;
    struct err err;
    char *outside CLEANUP_FREE = xasprintf("%s/outside", dir);
    char *tree CLEANUP_FREE = xasprintf("%s/tree", dir);
    char *link_path CLEANUP_FREE = xasprintf("%s/tree/link", dir);
    assert_int_equal(fs_write(outside, "x", 1, 0600, false, &err), 0);
    assert_int_equal(fs_mkdirs(tree, 0700, &err), 0);
    assert_int_equal(symlink(outside, link_path), 0);
    assert_int_equal(fs_remove_tree(tree, &err), 0);
    struct stat st;
    assert_int_equal(stat(outside, &st), 0);
    assert_int_not_equal(lstat(tree, &st), 0);
    assert_int_equal(fs_remove_tree(tree, &err), 0);
}

static void test_root_only(void **state)
{
    (void)state;
    struct err err;
    char *path CLEANUP_FREE = xasprintf("%s/f", dir);
    assert_int_equal(fs_write(path, "x", 1, 0600, false, &err), 0);
    /* /tmp is writable by all. */
    assert_int_equal(fs_root_only(path, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "writable by others"));
    if (getuid() == 0)
        assert_int_equal(fs_root_only("/etc/passwd", &err), 0);
}

/* Private, or as a pod's secrets come: root's, readable by one group that this process is in. */
static void test_kept(void **state)
{
    (void)state;
    struct stat st = { .st_mode = S_IFREG | 0400, .st_gid = 54321 };
    assert_true(fs_kept(&st));
    st.st_mode = S_IFREG | 0440;
    assert_false(fs_kept(&st)); /* a group of others */
    if (getuid() == 0) {
        assert_int_equal(setegid(54321), 0);
        assert_true(fs_kept(&st));
        st.st_uid = 1000; /* whoever owns it gives it to the group */
        assert_false(fs_kept(&st));
        st.st_uid = 0;
        st.st_mode = S_IFREG | 0460;
        assert_false(fs_kept(&st));
        st.st_mode = S_IFREG | 0444;
        assert_false(fs_kept(&st));
        assert_int_equal(setegid(0), 0);
    }
    st.st_mode = S_IFREG | 0440;
    st.st_gid = 0; /* root's own group is nobody's in particular */
    assert_false(fs_kept(&st));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_write),
        cmocka_unit_test(test_remove_tree_keeps_link_target),
        cmocka_unit_test(test_root_only),
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
