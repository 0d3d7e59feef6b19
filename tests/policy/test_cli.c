/* utter-policy as people and CI run it: exit codes, output for machines, mending, man pages. */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/policy/help.h"

#define NONE TEST_DATA "/specs/nerdctl23-hardened-network-none.json"
#define PLAIN TEST_DATA "/specs/ctr24-plain.json"

static char dir[] = "/tmp/ut-policy-cli.XXXXXX";
static char out[1 << 20];

/* Runs `utter-policy ARGS` in the test's directory; the exit code. Standard error is in out too if
 * `both`. */
static int run(const char *args, bool both)
{
    char *command CLEANUP_FREE = xasprintf("cd %s && '%s/utter-policy' %s %s", dir, TEST_BIN, args,
                                           both ? "2>&1" : "2>/dev/null");
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, sizeof(out) - 1, pipe);
    out[n] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static void expect(const char *args, int code, const char *text)
{
    int is = run(args, true);
    if (is != code || !strstr(out, text))
        fail_msg("%s: exit %d, expected %d and \"%s\": %.300s", args, is, code, text, out);
}

static void test_exit_codes(void **state)
{
    (void)state;
    write_file("broken.json", "{\"root\":{\"readonly\":true,\"ReadOnly\":false}}", 0600);
    write_file("open.json", "{}", 0666);
    write_file("bad.json", "{\"rules\":[]}", 0600);
    write_file("rootfs.json", "[{\"type\":\"overlay\",\"options\":[\"lowerdir=/\"]}]", 0600);
    expect("check --config c.json " NONE, 0, "accepted\n");
    expect("check --config c.json - < " NONE, 0, "accepted\n");
    expect("check --config c.json " PLAIN, 1,
           "memory: no memory limit (--memory-limit 268435456)\n");
    expect("check --config c.json broken.json", 1, "json: duplicate key");
    expect("check --config c.json --rootfs rootfs.json " NONE, 1, "rootfs-source: layer \"/\"");
    expect("check --config c.json --namespace other " NONE, 1, "nerdctl: nerdctl/namespace is");
    expect("check --config c.json --id other " NONE, 1, "cgroups-path:");
    expect("check --config c.json --role pause " NONE, 1, "pause:");
    expect("check --config c.json nothing.json", 2, "nothing.json");
    expect("check --config nothing.json " NONE, 2, "nothing.json");
    expect("check --config open.json " NONE, 2, "can be changed by others");
    expect("check --config bad.json " NONE, 2, "unknown key \"rules\"");
    expect("check --role x " NONE, 2, "--role is auto");
    expect("check --bogus " NONE, 2, "bogus");
    expect("check", 2, "check takes one SPEC");
    expect("check a b", 2, "check takes one SPEC");
    expect("check --config c.json --exec a --update b " NONE, 2, "do not go together");
    expect("explain nothing", 2, "no rule nothing");
    expect("flags docker", 2, "no tool docker");
    expect("bogus", 2, "usage:");
    expect("", 2, "usage:");
    expect("--help", 0, "usage:");
    expect("--version", 0, "utter-policy ");
}

static void test_json(void **state)
{
    (void)state;
    assert_int_equal(run("check --json --config c.json " PLAIN, false), 1);
    json_t *refused CLEANUP_JSON = parse(out);
    assert_string_equal(json_string_value(json_object_get(refused, "verdict")), "refused");
    assert_int_equal(json_array_size(json_object_get(refused, "findings")), 4);
    assert_string_equal(json_string_value(json_at(refused, "/findings/2/rule")), "memory");
    assert_string_equal(json_string_value(json_at(refused, "/findings/2/at")),
                        "/linux/resources/memory/limit");
    assert_int_equal(strncmp(json_string_value(json_object_get(refused, "text")),
                             "utter: refused: capabilities: ", 30),
                     0);
    assert_int_equal(run("check --json --config c.json " NONE, false), 0);
    json_t *accepted CLEANUP_JSON = parse(out);
    assert_string_equal(json_string_value(json_object_get(accepted, "verdict")), "accepted");
    assert_true(json_array_size(json_object_get(accepted, "adjusted")) > 3);
}

