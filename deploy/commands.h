/*
 * One function per command of utter-deploy: from a command line to the work.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "deploy/settings.h"

struct command_line {
    const char *settings;
    const char *const *args; /* without the command's name; borrowed */
    int n_args;
    bool json, purge, force, live, all, once;
    const char *gate;
    int wait_s;
};

CHECKED enum err_kind command_up(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_down(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_ls(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_status(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_logs(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_check(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_image(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_doctor(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_audit(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_watch(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_rotate(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_token(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_backup(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_restore(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_upgrade(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_render(const struct command_line *line, struct err *err);
CHECKED enum err_kind command_exec(const struct command_line *line, struct err *err);
