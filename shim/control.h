/*
 * A gVisor sandbox's control socket (urpc): wait, exec, kill, stats, pids without starting runsc.
 *
 * The peer is the Sentry, which a hostile guest may have taken over: replies are capped, parsed
 * strictly, and only wanted numbers are taken from them. Always true: an open connection has at
 * most one call in flight; every call's callback runs exactly once, from the loop, unless its
 * connection is closed first, and then never; a call whose effect is uncertain is never reported
 * as one that may be repeated by CLI (CONTROL_USE_CLI).
 *
 * Protocol facts: one JSON object per direction, no framing, no pipelining; an idle open connection
 * holds the sandbox's exit back by up to 15 s, so close promptly.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"

#define CONTROL_SHORT_MS 10000
#define CONTROL_PROCESSES_MAX 4096

/* What runsc's state file (<root>/<container>_sandbox:<sandbox>.state) says. */
struct control_state_file {
    char sandbox_id[256];
    char socket[512]; /* controlSocketPath, or "" */
    char version[96]; /* of the runsc that made the sandbox, or "" */
    pid_t sandbox_pid;
    pid_t gofer_pid; /* 0: none */
    uid_t uid;       /* to which exec's stdio is chowned */
    gid_t gid;
};

/* Reads it after `runsc create` has exited (at most 4 MiB). ERR_NOT_FOUND: no such container. */
CHECKED enum err_kind control_state_file_read(const char *root, const char *container,
                                              const char *sandbox, struct control_state_file *out,
                                              struct err *err);

/* What is known of a sandbox: where its socket is, what it understands. */
struct control {
    struct loop *loop;
    char *root; /* owned, as are sandbox and socket */
    char *sandbox;
    char *socket; /* path as stored; may be longer than a sockaddr_un holds */
    uid_t uid;
    gid_t gid;
    uint64_t short_ms; /* deadline of short calls: CONTROL_SHORT_MS */
    bool cli_only;     /* answered wrongly or cannot be reached at all: use the CLI from now on */
    bool has_state;    /* ContainerRuntimeState is known (set by control_identify()) */
    bool has_pgid;     /* Processes names process groups, so Signal mode 3 is safe (set by any
                          control_processes() that returned a process) */
};

/* Copies what it needs. Does not connect. */
struct control *control_new(struct loop *loop, const char *root,
                            const struct control_state_file *state);
/* Connections made from it must be closed before. */
void control_free(struct control *control);
DEFINE_CLEANUP(struct control, control_free, control_freep)

enum control_outcome {
    CONTROL_OK,
    CONTROL_REFUSED, /* the sandbox answered with an error; err has its nearest kind and text */
    CONTROL_USE_CLI, /* cannot have had an effect: the caller may do the same by runsc */
    CONTROL_GONE,    /* the sandbox is exiting or dead: ask its pidfd. Not to be repeated */
    CONTROL_TIMEOUT, /* no answer in time; the effect is unknown. Not to be repeated */
    CONTROL_BROKEN,  /* the answer was malformed or oversized; control->cli_only is set. Not to be
                        repeated */
};

enum control_runtime_state {
    CONTROL_STATE_CREATED = 1,
    CONTROL_STATE_RUNNING = 2,
    CONTROL_STATE_STOPPED = 3, /* or an id the sandbox does not know */
};

struct control_process {
    int32_t pid; /* in the sandbox's root pid namespace, as ExecuteAsync returns them */
    int32_t ppid;
    int32_t pgid; /* 0 where not told */
    uint32_t uid;
    uint32_t threads;
    char cmd[64]; /* made printable */
};

struct control_event {
    uint64_t cpu_ns;       /* usage that the event names (of the whole sandbox's cgroup) */
    uint64_t memory_usage; /* the Sentry's view */
    uint64_t pids;         /* guest processes */
    uint64_t container_ns; /* this container's entry in containerUsage */
    uint64_t all_ns;       /* sum over containerUsage */
    struct control_interface {
        char name[16];
        uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped;
        uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped;
    } interfaces[16];
    size_t n_interfaces;
};

/* Of GetNetworkConfig: what the guest's stack was given at start. */
struct control_network {
    struct control_link {
        char name[16];
        char addresses[8][64]; /* "10.0.0.2/24" */
        size_t n_addresses;
        size_t n_routes; /* on this link */
        bool default_route;
    } links[8];
    size_t n_links;
};

