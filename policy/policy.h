/*
 * The policy: what a container must be before it may run, in one table, for every enforcer.
 *
 * The shim (Create, Exec, Update, stdio), the program utter-policy and the generated Kubernetes
 * admission policy all read policy/rules.c, so they cannot disagree. Everything here is pure but
 * policy_config_load(): documents and facts in, findings and documents out. What only the host can
 * tell (is the bind source a socket, whose network namespace is this) is the shim's; the report
 * lists it under notes.
 *
 * Order of use for a task:
 *     json_strict_load_file(config.json) → policy_check() → policy_harden() → runsc gets the result
 * A spec that policy_check() refuses must not go on; policy_harden() asserts that it was accepted.
 *
 * Lifetimes: everything borrows but where "the caller's" is said. A report and a list of changes
 * own their strings. A plan borrows from the caller's spec, the hardened tree, the context and the
 * configuration: all four outlive it.
 * Not thread-safe in the sense that none of it locks; it has no state of its own.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"

/* ---- configuration ------------------------------------------------------------------------ */

#define POLICY_CONFIG_PATH "/etc/utter/policy.json"

/* A directory or file that the operator lets containers bind. */
struct policy_bind_entry {
    char *source; /* absolute; what lies below it by path component is allowed */
    bool rw;
    int64_t size; /* bytes; 0: unsized (an rw bind without size is refused under a disk quota) */
};

/* A binary:// logger: the URI must equal binary://PATH?KEY=VALUE… with exactly these pairs. */
struct policy_logger {
    char *path;
    char **keys; /* NULL-terminated, as are values */
    char **values;
};

struct policy_nerdctl {
    char *binary;          /* /usr/local/bin/nerdctl */
    char *address;         /* /run/containerd/containerd.sock */
    char *data_root;       /* /var/lib/nerdctl */
    char *cni_path;        /* /opt/cni/bin */
    char *cni_netconfpath; /* /etc/cni/net.d */
    char *cgroup_manager;  /* NULL: cgroupfs or systemd, as the caller says; else exactly this */
};

/* Values that operators tune. No rule can be switched off. Lists are NULL-terminated. */
struct policy_config {
    int64_t max_memory;    /* bytes, 256 MiB; 32 MiB at least */
    int64_t max_cpu_milli; /* thousandths of a CPU, 500; 100 at least */
    int64_t max_pids;      /* 256; 8 at least: processes and threads of the guest */
    int64_t max_nofile;    /* 1024: open files of a guest process */
    char **env;            /* further environment names, exact */
    char **annotations;    /* further annotation keys, exact; never handed to runsc */
    struct policy_bind_entry *binds;
    size_t n_binds;
    char **snapshotter_roots;  /* further directories that root file systems may come from */
    char **cgroup_parents;     /* further parents; see rule cgroups-path for the built-in ones */
    char **netns_dirs;         /* { "/run/utter/netns" } */
    bool network_cri_cluster;  /* network.cri: "internal" (false) or "cluster" */
    int64_t network_max_ports; /* 4: ports a slug's bridge may have */
    int64_t pod_uids;          /* 4: distinct uids that a pod may hold */
    char **pause_argv;         /* { "/pause" } */
    int64_t timeout_max;       /* seconds, 604800 */
    int64_t timeout_default;   /* seconds, 86400 */
    int64_t disk_quota_max;    /* bytes, 1 GiB */
    struct policy_nerdctl nerdctl;
    struct policy_logger *loggers; /* the configured ones and utter-log; nerdctl's is made anew */
    size_t n_loggers;
    char **log_prefixes; /* directories for file:// logs; empty */
    char *runsc;         /* NULL: /usr/local/bin/runsc, then /usr/bin/runsc */
    char *kubelet_root;  /* /var/lib/kubelet */
};

/* Never NULL; the caller's. */
struct policy_config *policy_config_new_default(void);
/* From the text of a policy.json. ERR_INVALID names the key and what it must be. */
CHECKED enum err_kind policy_config_parse(const json_t *tree, struct policy_config **out,
                                          struct err *err);
/* Reads `path`; an absent file means the defaults only if path is POLICY_CONFIG_PATH. Refused, each
 * with its line: not owned by root, it or a parent writable by others, not strict JSON, an unknown
 * key, a value of the wrong form. */
CHECKED enum err_kind policy_config_load(const char *path, struct policy_config **out,
                                         struct err *err);
