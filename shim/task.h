/*
 * A container and its execs, as containerd's Task service sees them.
 *
 * Every operation that changes something asks the state table first, acts, and steps on success;
 * it ends by calling its `done` exactly once, now or later, with ERR_OK or the reason. At most one
 * long operation (create, start, delete, pause, resume, update) is under way per task; another one
 * is ERR_PRECONDITION. Kill, exec, state, wait, stats and pids work beside it.
 *
 * A process's exit is published after its start, OOM before exit, an init's exit after its execs'.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "policy/policy.h"
#include "shim/bundle.h"
#include "shim/events.h"
#include "shim/process.h"
#include "shim/rootfs.h"
#include "shim/sandbox.h"

/* What all tasks of one shim share. Fields are the owner's (main.c or a test). */
struct shim {
    struct loop *loop;
    struct children children;
    struct events *events;
    const struct policy_config *config;
    struct cgroup_host *cgroups;
    const char *ns;
    const char *group;   /* the id that the sandbox has */
    const char *run_dir; /* private directory of this group, 0700 */
    const char *socket;  /* what the shim listens on; for the state file */
    bool conformance;    /* the test-only program: no rule is applied */
    struct task *tasks;
    struct sandbox *sandbox; /* NULL before the first create and after its delete */
};

typedef void task_done_fn(void *arg, const struct err *err);

struct task;

struct exec {
    struct process process;
    struct task *task;
    char *id;
    json_t *doc;               /* the hardened process document */
    struct control_conn *conn; /* from start to exit */
    int32_t guest_pid;
    bool starting;
    task_done_fn *done;
    void *arg;
    struct exec *next;
};

struct task {
    struct shim *shim;
    struct task *next;
    char *id;
    struct process process;
    struct bundle bundle;
    enum policy_role role;
    json_t *asked;               /* the caller's spec, without its seccomp profile */
    json_t *spec;                /* what runsc was given, likewise */
    struct policy_plan plan;     /* borrows from both */
    struct policy_limits limits; /* asked for by this container */
    struct sandbox *sandbox;     /* shim's; NULL while there is none */
    struct cgroup_path leaf;     /* a workload's: empty, made by runsc */
    bool leaf_claimed;
    struct control_conn *wait_conn;
    int netns_fd;                  /* what the spec named; -1 */
    const char *busy;              /* the long operation under way; NULL */
    bool runsc_knows;              /* runsc create has been run */
    struct runsc_held *start_held; /* its start, begun while its create runs; NULL */
    bool timed_out;
    bool wait_done;
    uint32_t wait_status;
    bool gone_pending;  /* the sandbox went while start was under way */
    uint32_t kill_code; /* a created container killed before its start: 128 + signal; 0 */
    struct loop_timer timeout;
    struct loop_timer linger;    /* exited by its own word, but its sandbox is still there */
    struct loop_timer log_watch; /* termination-log */
    int log_fd;
    struct console *console;
    struct creation *creation;
    struct teardown *teardown;
    task_done_fn *done;
    void *arg;
    struct exec *execs;
};

struct task_create_request {
    const char *id;
    const char *bundle;
    const struct rootfs_request *rootfs;
    size_t n_rootfs;
    struct streams_request streams;
    bool checkpoint; /* a checkpoint was named */
};

struct task *task_find(const struct shim *shim, const char *id);
struct exec *exec_find(const struct task *task, const char *exec_id);

/* task_create.c. The request is borrowed until done. */
void task_create(struct shim *shim, const struct task_create_request *request, task_done_fn *done,
                 void *arg);
/* task_start.c. Begins the start ahead of its time; it touches nothing before task_start(). */
void task_start_ahead(struct task *task);
void task_start(struct task *task, task_done_fn *done, void *arg);
/* task_delete.c: on success the task is freed after done has been called with it still whole. */
void task_delete(struct task *task, task_done_fn *done, void *arg);
/* Takes everything of it off the host; fn is told of the first failure. */
void task_teardown(struct task *task, task_done_fn *done, void *arg);
/* The sandbox that a teardown waits for is gone. */
void task_teardown_sandbox_gone(struct shim *shim);
void task_free(struct task *task);

/* task_signal.c */
void task_kill(struct task *task, struct exec *exec, uint32_t signal, bool all, task_done_fn *done,
               void *arg);
/* task_control.c */
void task_pause(struct task *task, task_done_fn *done, void *arg);
void task_resume(struct task *task, task_done_fn *done, void *arg);
void task_update(struct task *task, const uint8_t *json, size_t len, task_done_fn *done, void *arg);
typedef void task_stats_fn(void *arg, const struct err *err, const struct buf *packed,
                           const char *type_url);
void task_stats(struct task *task, task_stats_fn *done, void *arg);
typedef void task_pids_fn(void *arg, const struct err *err, const struct control_process *processes,
                          size_t n);
void task_pids(struct task *task, task_pids_fn *done, void *arg);

/* task_exec.c */
struct task_exec_request {
    const char *exec_id;
    struct streams_request streams;
    const uint8_t *spec; /* JSON of the process */
    size_t spec_len;
};
CHECKED enum err_kind task_exec(struct task *task, const struct task_exec_request *request,
                                struct err *err);
void exec_start(struct exec *exec, task_done_fn *done, void *arg);
/* Answers a start under way. */
void exec_start_end(struct exec *exec, const struct err *err);
CHECKED enum err_kind exec_delete(struct exec *exec,
                                  struct err *err); /* unlinks, frees by caller */
void exec_free(struct exec *exec);
void exec_exited(struct exec *exec, uint32_t code); /* records, publishes, wakes */

/* task_exit.c */
void task_on_sandbox_gone(void *shim);
/* The status of the first process came from the sandbox. */
void task_wait_began(struct task *task);
/* Records, publishes (execs first) and wakes. */
void task_exited(struct task *task, uint32_t code);
void task_arm_timeout(struct task *task);

/* Marks a long operation; ERR_PRECONDITION while another is under way. */
CHECKED enum err_kind task_begin(struct task *task, const char *what, task_done_fn *done, void *arg,
                                 struct err *err);
/* Ends it and tells. */
void task_end(struct task *task, const struct err *err);
