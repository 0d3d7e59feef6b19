/* What runsc gets: each adjustment of an accepted spec, recorded, and nothing of the caller's that
 * could undo it. */
#include "tests/policy/help.h"

#define NONE "nerdctl23-hardened-network-none"
#define INTERNAL "nerdctl23-hardened-internal-net"

struct run {
    json_t *spec;
    json_t *out;
    struct policy_context context;
    struct policy_guess guess;
    struct policy_plan plan;
    struct policy_changes changes;
};

static struct policy_config *config;

/* Takes the spec; it must be accepted. */
static struct run harden_take(json_t *spec, const struct policy_pod *pod)
{
    struct run run = { .spec = spec, .context = { .pod = pod } };
    struct policy_report report;
    policy_report_init(&report);
    policy_changes_init(&run.changes);
    policy_check(spec, &run.context, config, &report);
    expect_rules(&report, "", "harden");
    policy_report_fini(&report);
    run.out = policy_harden(spec, &run.context, config, &run.plan, &run.changes);
    return run;
}

static struct run harden_changed(const char *base, const char *const edits[])
{
    json_t *spec = load_spec(base);
    for (size_t i = 0; edits && edits[i]; i += 2)
        set_at(spec, edits[i], edits[i + 1]);
    return harden_take(spec, NULL);
}

static void run_fini(struct run *run)
{
    json_decref(run->spec);
    json_decref(run->out);
    policy_plan_fini(&run->plan);
    policy_changes_fini(&run->changes);
}

static void expect_at(const struct run *run, const char *pointer, const char *value)
{
    json_t *wanted CLEANUP_JSON = parse(value);
    char *is CLEANUP_FREE = NULL;
    const json_t *found = json_at(run->out, pointer);
    if (found && json_equal(found, wanted))
        return;
    is = found ? json_canonical(found) : xstrdup("absent");
    fail_msg("%s is %s, expected %s", pointer, is, value);
}

static void expect_change(const struct run *run, const char *at)
{
    for (size_t i = 0; i < run->changes.n; i++) {
        if (strcmp(run->changes.items[i].at, at) == 0)
            return;
    }
    fail_msg("no change recorded at %s", at);
}

static const json_t *mount_at(const struct run *run, const char *destination)
{
    size_t i;
    json_t *mount;
    json_array_foreach(json_object_get(run->out, "mounts"), i, mount)
    {
        if (strcmp(json_string_value(json_object_get(mount, "destination")), destination) == 0)
            return mount;
    }
    return NULL;
}

static bool has_option(const json_t *mount, const char *option)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(mount, "options"), i, entry)
    {
        if (strcmp(json_string_value(entry), option) == 0)
            return true;
    }
    return false;
}

static void test_process(void **state)
{
    (void)state;
    const char *const edits[] = { "/process/oomScoreAdj",
                                  "-997",
                                  "/process/apparmorProfile",
                                  "\"cri-containerd.apparmor.d\"",
                                  "/process/rlimits",
                                  "[{\"type\":\"RLIMIT_NPROC\",\"soft\":9999,\"hard\":9999},"
                                  "{\"type\":\"RLIMIT_NOFILE\",\"soft\":64,\"hard\":64},"
                                  "{\"type\":\"RLIMIT_AS\",\"soft\":7,\"hard\":7}]",
                                  NULL };
    struct run run = harden_changed(NONE, edits);
    expect_at(&run, "/process/noNewPrivileges", "true");
    expect_at(&run, "/process/capabilities",
              "{\"bounding\":[],\"effective\":[],\"permitted\":[],\"inheritable\":[],"
              "\"ambient\":[]}");
    expect_at(&run, "/process/oomScoreAdj", "0");
    expect_at(&run, "/process/rlimits",
              "[{\"type\":\"RLIMIT_NPROC\",\"soft\":256,\"hard\":256},"
              "{\"type\":\"RLIMIT_NOFILE\",\"soft\":64,\"hard\":64},"
              "{\"type\":\"RLIMIT_CORE\",\"soft\":0,\"hard\":0},"
              "{\"type\":\"RLIMIT_AS\",\"soft\":7,\"hard\":7}]");
    assert_null(json_at(run.out, "/process/apparmorProfile"));
    expect_change(&run, "/process/oomScoreAdj");
    expect_change(&run, "/process/apparmorProfile");
    expect_change(&run, "/process/rlimits");
    run_fini(&run);
}

