/*
 * A client that speaks to the shim as containerd does, straight over ttrpc, and takes the time.
 *
 * usage: shim_bench life SHIM BUNDLE NAMESPACE ID ROOTFS     prints: ms from Create to the first
 * byte shim_bench hold SHIM BUNDLE NAMESPACE ID ROOTFS     the same, then "ADDRESS SHIM_PID
 * TASK_PID" and waits for the end of stdin before it cleans up shim_bench rpc ADDRESS ID N prints:
 * p50 in us of State, Pids, Stats shim_bench exec ADDRESS ID N PROCESS.json           prints: p50
 * in ms from Start to the exit shim_bench bare ROOTFS BUNDLE ID RUNSC FLAGS…       runsc with its
 * global flags; prints: ms from the mount to the first byte,
 *                                                            of create and of start
 */
#include <errno.h>
#include <fcntl.h>
#include <google.pb-c.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <task.pb-c.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own.h"
#include "proto/ttrpc_blocking.h"
#include "proto/unpack.h"

#define SERVICE "containerd.task.v2.Task"
#define PROCESS_TYPE "types.containerd.io/opencontainers/runtime-spec/1/Process"
#define TIMEOUT_MS 60000
#define SAMPLES_MAX 10000

static double now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "shim_bench: %s: %s\n", what, err ? err->msg : strerror(errno));
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double p50(double *samples, size_t n)
{
    qsort(samples, n, sizeof(*samples), by_value);
    return samples[n / 2];
}

/* A call that must succeed; the response is the caller's, NULL for type NULL. */
static ProtobufCMessage *must(struct ttrpc_blocking *c, const char *method,
                              const ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *type)
{
    struct err err = { 0 };
    ProtobufCMessage *response = NULL;
    if (ttrpc_blocking_call(c, SERVICE, method, request, TIMEOUT_MS, type, &response, NULL, &err))
        die(method, &err);
    return response;
}

/* ---- a container's life ------------------------------------------------------------------- */

struct life {
    const char *shim, *bundle, *ns, *id, *rootfs;
    char address[256];
    char fifo[512];
    int out_fd;
    struct ttrpc_blocking c;
    uint32_t shim_pid, task_pid;
    double create_ms, start_ms;
};

