/* deploy/layer, oci, logfile, rpc's table: what is written and what is refused. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "deploy/layer.h"
#include "deploy/logfile.h"
#include "deploy/oci.h"
#include "deploy/rpc.h"
#include "tests/test.h"

static char dir[] = "/tmp/ut-deploy-test.XXXXXX";

static void put(const char *name, const char *text, mode_t mode)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, name);
    struct err err;
    char *parent CLEANUP_FREE = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    assert_int_equal(fs_mkdirs(parent, 0755, &err), ERR_OK);
    assert_int_equal(fs_write(path, text, strlen(text), mode, false, &err), ERR_OK);
}

static enum err_kind layer_of(const char *folder, char digest[DIGEST_SIZE], struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, folder);
    struct layer *layer CLEANUP(layer_freep) = NULL;
    int fd CLEANUP_FD = -1;
    int64_t size;
    if (layer_new(&layer, err) || layer_folder(layer, path, "app", err) ||
        layer_end(layer, &fd, &size, digest, err))
        return err->kind;
    return ERR_OK;
}

/* Two copies made at other times, in another order, with another umask: one digest. */
static void test_layer_is_reproducible(void **state)
{
    (void)state;
    struct err err;
    char a[DIGEST_SIZE], b[DIGEST_SIZE];
    put("a/main.py", "print(1)\n", 0644);
    put("a/lib/x.py", "x = 1\n", 0600);
    put("a/run", "#!", 0700);
    put("b/run", "#!", 0755);
    put("b/lib/x.py", "x = 1\n", 0644);
    put("b/main.py", "print(1)\n", 0640);
    put("b/.git/config", "secret", 0644);
    put("b/lib/__pycache__/x.pyc", "zzz", 0644);
    assert_int_equal(layer_of("a", a, &err), ERR_OK);
    assert_int_equal(layer_of("b", b, &err), ERR_OK);
    assert_string_equal(a, b);
    put("b/main.py", "print(2)\n", 0640);
    assert_int_equal(layer_of("b", b, &err), ERR_OK);
    assert_string_not_equal(a, b);
}

static void test_layer_refuses(void **state)
{
    (void)state;
    struct err err;
    char digest[DIGEST_SIZE];
    static const char *const targets[] = { "/etc/passwd", "../../x", "sub/../../../x", "" };
    for (size_t i = 0; i < 3; i++) {
        char *path CLEANUP_FREE = xasprintf("%s/l%zu/link", dir, i);
        char *name CLEANUP_FREE = xasprintf("l%zu/main.py", i);
        put(name, "x", 0644);
        assert_int_equal(symlink(targets[i], path), 0);
        char *folder CLEANUP_FREE = xasprintf("l%zu", i);
        assert_int_equal(layer_of(folder, digest, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "a link that leaves the folder"));
    }
    put("f/main.py", "x", 0644);
    char *fifo CLEANUP_FREE = xasprintf("%s/f/pipe", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(layer_of("f", digest, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "neither file, folder nor link"));
    assert_int_equal(layer_of("absent", digest, &err), ERR_NOT_FOUND);
}

static void test_layer_keeps_inner_links(void **state)
{
    (void)state;
    struct err err;
    char digest[DIGEST_SIZE];
    put("k/sub/x", "x", 0644);
    char *path CLEANUP_FREE = xasprintf("%s/k/sub/y", dir);
    assert_int_equal(symlink("../sub/x", path), 0);
    assert_int_equal(layer_of("k", digest, &err), ERR_OK);
}

static size_t size_of(const char *name)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, name);
    struct stat st;
    return stat(path, &st) ? 0 : (size_t)st.st_size;
}

/* 100 MB in: never more than two halves on disk, and what went missing is counted. */
static void test_log_is_bounded(void **state)
{
    (void)state;
    struct err err;
    char *path CLEANUP_FREE = xasprintf("%s/log", dir);
    struct logfile *log CLEANUP(logfile_freep) = NULL;
    char line[1000];
    memset(line, 'x', sizeof(line));
    line[999] = '\n';
    assert_int_equal(logfile_open(path, 64 * 1024, 1024 * 1024, &log, &err), ERR_OK);
    for (int i = 0; i < 100000; i++)
        logfile_add(log, line, sizeof(line), 1000 + i / 50); /* 50 MB a second */
    assert_in_range(size_of("log.log"), 1, 64 * 1024);
    assert_in_range(size_of("log.log.1"), 1, 64 * 1024);
    /* Two seconds and a bit let through three times 1 MiB. */
    assert_in_range(logfile_dropped(log), 100000 - 3 * 1049, 100000 - 2 * 1048);
    assert_true(size_of("log.dropped") > 0);
}

