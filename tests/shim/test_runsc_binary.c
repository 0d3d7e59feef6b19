/* shim/runsc_binary, capture: what is accepted as runsc and why everything else is not. */
#include "shim/runsc_binary.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "shim/capture.h"
#include "tests/test.h"

#define CURRENT "/var/cache/utter-peers/gvisor-0.0.0-20260905035102-160fafc42237/runsc"

static char dir[64];

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int date;
        const char *why;
    } rows[] = {
        { "runsc version 0.0~20240729.0\nspec: 1.0.2-dev\n", 20240729, NULL },
        { "runsc version release-go-20260905.0\nspec: 1.2.1\n", 20260905, NULL },
        { "runsc version release-20260810.0-12-g0123456789ab\nspec: 1.2.1\n", 20260810, NULL },
        { "runsc version release-20240729.0\n", 20240729, NULL },
        { "runc version 1.1.5\nspec: 1.0.2\n", 0, "is runc, not gVisor's runsc" },
        { "crun version 1.8\n", 0, "is crun, not gVisor's runsc" },
        { "runsc version VERSION_MISSING\n", 0, "names no dated release" },
        { "runsc version 1.2.3\n", 0, "names no dated release" },
        { "runsc version \n", 0, "does not answer --version" },
        { "", 0, "does not answer --version" },
        { "hello\nrunsc version release-20240729.0\n", 0, "does not answer --version" },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char version[96];
        char spec[32];
        int date = 0;
        struct err err = { 0 };
        enum err_kind kind = runsc_version_parse(rows[i].text, version, spec, &date, &err);
        assert_int_equal(kind, rows[i].why ? ERR_PRECONDITION : ERR_OK);
        if (rows[i].why)
            assert_non_null(strstr(err.msg, rows[i].why));
        else
            assert_int_equal(date, rows[i].date);
    }
}

static void test_classes(void **state)
{
    (void)state;
    assert_int_equal(runsc_class_of(20221219), RUNSC_REFUSED);
    assert_int_equal(runsc_class_of(20240728), RUNSC_REFUSED);
    assert_int_equal(runsc_class_of(20240729), RUNSC_COMPAT);
    assert_int_equal(runsc_class_of(20260809), RUNSC_COMPAT);
    assert_int_equal(runsc_class_of(20260810), RUNSC_CURRENT);
}

static void refused(const char *path, enum err_kind want, const char *why)
{
    struct runsc_binary *b CLEANUP(runsc_binary_freep) = NULL;
    struct err err = { 0 };
    assert_int_equal(runsc_binary_find(path, &b, &err), want);
    assert_null(b);
    if (!strstr(err.msg, why))
        fail_msg("%s: \"%s\" lacks \"%s\"", path, err.msg, why);
    assert_null(strchr(err.msg, '\n'));
}

