/*
 * What /proc says about a process, and holding on to it by pidfd.
 *
 * Reads are of one moment: take the pidfd first, read, then check pidfd_alive() to know that all of
 * it was of the same process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum procinfo_ns {
    PROCINFO_NS_NET,
    PROCINFO_NS_USER,
    PROCINFO_NS_MNT,
    PROCINFO_NS_PID,
    PROCINFO_NS_IPC,
    PROCINFO_NS_UTS,
    PROCINFO_NS_N,
};

struct procinfo {
    pid_t pid;
    pid_t ppid;
    uid_t uid[4]; /* real, effective, saved, fs; as seen from our user namespace */
    gid_t gid[4];
    uint64_t cap_effective;
    int no_new_privs; /* 0 or 1; -1: the kernel does not say */
    int seccomp;      /* 0 off, 1 strict, 2 filter; -1: the kernel does not say */
    char state;       /* 'R', 'S', 'Z', … */
    uint64_t start_ticks;
    ino_t ns[PROCINFO_NS_N]; /* inode of /proc/PID/ns/…; 0 where it cannot be read */
};

/* `proc` is the mount of procfs, normally "/proc". ERR_NOT_FOUND: no such process. */
CHECKED enum err_kind procinfo_read(const char *proc, pid_t pid, struct procinfo *out,
                                    struct err *err);

/* A pidfd (close-on-exec), the caller's. ERR_NOT_FOUND: no such process. */
CHECKED enum err_kind pidfd_get(pid_t pid, int *fd, struct err *err);
/* True while the process has not exited (a zombie has). */
bool pidfd_alive(int fd);
/* ERR_NOT_FOUND when it is gone already. */
CHECKED enum err_kind pidfd_kill(int fd, int signo, struct err *err);
