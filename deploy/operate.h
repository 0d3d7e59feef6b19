/*
 * Operating what is deployed: token, backup, restore, upgrade.
 */
#pragma once

#include "base/err.h"
#include "deploy/deploy.h"

/* Replaces the facilitator token: the durable copy, then the gate's, each by rename. */
CHECKED enum err_kind operate_token(struct deploy *deploy, const char *slug, const char *file,
                                    struct err *err);
/* A new key pair for the data tokens of a slug that is up (rotate.h). */
CHECKED enum err_kind operate_rotate(struct deploy *deploy, const char *slug, struct err *err);
/* Into an empty or absent directory (0700): ledger (SQLite's online backup), plan, token. The data
 * token's key is not part of it. */
CHECKED enum err_kind operate_backup(struct deploy *deploy, const char *slug, const char *dir,
                                     struct err *err);
/* For a slug that is down. Payments that were not final in the copy become unknown: what happened
 * to them since is for reconciliation to find out. */
CHECKED enum err_kind operate_restore(struct deploy *deploy, const char *slug, const char *dir,
                                      struct err *err);
/* `slugs` NULL: all. Each by its recorded file; stops at the first failure. */
CHECKED enum err_kind operate_upgrade(struct deploy *deploy, const char *image,
                                      const char *const *slugs, int n, struct err *err);
