/* probe: what a hostile guest tries, as one static program in the test image.
 *
 * usage: probe COMMAND [ARG…] [-- COMMAND [ARG…]]…     commands run one after the other
 *
 * Every attempt prints one JSON line {"probe":NAME,"ok":BOOL,…}; ok says that the attempt
 * succeeded, which for most of them means that a promise is broken. A failed attempt carries
 * "errno":"EPERM" and the like. The program judges nothing: the tests do. Under the name `pause` it
 * is the pod's pause process. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/sched.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- output ---- */

static void print_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void line_open(const char *name)
{
    printf("{\"probe\":");
    print_string(name);
}

static void line_close(void)
{
    puts("}");
    fflush(stdout);
}

/* One attempt: rc < 0 is a failure with the current errno. */
static void report(const char *name, long rc)
{
    int e = errno;
    line_open(name);
    printf(",\"ok\":%s", rc < 0 ? "false" : "true");
    if (rc < 0) {
        const char *text = strerrorname_np(e);
        printf(",\"errno\":\"%s\"", text ? text : "?");
    }
    line_close();
}

/* Runs fn in a child, so that a success cannot change what the next attempt sees. Its result is the
 * child's exit code: 0 success, else errno; 255 when a signal ended it. */
static void attempt(const char *name, long (*fn)(const void *), const void *arg)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        line_open(name);
        printf(",\"ok\":null,\"fork\":\"%s\"", strerrorname_np(errno));
        line_close();
        return;
    }
    if (pid == 0) {
        long rc = fn(arg);
        _exit(rc < 0 ? (errno & 0xff) : 0);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        line_open(name);
        printf(",\"ok\":false,\"signal\":%d", WTERMSIG(status));
        line_close();
        return;
    }
    errno = WEXITSTATUS(status);
    report(name, errno ? -1 : 0);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- who am I ---- */

static void cmd_status(char **argv)
{
    (void)argv;
    static const char *const keys[] = { "Uid",    "Gid",    "Groups", "CapInh",     "CapPrm",
                                        "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp" };
    FILE *f = fopen("/proc/self/status", "re");
    char buf[512];
    line_open("status");
    printf(",\"ok\":%s", f ? "true" : "false");
    while (f && fgets(buf, sizeof buf, f)) {
        char *colon = strchr(buf, ':');
        if (!colon)
            continue;
        *colon = 0;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            if (strcmp(buf, keys[i]))
                continue;
            char *value = colon + 1 + strspn(colon + 1, " \t");
            value[strcspn(value, "\n")] = 0;
            for (char *p = value; *p; p++)
                if (*p == '\t')
                    *p = ' ';
            printf(",\"%s\":", keys[i]);
            print_string(value);
        }
    }
    if (f)
        fclose(f);
    struct rlimit n = { 0 };
    getrlimit(RLIMIT_NPROC, &n);
    printf(",\"nproc\":[%lld,%lld]", (long long)n.rlim_cur, (long long)n.rlim_max);
    line_close();
}

static void cmd_env(char **argv)
{
    (void)argv;
    line_open("env");
    printf(",\"ok\":true,\"env\":[");
    for (char **e = environ; *e; e++) {
        if (e != environ)
            putchar(',');
        print_string(*e);
    }
    printf("]");
    line_close();
}

