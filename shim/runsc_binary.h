/*
 * Which runsc this host has, and whether it may be used: owner, mode, identity, version, flags.
 *
 * Always true: a struct runsc_binary that was returned names a file that only root can change, that
 * answered `--version` as gVisor's runsc does with a release this shim supports, and that knows the
 * flags without which a promise would not hold. Never looked up in PATH. Everything run here has a
 * deadline of 10 s and an output cap of 64 KiB, and is killed when it oversteps either.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"

#define RUNSC_DATE_OLDEST 20240729  /* older ones are refused by name */
#define RUNSC_DATE_EXEC 20260330    /* first with the seccomp filter on exec'd processes */
#define RUNSC_DATE_CURRENT 20260810 /* first with locked mount flags */
#define RUNSC_DATE_MEMBARRIER 20260714

enum runsc_class {
    RUNSC_CURRENT, /* everything supported */
    RUNSC_COMPAT,  /* from 20240729: --directfs=false, denial filter; exec from 20260330 only */
    RUNSC_REFUSED,
};

/* Changes whenever the binary or its gvisor-bin/ does; compare with runsc_key_equal(). */
struct runsc_key {
    dev_t dev;
    ino_t ino;
    off_t size;
    int64_t ctime_ns;
    uint64_t sidecars; /* hash over dev, ino, size, ctime and name of each entry of gvisor-bin/, 0
                          if there is none */
};

struct runsc_binary {
    char *path; /* absolute, as found; owned */
    struct runsc_key key;
    char version[96]; /* "release-20240729.0", "release-go-20260905.0-160fafc42237", … */
    char spec[32];    /* runtime-spec version that it names, "" if none */
    int date;         /* 20240729 */
    enum runsc_class class;
    char **flags; /* names that `runsc flags` knows, sorted, NULL-terminated; owned */
    size_t n_flags;
    bool exec_filtered; /* date >= RUNSC_DATE_EXEC */
    bool membarrier_slow;
};

/* Finds and checks. `configured` is the operator's path or NULL for /usr/local/bin/runsc, then
 * /usr/bin/runsc (the first that exists is judged; a bad first one is an error, not skipped).
 * ERR_NOT_FOUND: none there. ERR_PRECONDITION: there, but may not be used. The message is one line
 * and says what to do. */
CHECKED enum err_kind runsc_binary_find(const char *configured, struct runsc_binary **out,
                                        struct err *err);
void runsc_binary_free(struct runsc_binary *binary);
DEFINE_CLEANUP(struct runsc_binary, runsc_binary_free, runsc_binary_freep)

/* The key of the file now, without running it. ERR_PRECONDITION when others could change it. */
CHECKED enum err_kind runsc_key_read(const char *path, struct runsc_key *out, struct err *err);
bool runsc_key_equal(const struct runsc_key *a, const struct runsc_key *b);

bool runsc_has_flag(const struct runsc_binary *binary, const char *name);

/* The same through a cache directory (0700, root's alone; made if missing; NULL for none): a result
 * whose key still fits is read, not probed again, so that only the first shim of a host pays for
 * it. A cache that cannot be read or written, or whose content is malformed, is as good as none. */
CHECKED enum err_kind runsc_binary_get(const char *cache_dir, const char *configured,
                                       struct runsc_binary **out, struct err *err);

/* Parts, for tests. Pure. */
/* Text of `runsc --version` to version, spec and date; ERR_PRECONDITION with the reason ("is runc,
 * not gVisor's runsc", …). */
CHECKED enum err_kind runsc_version_parse(const char *text, char version[96], char spec[32],
                                          int *date, struct err *err);
enum runsc_class runsc_class_of(int date);
/* Text of `runsc flags` to sorted names. ERR_PRECONDITION if it is no such text. */
CHECKED enum err_kind runsc_flags_parse(const char *text, char ***out, size_t *n, struct err *err);
