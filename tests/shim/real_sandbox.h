/*
 * A real gVisor sandbox for tests, made with the runsc command line: busybox as root file system,
 * no network unless a namespace is given. Every assertion that fails here fails the test.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/own.h"
#include "shim/control.h"
#include "tests/test.h"

#define RUNSC_DEBIAN "/usr/bin/runsc"
#define RUNSC_NEW "/var/cache/utter-peers/gvisor-0.0.0-20260905035102-160fafc42237/runsc"

struct real {
    const char *runsc;
    char dir[256]; /* bundle, logs, pid file */
    char *root;    /* runsc's --root */
    char id[128];
    char cgroup[160];
    pid_t pid; /* of the sandbox */
    bool created;
    char null[300]; /* a null device of our own: runsc gives its stdio to the sandbox's user */
    struct control_state_file state;
};

/* The sandbox that a test has not taken down yet: a failed assertion leaves it to the teardown, so
 * a struct real is static. */
static struct real *real_live;

/* Runs runsc with its pinned flags and waits; stdio of the sandbox is /dev/null or `out_fd`. */
static inline int real_runsc(const struct real *r, int out_fd, const char *const *verb)
{
    char log[300];
    char root[512];
    snprintf(log, sizeof(log), "--log=%s/log", r->dir);
    snprintf(root, sizeof(root), "--root=%s", r->root);
    const char *argv[40] = { r->runsc,
                             root,
                             log,
                             "--log-format=json",
                             "--platform=systrap",
                             "--network=none",
                             "--directfs=false",
                             "--overlay2=none",
                             "--oci-seccomp=true",
                             "--host-uds=none" };
    size_t n = 10;
    while (*verb)
        argv[n++] = *verb++;
    pid_t child = fork();
    if (child == 0) {
        int null = open(r->null, O_RDWR);
        dup2(null, 0);
        dup2(out_fd >= 0 ? out_fd : null, 1);
        dup2(null, 2);
        char **plain;
        const char **p = argv;
        memcpy(&plain, &p, sizeof(plain));
        execv(r->runsc, plain);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void real_copy(const char *from, const char *to)
{
    char *data CLEANUP_FREE = NULL;
    size_t len;
    struct err err;
    assert_int_equal(fs_read(from, (size_t)64 << 20, &data, &len, &err), 0);
    assert_int_equal(fs_write(to, data, len, 0755, false, &err), 0);
}

/* Writes the bundle: argv is run by busybox; memory in bytes, 0 for no limits. */
static inline void real_bundle(const struct real *r, const char *const *argv, long long memory)
{
    static const char *const links[] = { "sh",   "true", "sleep", "cat",  "grep", "id",
                                         "echo", "yes",  "dd",    "kill", "ls",   "tty" };
    char path[512];
    struct err err;
    snprintf(path, sizeof(path), "%s/rootfs/bin", r->dir);
    assert_int_equal(fs_mkdirs(path, 0755, &err), 0);
    snprintf(path, sizeof(path), "%s/rootfs/tmp", r->dir);
    assert_int_equal(fs_mkdirs(path, 0777, &err), 0);
    snprintf(path, sizeof(path), "%s/rootfs/bin/busybox", r->dir);
    real_copy("/bin/busybox", path);
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        snprintf(path, sizeof(path), "%s/rootfs/bin/%s", r->dir, links[i]);
        assert_int_equal(symlink("busybox", path), 0);
    }
    json_t *args = json_array();
    for (; *argv; argv++)
        json_array_append_new(args, json_string(*argv));
    json_t *spec CLEANUP_JSON = json_pack(
        "{s:s, s:{s:s, s:b}, s:{s:o, s:s, s:{s:i, s:i}, s:[s], s:b, s:{}}, s:[{s:s,s:s,s:s}], "
        "s:{s:[{s:s},{s:s},{s:s},{s:s}]}}",
        "ociVersion", "1.0.2", "root", "path", "rootfs", "readonly", 1, "process", "args", args,
        "cwd", "/", "user", "uid", 0, "gid", 0, "env", "PATH=/bin", "noNewPrivileges", 1,
        "capabilities", "mounts", "destination", "/proc", "type", "proc", "source", "proc", "linux",
        "namespaces", "type", "pid", "type", "mount", "type", "ipc", "type", "uts");
    assert_non_null(spec);
    if (memory) {
        json_t *l = json_object_get(spec, "linux");
        json_object_set_new(l, "cgroupsPath", json_string(r->cgroup));
        json_object_set_new(l, "resources",
                            json_pack("{s:{s:I,s:I}, s:{s:i}, s:{s:i,s:i}}", "memory", "limit",
                                      (json_int_t)memory, "swap", (json_int_t)memory, "pids",
                                      "limit", 128, "cpu", "quota", 50000, "period", 100000));
    }
    snprintf(path, sizeof(path), "%s/config.json", r->dir);
    assert_int_equal(json_dump_file(spec, path, 0), 0);
}

static inline void real_init(struct real *r, const char *runsc, const char *root_tail)
{
    static int serial;
    *r = (struct real){ .runsc = runsc };
    real_live = r;
    snprintf(r->dir, sizeof(r->dir), "/tmp/ut-proto.XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->null, sizeof(r->null), "%s/null", r->dir);
    assert_int_equal(mknod(r->null, S_IFCHR | 0600, (1 << 8) | 3), 0);
    snprintf(r->id, sizeof(r->id), "utp-%d-%d", (int)getpid(), ++serial);
    snprintf(r->cgroup, sizeof(r->cgroup), "/utp-p%d/%s", (int)getpid(), r->id);
    r->root = xasprintf("%s/root%s", r->dir, root_tail ? root_tail : "");
    struct err err;
    assert_int_equal(fs_mkdirs(r->root, 0700, &err), 0);
    /* So that the sandbox becomes our child and its status is ours, as in the shim. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
}

static inline void real_create(struct real *r, int out_fd)
{
    char pid_file[300];
    snprintf(pid_file, sizeof(pid_file), "%s/pid", r->dir);
    const char *const verb[] = {
        "create", "--bundle", r->dir, "--pid-file", pid_file, r->id, NULL
    };
    int rc = real_runsc(r, out_fd, verb);
    if (rc) {
        char log[300];
        char *text CLEANUP_FREE = NULL;
        struct err err;
        snprintf(log, sizeof(log), "%s/log", r->dir);
        (void)!fs_read(log, 65536, &text, NULL, &err);
        fail_msg("runsc create: %d: %s", rc, text ? text : "");
    }
    r->created = true;
    struct err err = { 0 };
    if (control_state_file_read(r->root, r->id, r->id, &r->state, &err))
        fail_msg("%s", err.msg);
    r->pid = r->state.sandbox_pid;
}

static inline void real_start(struct real *r)
{
    const char *const verb[] = { "start", r->id, NULL };
    assert_int_equal(real_runsc(r, -1, verb), 0);
}

static inline void real_quietly(const char *const *argv)
{
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        char **plain;
        memcpy(&plain, &argv, sizeof(plain));
        execv(argv[0], plain);
        _exit(127);
    }
    (void)waitpid(child, NULL, 0);
}

/* Kills what is left, reaps everything, removes everything. */
static inline void real_fini(struct real *r)
{
    real_live = NULL;
    struct err err;
    if (r->pid > 0)
        (void)kill(r->pid, SIGKILL);
    for (int i = 0; i < 200; i++) {
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            break;
        (void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    if (r->created) {
        const char *const verb[] = { "delete", "--force", r->id, NULL };
        (void)real_runsc(r, -1, verb);
    }
    char command[600];
    snprintf(command, sizeof(command),
             "umount -l %s/null-netns; rmdir /sys/fs/cgroup/utp-p%d /sys/fs/cgroup/*/utp-p%d",
             r->root, (int)getpid(), (int)getpid());
    const char *const sh[] = { "/bin/sh", "-c", command, NULL };
    real_quietly(sh);
    (void)!fs_remove_tree(r->dir, &err);
    free(r->root);
}

static inline int real_teardown(void **state)
{
    (void)state;
    if (real_live)
        real_fini(real_live);
    return 0;
}
