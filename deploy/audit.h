/*
 * `audit`: what runs now against the plan, from the host's own view. `doctor`: whether this host
 * can.
 */
#pragma once

#include "base/err.h"
#include "deploy/deploy.h"

/* Every drift is a line; ERR_PRECONDITION when there was one. `live` also looks from
 * inside gVisor, from a throw-away container at the slug's free address; it takes the slug's lock. */
CHECKED enum err_kind audit_run(struct deploy *deploy, const char *slug, bool live,
                                struct err *err);

/* Every check with what was found and, where it is not good, the fix. ERR_PRECONDITION when one is
 * that `up` cannot do without. `quiet`: only that one, as the error. */
CHECKED enum err_kind doctor_run(struct deploy *deploy, bool quiet, struct err *err);