static void cmd_read(char **argv)
{
    char buf[4096];
    int fd = open(argv[0], O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
    if (n < 0) {
        report("read", -1);
        return;
    }
    buf[n] = 0;
    line_open("read");
    printf(",\"ok\":true,\"path\":");
    print_string(argv[0]);
    printf(",\"text\":");
    print_string(buf);
    line_close();
    close(fd);
}

/* ---- writing and executing ---- */

static const char *const places[] = { "/",        "/bin",     "/etc",           "/tmp",
                                      "/dev",     "/dev/shm", "/dev/mqueue",    "/run",
                                      "/proc",    "/sys",     "/sys/fs/cgroup", "/var",
                                      "/var/tmp", "/root",    "/home",          "/mnt" };

static void place_file(char *out, size_t size, const char *dir)
{
    snprintf(out, size, "%s/.utter-probe-%d", strcmp(dir, "/") ? dir : "", (int)getpid());
}

static void cmd_write(char **argv)
{
    const char *const *list = argv[0] ? (const char *const *)argv : places;
    size_t n = 0;
    if (argv[0])
        while (argv[n])
            n++;
    else
        n = sizeof places / sizeof *places;
    for (size_t i = 0; i < n; i++) {
        char path[256], name[256];
        struct stat st;
        snprintf(name, sizeof name, "write:%s", list[i]);
        if (stat(list[i], &st) < 0) {
            report(name, -1);
            continue;
        }
        if (S_ISDIR(st.st_mode))
            place_file(path, sizeof path, list[i]);
        else
            snprintf(path, sizeof path, "%s", list[i]);
        int fd =
            open(path, O_WRONLY | O_CLOEXEC | (S_ISDIR(st.st_mode) ? O_CREAT | O_EXCL : 0), 0644);
        long rc = fd < 0 ? -1 : write(fd, "x", 1);
        int e = errno;
        if (fd >= 0)
            close(fd);
        if (S_ISDIR(st.st_mode) && fd >= 0)
            unlink(path);
        errno = e;
        report(name, rc);
    }
}

static int copy_self(int out)
{
    char buf[65536];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return -1;
    for (;;) {
        ssize_t n = read(in, buf, sizeof buf);
        if (n <= 0 || write(out, buf, (size_t)n) != n) {
            int e = n < 0 || n > 0 ? errno : 0;
            close(in);
            errno = e;
            return n == 0 ? 0 : -1;
        }
    }
}

static long exec_path(const void *arg)
{
    char *args[] = { "probe", "true", NULL };
    execve(arg, args, environ);
    return -1;
}

static long map_path(const void *arg)
{
    int fd = open(arg, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}

/* A program put into every place that takes one: can it run, can it be mapped executable? */
static void cmd_execplaces(char **argv)
{
    (void)argv;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[256], name[256];
        place_file(path, sizeof path, places[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        snprintf(name, sizeof name, "place:%s", places[i]);
        if (fd < 0 || copy_self(fd) < 0) {
            report(name, -1);
            if (fd >= 0) {
                close(fd);
                unlink(path);
            }
            continue;
        }
        close(fd);
        chmod(path, 0755);
        report(name, 0);
        snprintf(name, sizeof name, "exec:%s", places[i]);
        attempt(name, exec_path, path);
        snprintf(name, sizeof name, "map:%s", places[i]);
        attempt(name, map_path, path);
        unlink(path);
    }
}

/* ---- privilege ---- */

static long try_mount_tmpfs(const void *a)
{
    (void)a;
    return mount("none", "/tmp", "tmpfs", 0, NULL);
}
static long try_mount_proc(const void *a)
{
    (void)a;
    return mount("proc", "/tmp", "proc", 0, NULL);
}
static long try_mount_bind(const void *a)
{
    (void)a;
    return mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL);
}
static long try_remount(const void *path)
{
    return mount(NULL, path, NULL, MS_REMOUNT, NULL);
}
static long try_remount_bind(const void *path)
{
    return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND, NULL);
}
static long try_umount(const void *path)
{
    return umount2(path, MNT_DETACH);
}
static long try_unshare(const void *flags)
{
    return unshare(*(const int *)flags);
}
static long try_setns(const void *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    return setns(fd, 0);
}
static long try_chroot(const void *path)
{
    return chroot(path);
}
static long try_pivot(const void *a)
{
    (void)a;
    return syscall(SYS_pivot_root, "/tmp", "/tmp");
}
static long try_clone_user(const void *a)
{
    (void)a;
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid;
}
static long try_clone3(const void *flags)
{
    struct clone_args args = { .flags = (uint64_t) * (const int *)flags, .exit_signal = SIGCHLD };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid;
}
static long try_ptrace(const void *a)
{
    (void)a;
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}
static long try_memfd(const void *a)
{
    (void)a;
    return memfd_create("probe", 0);
}
static long try_memfd_exec(const void *a)
{
    (void)a;
    int fd = memfd_create("probe", 0);
    if (fd < 0 || copy_self(fd) < 0)
        return -1;
    char *args[] = { "probe", "true", NULL };
    fexecve(fd, args, environ);
    return -1;
}
/* gVisor lets anyone make a node; what counts is what can be opened through it. */
static long try_device(const void *arg)
{
    const unsigned *number = arg;
    char path[64];
    snprintf(path, sizeof path, "/tmp/.probe-node-%d", (int)getpid());
    if (mknod(path, (number[0] == 8 ? S_IFBLK : S_IFCHR) | 0666, makedev(number[0], number[1])) < 0)
        return -1;
    int fd = open(path, O_RDWR | O_CLOEXEC), e = errno;
    unlink(path);
    errno = e;
    return fd;
}
static long try_setuid0(const void *a)
{
    (void)a;
    return setuid(0) < 0 ? -1 : (geteuid() == 0 ? 0 : -1);
}
static long try_setuid_other(const void *a)
{
    (void)a;
    return setresuid(4242, 4242, 4242);
}
static long try_sethostname(const void *a)
{
    (void)a;
    return sethostname("probe", 5);
}
static long try_settime(const void *a)
{
    (void)a;
    struct timeval t;
    gettimeofday(&t, NULL);
    return settimeofday(&t, NULL);
}
static long try_raise_nproc(const void *a)
{
    (void)a;
    struct rlimit r;
    if (getrlimit(RLIMIT_NPROC, &r) < 0)
        return -1;
    r.rlim_cur = r.rlim_max = r.rlim_max + 1000;
    return setrlimit(RLIMIT_NPROC, &r);
}
static long try_syscall0(const void *nr)
{
    return syscall(*(const int *)nr, 0, 0, 0, 0, 0);
}
static long try_fsopen(const void *a)
{
    (void)a;
    return syscall(SYS_fsopen, "tmpfs", 0);
}
static long try_open_tree(const void *a)
{
    (void)a;
    return syscall(SYS_open_tree, AT_FDCWD, "/tmp", 1);
}
struct socket_kind {
    int domain, type, protocol;
};
static long try_socket(const void *arg)
{
    const struct socket_kind *k = arg;
    return socket(k->domain, k->type, k->protocol);
}

/* Each way to more rights that the kernel has; every success is a broken promise, except plain fork
 * and threads. */
static void cmd_escape(char **argv)
{
    (void)argv;
    const struct {
        const char *name;
        long (*fn)(const void *);
        const void *arg;
    } rows[] = {
        { "mount:tmpfs", try_mount_tmpfs, NULL },
        { "mount:proc", try_mount_proc, NULL },
        { "mount:bind", try_mount_bind, NULL },
        { "remount:/", try_remount, "/" },
        { "remount:/tmp", try_remount, "/tmp" },
        { "remount-bind:/", try_remount_bind, "/" },
        { "remount-bind:/tmp", try_remount_bind, "/tmp" },
        { "remount-bind:/proc", try_remount_bind, "/proc" },
        { "umount:/tmp", try_umount, "/tmp" },
        { "umount:/proc", try_umount, "/proc" },
        { "unshare:user", try_unshare, &(const int){ CLONE_NEWUSER } },
        { "unshare:user+mount", try_unshare, &(const int){ CLONE_NEWUSER | CLONE_NEWNS } },
        { "unshare:mount", try_unshare, &(const int){ CLONE_NEWNS } },
        { "unshare:net", try_unshare, &(const int){ CLONE_NEWNET } },
        { "unshare:pid", try_unshare, &(const int){ CLONE_NEWPID } },
        { "setns:mnt", try_setns, "/proc/self/ns/mnt" },
        { "setns:user", try_setns, "/proc/self/ns/user" },
        { "chroot", try_chroot, "/tmp" },
        { "pivot_root", try_pivot, NULL },
        { "clone:user", try_clone_user, NULL },
        { "clone3:user", try_clone3, &(const int){ CLONE_NEWUSER } },
        { "clone3:plain", try_clone3, &(const int){ 0 } },
        { "ptrace", try_ptrace, NULL },
        { "memfd_create", try_memfd, NULL },
        { "memfd:exec", try_memfd_exec, NULL },
        { "device:mem", try_device, (const unsigned[]){ 1, 1 } },
        { "device:port", try_device, (const unsigned[]){ 1, 4 } },
        { "device:disk", try_device, (const unsigned[]){ 8, 0 } },
        { "device:vda", try_device, (const unsigned[]){ 254, 0 } },
        { "device:fuse", try_device, (const unsigned[]){ 10, 229 } },
        { "device:kvm", try_device, (const unsigned[]){ 10, 232 } },
        { "setuid:0", try_setuid0, NULL },
        { "setuid:other", try_setuid_other, NULL },
        { "sethostname", try_sethostname, NULL },
        { "settimeofday", try_settime, NULL },
        { "setrlimit:nproc", try_raise_nproc, NULL },
        { "fsopen", try_fsopen, NULL },
        { "open_tree", try_open_tree, NULL },
        { "move_mount", try_syscall0, &(const int){ SYS_move_mount } },
        { "mount_setattr", try_syscall0, &(const int){ SYS_mount_setattr } },
        { "bpf", try_syscall0, &(const int){ SYS_bpf } },
        { "perf_event_open", try_syscall0, &(const int){ SYS_perf_event_open } },
        { "init_module", try_syscall0, &(const int){ SYS_init_module } },
        { "kexec_load", try_syscall0, &(const int){ SYS_kexec_load } },
        { "swapon", try_syscall0, &(const int){ SYS_swapon } },
        { "acct", try_syscall0, &(const int){ SYS_acct } },
        { "socket:raw", try_socket,
          &(const struct socket_kind){ AF_INET, SOCK_RAW, IPPROTO_ICMP } },
        { "socket:packet", try_socket, &(const struct socket_kind){ AF_PACKET, SOCK_RAW, 0 } },
        { "socket:vsock", try_socket, &(const struct socket_kind){ 40, SOCK_STREAM, 0 } },
        { "socket:alg", try_socket, &(const struct socket_kind){ 38, SOCK_SEQPACKET, 0 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        attempt(rows[i].name, rows[i].fn, rows[i].arg);
}

/* The image holds /bin/suidprobe, root's and setuid: which euid does it get? */
static void cmd_suid(char **argv)
{
    (void)argv;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/suidprobe", "suidprobe", "euid", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
}

static void cmd_euid(char **argv)
{
    (void)argv;
    line_open("euid");
    printf(",\"ok\":true,\"uid\":%d,\"euid\":%d,\"egid\":%d", (int)getuid(), (int)geteuid(),
           (int)getegid());
    line_close();
}

/* ---- bombs ---- */

static double seconds(const char *s, double otherwise)
{
    return s ? strtod(s, NULL) : otherwise;
}

/* forkbomb N HOLD: N children that sleep; says how many came, holds them HOLD seconds. */
static void cmd_forkbomb(char **argv)
{
    long want = strtol(argv[0], NULL, 10), made = 0;
    const char *why = "";
    pid_t *pids = calloc((size_t)want, sizeof *pids);
    for (; pids && made < want; made++) {
        pid_t pid = fork();
        if (pid < 0) {
            why = strerrorname_np(errno);
            break;
        }
        if (pid == 0)
            for (;;)
                pause();
        pids[made] = pid;
    }
    line_open("forkbomb");
    printf(",\"ok\":%s,\"asked\":%ld,\"made\":%ld,\"errno\":\"%s\"",
           made == want ? "true" : "false", want, made, why);
    line_close();
    usleep((useconds_t)(seconds(argv[1], 0) * 1e6));
    for (long i = 0; i < made; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    free(pids);
}

/* fork without end and without reaping, children fork too: what a real bomb does. Ends after
 * SECONDS. */
static void cmd_bomb(char **argv)
{
    double end = now() + seconds(argv[0], 5);
    signal(SIGCHLD, SIG_IGN);
    line_open("bomb");
    printf(",\"ok\":true");
    line_close();
    while (now() < end)
        if (fork() < 0)
            usleep(1000);
}

static void *thread_hold(void *arg)
{
    usleep((useconds_t)(*(double *)arg * 1e6));
    return NULL;
}

static void cmd_threadbomb(char **argv)
{
    long want = strtol(argv[0], NULL, 10), made = 0;
    double hold = seconds(argv[1], 0.5);
    pthread_attr_t attr;
    pthread_t *ids = calloc((size_t)want, sizeof *ids);
    const char *why = "";
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (; ids && made < want; made++) {
        int e = pthread_create(&ids[made], &attr, thread_hold, &hold);
        if (e) {
            why = strerrorname_np(e);
            break;
        }
    }
    line_open("threadbomb");
    printf(",\"ok\":%s,\"asked\":%ld,\"made\":%ld,\"errno\":\"%s\"",
           made == want ? "true" : "false", want, made, why);
    line_close();
    for (long i = 0; i < made; i++)
        pthread_join(ids[i], NULL);
    free(ids);
}

/* membomb MB HOLD: touches MB mebibytes. */
static void cmd_membomb(char **argv)
{
    size_t mb = (size_t)strtoul(argv[0], NULL, 10);
    for (size_t i = 0; i < mb; i++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            report("membomb", -1);
            return;
        }
        memset(p, (int)(i & 0xff) | 1, 1 << 20);
    }
    report("membomb", 0);
    usleep((useconds_t)(seconds(argv[1], 0) * 1e6));
}

/* fill DIR MB: how many mebibytes a place takes. */
static void cmd_fill(char **argv)
{
    const size_t size = 1 << 20;
    char *block = malloc(size); /* not static: every forked guest process would cost its pages in gVisor */
    char path[256];
    long mb = strtol(argv[1], NULL, 10), done = 0;
    const char *why = "";
    place_file(path, sizeof path, argv[0]);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        why = strerrorname_np(errno);
    if (!block)
        abort();
    memset(block, 'x', size);
    for (; fd >= 0 && done < mb; done++) {
        ssize_t n = write(fd, block, size);
        if (n != (ssize_t)size) {
            why = n < 0 ? strerrorname_np(errno) : "short";
            break;
        }
    }
    line_open("fill");
    printf(",\"ok\":%s,\"dir\":", done == mb ? "true" : "false");
    print_string(argv[0]);
    printf(",\"mb\":%ld,\"errno\":\"%s\"", done, why);
    line_close();
    if (fd >= 0)
        close(fd);
    unlink(path);
    free(block);
}

static void cmd_burn(char **argv)
{
    double end = now() + seconds(argv[0], 1);
    volatile unsigned long n = 0;
    while (now() < end)
        for (int i = 0; i < 100000; i++)
            n = n + 1;
    report("burn", 0);
}

/* ---- network ---- */

/* connect ADDRESS[%IFACE] PORT: TCP, 1 s. */
static void cmd_connect(char **argv)
{
    char host[128], name[192];
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    struct sockaddr_in four = { .sin_family = AF_INET };
    uint16_t port = htons((uint16_t)strtoul(argv[1], NULL, 10));
    snprintf(host, sizeof host, "%s", argv[0]);
    snprintf(name, sizeof name, "connect:%s:%s", argv[0], argv[1]);
    char *percent = strchr(host, '%');
    if (percent) {
        *percent = 0;
        six.sin6_scope_id = if_nametoindex(percent + 1);
    }
    bool is_six = strchr(host, ':') != NULL;
    const struct sockaddr *addr =
        is_six ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
    socklen_t len = is_six ? sizeof six : sizeof four;
    six.sin6_port = four.sin_port = port;
    if (inet_pton(is_six ? AF_INET6 : AF_INET, host,
                  is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr) != 1) {
        errno = EINVAL;
        report(name, -1);
        return;
    }
    int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        report(name, -1);
        return;
    }
    if (connect(fd, addr, len) < 0) {
        int e = errno;
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        if (e == EINPROGRESS && poll(&p, 1, 1000) == 1) {
            socklen_t size = sizeof e;
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size);
        } else if (e == EINPROGRESS) {
            e = ETIMEDOUT;
        }
        errno = e;
        report(name, e ? -1 : 0);
    } else {
        report(name, 0);
    }
    close(fd);
}

static void cmd_ifaces(char **argv)
{
    (void)argv;
    struct ifaddrs *list = NULL;
    bool first = true;
    int rc = getifaddrs(&list);
    line_open("ifaces");
    printf(",\"ok\":%s,\"addresses\":[", rc == 0 ? "true" : "false");
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "", both[128];
        if (!i->ifa_addr)
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, text,
                      sizeof text);
        else if (i->ifa_addr->sa_family == AF_INET6)
            inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr, text,
                      sizeof text);
        else
            continue;
        snprintf(both, sizeof both, "%s %s", i->ifa_name, text);
        printf("%s", first ? "" : ",");
        print_string(both);
        first = false;
    }
    printf("]");
    line_close();
    freeifaddrs(list);
}