/* Runs the shim binary in its bundle; its output goes to `text`. */
static void run_shim(const struct life *l, const char *verb, char *text, size_t size)
{
    int fds[2];
    if (pipe(fds))
        die("pipe", NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY);
        if (chdir(l->bundle) || dup2(null, 0) < 0 || dup2(fds[1], 1) < 0 || dup2(fds[1], 2) < 0)
            _exit(126);
        close(fds[0]);
        close(fds[1]);
        if (strcmp(verb, "delete") == 0)
            execl(l->shim, l->shim, "-namespace", l->ns, "-address", "/run/bench.sock",
                  "-publish-binary", "/bin/true", "-id", l->id, "-bundle", l->bundle, verb,
                  (char *)NULL);
        execl(l->shim, l->shim, "-namespace", l->ns, "-address", "/run/bench.sock",
              "-publish-binary", "/bin/true", "-id", l->id, verb, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    size_t len = 0;
    for (ssize_t n; len < size - 1 && (n = read(fds[0], text + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    text[len] = 0;
    close(fds[0]);
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        (void)fprintf(stderr, "shim_bench: %s: %s\n", verb, text);
        exit(1);
    }
}

static void wait_byte(int fd)
{
    struct pollfd pfd = { .fd = fd, .events = POLLIN };
    char c;
    for (;;) {
        if (poll(&pfd, 1, TIMEOUT_MS) <= 0)
            die("no output", NULL);
        if (read(fd, &c, 1) == 1)
            return;
        if (!(pfd.revents & POLLIN)) /* no writer yet */
            usleep(200);
    }
}

/* Beside, not in, containerd's own state: a client's FIFOs have no place there. */
static int make_fifo(const char *id, char fifo[512])
{
    (void)snprintf(fifo, 512, "/run/%s.out", id);
    (void)unlink(fifo);
    int fd = mkfifo(fifo, 0600) ? -1 : open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        die(fifo, NULL);
    return fd;
}

/* From nothing to the first byte; returns the milliseconds from Create's first byte. */
static double life_begin(struct life *l)
{
    struct err err = { 0 };
    run_shim(l, "start", l->address, sizeof(l->address));
    l->address[strcspn(l->address, "\n")] = 0;
    if (ttrpc_blocking_open(l->address, &l->c, &err))
        die(l->address, &err);
    l->out_fd = make_fifo(l->id, l->fifo);
    char *options[] = { (char[]){ "rbind" }, (char[]){ "ro" } };
    Task__Mount mount = TASK__MOUNT__INIT;
    Task__Mount *mounts[] = { &mount };
    mount.type = (char[]){ "bind" };
    mount.source = proto_str(l->rootfs);
    mount.options = options;
    mount.n_options = 2;
    Task__CreateTaskRequest create = TASK__CREATE_TASK_REQUEST__INIT;
    create.id = proto_str(l->id);
    create.bundle = proto_str(l->bundle);
    create.rootfs = mounts;
    create.n_rootfs = 1;
    create.stdout = l->fifo;
    Task__StartRequest start = TASK__START_REQUEST__INIT;
    start.id = proto_str(l->id);
    double t0 = now_us();
    Task__CreateTaskResponse *created CLEANUP_MESSAGE = (Task__CreateTaskResponse *)must(
        &l->c, "Create", &create.base, &task__create_task_response__descriptor);
    l->create_ms = (now_us() - t0) / 1000;
    (void)must(&l->c, "Start", &start.base, NULL);
    l->start_ms = (now_us() - t0) / 1000 - l->create_ms;
    wait_byte(l->out_fd);
    double t1 = now_us();
    Task__ConnectRequest connect = TASK__CONNECT_REQUEST__INIT;
    connect.id = proto_str(l->id);
    Task__ConnectResponse *who CLEANUP_MESSAGE = (Task__ConnectResponse *)must(
        &l->c, "Connect", &connect.base, &task__connect_response__descriptor);
    l->shim_pid = who->shim_pid;
    l->task_pid = created->pid;
    return (t1 - t0) / 1000;
}

static void life_end(struct life *l)
{
    char text[4096];
    Task__KillRequest kill_it = TASK__KILL_REQUEST__INIT;
    Task__WaitRequest wait_it = TASK__WAIT_REQUEST__INIT;
    Task__DeleteRequest delete_it = TASK__DELETE_REQUEST__INIT;
    Task__ShutdownRequest shutdown_it = TASK__SHUTDOWN_REQUEST__INIT;
    kill_it.id = wait_it.id = delete_it.id = shutdown_it.id = proto_str(l->id);
    kill_it.signal = 9;
    (void)must(&l->c, "Kill", &kill_it.base, NULL);
    (void)must(&l->c, "Wait", &wait_it.base, NULL);
    (void)must(&l->c, "Delete", &delete_it.base, NULL);
    (void)must(&l->c, "Shutdown", &shutdown_it.base, NULL);
    ttrpc_blocking_close(&l->c);
    close(l->out_fd);
    (void)unlink(l->fifo);
    run_shim(l, "delete", text, sizeof(text));
}

static int cmd_life(char **argv, bool hold)
{
    struct life l = {
        .shim = argv[0], .bundle = argv[1], .ns = argv[2], .id = argv[3], .rootfs = argv[4]
    };
    double ms = life_begin(&l);
    printf("%.3f %.3f %.3f\n", ms, l.create_ms, l.start_ms);
    if (hold) {
        printf("%s %u %u\n", l.address, l.shim_pid, l.task_pid);
        (void)fflush(stdout);
        char c;
        while (read(0, &c, 1) > 0)
            continue;
    }
    life_end(&l);
    return 0;
}

/* ---- single calls -------------------------------------------------------------------------- */

static double time_calls(struct ttrpc_blocking *c, const char *method,
                         const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
                         size_t n)
{
    static double samples[SAMPLES_MAX];
    for (size_t i = 0; i < n; i++) {
        double t0 = now_us();
        ProtobufCMessage *response = must(c, method, request, type);
        samples[i] = now_us() - t0;
        proto_message_freep(&response);
    }
    return p50(samples, n);
}

static int cmd_rpc(char **argv)
{
    struct ttrpc_blocking c;
    struct err err = { 0 };
    size_t n = strtoul(argv[2], NULL, 10);
    if (n == 0 || n > SAMPLES_MAX || ttrpc_blocking_open(argv[0], &c, &err))
        die(argv[0], &err);
    Task__StateRequest state = TASK__STATE_REQUEST__INIT;
    Task__PidsRequest pids = TASK__PIDS_REQUEST__INIT;
    Task__StatsRequest stats = TASK__STATS_REQUEST__INIT;
    state.id = pids.id = stats.id = argv[1];
    double s = time_calls(&c, "State", &state.base, &task__state_response__descriptor, n);
    double p = time_calls(&c, "Pids", &pids.base, &task__pids_response__descriptor, n);
    double t = time_calls(&c, "Stats", &stats.base, &task__stats_response__descriptor, n);
    printf("%.1f %.1f %.1f\n", s, p, t);
    ttrpc_blocking_close(&c);
    return 0;
}

static double one_exec(struct ttrpc_blocking *c, char *id, char *exec_id,
                       Google__Protobuf__Any *spec)
{
    Task__ExecProcessRequest exec = TASK__EXEC_PROCESS_REQUEST__INIT;
    Task__StartRequest start = TASK__START_REQUEST__INIT;
    Task__WaitRequest wait_it = TASK__WAIT_REQUEST__INIT;
    Task__DeleteRequest delete_it = TASK__DELETE_REQUEST__INIT;
    exec.id = start.id = wait_it.id = delete_it.id = id;
    exec.exec_id = start.exec_id = wait_it.exec_id = delete_it.exec_id = exec_id;
    exec.spec = spec;
    (void)must(c, "Exec", &exec.base, NULL);
    double t0 = now_us();
    (void)must(c, "Start", &start.base, NULL);
    Task__WaitResponse *w CLEANUP_MESSAGE =
        (Task__WaitResponse *)must(c, "Wait", &wait_it.base, &task__wait_response__descriptor);
    double ms = (now_us() - t0) / 1000;
    if (w->exit_status != 0) {
        (void)fprintf(stderr, "shim_bench: exec ended with %u\n", w->exit_status);
        exit(1);
    }
    (void)must(c, "Delete", &delete_it.base, NULL);
    return ms;
}

static int cmd_exec(char **argv)
{
    static double samples[SAMPLES_MAX];
    struct ttrpc_blocking c;
    struct err err = { 0 };
    char *process CLEANUP_FREE = NULL;
    size_t len = 0;
    size_t n = strtoul(argv[2], NULL, 10);
    if (n == 0 || n > SAMPLES_MAX || fs_read(argv[3], 65536, &process, &len, &err) ||
        ttrpc_blocking_open(argv[0], &c, &err))
        die("exec", &err);
    Google__Protobuf__Any spec = GOOGLE__PROTOBUF__ANY__INIT;
    spec.type_url = (char[]){ PROCESS_TYPE };
    spec.value = proto_bytes(process, len);
    for (size_t i = 0; i < n; i++) {
        char exec_id[32];
        (void)snprintf(exec_id, sizeof(exec_id), "e%zu", i);
        samples[i] = one_exec(&c, argv[1], exec_id, &spec);
    }
    printf("%.3f\n", p50(samples, n));
    ttrpc_blocking_close(&c);
    return 0;
}

/* ---- runsc alone ---------------------------------------------------------------------------- */

static void run_runsc(char **words, size_t n, const char *const *verb, int out_fd)
{
    char *argv[96];
    size_t k = 0;
    for (; k < n; k++)
        argv[k] = words[k];
    for (; *verb; verb++)
        argv[k++] = proto_str(*verb);
    argv[k] = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("null", O_RDWR); /* in the bundle: runsc gives its stdio away */
        if (dup2(null, 0) < 0 || dup2(out_fd >= 0 ? out_fd : null, 1) < 0 || dup2(null, 2) < 0)
            _exit(126);
        execv(argv[0], argv);
        _exit(127);
    }
    int status = -1;
    /* Whatever ends meanwhile is reaped: a zombie sandbox makes runsc wait for it. */
    for (pid_t got = 0; got != pid && (got >= 0 || errno == EINTR);)
        got = waitpid(-1, &status, 0);
    if (status != 0) {
        (void)fprintf(stderr, "shim_bench: %s %s failed\n", argv[0], argv[n]);
        exit(1);
    }
}

static int cmd_bare(int argc, char **argv)
{
    char fifo[512];
    char target[512];
    char **words = argv + 3;
    size_t n = (size_t)argc - 3;
    const char *const create[] = {
        "create", "--bundle", argv[1], "--pid-file", "pid", argv[2], NULL
    };
    const char *const start[] = { "start", argv[2], NULL };
    const char *const delete_it[] = { "delete", "--force", argv[2], NULL };
    if (n > 80 || chdir(argv[1]) || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        die(argv[1], NULL);
    int fd = make_fifo(argv[2], fifo);
    (void)snprintf(target, sizeof(target), "%s/rootfs", argv[1]);
    double t0 = now_us();
    if (mount(argv[0], target, NULL, MS_BIND | MS_REC, NULL) ||
        mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
        die(target, NULL);
    run_runsc(words, n, create, fd);
    double t1 = now_us();
    run_runsc(words, n, start, -1);
    double t2 = now_us();
    wait_byte(fd);
    printf("%.3f %.3f %.3f\n", (now_us() - t0) / 1000, (t1 - t0) / 1000, (t2 - t1) / 1000);
    run_runsc(words, n, delete_it, -1);
    (void)umount2(target, MNT_DETACH);
    (void)unlink(fifo);
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    if (argc == 7 && (strcmp(verb, "life") == 0 || strcmp(verb, "hold") == 0))
        return cmd_life(argv + 2, strcmp(verb, "hold") == 0);
    if (argc == 5 && strcmp(verb, "rpc") == 0)
        return cmd_rpc(argv + 2);
    if (argc == 6 && strcmp(verb, "exec") == 0)
        return cmd_exec(argv + 2);
    if (argc > 6 && strcmp(verb, "bare") == 0)
        return cmd_bare(argc - 2, argv + 2);
    (void)fprintf(stderr,
                  "usage: shim_bench life|hold SHIM BUNDLE NAMESPACE ID ROOTFS | rpc ADDRESS ID "
                  "N | exec ADDRESS ID N PROCESS | bare ROOTFS BUNDLE ID RUNSC FLAGS…\n");
    return 2;
}