static void test_harden_then_check(void **state)
{
    (void)state;
    static const char *const specs[] = { "ctr16-plain", "nerdctl23-privileged", "cri16-plain",
                                         "ctr16-privileged-nethost" };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        char *args CLEANUP_FREE =
            xasprintf("harden --config c.json %s/specs/%s.json > h.json", TEST_DATA, specs[i]);
        assert_int_equal(run(args, false), 0);
        expect("check --config c.json h.json", 0, "accepted\n");
    }
    write_file("noargs.json", "{}", 0600);
    expect("harden --config c.json --namespace nd --id x noargs.json", 1, "not mended: args:");
}

static void test_effective(void **state)
{
    (void)state;
    assert_int_equal(run("effective --config c.json " NONE, false), 0);
    json_t *tree CLEANUP_JSON = parse(out);
    assert_int_equal(json_integer_value(json_at(tree, "/linux/resources/pids/limit")), 2112);
    expect("effective --config c.json " PLAIN, 1, "capabilities:");
}

static void test_rules_and_explain(void **state)
{
    (void)state;
    size_t n;
    const struct policy_rule *rules = policy_rules(&n);
    assert_int_equal(run("rules --json", false), 0);
    json_t *list CLEANUP_JSON = parse(out);
    assert_int_equal(json_array_size(list), n);
    assert_int_equal(run("rules", false), 0);
    for (size_t i = 0; i < n; i++)
        assert_non_null(strstr(out, rules[i].required));
    for (size_t i = 0; i < n; i++) {
        char *args CLEANUP_FREE = xasprintf("explain %s", rules[i].id);
        expect(args, 0, rules[i].why);
    }
    expect("explain network", 0, "NetworkPolicy");
}

static void test_flags(void **state)
{
    (void)state;
    write_file("max.json", "{\"max\":{\"memory\":134217728,\"cpus\":0.25,\"pids\":64}}", 0600);
    expect("flags --config max.json nerdctl", 0, "--pids-limit 64\n--memory 134217728\n");
    expect("flags --config max.json ctr", 0, "--memory-limit 134217728\n--cpus 0.25\n");
    expect("flags --config max.json pod", 0, "limits: {memory: \"134217728\", cpu: \"0.25\"}");
    expect("flags --config c.json ctr", 0, "--cap-drop CAP_AUDIT_WRITE\n");
}

/* The manual knows every command, option and key of the configuration. */
static void test_manual(void **state)
{
    (void)state;
    static const char *const commands[] = { "check",  "harden", "effective", "rules", "explain",
                                            "flags",  "host",   "rootfs",    "exec",  "update",
                                            "config", "role",   "namespace" };
    static const char *const keys[] = {
        "max.memory",
        "max.cpus",
        "max.pids",
        "max.nofile",
        "env",
        "annotations",
        "binds",
        "snapshotter-roots",
        "cgroup-parents",
        "network.cri",
        "network.max_ports",
        "network.netns_dirs",
        "pod-uids",
        "pause-argv",
        "timeout.max",
        "timeout.default",
        "disk-quota.max",
        "hooks.nerdctl",
        "loggers.binary",
        "loggers.file",
        "runsc",
        "kubelet-root",
        "cgroup-manager",
        "data-root",
        "cni-netconfpath",
    };
    struct err err;
    char *page CLEANUP_FREE = NULL, *config_page CLEANUP_FREE = NULL;
    assert_int_equal(fs_read(TEST_DATA "/../../docs/utter-policy.1", 1 << 20, &page, NULL, &err),
                     0);
    assert_int_equal(
        fs_read(TEST_DATA "/../../docs/utter-policy.json.5", 1 << 20, &config_page, NULL, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        assert_non_null(strstr(page, commands[i]));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!strstr(config_page, keys[i]))
            fail_msg("%s is not in the manual", keys[i]);
    }
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    write_file("c.json", "{}", 0600);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct err err;
    return fs_remove_tree(dir, &err) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_harden_then_check),
        cmocka_unit_test(test_effective),
        cmocka_unit_test(test_rules_and_explain),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