struct control_reply {
    enum control_outcome outcome;
    struct err err;       /* set unless CONTROL_OK; text from the sandbox is escaped */
    uint32_t wait_status; /* Wait, WaitPID: as from waitpid(2), at most 0xffff */
    int32_t pid;          /* ExecuteAsync: > 0 */
    enum control_runtime_state state;
    const struct control_process *processes; /* borrowed for the callback */
    size_t n_processes;
    const struct control_event *event;
    const struct control_network *network;
};

typedef void control_fn(void *arg, const struct control_reply *reply);

/* A connection. */
struct control_conn;

/* Connects (EAGAIN is retried within the deadline of the first call). Never fails at once: what is
 * wrong is told by the first call's callback. */
struct control_conn *control_conn_new(struct control *control);
/* Closes. A callback still due is not called. Never close one with a WaitPID in flight that is
 * still wanted: the sandbox would hand the status to nobody. Fine from inside the callback. */
void control_conn_free(struct control_conn *conn);
DEFINE_CLEANUP(struct control_conn, control_conn_free, control_conn_freep)
bool control_conn_busy(const struct control_conn *conn);
/* False after the peer closed or a call broke: only freeing is left. */
bool control_conn_usable(const struct control_conn *conn);

/* The calls. Each needs a connection that is usable and not busy (asserted). Short ones have a
 * deadline of CONTROL_SHORT_MS; Wait and WaitPID have none. After CONTROL_OK or CONTROL_REFUSED the
 * connection may be used again. */

/* Exit status of a container's first process; before start it is REFUSED with ERR_PRECONDITION. */
void control_wait(struct control_conn *conn, const char *container, control_fn *fn, void *arg);
/* Of a process by ExecuteAsync's pid, on the same connection as that. */
void control_wait_pid(struct control_conn *conn, const char *container, int32_t pid, control_fn *fn,
                      void *arg);

enum control_signal_mode {
    CONTROL_SIGNAL_PROCESS = 0,
    CONTROL_SIGNAL_ALL = 1,        /* every process of the container */
    CONTROL_SIGNAL_FOREGROUND = 2, /* foreground process group of the terminal */
    CONTROL_SIGNAL_GROUP = 3,      /* only after has_pgid: older sandboxes panic; else USE_CLI */
};

/* pid 0: the container's first process. */
void control_signal(struct control_conn *conn, const char *container, int32_t pid, int signo,
                    enum control_signal_mode mode, control_fn *fn, void *arg);
void control_event(struct control_conn *conn, const char *container, control_fn *fn, void *arg);
void control_processes(struct control_conn *conn, const char *container, control_fn *fn, void *arg);
void control_runtime_state(struct control_conn *conn, const char *container, control_fn *fn,
                           void *arg);
/* REFUSED with ERR_UNSUPPORTED where the sandbox does not know the method (before 2025). */
void control_network_config(struct control_conn *conn, control_fn *fn, void *arg);

/* Capability sets as bit masks; all zero is none. */
struct control_caps {
    uint64_t permitted, inheritable, effective, bounding, ambient;
};

struct control_exec {
    const char *container;
    const char *const *argv; /* NULL-terminated, as envv */
    const char *const *envv;
    const char *cwd;
    uint32_t uid, gid;
    const uint32_t *groups; /* further groups */
    size_t n_groups;
    struct control_caps caps; /* always sent: left out means all of them */
    bool no_new_privileges;   /* always sent: left out means no */
    bool terminal;            /* fds[0] is the pty's slave side, used for 0, 1 and 2 */
    /* stdin, stdout, stderr; borrowed for this call (duplicated). FIFOs and terminals are chowned
     * to the sandbox's user as runsc does; devices like /dev/null are not, since theirs is the
     * host's own node. */
    int fds[3];
};

/* Starts a process; reply->pid. */
void control_exec(struct control_conn *conn, const struct control_exec *exec, control_fn *fn,
                  void *arg);

/* Whether the peer is a Sentry, and what it understands: ContainerRuntimeState, which may be
 * unknown to it, with a well-formed answer either way. CONTROL_OK: it is (reply->state where
 * known); sets has_state. The connection stays open for control_wait(). */
void control_identify(struct control_conn *conn, const char *container, control_fn *fn, void *arg);
