/* shim/cgroup: paths, a tree of plain files as v2, the machine's own v1 (or v2) with a real
 * sandbox. */
#include "shim/cgroup.h"

#include <sys/stat.h>

#include "tests/shim/real_sandbox.h"

#define MIB (1024 * 1024LL)

/* ---- paths ----------------------------------------------------------------------------------- */

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *path; /* NULL: refused */
        const char *unit;
    } rows[] = {
        { "/default/c1", "/default/c1", "" },
        { "/kubepods/burstable/podx/c1", "/kubepods/burstable/podx/c1", "" },
        { "system.slice:utter:c1", "/system.slice/utter-c1.scope", "utter-c1.scope" },
        { ":nerdctl:c1", "/system.slice/nerdctl-c1.scope", "nerdctl-c1.scope" },
        { "kubepods-besteffort-podx.slice:cri-containerd:c1",
          "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx.slice/"
          "cri-containerd-c1.scope",
          "cri-containerd-c1.scope" },
        { "a.slice::c1", "/a.slice/c1.scope", "c1.scope" },
        { "", NULL, "" },
        { "/", NULL, "" },
        { "c1", NULL, "" },
        { "default/c1", NULL, "" },
        { "/a/../b", NULL, "" },
        { "/a/..", NULL, "" },
        { "/a/./b", NULL, "" },
        { "/a//b", NULL, "" },
        { "/a/", NULL, "" },
        { "system.slice:utter:", NULL, "" },
        { "system.slice:utter", NULL, "" },
        { "system.slice:utter:c1:x", NULL, "" },
        { "system.slice:utter:../c1", NULL, "" },
        { "system:utter:c1", NULL, "" },
        { "-.slice:utter:c1", NULL, "" },
        { "a-.slice:utter:c1", NULL, "" },
        { "a--b.slice:utter:c1", NULL, "" },
        { ".slice:utter:c1", NULL, "" },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cgroup_path p;
        struct err err = { 0 };
        enum err_kind kind = cgroup_path_parse(rows[i].text, &p, &err);
        if (kind != (rows[i].path ? ERR_OK : ERR_INVALID))
            fail_msg("%s: %s", rows[i].text, err.msg);
        if (rows[i].path) {
            assert_string_equal(p.path, rows[i].path);
            assert_string_equal(p.unit, rows[i].unit);
            assert_int_equal(p.systemd, rows[i].unit[0] != 0);
        }
    }
}

/* ---- a fake tree: v2 ------------------------------------------------------------------------- */

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

static void check(const char *name, const char *text)
{
    char path[512];
    char *have CLEANUP_FREE = NULL;
    struct err err;
    snprintf(path, sizeof(path), "%s/%s", base, name);
    assert_int_equal(fs_read(path, 4096, &have, NULL, &err), 0);
    assert_string_equal(have, text);
}

