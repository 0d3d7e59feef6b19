/*
 * One running Sentry with its gofer: what a container, or a pod of them, lives in.
 *
 * The shim is their parent (as subreaper), so the wait status of the sandbox is never lost. A gofer
 * that dies first takes the sandbox with it. sandbox_verify_*() compare the running processes with
 * what was promised; whoever gets an error from them kills.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "policy/policy.h"
#include "shim/cgroup.h"
#include "shim/children.h"
#include "shim/control.h"
#include "shim/procinfo.h"
#include "shim/runsc.h"

#define SANDBOX_UIDS_MAX 64

struct sandbox;

/* Sandbox and gofer are reaped; sandbox->wstatus tells how. */
typedef void sandbox_gone_fn(void *arg);

struct sandbox {
    struct loop *loop;
    char *id; /* of the root container */
    struct runsc runsc;
    struct runsc_binary *binary; /* the one that made it, owned */
    struct control *control;     /* NULL until adopted */
    struct cgroup_host *cgroups; /* borrowed */
    struct cgroup_path cgroup_path;
    struct cgroup_set *cgroup; /* NULL until adopted */
    bool cgroup_claimed;
    int cgroup_lock;             /* held while the path is this sandbox's; -1 */
    struct policy_limits limits; /* in force */
    char *pod_uid;               /* pods: as the pause container's annotations say; else NULL */
    char *pod_namespace;
    int64_t uids[SANDBOX_UIDS_MAX]; /* distinct uids of its containers so far */
    size_t n_uids;
    pid_t pid;            /* 0 until adopted */
    uint64_t start_ticks; /* with pid: this very process */
    int pidfd;
    struct child child;
    pid_t gofer_pid; /* 0: none */
    struct child gofer;
    struct loop_timer gofer_timer;
    int oom_event; /* v1: readable when the cgroup is out of memory; -1 */
    int oom_control;
    bool out_of_memory; /* it has been, and was killed for it */
    struct loop_watch oom_watch;
    bool exiting;    /* its root container has exited: a gofer that goes now is no failure */
    bool gofer_died; /* it went first, by itself */
    bool dead;       /* reaped */
    bool gone;       /* sandbox and gofer are reaped */
    int wstatus;     /* of the sandbox, once dead */
    sandbox_gone_fn *on_gone;
    void *arg;
};

struct sandbox_env {
    struct loop *loop;
    struct children *children;
    struct cgroup_host *cgroups;
};

/* Takes the binary. `dir` is the private directory of this sandbox: runsc's root and logs. */
struct sandbox *sandbox_new(const struct sandbox_env *env, const char *id, const char *dir,
                            struct runsc_binary *take_binary);
/* The processes must be gone or never adopted. */
void sandbox_free(struct sandbox *sandbox);
DEFINE_CLEANUP(struct sandbox, sandbox_free, sandbox_freep)

/* After `runsc create`: reads runsc's state, takes the processes over and remembers the cgroup. */
CHECKED enum err_kind sandbox_adopt(struct sandbox *sandbox, sandbox_gone_fn *fn, void *arg,
                                    struct err *err);

/* Notes the uid of one more container. */
void sandbox_add_uid(struct sandbox *sandbox, int64_t uid);

/* SIGKILL; on_gone follows. Fine at any time. */
void sandbox_kill(struct sandbox *sandbox);
bool sandbox_alive(const struct sandbox *sandbox);

/* Processes as they must be once created: own user namespace, nobody's uid, no capability of ours,
 * and the cgroup with exactly these limits. */
CHECKED enum err_kind sandbox_verify_created(const struct sandbox *sandbox, struct err *err);
/* And once started: NoNewPrivs and a seccomp filter on sandbox and gofer. A sandbox that has exited
 * meanwhile is fine. */
CHECKED enum err_kind sandbox_verify_started(const struct sandbox *sandbox, struct err *err);

/* True once the kernel has killed something in its cgroup for lack of memory. Whatever it was (the
 * Sentry, a stub that holds a guest process, the gofer), the whole sandbox goes with it: cgroup v2
 * does that by itself, on v1 the shim does. */
bool sandbox_oom(const struct sandbox *sandbox);
/* True if the Sentry left a panic report; `first` (size bytes) gets its beginning, made printable. */
bool sandbox_panicked(const struct sandbox *sandbox, char *first, size_t size);
