/*
 * containerd-shim-utterconf-v1: the same code with an empty rule table, so that suites which use
 * containerd's default spec can judge the mechanics. Built for tests, never installed.
 */
#include "shim/program.h"

int main(int argc, char **argv)
{
    static const struct program PROGRAM = {
        .name = "containerd-shim-utterconf-v1",
        .runtime = "io.containerd.utterconf.v1",
        .conformance = true,
    };
    return program_main(&PROGRAM, argc, argv);
}
