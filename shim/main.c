/* containerd-shim-utter-v1: gVisor or nothing. */
#include "shim/program.h"

int main(int argc, char **argv)
{
    static const struct program PROGRAM = {
        .name = "containerd-shim-utter-v1",
        .runtime = "io.containerd.utter.v1",
    };
    return program_main(&PROGRAM, argc, argv);
}