/* listen PORT: accepts and closes until killed. */
static void cmd_listen(char **argv)
{
    struct sockaddr_in6 any = { .sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)strtoul(argv[0], NULL, 10)) };
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) < 0 || listen(fd, 16) < 0) {
        report("listen", -1);
        exit(1);
    }
    report("listen", 0);
    for (;;)
        close(accept(fd, NULL, NULL));
}

/* ---- lifecycle ---- */

static void cmd_true(char **argv)
{
    (void)argv;
}
static void cmd_exit(char **argv)
{
    fflush(stdout);
    _exit((int)strtol(argv[0], NULL, 10));
}
static void cmd_raise(char **argv)
{
    int sig = (int)strtol(argv[0], NULL, 10);
    signal(sig, SIG_DFL);
    raise(sig);
}
static void cmd_sleep(char **argv)
{
    double end = now() + seconds(argv[0], 3600), left;
    while ((left = end - now()) > 0)
        usleep(left > 0.5 ? 500000 : (useconds_t)(left * 1e6));
}
static void cmd_say(char **argv)
{
    puts(argv[0]);
    fflush(stdout);
}

/* catch: prints the first signal that arrives and exits 40 + signal. */
static void cmd_catch(char **argv)
{
    (void)argv;
    sigset_t all;
    int sig = 0;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    line_open("ready");
    printf(",\"ok\":true");
    line_close();
    sigwait(&all, &sig);
    line_open("caught");
    printf(",\"ok\":true,\"signal\":%d", sig);
    line_close();
    exit(40 + sig);
}

