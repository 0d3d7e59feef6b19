/*
 * The payments that the loop has in hand: by key, and by payer. Memory only, no I/O.
 *
 * In here is every payment that a request, a waiter or the settler refers to, and every one in
 * RESERVED, RUNNING, SETTLING or UNKNOWN. Payers are kept only while they have payments in here or
 * uncharged runs in the budget's window.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "gate/ledger.h"

#define PAYER_EVENTS_MAX 64 /* uncharged runs remembered per payer; the budget is at most this */

struct payer {
    struct payer *next;
    char *name; /* owned */
    struct ledger_payment *payments;
    uint32_t in_flight; /* RESERVED to SETTLING */
    uint32_t n_events;
    int64_t events_ms[PAYER_EVENTS_MAX]; /* ledger clock, oldest first */
};

struct ledger_payment {
    struct ledger_payment *hash_next;
    struct ledger_payment *payer_next;
    struct ledger *ledger;
    struct payer *payer; /* NULL: unknown or not proven yet */
    uint32_t refs;
    bool indexed;
    bool counted; /* in payer->in_flight */
    enum payment_state state;
    uint32_t runs;
    uint64_t reserved_bytes;

    struct ledger_claim claim; /* its pointers point at the three below */
    char payer_text[LEDGER_PAYER_MAX + 1];
    char identifier[LEDGER_PAYER_MAX + 1];
    uint8_t secret[LEDGER_SECRET_LEN];

    struct ledger_waiter *waiters;
    uint32_t n_waiters;
    void *settling; /* the settler's */
    bool ending;    /* its end is being handed to waiters */
    struct loop_timer end_timer;

    bool has_answer; /* sealed bytes in memory, while somebody waits for them */
    uint16_t status;
    struct buf head, body;
    struct ledger_receipt receipt;
};

struct ledger_index {
    struct ledger_payment **payments;
    size_t n_payments, cap_payments;
    struct payer **payers;
    size_t n_payers, cap_payers;
    uint64_t seed;
};

void ledger_index_init(struct ledger_index *index, uint64_t seed);
void ledger_index_fini(struct ledger_index *index); /* frees payers; payments must be gone */

struct ledger_payment *ledger_index_find(const struct ledger_index *index, const uint8_t *key);
void ledger_index_add(struct ledger_index *index, struct ledger_payment *payment);
void ledger_index_remove(struct ledger_index *index, struct ledger_payment *payment);

/* NULL for "" and, without `make`, for one that is not known. */
struct payer *ledger_index_payer(struct ledger_index *index, const char *name, bool make);
/* Links a payment to its payer, or cuts the link and forgets a payer that has nothing left by
 * `now_ms`. */
void payer_link(struct payer *payer, struct ledger_payment *payment);
void payer_unlink(struct ledger_index *index, struct ledger_payment *payment, int64_t now_ms,
                  int64_t window_ms);
void ledger_index_tidy(struct ledger_index *index, int64_t now_ms, int64_t window_ms);

/* The budget of uncharged runs. */
void payer_charge_budget(struct payer *payer, int64_t now_ms, uint32_t weight);
/* 0: within budget; else milliseconds until the oldest leaves the window. */
int64_t payer_budget_wait(struct payer *payer, int64_t now_ms, int64_t window_ms, uint32_t max);
