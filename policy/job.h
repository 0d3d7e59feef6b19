/*
 * Inside utter-policy: the options and documents of one command. Touches files.
 */
#pragma once

#include "policy/policy.h"

#define EXIT_USAGE 2

struct options {
    const char *config;
    const char *role;
    const char *ns;
    const char *id;
    const char *rootfs;
    const char *exec;
    const char *update;
    bool host;
    bool json;
};

/* One loaded run of `check` or `harden`. */
struct job {
    struct options options;
    struct policy_config *config;
    struct policy_context context;
    struct policy_guess guess;
    json_t *spec;
    json_t *rootfs;
    json_t *extra; /* the exec's process or the update's resources */
};

/* Reads the options of a subcommand into `options`; EXIT_USAGE after a line on standard error. */
int options_parse(int argc, char **argv, struct options *options);
/* Loads configuration and documents as the options say. What is no strict JSON is a finding in the
 * report (and leaves job->spec or job->extra NULL), what cannot be read an error. */
CHECKED enum err_kind job_load(struct job *job, const char *spec, struct policy_report *report,
                               struct err *err);
void job_fini(struct job *job);
/* "auto", "single", … */
const char *role_name(enum policy_role role);
