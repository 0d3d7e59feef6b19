/* /etc/utter/policy.json: defaults, strictness, who may write it. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/policy/help.h"

static void test_defaults(void **state)
{
    (void)state;
    struct policy_config *config CLEANUP(policy_config_freep) = policy_config_new_default();
    json_t *empty CLEANUP_JSON = parse("{}");
    struct policy_config *parsed CLEANUP(policy_config_freep) = NULL;
    struct err err;
    assert_int_equal(policy_config_parse(empty, &parsed, &err), ERR_OK);
    assert_int_equal(config->max_memory, 256 << 20);
    assert_int_equal(config->max_cpu_milli, 500);
    assert_int_equal(config->max_pids, 256);
    assert_int_equal(config->timeout_default, 86400);
    assert_int_equal(parsed->max_memory, config->max_memory);
    assert_null(parsed->env[0]);
    assert_false(parsed->network_cri_cluster);
    assert_string_equal(parsed->netns_dirs[0], "/run/utter/netns");
}

static void test_values(void **state)
{
    (void)state;
    json_t *tree CLEANUP_JSON = parse(
        "{\"max\":{\"memory\":1073741824,\"cpus\":2.5,\"pids\":64,\"nofile\":4096},"
        "\"env\":[\"API_BASE\"],\"annotations\":[\"com.example/x\"],"
        "\"binds\":[{\"source\":\"/srv/a\"},{\"source\":\"/srv/b\",\"rw\":true,\"size\":4096}],"
        "\"snapshotter-roots\":[\"/srv/s\"],\"cgroup-parents\":[\"/utter\",\"utter.slice\"],"
        "\"network\":{\"cri\":\"cluster\",\"max_ports\":8,\"netns_dirs\":[\"/run/x\"]},"
        "\"pod-uids\":2,\"pause-argv\":[\"/my/pause\",\"-v\"],"
        "\"timeout\":{\"max\":100,\"default\":50},\"disk-quota\":{\"max\":8192},"
        "\"hooks\":{\"nerdctl\":{\"binary\":\"/usr/bin/nerdctl\",\"cgroup-manager\":\"systemd\"}},"
        "\"loggers\":{\"binary\":[{\"path\":\"/x\",\"args\":{\"k\":\"v\"}}],\"file\":[\"/l\"]},"
        "\"runsc\":\"/opt/runsc\",\"kubelet-root\":\"/k\"}");
    struct policy_config *config CLEANUP(policy_config_freep) = NULL;
    struct err err;
    assert_int_equal(policy_config_parse(tree, &config, &err), ERR_OK);
    assert_int_equal(config->max_cpu_milli, 2500);
    assert_int_equal(config->n_binds, 2);
    assert_true(config->binds[1].rw);
    assert_int_equal(config->binds[1].size, 4096);
    assert_string_equal(config->cgroup_parents[1], "utter.slice");
    assert_true(config->network_cri_cluster);
    assert_string_equal(config->pause_argv[1], "-v");
    assert_int_equal(config->timeout_default, 50);
    assert_string_equal(config->nerdctl.binary, "/usr/bin/nerdctl");
    assert_string_equal(config->nerdctl.data_root, "/var/lib/nerdctl");
    assert_int_equal(config->n_loggers, 3);
    assert_string_equal(config->runsc, "/opt/runsc");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "[]", "not an object" },
        { "{\"rules\":{}}", "unknown key \"rules\"" },
        { "{\"disable\":[\"memory\"]}", "unknown key" },
        { "{\"max\":[]}", "\"max\" must be an object" },
        { "{\"max\":{\"swap\":1}}", "unknown key \"swap\"" },
        { "{\"max\":{\"memory\":1}}", "\"memory\" is 1" },
        { "{\"max\":{\"memory\":\"1g\"}}", "\"memory\" must be an integer" },
        { "{\"max\":{\"cpus\":0}}", "\"cpus\" must be" },
        { "{\"max\":{\"cpus\":\"1\"}}", "\"cpus\" must be" },
        { "{\"max\":{\"pids\":7}}", "\"pids\" is 7" },
        { "{\"max\":{\"nofile\":1}}", "\"nofile\" is 1" },
        { "{\"env\":\"A\"}", "\"env\" must be an array" },
        { "{\"env\":[\"A=b\"]}", "\"env\" entry 0" },
        { "{\"env\":[\"A*\"]}", "\"env\" entry 0" },
        { "{\"annotations\":[\"dev.gvisor.flag.host-uds\"]}", "no runtime reads" },
        { "{\"annotations\":[\"nerdctl/pid-file\"]}", "no runtime reads" },
        { "{\"annotations\":[\"io.kubernetes.cri-o.x\"]}", "no runtime reads" },
        { "{\"binds\":[\"/srv\"]}", "array of objects" },
        { "{\"binds\":[{\"source\":\"/\"}]}", "but \"/\"" },
        { "{\"binds\":[{\"source\":\"/a/../b\"}]}", "absolute path" },
        { "{\"binds\":[{\"source\":\"/a\",\"exec\":true}]}", "unknown key" },
        { "{\"binds\":[{\"source\":\"/a\",\"size\":1}]}", "\"size\" without" },
        { "{\"binds\":[{}]}", "\"source\" is missing" },
        { "{\"snapshotter-roots\":[\"x\"]}", "\"snapshotter-roots\" entry 0" },
        { "{\"cgroup-parents\":[\"x\"]}", "\"cgroup-parents\" entry 0" },
        { "{\"network\":{\"cri\":\"host\"}}", "\"internal\" or \"cluster\"" },
        { "{\"network\":{\"max_ports\":1}}", "\"max_ports\" is 1" },
        { "{\"network\":{\"netns_dirs\":[\"..\"]}}", "\"netns_dirs\" entry 0" },
        { "{\"pod-uids\":0}", "\"pod-uids\" is 0" },
        { "{\"pause-argv\":[]}", "must name a program" },
        { "{\"timeout\":{\"max\":10}}", "is over \"max\"" },
        { "{\"timeout\":{\"max\":0}}", "\"max\" is 0" },
        { "{\"disk-quota\":{\"max\":1}}", "\"max\" is 1" },
        { "{\"hooks\":{\"podman\":{}}}", "unknown key \"podman\"" },
        { "{\"hooks\":{\"nerdctl\":{\"binary\":\"nerdctl\"}}}", "\"binary\" must be" },
        { "{\"hooks\":{\"nerdctl\":{\"cgroup-manager\":\"none\"}}}", "\"cgroup-manager\"" },
        { "{\"loggers\":{\"binary\":[{\"path\":\"x\"}]}}", "absolute" },
        { "{\"loggers\":{\"binary\":[{\"path\":\"/x\",\"args\":{\"a\":1}}]}}", "must be a string" },
        { "{\"loggers\":{\"file\":[\"x\"]}}", "\"file\" entry 0" },
        { "{\"runsc\":\"runsc\"}", "\"runsc\" must be" },
        { "{\"kubelet-root\":1}", "\"kubelet-root\" must be" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *tree CLEANUP_JSON = parse(cases[i].text);
        struct policy_config *config CLEANUP(policy_config_freep) = NULL;
        struct err err = { 0 };
        assert_int_equal(policy_config_parse(tree, &config, &err), ERR_INVALID);
        if (!strstr(err.msg, cases[i].why))
            fail_msg("%s: \"%s\", expected \"%s\"", cases[i].text, err.msg, cases[i].why);
    }
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_file(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mode_t mode;
        const char *why;
    } cases[] = {
        { "{\"pod-uids\":3}", 0644, NULL },
        { "{}", 0664, "can be changed by others" },
        { "{}", 0646, "can be changed by others" },
        { "{", 0644, "not JSON" },
        { "{\"env\":[],\"Env\":[]}", 0644, "duplicate key" },
        { "{\"x\":1}", 0644, "unknown key" },
    };
    char path[] = "/tmp/ut-policy-config.XXXXXX";
    close(mkstemp(path));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy_config *config CLEANUP(policy_config_freep) = NULL;
        struct err err = { 0 };
        write_file(path, cases[i].text, cases[i].mode);
        enum err_kind kind = policy_config_load(path, &config, &err);
        assert_int_equal(kind == ERR_OK, cases[i].why == NULL);
        if (cases[i].why && (!strstr(err.msg, cases[i].why) || !strstr(err.msg, path)))
            fail_msg("%s: \"%s\"", cases[i].text, err.msg);
        if (!cases[i].why)
            assert_int_equal(config->pod_uids, 3);
    }
    unlink(path);
    struct policy_config *config CLEANUP(policy_config_freep) = NULL;
    struct err err = { 0 };
    assert_int_not_equal(policy_config_load(path, &config, &err), ERR_OK);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_not_equal(policy_config_load(path, &config, &err), ERR_OK);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