static void test_limits(void **state)
{
    (void)state;
    static const char *const swaps[] = { NULL, "1", "-1", "1073741824" };
    for (size_t i = 0; i < ARRAY_LEN(swaps); i++) {
        const char *const edits[] = { "/linux/resources/memory/swap", swaps[i],
                                      "/linux/resources/pids", NULL, NULL };
        json_t *spec = load_spec(NONE);
        set_at(spec, edits[0], edits[1]);
        set_at(spec, edits[2], edits[3]);
        struct run run = harden_take(spec, NULL);
        expect_at(&run, "/linux/resources/memory", "{\"limit\":268435456,\"swap\":268435456}");
        expect_at(&run, "/linux/resources/pids/limit", "2112");
        expect_change(&run, "/linux/resources/memory/swap");
        expect_change(&run, "/linux/resources/pids/limit");
        assert_int_equal(run.plan.limits.pids, 256);
        assert_int_equal(run.plan.limits.host_pids, 8 * 256 + 64);
        run_fini(&run);
    }
    const char *const heavy[] = { "/linux/resources/cpu/shares", "262144", NULL };
    struct run weighty = harden_changed(NONE, heavy);
    expect_at(&weighty, "/linux/resources/cpu/shares", "512");
    run_fini(&weighty);
    const char *const edits[] = { "/linux/resources/pids/limit", "8", NULL };
    struct run run = harden_changed(NONE, edits);
    expect_at(&run, "/linux/resources/pids/limit", "128");
    expect_at(&run, "/process/rlimits/0/soft", "8");
    run_fini(&run);
}

static void test_resources_dropped(void **state)
{
    (void)state;
    const char *const edits[] = {
        "/linux/resources/unified",
        "{\"memory.oom.group\":\"1\",\"memory.swap.max\":\"0\",\"memory.high\":\"1000\","
        "\"memory.min\":\"1\"}",
        "/linux/resources/hugepageLimits",
        "[{\"pageSize\":\"2MB\",\"limit\":0},{\"pageSize\":\"1GB\",\"limit\":0}]", NULL
    };
    struct run run = harden_changed(NONE, edits);
    assert_null(json_at(run.out, "/linux/resources/unified"));
    assert_null(json_at(run.out, "/linux/resources/hugepageLimits"));
    expect_at(&run, "/linux/resources/devices", "[{\"allow\":false,\"access\":\"rwm\"}]");
    expect_change(&run, "/linux/resources/unified");
    expect_change(&run, "/linux/resources/hugepageLimits");
    run_fini(&run);
}

static void test_tools_mounts(void **state)
{
    (void)state;
    struct run run = harden_changed(NONE, NULL);
    static const char *const needed[] = { "/dev", "/dev/shm", "/run", "/tmp" };
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        const json_t *mount = mount_at(&run, needed[i]);
        assert_non_null(mount);
        assert_true(has_option(mount, "noexec"));
        assert_true(has_option(mount, "nosuid"));
        assert_true(has_option(mount, "nodev"));
    }
    assert_non_null(mount_at(&run, "/proc"));
    assert_true(has_option(mount_at(&run, "/sys"), "ro"));
    assert_null(mount_at(&run, "/sys/fs/cgroup"));
    expect_change(&run, "/mounts/dev");
    expect_change(&run, "/mounts/run");
    expect_change(&run, "/mounts/sys/fs/cgroup");
    run_fini(&run);
}

/* No mount stands before one that would cover it. */
static void expect_order(const struct run *run)
{
    const json_t *mounts = json_object_get(run->out, "mounts");
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const char *mine =
            json_string_value(json_object_get(json_array_get(mounts, i), "destination"));
        for (size_t k = 0; k < i; k++) {
            const char *before =
                json_string_value(json_object_get(json_array_get(mounts, k), "destination"));
            size_t n = strlen(mine);
            if (strncmp(before, mine, n) == 0 && (before[n] == '/' || !before[n]))
                fail_msg("%s is covered by %s", before, mine);
        }
    }
}

