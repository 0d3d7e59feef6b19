/*
 * What the settler alone does to the ledger: reads what to send, writes what came of it.
 */
#pragma once

#include "gate/ledger.h"
#include "gate/ledger_store.h"

/* `settlement` is valid during the call; NULL when the ledger cannot be read. */
typedef void ledger_settlement_fn(void *arg, const struct store_settlement *settlement);
void ledger_settlement(struct ledger_payment *payment, struct ledger_call *call,
                       ledger_settlement_fn *fn, void *arg);

struct ledger_step {
    enum payment_event event;
    const char *transaction; /* proven (SETTLE, RESOLVE_SETTLED) or seen (DOUBT), or NULL */
    const char *charged;     /* or NULL: as sealed */
    const char *reason;      /* or NULL */
    const char *why;         /* or NULL */
    bool nonce_first;
};
/* Durable, then in memory, then to the waiters. Completes DONE; MISMATCH: the state has no such
 * event or the transaction belongs to another payment, nothing was written; UNAVAILABLE: not
 * written, try again. Calls of one payment must not overlap. */
void ledger_settle_step(struct ledger_payment *payment, const struct ledger_step *step,
                        struct ledger_call *call, ledger_result_fn *fn, void *arg);

/* As ledger_settle_step() by key, for a payment that need not be in memory (`ledger resolve`); NEW:
 * no such payment. */
void ledger_settle_key(struct ledger *ledger, const uint8_t *key, const struct ledger_step *step,
                       struct ledger_call *call, ledger_result_fn *fn, void *arg);

/* Calls `fn` for each payment in UNKNOWN or SETTLING that is in memory; it may take a reference. */
void ledger_each_unknown(struct ledger *ledger,
                         void (*fn)(void *arg, struct ledger_payment *payment), void *arg);

const char *ledger_generation(const struct ledger *ledger);
uint32_t ledger_settle_hold_s(const struct ledger *ledger);

/* What the settler has in hand for this payment, or NULL; the ledger only keeps the pointer. */
void *ledger_payment_settling(const struct ledger_payment *payment);
void ledger_payment_set_settling(struct ledger_payment *payment, void *settling);
