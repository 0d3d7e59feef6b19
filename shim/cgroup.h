/*
 * A sandbox's cgroup, v1 and v2, cgroupfs and systemd paths: made fresh, verified, updated,
 * removed.
 *
 * runsc puts the sandbox there; this file never trusts that it did. Always true: limits are taken
 * as in force only after they were read back from the cgroup that /proc/<sandbox>/cgroup names.
 * All paths are below `root` (normally /sys/fs/cgroup) and `proc` (normally /proc), so that tests
 * run against a tree of plain files. Nothing here follows a symlink below the controllers' roots.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"

#define CGROUP_UNLIMITED INT64_MAX
#define CGROUP_ABSENT (-1)

enum cgroup_version {
    CGROUP_V1,
    CGROUP_V2,
};

#define CGROUP_HIERARCHIES_MAX 24

/* Where the host mounts its cgroups. */
struct cgroup_host {
    enum cgroup_version version;
    char *root;
    char *proc;
    struct cgroup_hierarchy {
        char *mount;       /* "/sys/fs/cgroup/memory" */
        char *mount_root;  /* the part of the hierarchy mounted there, normally "/" */
        char *controllers; /* "memory", "cpu,cpuacct", "name=systemd"; "" on v2 */
    } hierarchies[CGROUP_HIERARCHIES_MAX]; /* v2: one */
    size_t n;
};

/* Reads <proc>/self/mountinfo. v2 where a cgroup2 is mounted at `root` itself; v1 (hybrid hosts
 * too) where memory, pids and cpu each have a v1 mount below it; else ERR_UNSUPPORTED. */
CHECKED enum err_kind cgroup_host_open(const char *root, const char *proc, struct cgroup_host **out,
                                       struct err *err);
void cgroup_host_free(struct cgroup_host *host);
DEFINE_CLEANUP(struct cgroup_host, cgroup_host_free, cgroup_host_freep)

/* Where a container's cgroup is to be, within every hierarchy. */
struct cgroup_path {
    bool systemd;    /* given as slice:prefix:name */
    char path[512];  /* "/default/c1" or "/system.slice/utter-c1.scope" */
    char unit[256];  /* systemd: "utter-c1.scope", else "" */
    size_t keep_len; /* how much of `path` existed before: never removed (set by claim) */
};

/* Parses cgroupsPath. ERR_INVALID on "..", relative, empty or too long ones. Pure. */
CHECKED enum err_kind cgroup_path_parse(const char *cgroups_path, struct cgroup_path *out,
                                        struct err *err);

/* Before create: the leaf must not be there, or be empty and childless, and is then removed.
 * ERR_PRECONDITION, naming a pid or a child, where it is populated. Fills keep_len. */
CHECKED enum err_kind cgroup_claim(const struct cgroup_host *host, struct cgroup_path *path,
                                   struct err *err);

/* After the end: removes the leaf in every hierarchy, the scope unit with it, and then those
 * parents which claim saw missing, as far as they are empty. Absent is fine, a populated leaf is
 * ERR_PRECONDITION naming a pid. */
CHECKED enum err_kind cgroup_remove(const struct cgroup_host *host, const struct cgroup_path *path,
                                    struct err *err);

/* Keeps two creates off one path: an exclusive lock in `lock_dir` (0700, made if missing), held
 * until *fd, the caller's, is closed. ERR_PRECONDITION: somebody holds it. */
CHECKED enum err_kind cgroup_lock(const char *lock_dir, const struct cgroup_path *path, int *fd,
                                  struct err *err);
/* Lets go and removes the lock's file. A process that dies holding it leaves the file, unlocked. */
void cgroup_unlock(const char *lock_dir, const struct cgroup_path *path, int fd);

/* A pid in the leaf of any hierarchy, its children included; 0 if none, -1 if it is one that our
 * pid namespace does not show. */
pid_t cgroup_some_pid(const struct cgroup_host *host, const char *path);

/* The directories that a running process is in. */
struct cgroup_set {
    const struct cgroup_host *host; /* borrowed */
    char *memory;                   /* absolute directory, owned; v2: all the same text */
    char *pids;
    char *cpu;
    char *cpuacct;
};

/* From <proc>/<pid>/cgroup. ERR_NOT_FOUND: no such process; ERR_PRECONDITION: a hierarchy is not
 * mounted. Remember it while the process lives: afterwards the kernel no longer tells. */
CHECKED enum err_kind cgroup_set_of(const struct cgroup_host *host, pid_t pid,
                                    struct cgroup_set **out, struct err *err);
/* The same from a path, for a process that is gone. */
struct cgroup_set *cgroup_set_at(const struct cgroup_host *host, const char *path);
void cgroup_set_free(struct cgroup_set *set);
DEFINE_CLEANUP(struct cgroup_set, cgroup_set_free, cgroup_set_freep)

/* As the spec has them: bytes, memory+swap total in bytes, tasks, microseconds. CGROUP_ABSENT: not
 * stated; CGROUP_UNLIMITED: no limit. */
struct cgroup_limits {
    int64_t memory;
    int64_t memory_swap; /* total, as OCI's memory.swap */
    int64_t pids;
    int64_t cpu_quota;
    int64_t cpu_period;
    int64_t cpu_shares; /* 2 to 262144, for cgroup_update() alone; 0: not stated, never read */
};

CHECKED enum err_kind cgroup_read_limits(const struct cgroup_set *set, struct cgroup_limits *out,
                                         struct err *err);

/* Reads back and compares: the set lies at `path` in all of memory, pids, cpu, and every value of
 * `want` that is not absent is in force exactly (memory rounded down to pages as the kernel does).
 * A kernel without swap accounting satisfies memory_swap. ERR_PRECONDITION lists every difference.
 */
CHECKED enum err_kind cgroup_verify(const struct cgroup_set *set, const struct cgroup_path *path,
                                    const struct cgroup_limits *want, struct err *err);

/* Changes a running sandbox's limits. memory is written with swap equal to it, in the order the
 * kernel accepts; memory below what is in use now is ERR_PRECONDITION; pids may only repeat the
 * value in force. Absent keeps. Values are read back; on any failure or difference all files are
 * put back as they were and the error says what did not take. */
CHECKED enum err_kind cgroup_update(const struct cgroup_set *set, const struct cgroup_limits *want,
                                    struct err *err);

/* Makes the kernel kill the whole sandbox on OOM (v2 memory.oom.group; nothing on v1). */
CHECKED enum err_kind cgroup_oom_group(const struct cgroup_set *set, struct err *err);

/* How often the kernel's OOM killer acted in the cgroup (v1 memory.oom_control, v2 memory.events).
 * ERR_NOT_FOUND once the directory is gone. */
CHECKED enum err_kind cgroup_oom_kills(const struct cgroup_set *set, uint64_t *out,
                                       struct err *err);

/* Last resort: kills every process in it (v2 cgroup.kill; v1 signal by signal until empty, at most
 * 100 rounds). */
CHECKED enum err_kind cgroup_kill(const struct cgroup_set *set, struct err *err);

/* Reads one number ("max" is CGROUP_UNLIMITED) or one "key value" line; for metrics. */
CHECKED enum err_kind cgroup_read_number(const char *dir, const char *file, int64_t *out,
                                         struct err *err);
CHECKED enum err_kind cgroup_read_keyed(const char *dir, const char *file, const char *const keys[],
                                        uint64_t *values, size_t n, struct err *err);
