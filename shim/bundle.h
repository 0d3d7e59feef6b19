/*
 * The bundle directory, what the shim keeps in it, and the state file by which the delete command
 * (and newer or older shims) can clean up after a shim that is gone.
 *
 *     <bundle>/config.json     containerd's; read once, strictly
 *     <bundle>/rootfs          where the root is mounted
 *     <bundle>/utter/          0700: the canonical config.json that runsc gets, binds/N
 *     <bundle>/utter-state.json
 *     <bundle>/address         for containerd 1.6 and 1.7
 *
 * Besides, each sandbox has a private directory below BUNDLE_RUN (short: sockets live in it).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"

#define BUNDLE_RUN "/run/utter-shim"
#define BUNDLE_LOCKS BUNDLE_RUN "/locks"
#define BUNDLE_CACHE "/var/lib/utter/runsc" /* what is known of runsc binaries */
#define BUNDLE_STATE_VERSION 1

struct bundle {
    char *path;             /* absolute */
    char *rootfs;           /* <path>/rootfs */
    char *private_dir;      /* <path>/utter */
    char *containerd_state; /* what lies before io.containerd.runtime.v2.task */
    char *containerd_root;  /* from the link `work` */
};

/* Checks that the path is the bundle of this namespace and id and belongs to root alone. */
CHECKED enum err_kind bundle_open(const char *path, const char *ns, const char *id,
                                  struct bundle *out, struct err *err);
void bundle_fini(struct bundle *bundle);

/* config.json, strictly parsed: a regular file of at most 1 MiB that only root can write. A new
 * reference, the caller's. */
CHECKED enum err_kind bundle_load_spec(const char *path, json_t **out, struct err *err);
/* Its text, for who parses it otherwise; the caller frees. */
CHECKED enum err_kind bundle_read_spec(const char *path, char **text, size_t *len, struct err *err);

/* <BUNDLE_RUN>/<32 hex> for containerd's address, namespace and group; the caller frees. */
char *bundle_run_dir(const char *address, const char *ns, const char *group);
/* The shim's socket: <dir>/<64 hex>, dir "/run/containerd/s" unless containerd says another. */
char *bundle_socket(const char *dir, const char *address, const char *ns, const char *group);

/* What the delete command needs. Strings are owned; NULL where not known. */
struct bundle_state {
    char *ns;
    char *id;
    char *group; /* the sandbox's id */
    char *role;  /* "single", "pause", "workload" */
    char *run_dir;
    char *socket;
    char *runsc;  /* the binary that made it */
    char *cgroup; /* path within the hierarchies */
    int64_t cgroup_keep;
    bool cgroup_systemd;
    bool network_sandbox;
    int64_t shim_pid;    /* who serves it, 0 unknown */
    int64_t shim_ticks;  /* with it: this very process */
    int64_t pid;         /* of the sandbox, 0 unknown */
    int64_t start_ticks; /* with it */
    int64_t exit_code;   /* -1 while it runs */
    int64_t exited_s;
    int64_t exited_ns;
};

CHECKED enum err_kind bundle_state_save(const char *bundle, const struct bundle_state *state,
                                        struct err *err);
/* ERR_NOT_FOUND: no state file; ERR_INVALID: one that this shim cannot read. Fields of later
 * versions are ignored as long as their "oldest_reader" allows this one. */
CHECKED enum err_kind bundle_state_load(const char *bundle, struct bundle_state *out,
                                        struct err *err);
void bundle_state_fini(struct bundle_state *state);
