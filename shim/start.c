/*
 * start: find or make the shim of the container's group, and print its address.
 *
 * The socket is bound and listening before the address is printed, so containerd never dials too
 * early; the daemon reports that it serves, or why not, through a pipe. Standard output carries the
 * address alone, and nothing is written to standard error unless start fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "shim/bundle.h"
#include "shim/commands.h"

#define SOCKET_DIR "/run/containerd/s"
#define STDIN_MS 10000
#define READY_MS 20000

static void read_stdin(struct bootstrap *boot)
{
    struct buf in CLEANUP(buf_fini);
    buf_init(&in, BOOTSTRAP_STDIN_MAX);
    for (;;) {
        struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
        if (poll(&p, 1, STDIN_MS) <= 0)
            break;
        uint8_t chunk[4096];
        ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        buf_append(&in, chunk, (size_t)n);
        if (in.failed)
            return;
    }
    bootstrap_stdin(in.data, in.len, boot);
}

/* Only CRI groups, and only in its own namespace; a document that does not parse is Create's to
 * refuse, with its reason. The caller frees. */
static char *group_of(const struct bootstrap *boot, const char *bundle)
{
    json_t *spec CLEANUP_JSON = NULL;
    struct err ignored;
    if (strcmp(boot->ns, "k8s.io") == 0 && bundle_load_spec(bundle, &spec, &ignored) == ERR_OK) {
        const char *group =
            json_string_value(json_at(spec, "/annotations/io.kubernetes.cri.sandbox-id"));
        if (bootstrap_identifier(group))
            return xstrdup(group);
    }
    return xstrdup(boot->id);
}

static CHECKED enum err_kind fill_address(const char *path, struct sockaddr_un *out,
                                          struct err *err)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(out->sun_path))
        return err_set(err, ERR_INVALID, "socket path too long: %s", path);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return ERR_OK;
}

static bool somebody_serves(const struct sockaddr_un *address)
{
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    return connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
}

/* *fd stays -1 where a shim of the group serves already. */
static CHECKED enum err_kind listen_at(const char *path, int *out, struct err *err)
{
    struct sockaddr_un address;
    enum err_kind kind = fill_address(path, &address, err);
    if (kind)
        return kind;
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    for (int i = 0; i < 2; i++) {
        if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
            if (listen(fd, 64) != 0)
                return err_sys(err, errno, "listen %s", path);
            *out = steal_fd(&fd);
            return ERR_OK;
        }
        if (errno != EADDRINUSE)
            return err_sys(err, errno, "bind %s", path);
        if (somebody_serves(&address))
            return ERR_OK;
        (void)unlink(path);
    }
    return err_set(err, ERR_UNAVAILABLE, "socket %s cannot be taken", path);
}

static CHECKED enum err_kind announce(const char *bundle, const char *socket_path, struct err *err)
{
    char *file CLEANUP_FREE = xasprintf("%s/address", bundle);
    char *address CLEANUP_FREE = xasprintf("unix://%s", socket_path);
    enum err_kind kind = fs_write(file, address, strlen(address), 0644, false, err);
    if (kind)
        return kind;
    (void)printf("%s", address);
    return fflush(stdout) == 0 ? ERR_OK : err_sys(err, errno, "stdout");
}

/* The log is a FIFO that containerd reads; without a reader lines are dropped. */
static void daemon_log(const char *bundle, bool debug)
{
    char *path CLEANUP_FREE = xasprintf("%s/log", bundle);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))) {
        (void)close(fd);
        fd = -1;
    }
    if (fd < 0)
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    log_open(fd, LOG_TEXT, debug ? LOG_DEBUG : LOG_INFO);
}

static void detach_stdio(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        (void)dup2(null, i);
    if (null > 2)
        (void)close(null);
}

/* The listener becomes 3 and the pipe 4; everything else that was inherited is closed. */
static void keep_two(struct serve *serve)
{
    int listener = fcntl(serve->listener, F_DUPFD_CLOEXEC, 64);
    int ready = fcntl(serve->ready, F_DUPFD_CLOEXEC, 64);
    serve->listener = dup3(listener, 3, O_CLOEXEC);
    serve->ready = dup3(ready, 4, O_CLOEXEC);
    if (serve->listener != 3 || serve->ready != 4 || close_range(5, ~0U, 0) != 0)
        _exit(2);
}

static void daemon_main(struct serve *serve, const char *bundle)
{
    (void)setsid();
    keep_two(serve);
    daemon_log(bundle, serve->boot->debug);
    detach_stdio();
    struct err err = { 0 };
    if (serve_run(serve, &err)) {
        log_error("serve", log_str("why", err.msg));
        ssize_t n = write(serve->ready, err.msg, strlen(err.msg));
        _exit(n < 0 ? 2 : 1);
    }
    _exit(0);
}

/* Waits until the daemon says that it serves. */
static CHECKED enum err_kind await_ready(int ready, pid_t pid, struct err *err)
{
    char answer[512] = { 0 };
    struct pollfd p = { .fd = ready, .events = POLLIN };
    ssize_t n = poll(&p, 1, READY_MS) == 1 ? read(ready, answer, sizeof(answer) - 1) : -1;
    if (n == 1 && answer[0] == '\n')
        return ERR_OK;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return err_set(err, ERR_INTERNAL, "the shim did not start: %s",
                   n > 0 ? answer : "it ended without a word");
}

static CHECKED enum err_kind spawn_daemon(struct serve *serve, const char *bundle, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, errno, "pipe");
    int in CLEANUP_FD = ends[0];
    int out CLEANUP_FD = ends[1];
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "fork");
    if (pid == 0) {
        serve->ready = out;
        daemon_main(serve, bundle);
    }
    (void)close(steal_fd(&out));
    return await_ready(in, pid, err);
}

static void core_schedule(void)
{
    if (getenv("SCHED_CORE"))
        (void)prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, 1 /* thread group */, 0);
}

enum err_kind command_start(const struct program *program, struct bootstrap *boot, struct err *err)
{
    read_stdin(boot);
    struct policy_config *config CLEANUP(policy_config_freep) = NULL;
    enum err_kind kind = policy_config_load(POLICY_CONFIG_PATH, &config, err);
    if (kind)
        return kind;
    char bundle[PATH_MAX];
    if (!getcwd(bundle, sizeof(bundle)))
        return err_sys(err, errno, "working directory");
    char *group CLEANUP_FREE = group_of(boot, bundle);
    const char *dir = boot->socket_dir[0] ? boot->socket_dir : SOCKET_DIR;
    char *socket_path CLEANUP_FREE = bundle_socket(dir, boot->address, boot->ns, group);
    char *run_dir CLEANUP_FREE = bundle_run_dir(boot->address, boot->ns, group);
    if ((kind = fs_mkdirs(dir, 0700, err)))
        return kind;
    int listener CLEANUP_FD = -1;
    if ((kind = listen_at(socket_path, &listener, err)))
        return kind;
    if (listener < 0)
        return announce(bundle, socket_path, err);
    core_schedule();
    struct serve serve = {
        .program = program,
        .boot = boot,
        .config = config,
        .group = group,
        .run_dir = run_dir,
        .socket = socket_path,
        .listener = listener,
        .bundle = bundle,
    };
    if (!(kind = spawn_daemon(&serve, bundle, err)))
        return announce(bundle, socket_path, err);
    (void)unlink(socket_path);
    return kind;
}