static struct cgroup_host *fake_v2(void)
{
    struct cgroup_host *host = NULL;
    struct err err = { 0 };
    char root[128];
    char proc[128];
    char line[512];
    snprintf(root, sizeof(root), "%s/cg", base);
    snprintf(proc, sizeof(proc), "%s/proc", base);
    snprintf(line, sizeof(line), "30 23 0:26 / %s rw,nosuid - cgroup2 cgroup2 rw\n", root);
    put("proc/self/mountinfo", line);
    put("proc/77/cgroup", "0::/default/c1\n");
    put("cg/default/c1/cgroup.procs", "77\n");
    put("cg/default/c1/memory.max", "134217728\n");
    put("cg/default/c1/memory.swap.max", "0\n");
    put("cg/default/c1/memory.current", "20000000\n");
    put("cg/default/c1/memory.events", "low 0\nhigh 0\nmax 24\noom 1\noom_kill 1\n");
    put("cg/default/c1/memory.oom.group", "0\n");
    put("cg/default/c1/pids.max", "128\n");
    put("cg/default/c1/cpu.max", "50000 100000\n");
    if (cgroup_host_open(root, proc, &host, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(host->version, CGROUP_V2);
    return host;
}

static const struct cgroup_limits standard = { .memory = 134217728,
                                               .memory_swap = 134217728,
                                               .pids = 128,
                                               .cpu_quota = 50000,
                                               .cpu_period = 100000 };
static const struct cgroup_limits none = { CGROUP_ABSENT, CGROUP_ABSENT, CGROUP_ABSENT,
                                           CGROUP_ABSENT, CGROUP_ABSENT, 0 };

static void test_v2_verify(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = fake_v2();
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = NULL;
    struct cgroup_path path;
    struct err err = { 0 };
    assert_int_equal(cgroup_path_parse("/default/c1", &path, &err), 0);
    assert_int_equal(cgroup_set_of(host, 77, &set, &err), 0);
    assert_int_equal(cgroup_set_of(host, 78, &set, &err), ERR_NOT_FOUND);
    assert_int_equal(cgroup_verify(set, &path, &standard, &err), 0);
    /* Each way in which runsc was seen to lose a limit. */
    static const struct {
        const char *file;
        const char *text;
        const char *why;
    } rows[] = {
        { "memory.max", "max\n", "memory is unlimited, not 134217728" },
        { "memory.swap.max", "max\n", "memory+swap is unlimited, not 134217728" },
        { "memory.swap.max", "4096\n", "memory+swap is 134221824, not 134217728" },
        { "pids.max", "max\n", "pids is unlimited, not 128" },
        { "cpu.max", "max 100000\n", "cpu quota is unlimited, not 50000" },
        { "cpu.max", "50000 50000\n", "cpu period is 50000, not 100000" },
    };
    static const char *const good[] = { "134217728\n",    "0\n",           "0\n", "128\n",
                                        "50000 100000\n", "50000 100000\n" };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char name[128];
        snprintf(name, sizeof(name), "cg/default/c1/%s", rows[i].file);
        put(name, rows[i].text);
        assert_int_equal(cgroup_verify(set, &path, &standard, &err), ERR_PRECONDITION);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("%s: %s", rows[i].why, err.msg);
        put(name, good[i]);
    }
    put("cg/default/c1/cpu.max", "50000\n");
    assert_int_equal(cgroup_verify(set, &path, &standard, &err), ERR_INTERNAL);
    put("cg/default/c1/cpu.max", "50000 100000\n");
    /* A sandbox that stayed in its caller's cgroup. */
    assert_int_equal(cgroup_path_parse("/default/c2", &path, &err), 0);
    assert_int_equal(cgroup_verify(set, &path, &standard, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "memory cgroup is "));
    /* Without swap accounting there is nothing to bound. */
    char swap[128];
    snprintf(swap, sizeof(swap), "%s/cg/default/c1/memory.swap.max", base);
    assert_int_equal(unlink(swap), 0);
    assert_int_equal(cgroup_path_parse("/default/c1", &path, &err), 0);
    assert_int_equal(cgroup_verify(set, &path, &standard, &err), 0);
}

static void update(struct cgroup_set *set, struct cgroup_limits want, enum err_kind kind,
                   const char *why)
{
    struct err err = { 0 };
    if (cgroup_update(set, &want, &err) != kind || (why && !strstr(err.msg, why)))
        fail_msg("%s: %s", why ? why : "ok", err.msg);
}

static void test_v2_update(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = fake_v2();
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "/default/c1");
    struct cgroup_limits want = none;
    put("cg/default/c1/memory.swap.max", "33554432\n"); /* as runsc's own update leaves it */
    want.memory = 100663296;
    update(set, want, ERR_OK, NULL);
    check("cg/default/c1/memory.max", "100663296");
    check("cg/default/c1/memory.swap.max", "0");
    check("cg/default/c1/cpu.max", "50000 100000\n"); /* absent keeps */
    want.memory_swap = 100663296;
    want.cpu_quota = 20000;
    want.pids = 128;
    update(set, want, ERR_OK, NULL);
    check("cg/default/c1/cpu.max", "20000 100000");
    want.pids = 100;
    update(set, want, ERR_PRECONDITION, "pids: 128 is in force");
    want = none;
    want.memory = 19999999;
    update(set, want, ERR_PRECONDITION, "below the 20000000 bytes in use");
    want.memory = 0;
    update(set, want, ERR_INVALID, "memory: a limit cannot be lifted");
    want.memory = CGROUP_UNLIMITED;
    update(set, want, ERR_INVALID, "memory: a limit cannot be lifted");
    want = none;
    want.cpu_quota = CGROUP_UNLIMITED;
    update(set, want, ERR_INVALID, "cpu quota: a limit cannot be lifted");
    want = none;
    want.memory = 100663296;
    want.memory_swap = 200000000;
    update(set, want, ERR_INVALID, "must equal memory");
    check("cg/default/c1/memory.max", "100663296");
}

