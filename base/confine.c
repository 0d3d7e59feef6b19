#include "base/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <pwd.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

void confine_limits(void)
{
    struct rlimit none = { 0, 0 }, files;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* Needs CAP_SETPCAP, so it goes before the change of user; where that is missing no_new_privs
 * stands in for it. */
static void drop_bounding_set(void)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

static enum err_kind become(const char *name, struct err *err)
{
    errno = 0;
    const struct passwd *pw = getpwnam(name);
    if (!pw)
        return err_set(err, ERR_NOT_FOUND, "there is no user \"%s\"", name);
    if (geteuid() != 0)
        return pw->pw_uid == geteuid()
                   ? ERR_OK
                   : err_set(err, ERR_DENIED, "only root can become \"%s\"", name);
    gid_t gid = pw->pw_gid;
    uid_t uid = pw->pw_uid;
    if (setgroups(1, &gid) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
        return err_sys(err, errno, "become \"%s\"", name);
    return ERR_OK;
}

static enum err_kind clear_capabilities(struct err *err)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &head, none))
        return err_sys(err, errno, "give up capabilities");
    return ERR_OK;
}

enum err_kind confine_drop(const char *user, bool root_ok, struct err *err)
{
    struct err mine = { 0 };
    struct err *e = err ? err : &mine;
    drop_bounding_set();
    if (user && become(user, e))
        return e->kind;
    if (geteuid() == 0 && !root_ok)
        return err_set(e, ERR_PRECONDITION, "this would run as root; name a user to become");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return err_sys(e, errno, "no_new_privs");
    if (clear_capabilities(e))
        return e->kind;
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return ERR_OK;
}

/* ---- the filter ---- */

#define ROW(name_, why_)                                                                           \
    {                                                                                              \
        .name = (name_), .why = (why_)                                                             \
    }
#define ROW_IF(name_, why_, arg_, mask_, value_)                                                   \
    {                                                                                              \
        .name = (name_), .why = (why_), .compare = CONFINE_MASKED, .argument = (arg_),             \
        .mask = (mask_), .value = (value_)                                                         \
    }
#define ROW_ERRNO(name_, why_, error_)                                                             \
    {                                                                                              \
        .name = (name_), .why = (why_), .action = CONFINE_ERRNO, .error = (error_)                 \
    }

#define WHOLE UINT64_C(0xffffffff)

