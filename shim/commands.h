/*
 * What containerd runs the shim for: start (which leaves a daemon), delete, -info.
 */
#pragma once

#include "base/err.h"
#include "policy/policy.h"
#include "shim/bootstrap.h"
#include "shim/program.h"

/* start.c: prints the address on success. */
CHECKED enum err_kind command_start(const struct program *program, struct bootstrap *boot,
                                    struct err *err);
/* delete.c: cleans up and prints a DeleteResponse; idempotent, within containerd's 5 s. */
CHECKED enum err_kind command_delete(const struct bootstrap *boot, struct err *err);
/* info.c: prints RuntimeInfo. */
CHECKED enum err_kind command_info(const struct program *program, struct err *err);

/* serve.c: what the daemon does until containerd shuts it down. */
struct serve {
    const struct program *program;
    const struct bootstrap *boot;
    const struct policy_config *config;
    const char *group;
    const char *run_dir;
    const char *socket;
    int listener;       /* taken */
    const char *bundle; /* of the container that it is started for */
    int ready;          /* a byte is written here once it serves; taken */
};
CHECKED enum err_kind serve_run(const struct serve *serve, struct err *err);
