/*
 * The key pair of a slug's data tokens: a new one in the place of the old, while requests run.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "deploy/deploy.h"
#include "deploy/plan.h"

/* The proxy learns the new public key before the gate signs with its private one, and keeps the one
 * before it, for requests under way, until the next rotation. Safe to be broken off anywhere: at
 * every step the proxy's directory holds the public half of the gate's key. ERR_NOT_FOUND for a
 * slug without upstreams. */
CHECKED enum err_kind rotate_keys(struct deploy *deploy, const struct plan *plan, struct err *err);

/* What the data proxy counts: its page in Prometheus' text form, with a limit of 64 KiB. */
CHECKED enum err_kind rotate_metrics(const struct plan *plan, struct buf *page, struct err *err);