static char *in_dir(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static void copy(const char *from, const char *to)
{
    char *data CLEANUP_FREE = NULL;
    char *real CLEANUP_FREE = realpath(from, NULL);
    size_t len;
    struct err err;
    assert_int_equal(fs_read(real, (size_t)256 << 20, &data, &len, &err), 0);
    assert_int_equal(fs_write(to, data, len, 0755, false, &err), 0);
}

static void put(const char *to, const char *text, mode_t mode)
{
    struct err err;
    assert_int_equal(fs_write(to, text, strlen(text), mode, false, &err), 0);
    assert_int_equal(chmod(to, mode), 0);
}

static void test_missing(void **state)
{
    (void)state;
    char *path CLEANUP_FREE = in_dir("none");
    refused(path, ERR_NOT_FOUND, "is missing");
    refused(path, ERR_NOT_FOUND, "bookworm-backports");
    refused("runsc", ERR_NOT_FOUND, "is missing"); /* never through PATH */
}

static void test_runc_renamed(void **state)
{
    (void)state;
    if (access("/usr/sbin/runc", X_OK))
        skip();
    char *path CLEANUP_FREE = in_dir("runsc");
    copy("/usr/sbin/runc", path);
    refused(path, ERR_PRECONDITION, "is runc, not gVisor's runsc");
}

static void test_script(void **state)
{
    (void)state;
    char *path CLEANUP_FREE = in_dir("script");
    put(path, "#!/bin/sh\necho runsc version release-20260905.0\n", 0755);
    refused(path, ERR_PRECONDITION, "is a script");
    put(path, "hello", 0755);
    refused(path, ERR_PRECONDITION, "is not an ELF program");
    put(path, "hello", 0644);
    refused(path, ERR_PRECONDITION, "not an executable file");
}

static void test_writable_by_others(void **state)
{
    (void)state;
    char *path CLEANUP_FREE = in_dir("runsc-loose");
    copy("/proc/self/exe", path);
    assert_int_equal(chmod(path, 0775), 0);
    refused(path, ERR_PRECONDITION, path);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(chown(path, 1000, 0), 0);
    refused(path, ERR_PRECONDITION, path);
    assert_int_equal(chown(path, 0, 0), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    refused(path, ERR_PRECONDITION, dir);
    /* A symlink in a directory of root's does not help one whose target is not. */
    assert_int_equal(chmod(dir, 0755), 0);
    char *link CLEANUP_FREE = in_dir("link");
    char tmp[] = "/tmp/ut-proto.XXXXXX";
    assert_non_null(mkdtemp(tmp));
    char *target CLEANUP_FREE = xasprintf("%s/runsc", tmp);
    put(target, "x", 0755);
    assert_int_equal(symlink(target, link), 0);
    refused(link, ERR_PRECONDITION, "/tmp");
    unlink(target);
    rmdir(tmp);
    unlink(link);
}

/* This program, copied under such a name, answers as its name says: a release that is not to be
 * had. */
static int answer_as(const char *name, const char *word)
{
    if (strcmp(word, "--version") == 0)
        return puts(strcmp(name, "fake-old") == 0
                        ? "runsc version release-20221219.0\nspec: 1.0.2"
                        : "runsc version release-20260905.0\nspec: 1.2.1");
    if (strcmp(name, "fake-flagless") == 0)
        return puts("  -root string\n    \tx");
    for (int i = 0; i < 40; i++)
        printf("  -flag%d string\n    \tdescription\n", i);
    return 0;
}

static void test_too_old(void **state)
{
    (void)state;
    char *path CLEANUP_FREE = in_dir("fake-old");
    copy("/proc/self/exe", path);
    refused(path, ERR_PRECONDITION, "is release 20221219, too old (needed: 20240729 or newer");
}

static void test_flags(void **state)
{
    (void)state;
    char *path CLEANUP_FREE = in_dir("fake-flagless");
    copy("/proc/self/exe", path);
    refused(path, ERR_PRECONDITION, "does not answer \"flags\"");
    char *lacking CLEANUP_FREE = in_dir("fake-lacking");
    copy("/proc/self/exe", lacking);
    refused(lacking, ERR_PRECONDITION, "does not know the flag --allow-flag-override");
}

static void check_real(const char *path, enum runsc_class class, bool exec)
{
    if (access(path, X_OK)) {
        print_message("SKIP: no %s\n", path);
        return;
    }
    struct runsc_binary *b CLEANUP(runsc_binary_freep) = NULL;
    struct err err = { 0 };
    if (runsc_binary_find(path, &b, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(b->path, path);
    assert_int_equal(b->class, class);
    assert_int_equal(b->exec_filtered, exec);
    assert_int_equal(b->membarrier_slow, !exec);
    assert_true(runsc_has_flag(b, "oci-seccomp"));
    assert_true(runsc_has_flag(b, "directfs"));
    assert_int_equal(runsc_has_flag(b, "shared-root"), exec);
    assert_false(runsc_has_flag(b, "no-such-flag"));
    assert_false(runsc_has_flag(b, ""));
}

static void test_real_ones(void **state)
{
    (void)state;
    check_real("/usr/bin/runsc", RUNSC_COMPAT, false);
    check_real(CURRENT, RUNSC_CURRENT, true);
}

static void test_key(void **state)
{
    (void)state;
    char *path CLEANUP_FREE = in_dir("keyed");
    char *side CLEANUP_FREE = in_dir("gvisor-bin");
    char *entry CLEANUP_FREE = in_dir("gvisor-bin/gvisor_sentry");
    struct runsc_key a;
    struct runsc_key b;
    struct err err;
    put(path, "x", 0755);
    assert_int_equal(runsc_key_read(path, &a, &err), 0);
    assert_int_equal(runsc_key_read(path, &b, &err), 0);
    assert_true(runsc_key_equal(&a, &b));
    assert_int_equal(a.sidecars, 0);
    assert_int_equal(mkdir(side, 0755), 0);
    assert_int_equal(runsc_key_read(path, &b, &err), 0);
    assert_false(runsc_key_equal(&a, &b));
    put(entry, "1", 0755);
    assert_int_equal(runsc_key_read(path, &a, &err), 0);
    assert_false(runsc_key_equal(&a, &b));
    put(entry, "2", 0755);
    assert_int_equal(runsc_key_read(path, &b, &err), 0);
    assert_false(runsc_key_equal(&a, &b));
    assert_int_equal(chmod(entry, 0777), 0);
    assert_int_equal(runsc_key_read(path, &b, &err), ERR_PRECONDITION);
    unlink(entry);
    rmdir(side);
    put(path, "y", 0755);
    assert_int_equal(runsc_key_read(path, &b, &err), 0);
    assert_false(runsc_key_equal(&a, &b));
}

static uint64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void test_cache(void **state)
{
    (void)state;
    if (access("/usr/bin/runsc", X_OK))
        skip();
    char *cache CLEANUP_FREE = in_dir("cache");
    struct runsc_binary *a CLEANUP(runsc_binary_freep) = NULL;
    struct runsc_binary *b CLEANUP(runsc_binary_freep) = NULL;
    struct err err = { 0 };
    assert_int_equal(runsc_binary_get(cache, "/usr/bin/runsc", &a, &err), 0);
    uint64_t start = now_us();
    assert_int_equal(runsc_binary_get(cache, "/usr/bin/runsc", &b, &err), 0);
    print_message("cached look-up: %u us\n", (unsigned)(now_us() - start));
    assert_string_equal(a->version, b->version);
    assert_int_equal(a->n_flags, b->n_flags);
    assert_int_equal(a->class, b->class);
    assert_true(runsc_has_flag(b, "oci-seccomp"));
    assert_true(runsc_key_equal(&a->key, &b->key));
}

/* What lies in the cache is used only when nobody but root can have put it there. */
static void test_cache_is_not_trusted_blindly(void **state)
{
    (void)state;
    char *cache CLEANUP_FREE = in_dir("cache2");
    char *path CLEANUP_FREE = in_dir("fake-lacking");
    copy("/proc/self/exe", path);
    assert_int_equal(mkdir(cache, 0700), 0);
    struct runsc_binary *b CLEANUP(runsc_binary_freep) = NULL;
    struct err err = { 0 };
    assert_int_equal(runsc_binary_get(cache, path, &b, &err), ERR_PRECONDITION);
    assert_int_equal(rmdir(cache), 0); /* a refusal is not cached */
}

static enum err_kind run(const char *const *argv, unsigned ms, size_t cap, int *code, char *text)
{
    struct capture what = { .argv = argv, .deadline_ms = ms, .cap = cap };
    struct buf out;
    struct err err;
    *code = -1;
    enum err_kind kind = capture_run(&what, &out, code, &err);
    snprintf(text, 64, "%s", buf_cstr(&out));
    buf_fini(&out);
    return kind;
}

static void test_capture(void **state)
{
    (void)state;
    int code;
    char text[64];
    const char *const both[] = { "/bin/sh", "-c", "echo out; echo err >&2; env | wc -l; exit 3",
                                 NULL };
    assert_int_equal(run(both, 5000, 4096, &code, text), 0);
    assert_int_equal(code, 3);
    assert_non_null(strstr(text, "out\nerr\n"));
    const char *const none[] = { "/nonexistent", NULL };
    assert_int_equal(run(none, 5000, 4096, &code, text), 0);
    assert_int_equal(code, 127);
    const char *const slow[] = { "/bin/sh", "-c", "sleep 100 & sleep 100", NULL };
    uint64_t start = now_us();
    assert_int_equal(run(slow, 200, 4096, &code, text), ERR_TIMEOUT);
    assert_in_range(now_us() - start, 200000, 3000000);
    const char *const flood[] = { "/usr/bin/yes", NULL };
    assert_int_equal(run(flood, 5000, 4096, &code, text), ERR_INVALID);
    /* Output ends, the process does not: killed after a second. */
    const char *const hang[] = { "/bin/sh", "-c", "exec sleep 100 >/dev/null 2>&1", NULL };
    start = now_us();
    assert_int_equal(run(hang, 5000, 4096, &code, text), 0);
    assert_int_equal(code, 137);
    assert_in_range(now_us() - start, 900000, 4000000);
}

static int teardown(void **state)
{
    (void)state;
    struct err err;
    return fs_remove_tree(dir, &err) ? -1 : 0;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    if (argc == 2 && name && strncmp(name + 1, "fake-", 5) == 0)
        return answer_as(name + 1, argv[1]) < 0;
    if (geteuid() != 0)
        return 77;
    snprintf(dir, sizeof(dir), "/run/utp-test.XXXXXX"); /* /tmp is not root's alone */
    if (!mkdtemp(dir) || chmod(dir, 0755))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),  cmocka_unit_test(test_classes),
        cmocka_unit_test(test_missing),   cmocka_unit_test(test_runc_renamed),
        cmocka_unit_test(test_script),    cmocka_unit_test(test_writable_by_others),
        cmocka_unit_test(test_too_old),   cmocka_unit_test(test_flags),
        cmocka_unit_test(test_real_ones), cmocka_unit_test(test_key),
        cmocka_unit_test(test_cache),     cmocka_unit_test(test_cache_is_not_trusted_blindly),
        cmocka_unit_test(test_capture),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