static void test_v2_update_rolls_back(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = fake_v2();
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "/default/c1");
    char cpu[128];
    struct cgroup_limits want = none;
    want.memory = 100663296;
    want.cpu_quota = 20000;
    /* A file that cannot be written. */
    snprintf(cpu, sizeof(cpu), "%s/cg/default/c1/cpu.max", base);
    assert_int_equal(unlink(cpu), 0);
    update(set, want, ERR_NOT_FOUND, "cpu.max");
    check("cg/default/c1/memory.max", "134217728\n");
    /* One that swallows what is written: the values before it are put back. */
    put("cg/default/c1/cpu.max", "50000 100000\n");
    assert_int_equal(chmod(cpu, 0444), 0);
    assert_int_equal(unlink(cpu), 0);
    assert_int_equal(symlink("/dev/full", cpu), 0);
    update(set, want, ERR_INVALID, NULL); /* and no symlink is followed */
    check("cg/default/c1/memory.max", "134217728\n");
    assert_int_equal(unlink(cpu), 0);
    put("cg/default/c1/cpu.max", "50000 100000\n");
    update(set, want, ERR_OK, NULL);
}

static void test_v2_oom(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = fake_v2();
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "/default/c1");
    struct err err;
    uint64_t n = 0;
    assert_int_equal(cgroup_oom_kills(set, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(cgroup_oom_group(set, &err), 0);
    check("cg/default/c1/memory.oom.group", "1");
    struct cgroup_set *gone CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "/default/c9");
    assert_int_equal(cgroup_oom_kills(gone, &n, &err), ERR_NOT_FOUND);
}

static void test_populated_leaf_is_refused(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = fake_v2();
    struct cgroup_path path;
    struct err err = { 0 };
    assert_int_equal(cgroup_path_parse("/default/c1", &path, &err), 0);
    assert_int_equal(cgroup_claim(host, &path, &err), ERR_PRECONDITION);
    assert_string_equal(err.msg, "cgroup /default/c1 is in use by process 77");
    put("cg/default/c1/cgroup.procs", "");
    put("cg/default/c1/sub/cgroup.procs", "78\n");
    assert_int_equal(cgroup_claim(host, &path, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "process 78"));
    put("cg/default/c1/sub/cgroup.procs", "0\n");
    assert_int_equal(cgroup_claim(host, &path, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "outside our view"));
    put("cg/default/c1/sub/cgroup.procs", "");
    assert_int_equal(cgroup_claim(host, &path, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "child cgroup sub"));
}

