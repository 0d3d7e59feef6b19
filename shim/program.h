/*
 * The whole program behind main(): the shim as installed, and the test-only one without rules.
 */
#pragma once

#include <stdbool.h>

struct program {
    const char *name;    /* "containerd-shim-utter-v1" */
    const char *runtime; /* "io.containerd.utter.v1" */
    bool conformance; /* no rule is applied: never installed, refuses outside a test's directory */
};

/* Returns the exit status. */
int program_main(const struct program *program, int argc, char **argv);
