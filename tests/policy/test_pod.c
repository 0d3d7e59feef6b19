/* Pods in the kubelet's own form (cgroup v1 and v2, cgroupfs and systemd driver), which differs
 * from crictl's, and what may not pass for one. */
#include "tests/policy/help.h"

static struct policy_config *config;

static json_t *load_pod(const char *form, const char *what)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "pods/%s-%s.json", form, what);
    return load_data(path);
}

static const char *annotation(const json_t *spec, const char *key)
{
    return json_string_value(json_object_get(json_object_get(spec, "annotations"), key));
}

/* What the shim knows of the pod: from its accepted pause container, and the pid it reported. */
static struct policy_pod pod_of(const json_t *pause, const int64_t *uids, size_t n)
{
    struct policy_context context = { .ns = "k8s.io", .role = POLICY_ROLE_PAUSE };
    struct policy_guess guess;
    policy_context_guess(pause, &context, &guess);
    return (struct policy_pod){
        .sandbox_id = annotation(pause, "io.kubernetes.cri.sandbox-id"),
        .sandbox_uid = annotation(pause, "io.kubernetes.cri.sandbox-uid"),
        .sandbox_namespace = annotation(pause, "io.kubernetes.cri.sandbox-namespace"),
        .sandbox_pid = 0,
        .limits = policy_limits_of(pause, &context, config),
        .uids = uids,
        .n_uids = n,
    };
}

static int64_t pid_in(const json_t *workload)
{
    const char *path = json_string_value(json_at(workload, "/linux/namespaces/4/path"));
    return strtoll(path + strlen("/proc/"), NULL, 10);
}

static void check_in_pod(const json_t *spec, const struct policy_pod *pod, const char *expected,
                         const char *what)
{
    struct policy_report report;
    struct policy_context context = { .ns = "k8s.io", .pod = pod };
    policy_report_init(&report);
    policy_check(spec, &context, config, &report);
    expect_rules(&report, expected, what);
    policy_report_fini(&report);
}

static const char *const forms[] = { "v1-cgroupfs", "v1-systemd", "v2-cgroupfs", "v2-systemd" };

static void test_kubelet_forms(void **state)
{
    (void)state;
    static const int64_t uids[] = { 65535 };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        json_t *pause CLEANUP_JSON = load_pod(forms[i], "pause");
        json_t *workload CLEANUP_JSON = load_pod(forms[i], "workload");
        struct policy_pod pod = pod_of(pause, uids, 1);
        pod.sandbox_pid = pid_in(workload);
        check_in_pod(pause, NULL, "", forms[i]);
        check_in_pod(workload, &pod, "", forms[i]);
        assert_int_equal(pod.limits.memory, 268435456);
        assert_int_equal(pod.limits.host_pids, 8 * 256 * 4 + 64);
    }
}

static void test_kubelet_hardened(void **state)
{
    (void)state;
    static const int64_t uids[] = { 65535 };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        json_t *pause CLEANUP_JSON = load_pod(forms[i], "pause");
        json_t *workload CLEANUP_JSON = load_pod(forms[i], "workload");
        struct policy_pod pod = pod_of(pause, uids, 1);
        struct policy_context context = { .ns = "k8s.io", .pod = &pod };
        struct policy_plan plan;
        struct policy_changes changes;
        int kinds[4] = { 0 };
        pod.sandbox_pid = pid_in(workload);
        policy_changes_init(&changes);
        json_t *out CLEANUP_JSON = policy_harden(workload, &context, config, &plan, &changes);
        assert_int_equal(json_integer_value(json_at(out, "/process/oomScoreAdj")), 0);
        assert_null(json_at(out, "/process/apparmorProfile"));
        assert_null(json_at(out, "/linux/resources/unified"));
        assert_null(json_at(out, "/linux/resources/hugepageLimits"));
        assert_int_equal(plan.systemd_cgroup, strstr(forms[i], "systemd") != NULL);
        for (size_t k = 0; k < plan.n_binds; k++) {
            const struct policy_bind *bind = &plan.binds[k];
            kinds[bind->kind]++;
            assert_int_equal(bind->rw, bind->kind != POLICY_BIND_TOOL_FILE);
        }
        assert_int_equal(kinds[POLICY_BIND_TOOL_FILE], 3);
        assert_int_equal(kinds[POLICY_BIND_TERMINATION_LOG], 1);
        assert_int_equal(kinds[POLICY_BIND_EMPTY_DIR], 2);
        policy_plan_fini(&plan);
        policy_changes_fini(&changes);
    }
}