static void test_v1_layouts(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = NULL;
    struct err err = { 0 };
    char root[128];
    char proc[128];
    snprintf(root, sizeof(root), "%s/cg", base);
    snprintf(proc, sizeof(proc), "%s/proc", base);
    /* As Debian mounts it (cpu and cpuacct together, hybrid v2 beside), seen from inside a
     * container whose cgroup is the mount's root. */
    char text[2048];
    snprintf(text, sizeof(text),
             "31 23 0:28 / %s rw - tmpfs tmpfs rw\n"
             "32 31 0:29 /docker/x %s/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "35 31 0:32 /docker/x %s/memory rw - cgroup cgroup rw,memory\n"
             "36 31 0:32 /docker/x %s/again rw - cgroup cgroup rw,memory\n"
             "39 31 0:36 /docker/x %s/pids rw - cgroup cgroup rw,pids\n"
             "40 31 0:37 /docker/x %s/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
             "41 31 0:38 / %s/unified rw - cgroup2 cgroup2 rw\n",
             root, root, root, root, root, root, root);
    put("proc/self/mountinfo", text);
    put("proc/77/cgroup", "9:name=systemd:/docker/x/d/c1\n8:pids:/docker/x/d/c1\n"
                          "4:memory:/docker/x/d/c1\n1:cpu,cpuacct:/docker/x/d/c1\n0::/\n");
    put("proc/78/cgroup", "8:pids:/other\n4:memory:/other\n1:cpu,cpuacct:/other\n");
    assert_int_equal(cgroup_host_open(root, proc, &host, &err), 0);
    assert_int_equal(host->version, CGROUP_V1);
    assert_int_equal(host->n, 4);
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = NULL;
    struct cgroup_set *at CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "/d/c1");
    assert_int_equal(cgroup_set_of(host, 77, &set, &err), 0);
    assert_string_equal(set->memory, at->memory);
    assert_string_equal(set->cpu, at->cpu);
    assert_string_equal(set->cpuacct, at->cpuacct);
    assert_string_equal(set->pids, at->pids);
    struct cgroup_set *outside CLEANUP(cgroup_set_freep) = NULL;
    assert_int_equal(cgroup_set_of(host, 78, &outside, &err), ERR_PRECONDITION);
    put("proc/self/mountinfo", "31 23 0:28 / /sys rw - tmpfs tmpfs rw\n");
    struct cgroup_host *bare CLEANUP(cgroup_host_freep) = NULL;
    assert_int_equal(cgroup_host_open(root, proc, &bare, &err), ERR_UNSUPPORTED);
}

static void test_lock(void **state)
{
    (void)state;
    struct cgroup_path a;
    struct cgroup_path b;
    struct err err = { 0 };
    char dir[128];
    snprintf(dir, sizeof(dir), "%s/locks", base);
    int first CLEANUP_FD = -1;
    int second CLEANUP_FD = -1;
    int third CLEANUP_FD = -1;
    assert_int_equal(cgroup_path_parse("/d/c1", &a, &err), 0);
    assert_int_equal(cgroup_path_parse("/d/c2", &b, &err), 0);
    assert_int_equal(cgroup_lock(dir, &a, &first, &err), 0);
    assert_int_equal(cgroup_lock(dir, &a, &second, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "taken by another task"));
    assert_int_equal(cgroup_lock(dir, &b, &third, &err), 0);
    own_close_(&first);
    assert_int_equal(cgroup_lock(dir, &a, &second, &err), 0);
}

/* ---- the machine's own ----------------------------------------------------------------------- */

static struct cgroup_host *own_host(void)
{
    struct cgroup_host *host = NULL;
    struct err err = { 0 };
    if (geteuid() != 0 || cgroup_host_open("/sys/fs/cgroup", "/proc", &host, &err))
        return NULL;
    return host;
}

/* A cgroup2 mount anywhere will do for what needs no controllers. */
static struct cgroup_host *own_v2(void)
{
    struct cgroup_host *host = NULL;
    struct err err = { 0 };
    FILE *f CLEANUP_FILE = fopen("/proc/self/mountinfo", "re");
    char line[1024];
    char mount[256];
    while (fgets(line, sizeof(line), f)) {
        if (strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %255s", mount) == 1 &&
            cgroup_host_open(mount, "/proc", &host, &err) == ERR_OK)
            return host;
    }
    return NULL;
}

static bool exists(const struct cgroup_host *host, const char *path)
{
    bool any = false;
    for (size_t i = 0; i < host->n; i++) {
        char *dir CLEANUP_FREE = xasprintf("%s%s", host->hierarchies[i].mount, path);
        any |= access(dir, F_OK) == 0;
    }
    return any;
}

static void make(const struct cgroup_host *host, const char *path)
{
    for (size_t i = 0; i < host->n; i++) {
        char *dir CLEANUP_FREE = xasprintf("%s%s", host->hierarchies[i].mount, path);
        struct err err;
        assert_int_equal(fs_mkdirs(dir, 0755, &err), 0);
    }
}

static void enter(const struct cgroup_host *host, const char *path, pid_t pid)
{
    char *file CLEANUP_FREE = xasprintf("%s%s/cgroup.procs", host->hierarchies[0].mount, path);
    FILE *f = fopen(file, "we");
    assert_non_null(f);
    fprintf(f, "%d\n", (int)pid);
    assert_int_equal(fclose(f), 0);
}