/* Whatever mounts a spec leaves out, what runsc would make by itself is there, in order. */
static void test_missing_mounts(void **state)
{
    (void)state;
    static const char *const needed[] = { "/proc",    "/sys", "/dev", "/dev/pts",
                                          "/dev/shm", "/run", "/tmp" };
    json_t *whole CLEANUP_JSON = load_spec(NONE);
    size_t n = json_array_size(json_object_get(whole, "mounts"));
    for (unsigned mask = 0; mask < 1u << n; mask += 1 + mask / 37) {
        json_t *spec = json_deep_copy(whole);
        json_t *mounts = json_object_get(spec, "mounts");
        for (size_t i = n; i-- > 0;) {
            if (mask & (1u << i))
                json_array_remove(mounts, i);
        }
        struct run run = harden_take(spec, NULL);
        for (size_t i = 0; i < ARRAY_LEN(needed); i++)
            assert_non_null(mount_at(&run, needed[i]));
        assert_true(has_option(mount_at(&run, "/tmp"), "noexec"));
        expect_order(&run);
        run_fini(&run);
    }
}

static void test_binds(void **state)
{
    (void)state;
    struct run run = harden_changed(INTERNAL, NULL);
    assert_int_equal(run.plan.n_binds, 3);
    for (size_t i = 0; i < run.plan.n_binds; i++) {
        const struct policy_bind *bind = &run.plan.binds[i];
        const json_t *mount = json_array_get(json_object_get(run.out, "mounts"), bind->mount);
        assert_int_equal(bind->kind, POLICY_BIND_TOOL_FILE);
        assert_false(bind->rw);
        assert_string_equal(json_string_value(json_object_get(mount, "destination")),
                            bind->destination);
        json_t *options CLEANUP_JSON =
            parse("[\"bind\",\"private\",\"ro\",\"nosuid\",\"nodev\",\"noexec\"]");
        assert_true(json_equal(json_object_get(mount, "options"), options));
    }
    expect_change(&run, "/mounts/etc/hosts");
    run_fini(&run);
}

#define LISTED(options)                                                                            \
    "{\"destination\":\"/data\",\"type\":\"bind\",\"source\":\"/srv/rw/x\",\"options\":[" options  \
    "]}"

static void test_operator_binds(void **state)
{
    (void)state;
    static const struct {
        const char *mount;
        bool rw;
    } cases[] = {
        { LISTED("\"rbind\",\"rw\",\"exec\",\"suid\",\"dev\""), true },
        { LISTED("\"rbind\",\"ro\""), false },
        { "{\"destination\":\"/data\",\"type\":\"none\",\"source\":\"/srv/ro\",\"options\":"
          "[\"rbind\",\"rw\"]}",
          false },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const edits[] = { "/mounts/-", cases[i].mount, NULL };
        struct run run = harden_changed(NONE, edits);
        const struct policy_bind *bind = &run.plan.binds[run.plan.n_binds - 1];
        const json_t *mount = mount_at(&run, "/data");
        assert_int_equal(bind->kind, POLICY_BIND_OPERATOR);
        assert_int_equal(bind->rw, cases[i].rw);
        assert_true(has_option(mount, cases[i].rw ? "rw" : "ro"));
        assert_true(has_option(mount, "noexec") && has_option(mount, "nosuid"));
        assert_false(has_option(mount, "exec"));
        assert_string_equal(json_string_value(json_object_get(mount, "type")), "bind");
        run_fini(&run);
    }
}

static int64_t tmpfs_sum(const struct run *run)
{
    int64_t sum = 0;
    size_t i, k;
    json_t *mount, *option;
    json_array_foreach(json_object_get(run->out, "mounts"), i, mount)
    {
        if (strcmp(json_string_value(json_object_get(mount, "type")), "tmpfs") != 0 ||
            strcmp(json_string_value(json_object_get(mount, "destination")), "/dev") == 0)
            continue;
        int64_t unit = 1;
        json_array_foreach(json_object_get(mount, "options"), k, option)
        {
            const char *text = json_string_value(option);
            if (strncmp(text, "size=", 5) != 0)
                continue;
            unit = text[strlen(text) - 1] == 'm'   ? 1 << 20
                   : text[strlen(text) - 1] == 'k' ? 1024
                                                   : 1;
            sum += strtoll(text + 5, NULL, 10) * unit;
        }
    }
    return sum;
}

/* Sizes that nobody chose give way to the memory limit and to the quota. */
static void test_sizes_fit(void **state)
{
    (void)state;
    const char *const small[] = { "/linux/resources/memory/limit", "33554432", NULL };
    struct run run = harden_changed(NONE, small);
    assert_true(tmpfs_sum(&run) <= 33554432);
    run_fini(&run);
    const char *const quota[] = { "/annotations/io.utter.disk-quota", "\"25165824\"", NULL };
    run = harden_changed(NONE, quota);
    assert_int_equal(run.plan.disk_quota, 25165824);
    assert_true(tmpfs_sum(&run) <= 25165824);
    assert_false(has_option(mount_at(&run, "/dev"), "ro"));
    run_fini(&run);
    const char *const root[] = { "/annotations/io.utter.disk-quota", "\"25165824\"",
                                 "/process/user", "{\"uid\":0,\"gid\":0}", NULL };
    run = harden_changed(NONE, root);
    assert_true(has_option(mount_at(&run, "/dev"), "ro"));
    run_fini(&run);
}

