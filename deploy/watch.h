/*
 * `watch`: keeps what is deployed true.
 *
 * One per host (lock "watch"). Every second, and at once on a task's exit or OOM event, each slug
 * that is meant to be up is looked at and, where it drifted, made true again. A handler that lives
 * but does not take connections three times running is killed and started again; one past 80 % of
 * its lifetime is replaced. Failures back off from 0.5 s to 30 s; five within five minutes mark the
 * slug failed, with the reason.
 *
 * Serves on settings->route_listen, where set: / (routes for Traefik's HTTP provider), /metrics.
 */
#pragma once

#include "base/err.h"
#include "deploy/deploy.h"

/* Until SIGTERM or SIGINT; `once`: one round, for boot scripts and tests. */
CHECKED enum err_kind watch_run(struct deploy *deploy, bool once, struct err *err);

/* Pure: milliseconds to wait after the n-th failure in a row (n ≥ 1). */
int watch_backoff_ms(unsigned n);
/* Pure: the age in seconds from which a handler that may live `lifetime` seconds is replaced. What
 * is left then, a fifth but at least 15 s (half of a lifetime shorter than 30 s), is for the new
 * one's start and the old one's last calls. */
int64_t watch_replace_after(int64_t lifetime);
/* All recorded routes as one dynamic configuration; the caller's. */
CHECKED enum err_kind watch_routes(const struct settings *settings, json_t **out, struct err *err);
