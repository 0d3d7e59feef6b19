#include "shim/program.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "shim/commands.h"

static int usage(const struct program *program)
{
    (void)printf("%s: containerd shim for %s; containerd starts it.\n"
                 "usage: %s -namespace NS -address SOCKET -publish-binary BIN -id ID "
                 "[-bundle DIR] [-debug] start|delete\n"
                 "       %s -v | -info\n",
                 program->name, program->runtime, program->name, program->name);
    return 0;
}

/* The program without rules runs only beside a containerd that a test made for it. */
static CHECKED enum err_kind check_place(const struct program *program,
                                         const struct bootstrap *boot, struct err *err)
{
    if (!program->conformance)
        return ERR_OK;
    const char *dir = getenv("UTTERCONF_DIR");
    bool ours = dir && text_starts(dir, "/tmp/") && !strstr(dir, "..") && strlen(dir) > 5;
    if (!ours || strncmp(boot->address, dir, strlen(dir)) != 0 ||
        boot->address[strlen(dir)] != '/' || strstr(boot->address, "/../"))
        return err_set(err, ERR_PRECONDITION,
                       "%s applies no rule and runs in tests only: containerd's address must lie "
                       "below UTTERCONF_DIR, a directory below /tmp",
                       program->name);
    return ERR_OK;
}

static CHECKED enum err_kind act(const struct program *program, struct bootstrap *boot,
                                 struct err *err)
{
    if (boot->action == BOOTSTRAP_INFO)
        return command_info(program, err);
    enum err_kind kind = check_place(program, boot, err);
    if (kind)
        return kind;
    return boot->action == BOOTSTRAP_START ? command_start(program, boot, err)
                                           : command_delete(boot, err);
}

int program_main(const struct program *program, int argc, char **argv)
{
    (void)umask(077);
    struct bootstrap boot;
    struct err err = { 0 };
    if (bootstrap_args(argc, (const char *const *)argv, &boot, &err)) {
        (void)fprintf(stderr, "%s: %s\n", program->name, err.msg);
        return 2;
    }
    if (boot.action == BOOTSTRAP_HELP)
        return usage(program);
    if (boot.action == BOOTSTRAP_VERSION) {
        (void)printf("%s:\n  Version:  %s\n", program->name, UTTER_VERSION);
        return 0;
    }
    boot.ttrpc_address = getenv("TTRPC_ADDRESS");
    if (act(program, &boot, &err)) {
        (void)fprintf(stderr, "%s: %s\n", program->name, err.msg);
        return 1;
    }
    return 0;
}