static void leaf_life(const struct cgroup_host *host)
{
    struct cgroup_path path;
    struct err err = { 0 };
    char parent[64];
    char leaf[96];
    snprintf(parent, sizeof(parent), "/utp-%d", (int)getpid());
    snprintf(leaf, sizeof(leaf), "%s/a/c1", parent);
    assert_int_equal(cgroup_path_parse(leaf, &path, &err), 0);
    /* Nothing there. */
    assert_int_equal(cgroup_claim(host, &path, &err), 0);
    assert_int_equal(path.keep_len, 0);
    /* A stale, empty leaf is removed; its parents were there. */
    make(host, leaf);
    assert_int_equal(cgroup_claim(host, &path, &err), 0);
    assert_false(exists(host, leaf));
    assert_int_equal(path.keep_len, strlen(parent) + 2);
    /* A populated one is refused, and untouched. */
    make(host, leaf);
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    enter(host, leaf, child);
    assert_int_equal(cgroup_claim(host, &path, &err), ERR_PRECONDITION);
    char want[64];
    snprintf(want, sizeof(want), "in use by process %d", (int)child);
    assert_non_null(strstr(err.msg, want));
    assert_int_equal(cgroup_remove(host, &path, &err), ERR_PRECONDITION);
    assert_int_equal(cgroup_some_pid(host, leaf), child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    /* Removal takes the leaf and the parents that were missing before, not those that were there.
     */
    path.keep_len = strlen(parent);
    assert_int_equal(cgroup_remove(host, &path, &err), 0);
    assert_false(exists(host, leaf));
    char *middle CLEANUP_FREE = xasprintf("%s/a", parent);
    assert_false(exists(host, middle));
    assert_true(exists(host, parent));
    path.keep_len = 0;
    assert_int_equal(cgroup_remove(host, &path, &err), 0);
    assert_false(exists(host, parent));
    assert_int_equal(cgroup_remove(host, &path, &err), 0); /* absent is fine */
}

static void test_leaf_life(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = own_host();
    struct cgroup_host *v2 CLEANUP(cgroup_host_freep) = own_v2();
    if (!host)
        skip();
    leaf_life(host);
    if (v2 && v2->version == CGROUP_V2 && host->version == CGROUP_V1)
        leaf_life(v2);
}

static void test_kill(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = own_host();
    if (!host)
        skip();
    struct err err = { 0 };
    char leaf[96];
    snprintf(leaf, sizeof(leaf), "/utp-%d-k", (int)getpid());
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = cgroup_set_at(host, leaf);
    make(host, leaf);
    pid_t children[5];
    char *file CLEANUP_FREE = xasprintf("%s/cgroup.procs", set->memory);
    for (size_t i = 0; i < 5; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (;;)
                pause();
        }
        FILE *f = fopen(file, "we");
        fprintf(f, "%d\n", (int)children[i]);
        assert_int_equal(fclose(f), 0);
    }
    /* What is killed has to be reaped, or v1 keeps naming it; the shim's loop does that. */
    pid_t reaper = fork();
    if (reaper == 0)
        _exit(cgroup_kill(set, &err) == ERR_OK ? 0 : 1);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
    int status = -1;
    assert_int_equal(waitpid(reaper, &status, 0), reaper);
    assert_int_equal(status, 0);
    struct cgroup_path path;
    assert_int_equal(cgroup_path_parse(leaf, &path, &err), 0);
    assert_int_equal(cgroup_remove(host, &path, &err), 0);
    struct cgroup_set *root CLEANUP(cgroup_set_freep) = cgroup_set_at(host, "");
    assert_int_equal(cgroup_kill(root, &err), ERR_PRECONDITION); /* never everybody */
}