struct edit {
    const char *rules;
    const char *at;
    const char *value;
};

static void test_spoofed_workloads(void **state)
{
    (void)state;
    static const struct edit edits[] = {
        { "pod", "/annotations/io.kubernetes.cri.sandbox-namespace", "\"kube-system\"" },
        { "pod", "/annotations/io.kubernetes.cri.sandbox-id", NULL },
        { "namespace", "/linux/namespaces/1/path", "\"/proc/1/ns/ipc\"" },
        { "network", "/linux/namespaces/4/path", "\"/proc/1/ns/net\"" },
        { "network", "/linux/namespaces/4/path", "\"/run/netns/cni-other\"" },
        { "annotations", "/annotations/io.kubernetes.cri-o.TrySkipVolumeSELinuxLabel", "\"1\"" },
    };
    static const int64_t uids[] = { 65535 };
    for (size_t i = 0; i < ARRAY_LEN(edits); i++) {
        json_t *pause CLEANUP_JSON = load_pod("v2-systemd", "pause");
        json_t *workload CLEANUP_JSON = load_pod("v2-systemd", "workload");
        struct policy_pod pod = pod_of(pause, uids, 1);
        struct policy_report report;
        struct policy_context context = { .ns = "k8s.io", .pod = &pod };
        pod.sandbox_pid = pid_in(workload);
        set_at(workload, edits[i].at, edits[i].value);
        policy_report_init(&report);
        policy_check(workload, &context, config, &report);
        if (!policy_report_has(&report, edits[i].rules))
            fail_msg("%s is not refused by %s", edits[i].at, edits[i].rules);
        policy_report_fini(&report);
    }
}

/* A container of another pod's uid: its sandbox's uid says so, and so do its files. */
static void test_other_sandbox(void **state)
{
    (void)state;
    json_t *pause CLEANUP_JSON = load_pod("v1-systemd", "pause");
    json_t *workload CLEANUP_JSON = load_pod("v1-systemd", "workload");
    struct policy_pod pod = pod_of(pause, NULL, 0);
    pod.sandbox_pid = pid_in(workload);
    pod.sandbox_uid = "99999999-2222-3333-4444-555555555555";
    check_in_pod(workload, &pod, "pod", "another uid");
    pod = pod_of(pause, NULL, 0);
    pod.sandbox_pid = pid_in(workload) + 1;
    check_in_pod(workload, &pod, "namespace network", "another pid");
    pod = pod_of(pause, NULL, 0);
    pod.sandbox_pid = pid_in(workload);
    pod.limits.memory = 134217728;
    check_in_pod(workload, &pod, "pod", "more memory than the pod");
}

/* The same annotations outside k8s.io make nothing of a container. */
static void test_other_namespace(void **state)
{
    (void)state;
    json_t *pause CLEANUP_JSON = load_pod("v1-cgroupfs", "pause");
    struct policy_report report;
    struct policy_context context = { .ns = "nd" };
    assert_int_equal(policy_role_of(pause, "nd"), POLICY_ROLE_SINGLE);
    assert_int_equal(policy_role_of(pause, "k8s.io"), POLICY_ROLE_PAUSE);
    policy_report_init(&report);
    policy_check(pause, &context, config, &report);
    assert_true(policy_report_has(&report, "pod"));
    assert_true(policy_report_has(&report, "capabilities"));
    assert_true(policy_report_has(&report, "network"));
    policy_report_fini(&report);
}

static void test_uids(void **state)
{
    (void)state;
    static const int64_t uids[] = { 65535, 1001, 1002, 1003 };
    json_t *pause CLEANUP_JSON = load_pod("v1-cgroupfs", "pause");
    json_t *workload CLEANUP_JSON = load_pod("v1-cgroupfs", "workload");
    struct policy_pod pod = pod_of(pause, uids, 3);
    pod.sandbox_pid = pid_in(workload);
    check_in_pod(workload, &pod, "", "a fourth uid");
    pod.n_uids = 4;
    check_in_pod(workload, &pod, "pod-uids", "a fifth uid");
    set_at(workload, "/process/user/uid", "1003");
    check_in_pod(workload, &pod, "", "one of the four");
}

static int set_up(void **state)
{
    (void)state;
    config = policy_config_new_default();
    return 0;
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
        cmocka_unit_test(test_kubelet_forms),     cmocka_unit_test(test_kubelet_hardened),
        cmocka_unit_test(test_spoofed_workloads), cmocka_unit_test(test_other_sandbox),
        cmocka_unit_test(test_other_namespace),   cmocka_unit_test(test_uids),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
