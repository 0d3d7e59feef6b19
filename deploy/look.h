/*
 * The commands of utter-deploy that only look.
 */
#pragma once

#include "base/err.h"
#include "deploy/deploy.h"

CHECKED enum err_kind look_ls(struct deploy *deploy, bool json, struct err *err);
CHECKED enum err_kind look_status(struct deploy *deploy, const char *slug, bool json,
                                  struct err *err);
/* role: "handler" or "gate". */
CHECKED enum err_kind look_logs(struct deploy *deploy, const char *slug, const char *role,
                                struct err *err);