void policy_config_free(struct policy_config *config);
DEFINE_CLEANUP(struct policy_config, policy_config_free, policy_config_freep)

/* ---- context ------------------------------------------------------------------------------ */

enum policy_role {
    POLICY_ROLE_AUTO,     /* from namespace and annotations: policy_role_of() */
    POLICY_ROLE_SINGLE,   /* a container with a sandbox of its own */
    POLICY_ROLE_PAUSE,    /* the sandbox container of a CRI pod */
    POLICY_ROLE_WORKLOAD, /* a further container of a CRI pod */
};

struct policy_limits {
    int64_t memory;     /* bytes; swap is always equal */
    int64_t cpu_quota;  /* microseconds */
    int64_t cpu_period; /* microseconds */
    int64_t cpu_shares; /* asked for by an update, 0: not; a create's are in the spec alone */
    int64_t pids;       /* N: what RLIMIT_NPROC says inside the guest */
    int64_t host_pids;  /* 8·N·U + 64: pids.max of the sandbox's cgroup */
    int64_t nofile;
};

/* What the shim knows of the running sandbox that a workload container joins. */
struct policy_pod {
    const char *sandbox_id;
    const char *sandbox_uid;       /* io.kubernetes.cri.sandbox-uid of the pause container */
    const char *sandbox_namespace; /* io.kubernetes.cri.sandbox-namespace */
    int64_t sandbox_pid;           /* the pid that this shim reported for the sandbox */
    struct policy_limits limits;   /* the pod's */
    const int64_t *uids;           /* distinct uids in the pod so far, pause's included */
    size_t n_uids;
};

struct policy_context {
    const char *ns; /* containerd namespace; NULL: guessed from the spec */
    const char *id; /* task id; NULL: guessed from cgroupsPath */
    enum policy_role role;
    const char *bundle;           /* absolute; NULL: root.path must be "rootfs" */
    const char *containerd_root;  /* NULL: /var/lib/containerd */
    const char *containerd_state; /* NULL: /run/containerd */
    /* Create's rootfs mounts: [{"type","source","target","options":[…]}…]; NULL: not known here,
     * noted in the report. An empty array is a violation. */
    const json_t *rootfs;
    const struct policy_pod *pod; /* workload only; NULL: not known here, noted in the report */
};

/* Fills ns and id where NULL (from cgroupsPath, nerdctl's and CRI's annotations) and role where
 * AUTO. Strings are borrowed from the spec or from *store (which must outlive the context). */
struct policy_guess {
    char ns[128];
    char id[128];
};
void policy_context_guess(const json_t *spec, struct policy_context *context,
                          struct policy_guess *store);
/* The role by namespace and annotations alone; never AUTO. */
enum policy_role policy_role_of(const json_t *spec, const char *ns);

/* ---- reports ------------------------------------------------------------------------------ */

struct policy_rule;

struct policy_finding {
    const struct policy_rule *rule;
    char *at;        /* JSON pointer to what was found or is missing; may hold any character */
    char *found;     /* escaped, one line, at most 200 bytes */
    const char *fix; /* for the tool that wrote the document */
};

enum policy_tool {
    POLICY_TOOL_CTR,
    POLICY_TOOL_NERDCTL,
    POLICY_TOOL_POD,
};

struct policy_report {
    struct policy_finding *findings;
    size_t n;
    char **notes; /* "verified at start: …": what only the host can tell */
    size_t n_notes;
    bool malformed; /* a finding is about form (json, schema): gRPC code 3, else 9 */
    enum policy_tool tool;
};

void policy_report_init(struct policy_report *report);
void policy_report_fini(struct policy_report *report);
/* The one refusal text: "utter: refused: RULE: FOUND (FIX); RULE: …". The caller frees. NULL when
 * there is no finding. */
char *policy_report_text(const struct policy_report *report);
/* One finding: "RULE: FOUND (FIX)". The caller frees. */
char *policy_finding_text(const struct policy_finding *finding);
bool policy_report_has(const struct policy_report *report, const char *rule);
/* A violation that the shim found on the host, told in the same form: `rule` is an id of the table
 * (asserted), found is printf-like. */
void policy_report_add(struct policy_report *report, const char *rule, const char *at,
                       const char *found, ...) PRINTF_LIKE(4, 5);
/* ERR_OK without findings; else ERR_INVALID (malformed) or ERR_PRECONDITION with the refusal text:
 * as many whole findings as err holds, then "and N more". */
