/* shim/metrics: v2 from a tree of plain files, v1 (or v2) from a real sandbox. */
#include "shim/metrics.h"

#include <cgroups1.pb-c.h>
#include <cgroups2.pb-c.h>

#include "tests/shim/real_sandbox.h"

static char base[64];

static void put(const char *name, const char *text)
{
    char path[512];
    struct err err;
    snprintf(path, sizeof(path), "%s/%s", base, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    assert_int_equal(fs_mkdirs(path, 0755, &err), 0);
    *slash = '/';
    assert_int_equal(fs_write(path, text, strlen(text), 0644, false, &err), 0);
}

static void test_v2(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = NULL;
    struct err err = { 0 };
    char root[128];
    char proc[128];
    char line[512];
    snprintf(root, sizeof(root), "%s/cg", base);
    snprintf(proc, sizeof(proc), "%s/proc", base);
    snprintf(line, sizeof(line), "30 23 0:26 / %s rw,nosuid - cgroup2 cgroup2 rw\n", root);
    put("proc/self/mountinfo", line);
    put("cg/d/c1/memory.current", "20000000\n");
    put("cg/d/c1/memory.max", "134217728\n");
    put("cg/d/c1/memory.swap.current", "0\n");
    put("cg/d/c1/memory.swap.max", "max\n");
    put("cg/d/c1/memory.stat", "anon 100\nfile 200\nkernel 5\ninactive_file 50\n");
    put("cg/d/c1/memory.events", "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 0\n");
    put("cg/d/c1/pids.current", "20\n");
    put("cg/d/c1/pids.max", "192\n");
    put("cg/d/c1/cpu.stat", "usage_usec 1000\nuser_usec 600\nsystem_usec 400\nnr_periods 10\n"
                            "nr_throttled 3\nthrottled_usec 77\nnr_bursts 0\n");
    assert_int_equal(cgroup_host_open(root, proc, &host, &err), 0);
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "/d/c1");
    struct control_event event = { .pids = 3, .container_ns = 10, .all_ns = 40, .n_interfaces = 1 };
    snprintf(event.interfaces[0].name, 16, "eth0");
    event.interfaces[0].rx_bytes = 9;
    struct metrics_source source = { .set = set, .guest_pids_limit = CGROUP_ABSENT };
    struct buf out;
    const char *type = NULL;
    buf_init(&out, 65536);
    assert_int_equal(metrics_pack(&source, &out, &type, &err), 0);
    assert_string_equal(type, METRICS_TYPE_V2);
    Cgroups2__Metrics *m = cgroups2__metrics__unpack(NULL, out.len, out.data);
    assert_int_equal(m->pids->current, 20);
    assert_int_equal(m->pids->limit, 192);
    assert_int_equal(m->cpu->usage_usec, 1000);
    assert_int_equal(m->cpu->nr_throttled, 3);
    assert_int_equal(m->memory->usage, 20000000);
    assert_int_equal(m->memory->usage_limit, 134217728);
    assert_int_equal(m->memory->inactive_file, 50);
    assert_true(m->memory->swap_limit == UINT64_MAX);
    assert_int_equal(m->memory_events->oom_kill, 5);
    assert_int_equal(m->n_network, 0);
    cgroups2__metrics__free_unpacked(m, NULL);
    buf_clear(&out);
    /* With the sandbox's own count, for one of several containers. */
    source.event = &event;
    source.guest_pids_limit = 64;
    source.share_cpu = true;
    assert_int_equal(metrics_pack(&source, &out, &type, &err), 0);
    m = cgroups2__metrics__unpack(NULL, out.len, out.data);
    assert_int_equal(m->pids->current, 3);
    assert_int_equal(m->pids->limit, 64);
    assert_int_equal(m->cpu->usage_usec, 250);
    assert_int_equal(m->n_network, 1);
    assert_string_equal(m->network[0]->name, "eth0");
    assert_int_equal(m->network[0]->rx_bytes, 9);
    cgroups2__metrics__free_unpacked(m, NULL);
    buf_clear(&out);
    struct cgroup_set *gone CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "/d/c9");
    source.set = gone;
    assert_int_equal(metrics_pack(&source, &out, &type, &err), ERR_NOT_FOUND);
    buf_fini(&out);
}

static void test_real(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = NULL;
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = NULL;
    struct err err = { 0 };
    if (geteuid() != 0 || access(RUNSC_DEBIAN, X_OK) ||
        cgroup_host_open("/sys/fs/cgroup", "/proc", &host, &err) || host->version != CGROUP_V1)
        skip();
    static struct real r;
    static const char *const argv[] = { "/bin/sleep", "100", NULL };
    real_init(&r, RUNSC_DEBIAN, NULL);
    real_bundle(&r, argv, 128 << 20);
    real_create(&r, -1);
    real_start(&r);
    assert_int_equal(cgroup_set_of(host, r.pid, &set, &err), 0);
    struct metrics_source source = { .set = set, .guest_pids_limit = 64 };
    struct buf out;
    const char *type = NULL;
    buf_init(&out, 65536);
    if (metrics_pack(&source, &out, &type, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(type, METRICS_TYPE_V1);
    Cgroups1__Metrics *m = cgroups1__metrics__unpack(NULL, out.len, out.data);
    assert_in_range(m->cpu->usage->total, 1000000, 10000000000);
    assert_true(m->cpu->usage->user + m->cpu->usage->kernel > 0);
    assert_in_range(m->memory->usage->usage, 1 << 20, 128 << 20);
    assert_int_equal(m->memory->usage->limit, 128 << 20);
    assert_in_range(m->memory->total_rss, 1 << 20, 128 << 20);
    assert_true(m->pids->current >= 10);
    assert_int_equal(m->pids->limit, 64);
    assert_int_equal(m->memory_oom_control->oom_kill, 0);
    cgroups1__metrics__free_unpacked(m, NULL);
    buf_fini(&out);
    real_fini(&r);
}

static int setup(void **state)
{
    (void)state;
    snprintf(base, sizeof(base), "/tmp/ut-proto.XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state)
{
    struct err err;
    return real_teardown(state) || fs_remove_tree(base, &err) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_v2, setup, teardown),
        cmocka_unit_test_setup_teardown(test_real, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
