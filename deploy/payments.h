/*
 * A look into a gate's ledger from outside: read-only, live, without the gate.
 *
 * The numbers of states are those of gate/payment_state.h, which the ledger's schema version pins.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "deploy/plan.h"

/* What a removal would leave open: payments that are running, settling or unknown, and settled ones
 * whose answer is kept and was never released. An array of {payment, state, amount, asset, payer};
 * the caller's. No ledger: empty. */
CHECKED enum err_kind payments_open(const struct plan *plan, json_t **out, struct err *err);
/* Newest first. The caller's. */
CHECKED enum err_kind payments_last(const struct plan *plan, int n, json_t **out, struct err *err);
/* A consistent copy of a live ledger, by SQLite's own backup. */
CHECKED enum err_kind payments_backup(const struct plan *plan, const char *to, struct err *err);
/* Puts a copy at `to` (which must not exist), owned by uid; payments that were running or settling
 * become unknown. *doubtful counts what is not final; *newest is the time of the newest payment in
 * it. */
CHECKED enum err_kind payments_restore(const char *from, const char *to, uint32_t uid,
                                       int64_t *doubtful, int64_t *newest, struct err *err);
