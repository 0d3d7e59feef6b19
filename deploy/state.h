/*
 * What deploy remembers on disk, and its locks.
 *
 * <stateDir>/index.json       slug → index, durable: numbers of bridges, addresses and uids
 * <stateDir>/<slug>/plan.json the plan that is, or was being, made true, with its phase
 * <stateDir>/<slug>/…         gate/ (its configuration), ledger/, logs/, token (root's durable
 * copy) <stateDir>/locks/…          one lock per slug, one for the host
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "deploy/plan.h"
#include "deploy/settings.h"

/* An exclusive lock, held until the fd is closed. ERR_UNAVAILABLE when another process holds the
 * slug's (after wait_ms); the host's is waited for up to a minute. */
CHECKED enum err_kind state_lock_slug(const struct settings *settings, const struct slug *slug,
                                      int *fd, struct err *err);
CHECKED enum err_kind state_lock_host(const struct settings *settings, int *fd, struct err *err);
/* A named lock that is not waited for (watch: one per host). */
CHECKED enum err_kind state_lock_named(const struct settings *settings, const char *name, int *fd,
                                       struct err *err);

/* The slug's number, allocated if it has none. The caller holds the host's lock. */
CHECKED enum err_kind state_index(const struct settings *settings, const struct slug *slug,
                                  unsigned *out, struct err *err);
CHECKED enum err_kind state_index_drop(const struct settings *settings, const struct slug *slug,
                                       struct err *err);
/* The number of the claims store for what `pay` says, allocated if it has none. The caller holds
 * the host's lock. */
CHECKED enum err_kind state_claims(const struct settings *settings, const char *pay, unsigned *out,
                                   struct err *err);
/* Forgets it: no slug shares it any more. */
CHECKED enum err_kind state_claims_drop(const struct settings *settings, const char *pay,
                                        struct err *err);
/* Object slug → index. The caller's. */
CHECKED enum err_kind state_indexes(const struct settings *settings, json_t **out, struct err *err);

/* The record with "phase" ("making", "up", "down", "failed") and what up added to it.
 * ERR_NOT_FOUND. */
CHECKED enum err_kind state_load(const struct settings *settings, const char *slug, json_t **out,
                                 struct err *err);
CHECKED enum err_kind state_save(const struct settings *settings, const char *slug,
                                 const json_t *record, struct err *err);
/* Names of the slugs that have a record, sorted. The caller's. */
CHECKED enum err_kind state_slugs(const struct settings *settings, json_t **out, struct err *err);
/* Names of the bridges of all recorded slugs that are up or being made. The caller's. */
CHECKED enum err_kind state_bridges(const struct settings *settings, json_t **out, struct err *err);