CHECKED enum err_kind policy_report_err(const struct policy_report *report, struct err *err);

struct policy_change {
    char *at;   /* JSON pointer in the hardened document */
    char *what; /* "absent, set to the maximum 256" */
};

struct policy_changes {
    struct policy_change *items;
    size_t n;
};

void policy_changes_init(struct policy_changes *changes);
void policy_changes_fini(struct policy_changes *changes);

/* Reads a spec, a process or resources: strict JSON of at most 1 MiB. A new reference, or NULL with
 * a finding of rule "json" (malformed). Everything that comes from outside is read this way. */
json_t *policy_document_parse(const char *text, size_t len, struct policy_report *report);

/* ---- create ------------------------------------------------------------------------------- */

/* Judges a whole spec (and Create's rootfs mounts). Every violation is added to the report. */
void policy_check(const json_t *spec, const struct policy_context *context,
                  const struct policy_config *config, struct policy_report *report);

enum policy_network_mode {
    POLICY_NETWORK_NONE,    /* runsc --network=none; the namespace must hold nothing but lo */
    POLICY_NETWORK_SANDBOX, /* runsc --network=sandbox; content checked after create and before
                               start */
};

enum policy_bind_kind {
    POLICY_BIND_TOOL_FILE, /* hosts, hostname, resolv.conf: a regular file with one link; ro */
    POLICY_BIND_TERMINATION_LOG, /* as above, rw; over 64 KiB kills */
    POLICY_BIND_OPERATOR,        /* on the operator's list */
    POLICY_BIND_EMPTY_DIR,       /* a pod's emptyDir: rw unless the spec says ro */
};

/* A bind of the hardened spec, whose source the shim replaces by its own verified mount. */
struct policy_bind {
    size_t mount; /* index in the hardened spec's /mounts */
    const char *destination;
    const char *source; /* as the caller wrote it: open it without following symlinks */
    enum policy_bind_kind kind;
    bool rw;
    int64_t size; /* bytes for a sized rw bind of the operator, else 0 */
};

#define POLICY_TERMINATION_LOG_MAX (64 * 1024)

/* What the shim has to make true and verify, read off the accepted spec. */
struct policy_plan {
    enum policy_role role;
    struct policy_limits limits; /* workload: the pod's */
    enum policy_network_mode network;
    bool network_internal;       /* what is found must be an internal network; false only for CRI
                                    with network.cri "cluster" */
    const char *network_address; /* "10.88.0.2/24": exactly this must be found; NULL: not stated */
    const char *netns;           /* path of the network namespace; NULL: a fresh one */
    bool network_hook;           /* nerdctl's createRuntime hook attaches the network */
    bool terminal;
    int64_t uid;
    int64_t gid;
    int64_t timeout;    /* seconds, never 0 */
    int64_t disk_quota; /* bytes; 0: none asked for */
    struct policy_bind *binds;
    size_t n_binds;
    const char *sandbox_id; /* pods: the pod's; else NULL */
    bool systemd_cgroup;    /* cgroupsPath has the form slice:prefix:id */
};

void policy_plan_fini(struct policy_plan *plan);

/* The document that runsc gets, a new reference and the caller's: rebuilt from the accepted spec
 * with every adjustment of the rules page made. Each adjustment is added to changes. root.path is
 * left as the caller wrote it: the shim puts its own absolute path there, and its own source in
 * each mount of plan->binds. `context` needs ns, id, role and, for a workload, pod. Never NULL. */
json_t *policy_harden(const json_t *spec, const struct policy_context *context,
                      const struct policy_config *config, struct policy_plan *plan,
                      struct policy_changes *changes);

/* The nearest spec that policy_check() accepts, for API clients: what can be mended by rule is
 * mended and recorded. A new reference, the caller's. What cannot be mended (a foreign root file
 * system, say) is still in it: check it again. */
json_t *policy_nearest(const json_t *spec, const struct policy_context *context,
                       const struct policy_config *config, struct policy_changes *changes);

/* The CPUs and memory nodes that a spec names are this host's. Part of policy_check_host(), and
 * what the shim asks at Create. */
void policy_check_cpuset(const json_t *spec, struct policy_report *report);

/* What the machine at hand can say of a spec before it is started: bind sources, hook program,
 * network namespace, cgroup. Touches the file system; the shim does the same with file descriptors
 * that it keeps. */