static json_t *entry(const char *arch)
{
    return json_pack("{s:s, s:s, s:i, s:{s:s, s:s}}", "mediaType", OCI_MANIFEST, "digest",
                     "sha256:0123456789012345678901234567890123456789012345678901234567890123",
                     "size", 3, "platform", "os", "linux", "architecture", arch);
}

static void test_index_choice(void **state)
{
    (void)state;
    struct err err;
    struct cd_descriptor found;
    json_t *one CLEANUP_JSON =
        json_pack("{s:[o, o]}", "manifests", entry("mips"), entry(oci_architecture()));
    json_t *two CLEANUP_JSON =
        json_pack("{s:[o, o]}", "manifests", entry(oci_architecture()), entry(oci_architecture()));
    json_t *none CLEANUP_JSON = json_pack("{s:[o]}", "manifests", entry("mips"));
    assert_int_equal(oci_choose(one, &found, &err), ERR_OK);
    assert_int_equal(oci_choose(two, &found, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "two images"));
    assert_int_equal(oci_choose(none, &found, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "none for linux/"));
}

/* Chain ids by the image specification's own rule: sha256 of "<chain> <diff>". */
static void test_chain_id(void **state)
{
    (void)state;
    struct err err;
    char chain[DIGEST_SIZE], wanted[DIGEST_SIZE], both[200], a[DIGEST_SIZE], b[DIGEST_SIZE];
    digest_of("a", 1, a);
    digest_of("b", 1, b);
    json_t *config CLEANUP_JSON = json_pack("{s:{s:[s, s]}}", "rootfs", "diff_ids", a, b);
    assert_int_equal(oci_chain_id(config, 1, chain, &err), ERR_OK);
    assert_string_equal(chain, a);
    (void)snprintf(both, sizeof(both), "%s %s", a, b);
    digest_of(both, strlen(both), wanted);
    assert_int_equal(oci_chain_id(config, 2, chain, &err), ERR_OK);
    assert_string_equal(chain, wanted);
    assert_int_equal(oci_chain_id(config, 3, chain, &err), ERR_INVALID);
}

static void test_manifest_faults(void **state)
{
    (void)state;
    struct err err;
    static const char d[] =
        "sha256:0123456789012345678901234567890123456789012345678901234567890123";
    json_t *m CLEANUP_JSON =
        json_pack("{s:{s:s, s:s, s:i}, s:[{s:s, s:s, s:i}]}", "config", "mediaType", OCI_CONFIG,
                  "digest", d, "size", 2, "layers", "mediaType", OCI_LAYER, "digest", d, "size", 9);
    json_t *config CLEANUP_JSON =
        json_pack("{s:s, s:{s:[s]}}", "architecture", oci_architecture(), "rootfs", "diff_ids", d);
    assert_int_equal(oci_check_manifest(m, config, &err), ERR_OK);
    json_object_set_new(config, "architecture", json_string("mips"));
    assert_int_equal(oci_check_manifest(m, config, &err), ERR_INVALID);
    json_object_set_new(json_array_get(json_object_get(m, "layers"), 0), "digest",
                        json_string("sha256:../../x"));
    assert_int_equal(oci_check_manifest(m, NULL, &err), ERR_INVALID);
    json_object_set_new(m, "layers", json_array());
    assert_int_equal(oci_check_manifest(m, NULL, &err), ERR_INVALID);
}

/* Every gRPC status has a kind; OK alone is success. */
static void test_status_table(void **state)
{
    (void)state;
    assert_int_equal(rpc_kind_of_status(0), ERR_OK);
    for (int code = 1; code < 40; code++)
        assert_int_not_equal(rpc_kind_of_status(code), ERR_OK);
    assert_int_equal(rpc_kind_of_status(5), ERR_NOT_FOUND);
    assert_int_equal(rpc_kind_of_status(6), ERR_EXISTS);
    assert_int_equal(rpc_kind_of_status(9), ERR_PRECONDITION);
    assert_int_equal(rpc_kind_of_status(14), ERR_UNAVAILABLE);
}

static int remove_dir(void **state)
{
    (void)state;
    return fs_remove_tree(dir, ERR_IGNORED) ? 1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_is_reproducible),
        cmocka_unit_test(test_layer_refuses),
        cmocka_unit_test(test_layer_keeps_inner_links),
        cmocka_unit_test(test_log_is_bounded),
        cmocka_unit_test(test_index_choice),
        cmocka_unit_test(test_chain_id),
        cmocka_unit_test(test_manifest_faults),
        cmocka_unit_test(test_status_table),
    };
    if (!mkdtemp(dir))
        return 1;
    return cmocka_run_group_tests(tests, NULL, remove_dir);
}
