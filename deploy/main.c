/*
 * utter-deploy: one file to a paid endpoint. Commands, options, exit codes.
 *
 * 0 done, 1 failed or drift found, 2 misuse.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "deploy/commands.h"
#include "deploy/init.h"

struct command {
    const char *name;
    const char *args;
    const char *about;
    int least, most; /* positional arguments */
    enum err_kind (*run)(const struct command_line *line, struct err *err);
};

static enum err_kind command_init(const struct command_line *line, struct err *err)
{
    return init_run(stdin, stdout, line->args[0], err);
}

static const struct command commands[] = {
    { "init", "FILE", "ask five things and write an endpoint's file", 1, 1, command_init },
    { "up", "FILE", "deploy an endpoint, or make it what its file says now", 1, 1, command_up },
    { "down", "[--purge] [--force] SLUG", "remove an endpoint; its ledger stays without --purge", 1,
      1, command_down },
    { "ls", "[--json]", "list the endpoints", 0, 0, command_ls },
    { "status", "[--json] SLUG", "handler, gate, route, limits, payments", 1, 1, command_status },
    { "logs", "SLUG [handler|gate|data]", "what a container printed", 1, 2, command_logs },
    { "check", "FILE", "read a file and say what is wrong with it", 1, 1, command_check },
    { "doctor", "", "whether this host can, each check with its fix", 0, 0, command_doctor },
    { "audit", "[--live] [SLUG]", "what runs now against the plan", 0, 1, command_audit },
    { "watch", "[--once]", "keep everything deployed true", 0, 0, command_watch },
    { "token", "SLUG FILE", "hand a new facilitator token over", 2, 2, command_token },
    { "rotate", "SLUG", "make a new key pair for its data tokens", 1, 1, command_rotate },
    { "backup", "SLUG DIR", "copy ledger, configuration and token", 2, 2, command_backup },
    { "restore", "SLUG DIR", "put a backup back, before up", 2, 2, command_restore },
    { "upgrade", "--gate IMAGE [SLUG… | --all]", "move gates to another image, one after the other",
      0, 99, command_upgrade },
    { "render", "compose|kubernetes|traefik|cni|gate FILE", "print the plan as files", 2, 2,
      command_render },
    { "image", "gate|data PROGRAM [NAME] | import ARCHIVE NAME", "put an image into containerd", 2, 3,
      command_image },
    { "exec", "SLUG …", "refused: nothing runs beside a handler", 0, 99, command_exec },
};

static void usage(FILE *out)
{
    (void)fprintf(out, "usage: utter-deploy [--settings FILE] COMMAND …\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        (void)fprintf(out, "  %-8s %-40s %s\n", commands[i].name, commands[i].args,
                      commands[i].about);
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int run(const struct command *command, const struct command_line *line)
{
    struct err err = { 0 };
    if (line->n_args < command->least || line->n_args > command->most) {
        (void)fprintf(stderr, "usage: utter-deploy %s %s\n", command->name, command->args);
        return 2;
    }
    if (command->run(line, &err) == ERR_OK)
        return 0;
    (void)fprintf(stderr, "utter-deploy: %s\n", err.msg);
    return 1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "settings", required_argument, NULL, 's' }, { "json", no_argument, NULL, 'j' },
        { "purge", no_argument, NULL, 'p' },          { "force", no_argument, NULL, 'f' },
        { "help", no_argument, NULL, 'h' },           { "version", no_argument, NULL, 'V' },
        { "live", no_argument, NULL, 'l' },           { "all", no_argument, NULL, 'a' },
        { "gate", required_argument, NULL, 'g' },     { "once", no_argument, NULL, 'o' },
        { "wait", required_argument, NULL, 'w' },     { NULL, 0, NULL, 0 },
    };
    struct command_line line = { .settings = SETTINGS_PATH, .wait_s = 30 };
    for (int c; (c = getopt_long(argc, argv, "hV", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            line.settings = optarg;
            break;
        case 'j':
            line.json = true;
            break;
        case 'p':
            line.purge = true;
            break;
        case 'f':
            line.force = true;
            break;
        case 'l':
            line.live = true;
            break;
        case 'a':
            line.all = true;
            break;
        case 'o':
            line.once = true;
            break;
        case 'g':
            line.gate = optarg;
            break;
        case 'w':
            line.wait_s = atoi(optarg);
            break;
        case 'h':
            usage(stdout);
            return 0;
        case 'V':
            puts("utter-deploy " UTTER_VERSION);
            return 0;
        default:
            return 2;
        }
    }
    const struct command *command = optind < argc ? find(argv[optind]) : NULL;
    if (!command) {
        usage(stderr);
        return 2;
    }
    line.args = (const char *const *)argv + optind + 1;
    line.n_args = argc - optind - 1;
    return run(command, &line);
}