static const struct {
    const char *name;
    int args;
    void (*fn)(char **argv);
} commands[] = {
    { "status", 0, cmd_status },
    { "env", 0, cmd_env },
    { "read", 1, cmd_read },
    { "write", 0, cmd_write },
    { "execplaces", 0, cmd_execplaces },
    { "escape", 0, cmd_escape },
    { "suid", 0, cmd_suid },
    { "euid", 0, cmd_euid },
    { "forkbomb", 1, cmd_forkbomb },
    { "bomb", 0, cmd_bomb },
    { "threadbomb", 1, cmd_threadbomb },
    { "membomb", 1, cmd_membomb },
    { "fill", 2, cmd_fill },
    { "burn", 0, cmd_burn },
    { "connect", 2, cmd_connect },
    { "ifaces", 0, cmd_ifaces },
    { "listen", 1, cmd_listen },
    { "true", 0, cmd_true },
    { "exit", 1, cmd_exit },
    { "raise", 1, cmd_raise },
    { "sleep", 0, cmd_sleep },
    { "say", 1, cmd_say },
    { "catch", 0, cmd_catch },
};

static int run(char **argv)
{
    int n = 0;
    while (argv[n + 1])
        n++;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, argv[0]))
            continue;
        if (n < commands[i].args)
            break;
        commands[i].fn(argv + 1);
        return 0;
    }
    fprintf(stderr, "probe: unknown command or too few arguments: %s\n", argv[0]);
    return 2;
}

static int be_pause(void)
{
    sigset_t set;
    int sig = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_IGN);
    sigwait(&set, &sig);
    return 0;
}

int main(int argc, char **argv)
{
    const char *base = strrchr(argv[0], '/');
    if (!strcmp(base ? base + 1 : argv[0], "pause"))
        return be_pause();
    if (argc < 2) {
        fprintf(stderr, "usage: probe COMMAND [ARG…] [-- COMMAND [ARG…]]…\n");
        return 2;
    }
    for (char **part = argv + 1, **end; *part; part = end) {
        for (end = part; *end && strcmp(*end, "--"); end++)
            ;
        bool more = *end != NULL;
        *end = NULL;
        int rc = *part ? run(part) : 2;
        if (rc)
            return rc;
        if (more)
            end++;
    }
    return 0;
}