static void sandbox_life(const char *runsc)
{
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = own_host();
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = NULL;
    struct err err = { 0 };
    if (!host || access(runsc, X_OK)) {
        print_message("SKIP: no %s\n", runsc);
        return;
    }
    static struct real r;
    static const char *const argv[] = { "/bin/sh", "-c", "sleep 100", NULL };
    struct cgroup_path path;
    real_init(&r, runsc, NULL);
    real_bundle(&r, argv, 128 * MIB);
    assert_int_equal(cgroup_path_parse(r.cgroup, &path, &err), 0);
    assert_int_equal(cgroup_claim(host, &path, &err), 0);
    real_create(&r, -1);
    assert_int_equal(cgroup_set_of(host, r.pid, &set, &err), 0);
    if (cgroup_verify(set, &path, &standard, &err))
        fail_msg("%s", err.msg);
    struct cgroup_limits other = standard;
    other.pids = 127;
    assert_int_equal(cgroup_verify(set, &path, &other, &err), ERR_PRECONDITION);
    assert_int_equal(cgroup_oom_group(set, &err), 0);
    real_start(&r);
    struct cgroup_limits want = none;
    want.memory = 96 * MIB + 100; /* the kernel rounds down to pages */
    want.cpu_quota = 20000;
    if (cgroup_update(set, &want, &err))
        fail_msg("%s", err.msg);
    struct cgroup_limits now;
    assert_int_equal(cgroup_read_limits(set, &now, &err), 0);
    assert_int_equal(now.memory, 96 * MIB);
    assert_true(now.memory_swap == 96 * MIB || now.memory_swap == CGROUP_ABSENT);
    assert_int_equal(now.cpu_quota, 20000);
    want = none;
    want.memory = 200 * MIB;
    assert_int_equal(cgroup_update(set, &want, &err), 0);
    want.memory = MIB;
    assert_int_equal(cgroup_update(set, &want, &err), ERR_PRECONDITION);
    uint64_t kills = 1;
    assert_int_equal(cgroup_oom_kills(set, &kills, &err), 0);
    assert_int_equal(kills, 0);
    /* Taken over by nobody while it runs. */
    struct cgroup_path again = path;
    assert_int_equal(cgroup_claim(host, &again, &err), ERR_PRECONDITION);
    real_fini(&r);
    assert_int_equal(cgroup_remove(host, &path, &err), 0);
    assert_false(exists(host, path.path));
    *strrchr(path.path, '/') = 0;
    assert_false(exists(host, path.path));
}

static void test_sandbox_debian(void **state)
{
    (void)state;
    sandbox_life(RUNSC_DEBIAN);
}

static void test_sandbox_new(void **state)
{
    (void)state;
    sandbox_life(RUNSC_NEW);
}

/* A leaf that exists makes runsc drop every limit without a word; reading back shows it. */
static void test_stale_leaf_is_noticed(void **state)
{
    (void)state;
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = own_host();
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = NULL;
    struct err err = { 0 };
    if (!host || access(RUNSC_DEBIAN, X_OK))
        skip();
    static struct real r;
    static const char *const argv[] = { "/bin/sleep", "100", NULL };
    struct cgroup_path path;
    real_init(&r, RUNSC_DEBIAN, NULL);
    real_bundle(&r, argv, 128 * MIB);
    assert_int_equal(cgroup_path_parse(r.cgroup, &path, &err), 0);
    struct cgroup_set *stale CLEANUP(cgroup_set_freep) = cgroup_set_at(host, r.cgroup);
    assert_int_equal(fs_mkdirs(stale->memory, 0755, &err), 0);
    assert_int_equal(fs_mkdirs(stale->pids, 0755, &err), 0);
    assert_int_equal(fs_mkdirs(stale->cpu, 0755, &err), 0);
    real_create(&r, -1);
    assert_int_equal(cgroup_set_of(host, r.pid, &set, &err), 0);
    assert_int_equal(cgroup_verify(set, &path, &standard, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "memory is unlimited"));
    assert_non_null(strstr(err.msg, "pids is unlimited"));
    assert_non_null(strstr(err.msg, "cpu quota is unlimited"));
    real_fini(&r);
    assert_int_equal(cgroup_remove(host, &path, &err), 0);
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_paths),
        TEST(test_v2_verify),
        TEST(test_v2_update),
        TEST(test_v2_update_rolls_back),
        TEST(test_v2_oom),
        TEST(test_populated_leaf_is_refused),
        TEST(test_v1_layouts),
        TEST(test_lock),
        TEST(test_leaf_life),
        TEST(test_kill),
        TEST(test_sandbox_debian),
        TEST(test_sandbox_new),
        TEST(test_stale_leaf_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
