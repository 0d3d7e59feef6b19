/*
 * The claims store: which of several gates of one wallet has taken a payment. One SQLite file per
 * host, apart from the ledgers.
 *
 * Two gates that sell for the same (network, asset, payTo) would both accept one authorization; a
 * facilitator that is idempotent would let both release an answer for one transfer. So each key is
 * claimed here, durably, before a handler runs, and a transaction is bound here to one key,
 * durably, before an answer is released. Several processes open the file at once: SQLite's own
 * locks keep them apart, a thread of its own keeps the loop from waiting. Unreachable is 503, never
 * a run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "gate/ledger.h"

struct claims;

enum claims_verdict {
    CLAIMS_UNAVAILABLE = 0, /* 503 */
    CLAIMS_MINE,            /* this gate holds it (now or from before) */
    CLAIMS_OTHERS,          /* another gate holds it: 409, never a 402 */
};
typedef void claims_fn(void *arg, enum claims_verdict verdict);

struct claims_call {
    void *op; /* NULL when idle */
};

/* `holder` is the ledger's generation id: a restarted gate is the same holder. Made if missing. The
 * file system rules of ledger.h hold. */
CHECKED enum err_kind claims_open(const char *path, const char *holder, bool force_fs,
                                  struct loop *loop, struct claims **out, struct err *err);
void claims_free(struct claims *claims);
DEFINE_CLEANUP(struct claims, claims_free, claims_freep)

/* Takes the key for this holder. `keep_until` (Unix s): not forgotten before. */
void claims_take(struct claims *claims, const uint8_t key[LEDGER_KEY_LEN], int64_t keep_until,
                 struct claims_call *call, claims_fn *fn, void *arg);
/* Gives a key back that never reached the handler. Best effort: a lost release only means that this
 * gate alone may retry it. */
void claims_release(struct claims *claims, const uint8_t key[LEDGER_KEY_LEN]);
/* Binds (network, transaction) to the key: OTHERS when another key of any gate has it. */
void claims_bind(struct claims *claims, const char *network, const char *transaction,
                 const uint8_t key[LEDGER_KEY_LEN], struct claims_call *call, claims_fn *fn,
                 void *arg);
void claims_cancel(struct claims_call *call);
