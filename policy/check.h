/*
 * Inside policy/: one run of the rules over one document, and what rule functions share.
 *
 * A rule's check looks at the run and calls policy_find() for each violation; the engine knows
 * which rule is asking. Checks never change anything and never depend on another check having
 * run. Every jansson accessor yields NULL, 0 or "" on a value of the wrong type (that the type is
 * wrong is rule schema's finding), so a check needs no type tests of its own to be safe.
 */
#pragma once

#include "base/json.h"
#include "policy/mount.h"
#include "policy/policy.h"

struct policy_check_run {
    const json_t *spec;                   /* create: the whole document; exec: NULL */
    const json_t *process;                /* create: /process; exec: the document */
    const json_t *resources;              /* create: /linux/resources; update: the document */
    const json_t *container;              /* exec: the container's spec; else NULL */
    const struct policy_limits *in_force; /* update; else NULL */
    struct policy_context context;        /* with ns, id and role filled in */
    const struct policy_config *config;
    struct policy_report *report;
    const struct policy_rule *rule;
    const char *process_at;   /* pointer of `process` in its document: "/process" or "" */
    const char *resources_at; /* "/linux/resources" or "" */
    bool cri;                 /* written by CRI: namespace k8s.io with a container-type */
    struct mount_view *mounts;
    size_t n_mounts;
};

/* A JSON pointer made on the spot: policy_find(run, at("/mounts/%zu", i).s, "…"). */
struct at {
    char s[320];
};
struct at at(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* The pointer of a member whose key may hold anything: '/' and '~' are escaped. */
struct at member_at(const char *object, const char *key);
struct at annotation_at(const char *key);

/* Reports a violation of the rule that is being checked. */
void policy_find(struct policy_check_run *run, const char *pointer, const char *found, ...)
    PRINTF_LIKE(3, 4);
/* "verified at start: …" */
void policy_note(struct policy_check_run *run, const char *note, ...) PRINTF_LIKE(2, 3);

/* Also used by report.c. */
void report_add(struct policy_report *report, const struct policy_rule *rule, const char *pointer,
                const char *found, va_list args) PRINTF_LIKE(4, 0);
void changes_add(struct policy_changes *changes, const char *pointer, const char *what, ...)
    PRINTF_LIKE(3, 4);

/* ---- what documents are asked again and again ------------------------------------------- */

/* A member's string, "" if absent or no string. */
const char *member_str(const json_t *object, const char *key);
/* An annotation of the spec, NULL if absent. */
const char *spec_annotation(const json_t *spec, const char *key);
/* A member's integer, `absent` if absent or no integer. */
int64_t member_int(const json_t *object, const char *key, int64_t absent);
bool member_true(const json_t *object, const char *key);
/* "", 0, false, [], {} and objects and arrays of nothing else. */
bool json_is_empty(const json_t *value);
bool list_has(char *const *list, const char *value);

/* Absolute, no empty, "." or ".." component, no trailing slash ("/" itself is fine). */
bool path_is_clean(const char *path);
/* Equal to dir or below it by component. */
bool path_below(const char *path, const char *dir);
/* One or more bytes of [A-Za-z0-9_.-], starting with a letter or digit. */
bool name_is_plain(const char *name);
/* As containerd takes them: letters and digits, single '.', '_' or '-' between; 76 bytes. */
bool id_is_valid(const char *id);
/* A DNS host name (labels of letters, digits, '-', also '_'), 253 bytes. */
bool hostname_is_valid(const char *name);
bool ip_is_valid(const char *text);

/* Written by the kubelet, dropped by policy_harden(). */
bool unified_is_dropped(const char *key, const char *value);

/* More are refused by rule mount-type, and not looked at. */
#define MOUNTS_MAX 64

/* Sizes that tools give /dev, /run and /dev/shm by themselves. */
#define TOOL_TMPFS_SIZE (65536 * 1024)

/* What the spec limits, CRI's sandbox-* annotations of a pause container included; 0 if it does
 * not, negative as it stands. */
int64_t spec_memory(const json_t *spec);
int64_t spec_cpu_quota(const json_t *spec);
int64_t spec_cpu_period(const json_t *spec);
/* The pod's CPU shares of a pause container, 0 if there are none. */
int64_t spec_sandbox_shares(const json_t *spec);
/* A weight over what the quota is worth only serves to push others aside. */
int64_t shares_within(int64_t asked, int64_t quota, int64_t period);

/* ---- the checks, by topic; each is named by the row of rules.c that points to it --------- */

void check_schema(struct policy_check_run *run);
void check_field(struct policy_check_run *run);
void check_devices(struct policy_check_run *run);
void check_selinux(struct policy_check_run *run);
void check_user_namespace(struct policy_check_run *run);

void check_no_new_privileges(struct policy_check_run *run);
void check_capabilities(struct policy_check_run *run);
void check_user(struct policy_check_run *run);
void check_args(struct policy_check_run *run);
void check_cwd(struct policy_check_run *run);
void check_terminal(struct policy_check_run *run);
void check_rlimits(struct policy_check_run *run);
void check_hostname(struct policy_check_run *run);
void check_exec_user(struct policy_check_run *run);

void check_env_form(struct policy_check_run *run);
void check_env_name(struct policy_check_run *run);
void check_env_value(struct policy_check_run *run);
void check_env_secret(struct policy_check_run *run);

void check_namespace(struct policy_check_run *run);
void check_network(struct policy_check_run *run);

void check_root_path(struct policy_check_run *run);
void check_root_readonly(struct policy_check_run *run);
void check_rootfs_type(struct policy_check_run *run);
void check_rootfs_source(struct policy_check_run *run);
void check_rootfs_options(struct policy_check_run *run);

void check_mount_type(struct policy_check_run *run);
void check_mount_destination(struct policy_check_run *run);
void check_mount_options(struct policy_check_run *run);
void check_mount_readonly(struct policy_check_run *run);
void check_tmpfs_options(struct policy_check_run *run);
void check_tmpfs_size(struct policy_check_run *run);
void check_bind_source(struct policy_check_run *run);
void check_tool_file(struct policy_check_run *run);
void check_service_account(struct policy_check_run *run);
void check_masked_paths(struct policy_check_run *run);

void check_memory(struct policy_check_run *run);
void check_cpu(struct policy_check_run *run);
void check_cpuset(struct policy_check_run *run);
void check_pids(struct policy_check_run *run);
void check_unified(struct policy_check_run *run);
void check_cgroups_path(struct policy_check_run *run);
void check_sysctl(struct policy_check_run *run);
void check_seccomp(struct policy_check_run *run);
void check_update(struct policy_check_run *run);

void check_hooks(struct policy_check_run *run);
void check_annotations(struct policy_check_run *run);
void check_nerdctl(struct policy_check_run *run);
void check_timeout(struct policy_check_run *run);
void check_disk_quota(struct policy_check_run *run);
void check_pod(struct policy_check_run *run);
void check_pod_uids(struct policy_check_run *run);
void check_pause(struct policy_check_run *run);