const struct confine_call confine_common[] = {
    ROW("epoll_wait", "loop"),
    ROW("epoll_pwait", "loop"),
    ROW("epoll_pwait2", "loop"),
    ROW("epoll_ctl", "loop"),
    ROW("epoll_create1", "loop of a resolver"),
    ROW("poll", "libcurl, resolver"),
    ROW("ppoll", "libcurl, resolver"),
    ROW("signalfd4", "loop"),
    ROW("eventfd2", "threads to loop"),
    ROW("pipe2", "libcurl"),
    ROW("timerfd_create", "loop"),
    ROW("timerfd_settime", "loop"),
    ROW("read", "files, sockets"),
    ROW("readv", "files, sockets"),
    ROW("write", "files, sockets, log"),
    ROW("writev", "files, sockets, log"),
    ROW("pread64", "database"),
    ROW("pwrite64", "database"),
    ROW("close", "all"),
    ROW("fstat", "files"),
    ROW("newfstatat", "files"),
    ROW("stat", "files"),
    ROW("lstat", "files"),
    ROW("statx", "files"),
    ROW("fstatfs", "database"),
    ROW("statfs", "database"),
    ROW("access", "files"),
    ROW("faccessat", "files"),
    ROW("faccessat2", "files"),
    ROW("lseek", "files"),
    ROW("open", "database, resolver, trust anchors"),
    ROW("openat", "database, resolver, trust anchors"),
    ROW("openat2", "files that must be real"),
    ROW("readlink", "database"),
    ROW("readlinkat", "database"),
    ROW("getdents64", "directories"),
    ROW("getcwd", "database"),
    ROW("unlink", "database, sockets"),
    ROW("unlinkat", "database, sockets"),
    ROW("rename", "atomic replacement"),
    ROW("renameat", "atomic replacement"),
    ROW("renameat2", "atomic replacement"),
    ROW("mkdir", "files"),
    ROW("mkdirat", "files"),
    ROW("ftruncate", "database"),
    ROW("fallocate", "database"),
    ROW("fsync", "database"),
    ROW("fdatasync", "database"),
    ROW("fchmod", "database"),
    ROW("fchown", "database"),
    ROW("utimensat", "database"),
    ROW("fcntl", "locks, flags"),
    ROW("flock", "locks"),
    ROW("dup", "descriptors"),
    ROW("dup3", "descriptors"),
    ROW("ioctl", "FIONBIO, FIONREAD"),
    ROW("umask", "database"),
    ROW_IF("socket", "unix", 0, WHOLE, AF_UNIX),
    ROW_IF("socket", "IPv4", 0, WHOLE, AF_INET),
    ROW_IF("socket", "IPv6", 0, WHOLE, AF_INET6),
    ROW_IF("socket", "resolver: own addresses", 0, WHOLE, AF_NETLINK),
    ROW_IF("socketpair", "libcurl", 0, WHOLE, AF_UNIX),
    ROW("connect", "outgoing"),
    ROW("bind", "resolver"),
    ROW("listen", "listeners"),
    ROW("accept4", "listeners"),
    ROW("getsockname", "sockets"),
    ROW("getpeername", "sockets"),
    ROW("getsockopt", "sockets"),
    ROW("setsockopt", "sockets"),
    ROW("shutdown", "sockets"),
    ROW("sendto", "sockets"),
    ROW("sendmsg", "sockets"),
    ROW("sendmmsg", "resolver"),
    ROW("recvfrom", "sockets"),
    ROW("recvmsg", "sockets"),
    ROW("recvmmsg", "resolver"),
    ROW_IF("mmap", "memory, never executable", 2, PROT_EXEC, 0),
    ROW_IF("mprotect", "memory, never executable", 2, PROT_EXEC, 0),
    { .name = "mmap",
      .why = "a module cannot be loaded any more",
      .action = CONFINE_ERRNO,
      .error = EACCES,
      .compare = CONFINE_MASKED,
      .argument = 2,
      .mask = PROT_EXEC,
      .value = PROT_EXEC },
    { .name = "mprotect",
      .why = "nor code be made",
      .action = CONFINE_ERRNO,
      .error = EACCES,
      .compare = CONFINE_MASKED,
      .argument = 2,
      .mask = PROT_EXEC,
      .value = PROT_EXEC },
    ROW("munmap", "memory"),
    ROW("mremap", "memory"),
    ROW("madvise", "memory"),
    ROW("brk", "memory"),
    ROW("mlock", "secrets"),
    ROW("mlock2", "secrets"),
    ROW("munlock", "secrets"),
    ROW("membarrier", "threads"),
    ROW_IF("clone", "threads, never processes", 0, CLONE_THREAD, CLONE_THREAD),
    ROW_ERRNO("clone3", "its flags cannot be looked at: clone is used instead", ENOSYS),
    ROW("set_robust_list", "threads"),
    ROW("rseq", "threads"),
    ROW("gettid", "threads"),
    ROW("getpid", "database, random numbers"),
    ROW("futex", "threads"),
    ROW("futex_waitv", "threads"),
    ROW("sched_yield", "threads"),
    ROW("sched_getaffinity", "threads"),
    ROW("exit", "threads"),
    ROW("exit_group", "end"),
    ROW("restart_syscall", "signals"),
    ROW("rt_sigaction", "signals"),
    ROW("rt_sigprocmask", "signals"),
    ROW("rt_sigreturn", "signals"),
    ROW("sigaltstack", "signals"),
    ROW("tgkill", "abort"),
    ROW("clock_gettime", "time"),
    ROW("clock_getres", "time"),
    ROW("clock_nanosleep", "time"),
    ROW("nanosleep", "time"),
    ROW("gettimeofday", "time"),
    ROW("time", "time"),
    ROW("getrandom", "keys, nonces"),
    ROW("getuid", "database, libraries"),
    ROW("geteuid", "database, libraries"),
    ROW("getgid", "libraries"),
    ROW("getegid", "libraries"),
    ROW("uname", "libraries"),
    ROW("sysinfo", "libraries"),
    ROW("getrusage", "figures"),
    ROW("prlimit64", "libraries"),
    ROW_IF("prctl", "thread names", 0, WHOLE, PR_SET_NAME),
};
const size_t confine_common_n = ARRAY_LEN(confine_common);

static int add_row(scmp_filter_ctx ctx, const struct confine_call *row)
{
    int nr = seccomp_syscall_resolve_name(row->name);
    uint32_t action =
        row->action == CONFINE_ALLOW ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO((uint32_t)row->error);
    struct scmp_arg_cmp cmp = {
        .arg = row->argument,
        .op = SCMP_CMP_MASKED_EQ,
        .datum_a = row->compare == CONFINE_EQUAL ? UINT64_MAX : row->mask,
        .datum_b = row->value,
    };
    if (nr < 0) /* unknown, or of another architecture */
        return 0;
    return row->compare == CONFINE_ANY ? seccomp_rule_add(ctx, action, nr, 0)
                                       : seccomp_rule_add_array(ctx, action, nr, 1, &cmp);
}

/* A kernel that cannot kill a whole process by filter (gVisor of 2024) would end the one thread and
 * leave a process that hangs; there the signal's default does it, and the call is denied in either
 * case. */
static scmp_filter_ctx filter_new(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
    return ctx ? ctx : seccomp_init(SCMP_ACT_TRAP);
}

enum err_kind confine_filter(const struct confine_call *calls, size_t n, struct err *err)
{
    scmp_filter_ctx ctx = filter_new();
    int failed = ctx ? 0 : -ENOMEM;
    if (!failed)
        failed = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    for (size_t i = 0; !failed && i < n; i++)
        failed = add_row(ctx, &calls[i]);
    if (!failed)
        failed = seccomp_load(ctx);
    if (ctx)
        seccomp_release(ctx);
    return failed ? err_sys(err, -failed, "system call filter") : ERR_OK;
}
