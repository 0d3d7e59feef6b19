/* check --host: what real files, sockets, links, namespaces and cgroups say of a spec. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/policy/help.h"

static char dir[] = "/tmp/ut-policy-host.XXXXXX";

static char *in_dir(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static struct policy_config *config_with(const char *binary)
{
    struct policy_config *config = policy_config_new_default();
    config->binds = xcalloc(1, sizeof(*config->binds));
    config->binds[config->n_binds++] = (struct policy_bind_entry){ .source = xstrdup(dir) };
    free(config->nerdctl.binary);
    config->nerdctl.binary = xstrdup(binary);
    return config;
}

/* A spec without hooks and tools' files, with one bind. */
static json_t *spec_with(const char *source)
{
    json_t *spec = load_spec("nerdctl23-hardened-network-none");
    char *mount CLEANUP_FREE =
        xasprintf("[{\"destination\":\"/data\",\"type\":\"bind\",\"source\":\"%s\"}]", source);
    set_at(spec, "/hooks", NULL);
    set_at(spec, "/mounts", mount);
    return spec;
}

static void expect_host(json_t *spec, const struct policy_config *config, const char *expected)
{
    struct policy_context context = { 0 };
    struct policy_report report;
    policy_report_init(&report);
    policy_check_host(spec, &context, config, &report);
    expect_rules(&report, expected, "host");
    policy_report_fini(&report);
}

static void test_sources(void **state)
{
    (void)state;
    char *file CLEANUP_FREE = in_dir("file"), *link_path CLEANUP_FREE = in_dir("link");
    char *socket_path CLEANUP_FREE = in_dir("socket"), *nothing CLEANUP_FREE = in_dir("nothing");
    struct policy_config *config CLEANUP(policy_config_freep) = config_with("/usr/bin/env");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    FILE *made = fopen(file, "w");
    assert_non_null(made);
    fclose(made);
    assert_int_equal(symlink("/etc", link_path), 0);
    const struct {
        const char *source, *rules;
    } cases[] = { { file, "" },
                  { dir, "" },
                  { link_path, "bind-source" },
                  { socket_path, "bind-source" },
                  { nothing, "bind-source" },
                  { "/dev/null", "bind-source" } };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *spec CLEANUP_JSON = spec_with(cases[i].source);
        expect_host(spec, config, cases[i].rules);
    }
}

static void test_cpus_of_this_host(void **state)
{
    (void)state;
    struct policy_config *config CLEANUP(policy_config_freep) = config_with("/usr/bin/env");
    static const struct {
        const char *key, *set, *rules;
    } cases[] = { { "/linux/resources/cpu/cpus", "\"0\"", "" },
                  { "/linux/resources/cpu/cpus", "\"0-8191\"", "cpuset" },
                  { "/linux/resources/cpu/mems", "\"0\"", "" },
                  { "/linux/resources/cpu/mems", "\"0,4095\"", "cpuset" } };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *spec CLEANUP_JSON = spec_with(dir);
        set_at(spec, cases[i].key, cases[i].set);
        expect_host(spec, config, cases[i].rules);
    }
}

/* A hosts file with a second link may be anybody's file. */
static void test_tool_file(void **state)
{
    (void)state;
    struct policy_config *config CLEANUP(policy_config_freep) = config_with("/usr/bin/env");
    json_t *spec CLEANUP_JSON = spec_with("/x");
    const char *id = "86f23276017228843a335a3d192c70681fe4f84bd83fb1702e0a46178d12b2bc";
    char *parent CLEANUP_FREE = xasprintf("%s/7c619e09/etchosts/nd/%s", dir, id);
    char *hosts CLEANUP_FREE = xasprintf("%s/hosts", parent), *other CLEANUP_FREE = in_dir("other");
    char *quoted CLEANUP_FREE = xasprintf("\"%s\"", hosts);
    struct err err;
    free(config->nerdctl.data_root);
    config->nerdctl.data_root = xstrdup(dir);
    assert_int_equal(fs_mkdirs(parent, 0700, &err), 0);
    assert_int_equal(fs_write(hosts, "", 0, 0600, false, &err), 0);
    set_at(spec, "/mounts/0/destination", "\"/etc/hosts\"");
    set_at(spec, "/mounts/0/source", quoted);
    expect_host(spec, config, "");
    assert_int_equal(link(hosts, other), 0);
    expect_host(spec, config, "tool-file");
}

static void test_hook_program(void **state)
{
    (void)state;
    char *program CLEANUP_FREE = in_dir("nerdctl");
    struct policy_config *config CLEANUP(policy_config_freep) = config_with(program);
    json_t *spec CLEANUP_JSON = load_spec("nerdctl23-hardened-network-none");
    struct err err;
    set_at(spec, "/mounts", "[]");
    assert_int_equal(fs_write(program, "", 0, 0755, false, &err), 0);
    expect_host(spec, config, "hooks"); /* below /tmp, which all may write */
}

static void test_network_namespace(void **state)
{
    (void)state;
    struct policy_config *config CLEANUP(policy_config_freep) = config_with("/usr/bin/env");
    json_t *spec CLEANUP_JSON = spec_with(dir);
    set_at(spec, "/linux/namespaces/4/path", "\"/proc/1/ns/net\"");
    expect_host(spec, config, "network");
    set_at(spec, "/linux/namespaces/4/path", "\"/nothing/here\"");
    expect_host(spec, config, "network");
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
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
        cmocka_unit_test(test_sources),           cmocka_unit_test(test_cpus_of_this_host),
        cmocka_unit_test(test_tool_file),         cmocka_unit_test(test_hook_program),
        cmocka_unit_test(test_network_namespace),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
