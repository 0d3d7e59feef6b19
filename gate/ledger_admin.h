/*
 * The admin listener's POST /ledger/resolve: an operator ends a payment that nobody can prove.
 *
 * Body: {"payment":"<64 hex>","settled":"<transaction>","reason":"…"} or {"payment":"<64
 * hex>","unpaid":true,"reason":"…"}. The reason is written to the row.
 */
#pragma once

#include <stddef.h>

#include "gate/reconcile.h"

/* `status` and `text` (one line, JSON) are for the answer: 200 done, 400 what was wrong, 404 no
 * such payment, 409 its state cannot be resolved or the transaction is another payment's, 503 not
 * written. */
typedef void ledger_admin_fn(void *arg, int status, const char *text);

struct ledger_admin_call {
    struct ledger_call call;
    ledger_admin_fn *fn;
    void *arg;
};

/* Calls back exactly once, for a bad body before it returns; cancel by ledger_cancel(&admin->call).
 */
void ledger_admin_resolve(struct settler *settler, const char *body, size_t len,
                          struct ledger_admin_call *admin, ledger_admin_fn *fn, void *arg);