static void test_hooks_are_ours(void **state)
{
    (void)state;
    struct run run = harden_changed(INTERNAL, NULL);
    expect_at(&run, "/hooks/createRuntime",
              "[{\"path\":\"/usr/local/bin/nerdctl\",\"args\":[\"/usr/local/bin/nerdctl\","
              "\"--address=/run/containerd/containerd.sock\",\"--namespace=nd\","
              "\"--data-root=/var/lib/nerdctl\",\"--cni-path=/opt/cni/bin\","
              "\"--cni-netconfpath=/etc/cni/net.d\",\"--cgroup-manager=cgroupfs\",\"internal\","
              "\"oci-hook\",\"createRuntime\"],\"env\":["
              "\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\","
              "\"HOME=/root\",\"LANG=C.UTF-8\"]}]");
    expect_at(&run, "/hooks/poststop/0/args/9", "\"postStop\"");
    assert_int_equal(json_object_size(json_object_get(run.out, "hooks")), 2);
    assert_true(run.plan.network_hook);
    assert_int_equal(run.plan.network, POLICY_NETWORK_SANDBOX);
    assert_true(run.plan.network_internal);
    run_fini(&run);
    run = harden_changed(NONE, NULL);
    assert_int_equal(run.plan.network, POLICY_NETWORK_NONE);
    run_fini(&run);
}

static void test_hook_env_and_timeout_are_not_the_callers(void **state)
{
    (void)state;
    const char *const edits[] = { "/hooks/createRuntime/0/env", "[\"LD_PRELOAD=/tmp/x.so\"]",
                                  "/hooks/createRuntime/0/timeout", "1", NULL };
    struct run run = harden_changed(INTERNAL, edits);
    char *text CLEANUP_FREE = json_canonical(run.out);
    assert_null(strstr(text, "LD_PRELOAD"));
    assert_null(json_at(run.out, "/hooks/createRuntime/0/timeout"));
    run_fini(&run);
}

static void test_annotations(void **state)
{
    (void)state;
    const char *const edits[] = { "/annotations/io.utter.timeout",
                                  "\"60\"",
                                  "/annotations/io.utter.network",
                                  "\"internal\"",
                                  "/annotations/io.utter.address",
                                  "\"10.1.2.3/24\"",
                                  NULL };
    struct run run = harden_changed(INTERNAL, edits);
    assert_int_equal(run.plan.timeout, 60);
    assert_string_equal(run.plan.network_address, "10.1.2.3/24");
    assert_null(json_object_get(json_object_get(run.out, "annotations"), "io.utter.timeout"));
    assert_non_null(json_object_get(json_object_get(run.out, "annotations"), "nerdctl/networks"));
    run_fini(&run);
    const char *const plain[] = { "/hooks", NULL, NULL };
    json_t *spec = load_spec(NONE);
    set_at(spec, plain[0], plain[1]);
    run = harden_take(spec, NULL);
    assert_null(json_object_get(run.out, "annotations"));
    assert_int_equal(run.plan.timeout, 86400);
    run_fini(&run);
}

static void test_pause(void **state)
{
    (void)state;
    static const char *const specs[] = { "cri16-pause", "cri24-pause" };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct run run = harden_changed(specs[i], NULL);
        expect_at(&run, "/process/capabilities/bounding", "[]");
        expect_at(&run, "/process/capabilities/effective", "[]");
        expect_at(&run, "/linux/resources/memory", "{\"limit\":268435456,\"swap\":268435456}");
        expect_at(&run, "/linux/resources/cpu",
                  "{\"quota\":50000,\"period\":100000,\"shares\":512}");
        expect_at(&run, "/linux/resources/pids/limit", "8256"); /* 8 * 256 * 4 + 64 */
        assert_int_equal(run.plan.role, POLICY_ROLE_PAUSE);
        assert_int_equal(json_object_size(json_object_get(run.out, "annotations")), 2);
        expect_at(&run, "/annotations/io.kubernetes.cri.container-type", "\"sandbox\"");
        const json_t *shm = mount_at(&run, "/dev/shm");
        assert_string_equal(json_string_value(json_object_get(shm, "type")), "tmpfs");
        assert_true(has_option(shm, "noexec") && has_option(shm, "size=67108864"));
        expect_order(&run);
        run_fini(&run);
    }
}