void policy_check_host(const json_t *spec, const struct policy_context *context,
                       const struct policy_config *config, struct policy_report *report);

/* Options to paste for a container that is accepted, one a line, made from the maxima. The caller
 * frees. */
char *policy_flags(enum policy_tool tool, const struct policy_config *config);

/* ---- exec --------------------------------------------------------------------------------- */

/* Judges the process of an exec against its container's accepted spec (as the caller wrote it or
 * hardened). */
void policy_check_exec(const json_t *process, const json_t *container,
                       const struct policy_context *context, const struct policy_config *config,
                       struct policy_report *report);

/* The process document that runsc gets: a new reference, the caller's. Always: noNewPrivileges
 * true, five empty capability sets, the container's uid, gid and rlimits; no apparmor, no SELinux,
 * no oomScoreAdj. */
json_t *policy_harden_exec(const json_t *process, const json_t *container,
                           const struct policy_context *context, const struct policy_config *config,
                           struct policy_changes *changes);

/* ---- update ------------------------------------------------------------------------------- */

/* Judges the resources of an Update against the limits in force (the sandbox's own, in a pod the
 * pod's). On acceptance *wanted holds the limits that must then be in force: absent keeps, pids
 * never changes. wanted may be NULL. Below-current-usage is the host's to say: add it with
 * policy_report_add(report, "update", …). */
void policy_check_update(const json_t *resources, const struct policy_limits *in_force,
                         const struct policy_context *context, const struct policy_config *config,
                         struct policy_limits *wanted, struct policy_report *report);

/* The limits that an accepted or hardened spec asks for (host_pids for U uids). */
struct policy_limits policy_limits_of(const json_t *spec, const struct policy_context *context,
                                      const struct policy_config *config);
int64_t policy_host_pids(int64_t pids, int64_t uids);

/* ---- stdio -------------------------------------------------------------------------------- */

enum policy_stdio_kind {
    POLICY_STDIO_NONE, /* empty: /dev/null */
    POLICY_STDIO_FIFO, /* a plain path: must turn out to be a FIFO */
    POLICY_STDIO_FILE, /* file:// below a configured prefix */
    POLICY_STDIO_BINARY,
};

struct policy_stdio {
    enum policy_stdio_kind kind;
    char path[4096];    /* FIFO: the path; FILE: below `prefix`, relative; BINARY: the program */
    const char *prefix; /* FILE: the configured directory */
    const struct policy_logger *logger; /* BINARY: the entry that the URI equals, or NULL for
                                           nerdctl's own, whose pairs are in keys and values */
    char value[4096]; /* BINARY, nerdctl: the one value of _NERDCTL_INTERNAL_LOGGING */
};

/* The pure part of the IO rules for one of stdin, stdout, stderr ("stdin" takes plain paths only).
 * A violation is added to the report under rule "stdio". `spec` (the container's) gives nerdctl's
 * state directory; NULL: nerdctl's logger is accepted by its configured data root alone. */
void policy_check_stdio(const char *uri, const char *which, const json_t *spec,
                        const struct policy_context *context, const struct policy_config *config,
                        struct policy_stdio *out, struct policy_report *report);

/* ---- the table ---------------------------------------------------------------------------- */

enum policy_surface {
    POLICY_ON_CREATE = 1,
    POLICY_ON_ROOTFS = 2,
    POLICY_ON_EXEC = 4,
    POLICY_ON_UPDATE = 8,
    POLICY_ON_STDIO = 16,
    POLICY_ON_HOST = 32, /* found by the shim on the host only */
};

struct policy_check_run; /* policy/check.h */

struct policy_rule {
    const char *id;
    const char *at;       /* JSON pointer, "*" for any member */
    const char *required; /* what must hold, one sentence */
    const char *why;
    const char *fix_nerdctl;
    const char *fix_ctr;
    const char *fix_pod;
    const char *cel; /* a CEL expression over a Pod (`object`), true when the rule holds; NULL where
                        a Pod cannot say */
    unsigned surfaces; /* of enum policy_surface */
    void (*check)(struct policy_check_run *run);
};

/* All rules in the order of the table; *n is their number. */
const struct policy_rule *policy_rules(size_t *n);
/* NULL if there is none. */
const struct policy_rule *policy_rule_find(const char *id);
const char *policy_rule_fix(const struct policy_rule *rule, enum policy_tool tool);