static void test_workload(void **state)
{
    (void)state;
    struct policy_pod pod = {
        .sandbox_id = "af1c0bbde2efe2394660e1eb430b0bf9cf0224e0eae42cfef265aee307d7660e",
        .sandbox_uid = "11111111-2222-3333-4444-555555555555",
        .sandbox_namespace = "default",
        .sandbox_pid = 13434,
        .limits = { .memory = 268435456,
                    .cpu_quota = 50000,
                    .cpu_period = 100000,
                    .pids = 256,
                    .host_pids = 8256,
                    .nofile = 1024 },
    };
    struct run run = harden_take(load_spec("cri24-hardened"), &pod);
    expect_at(&run, "/process/env",
              "[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\","
              "\"HOSTNAME=web\"]");
    expect_change(&run, "/process/env");
    assert_string_equal(json_string_value(json_object_get(mount_at(&run, "/dev/shm"), "type")),
                        "tmpfs");
    assert_string_equal(run.plan.sandbox_id, pod.sandbox_id);
    expect_at(&run, "/process/rlimits/0/hard", "256");
    run_fini(&run);
    /* Identical in every container of the pod, whatever each asks for. */
    json_t *spec = load_spec("cri24-hardened");
    set_at(spec, "/process/rlimits", "[{\"type\":\"RLIMIT_NPROC\",\"soft\":5,\"hard\":5}]");
    set_at(spec, "/linux/resources/pids", "{\"limit\":8}");
    run = harden_take(spec, &pod);
    expect_at(&run, "/process/rlimits/0/hard", "256");
    run_fini(&run);
}

/* A variable that ends like a service link but has no service is the image's own. */
static void test_own_ports_are_kept(void **state)
{
    (void)state;
    json_t *spec = load_spec("cri24-hardened");
    set_at(spec, "/process/env/-", "\"MY_PORT=8080\"");
    set_at(spec, "/process/env/-", "\"WEB_SERVICE_HOST=10.0.0.1\"");
    set_at(spec, "/process/env/-", "\"WEB_SERVICE_PORT_HTTP=80\"");
    set_at(spec, "/process/env/-", "\"WEB_PORT_80_TCP=tcp://10.0.0.1:80\"");
    set_at(spec, "/process/env/-", "\"WEB_PORT_80_TCP_ADDR=10.0.0.1\"");
    struct run run = harden_take(spec, NULL);
    expect_at(&run, "/process/env",
              "[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\","
              "\"HOSTNAME=web\",\"MY_PORT=8080\"]");
    run_fini(&run);
}

/* What was hardened once is accepted and, but for host pids and hooks' own form, left alone. */
static void test_hardened_is_accepted(void **state)
{
    (void)state;
    static const char *const specs[] = { NONE, INTERNAL };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct run run = harden_changed(specs[i], NULL);
        set_at(run.out, "/linux/resources/pids/limit", "256");
        struct policy_report report;
        policy_report_init(&report);
        struct policy_context context = { .role = POLICY_ROLE_SINGLE };
        policy_check(run.out, &context, config, &report);
        expect_rules(&report, "", specs[i]);
        policy_report_fini(&report);
        run_fini(&run);
    }
}

static int set_up(void **state)
{
    (void)state;
    struct err err;
    json_t *tree CLEANUP_JSON = parse("{\"binds\":[{\"source\":\"/srv/rw\",\"rw\":true},"
                                      "{\"source\":\"/srv/ro\"}]}");
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
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_resources_dropped),
        cmocka_unit_test(test_tools_mounts),
        cmocka_unit_test(test_missing_mounts),
        cmocka_unit_test(test_binds),
        cmocka_unit_test(test_operator_binds),
        cmocka_unit_test(test_sizes_fit),
        cmocka_unit_test(test_hooks_are_ours),
        cmocka_unit_test(test_hook_env_and_timeout_are_not_the_callers),
        cmocka_unit_test(test_annotations),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_workload),
        cmocka_unit_test(test_own_ports_are_kept),
        cmocka_unit_test(test_hardened_is_accepted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
