/*
 * The ledger's tables: statements and rows, blocking, no threads and no rules of its own but one: a
 * state is changed only by payment_step() from the state that the row has.
 *
 * Every function that writes is called inside a transaction of the writer thread. Errors:
 * ERR_UNAVAILABLE for a full disk or a locked database, ERR_INTERNAL for anything after which
 * nobody knows what the file holds. A rule that says no (another state, a transaction that is
 * taken) is no error: it comes back in the out parameter.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "gate/ledger.h"

#define STORE_SCHEMA 1
#define STORE_APPLICATION_ID 0x55544c47 /* "UTLG" */

struct store;

struct store_open {
    const char *path;
    const char *vfs;
    const char *synchronous; /* "FULL"; only the tests of power loss say anything else */
    bool create;             /* an empty file becomes a ledger */
    bool read_only;
};

/* ERR_PRECONDITION: no ledger, a newer schema, a file that quick_check faults. An older schema is
 * migrated (ledger_migrate.h). */
CHECKED enum err_kind store_open(const struct store_open *how, struct store **out, struct err *err);
void store_close(struct store *store);
DEFINE_CLEANUP(struct store, store_close, store_closep)
sqlite3 *store_db(struct store *store);

CHECKED enum err_kind store_begin(void *store, struct err *err); /* db_thread_ops */
CHECKED enum err_kind store_commit(void *store, struct err *err);
/* The same for a reader: the look-ups of a batch share one snapshot, taken after all were asked. */
CHECKED enum err_kind store_read_begin(void *store, struct err *err);
CHECKED enum err_kind store_read_end(void *store, struct err *err);
void store_rollback(void *store);

/* ---- meta: small named values ---- */
CHECKED enum err_kind store_get_int(struct store *store, const char *name, int64_t *out,
                                    struct err *err);
CHECKED enum err_kind store_set_int(struct store *store, const char *name, int64_t value,
                                    struct err *err);
CHECKED enum err_kind store_get_text(struct store *store, const char *name, char *out, size_t size,
                                     struct err *err);
CHECKED enum err_kind store_set_text(struct store *store, const char *name, const char *value,
                                     struct err *err);

/* ---- rows ---- */

/* What of a payment the loop keeps. `found` false: no such row, the rest is zero. */
struct store_row {
    bool found;
    int64_t id;
    enum payment_state state;
    uint8_t key[LEDGER_KEY_LEN];
    uint8_t fingerprint[LEDGER_FINGERPRINT_LEN];
    char payer[LEDGER_PAYER_MAX + 1];
    char identifier[LEDGER_PAYER_MAX + 1]; /* "" none */
    uint8_t secret[LEDGER_SECRET_LEN];
    bool has_secret;
    uint32_t runs;
    uint32_t replays_max, replay_window_s;
};

CHECKED enum err_kind store_by_key(struct store *store, const uint8_t *key, struct store_row *out,
                                   struct err *err);
/* The payment of this payer that has this identifier; the first if there were several. */
CHECKED enum err_kind store_by_identifier(struct store *store, const char *payer,
                                          const char *identifier, struct store_row *out,
                                          struct err *err);
/* Rows in SETTLING or UNKNOWN with id > *after, in order of id; found false at the end. */
CHECKED enum err_kind store_next_unknown(struct store *store, int64_t after, struct store_row *out,
                                         struct err *err);

struct store_now {
    int64_t wall_s;   /* for people and the retention floor */
    int64_t clock_ms; /* the ledger's own running time */
};

struct store_run {
    const struct ledger_claim *claim;
    const struct ledger_terms *terms;
    struct store_now now;
};
/* RUNNING. *runs is the number of this run. *taken: the row is in a state that may not run, nothing
 * was written. */
CHECKED enum err_kind store_run(struct store *store, const struct store_run *run, uint32_t *runs,
                                bool *taken, struct err *err);

/* A change of state. *refused: the row's state has no such event (or the transaction is bound to
 * another payment), nothing was written. */
struct store_step {
    const uint8_t *key;
    enum payment_event event;
    const char *transaction; /* SETTLE, RESOLVE_SETTLED; DOUBT: seen in a failure; else NULL */
    const char *charged;     /* amount settled, or NULL: as asked */
    const char *reason;      /* facilitator's, filtered, or NULL */
    const char *why;         /* our word or the operator's reason, or NULL */
    bool nonce_first;        /* DOUBT: our first send got the nonce reason */
    uint32_t releases;       /* counted with it */
    struct store_now now;
};
CHECKED enum err_kind store_step(struct store *store, const struct store_step *step, bool *refused,
                                 struct err *err);

struct store_seal {
    const uint8_t *key;
    const struct ledger_seal *seal;
    struct store_now now;
};
CHECKED enum err_kind store_seal(struct store *store, const struct store_seal *seal, bool *refused,
                                 struct err *err);

/* Takes one release of a sealed answer: counts it and reads it. `granted` false: beyond its bounds
 * or gone. */
struct store_release {
    bool granted;
    enum payment_state state;
    uint16_t status;
    struct buf head, body; /* owned: store_release_fini() */
    struct ledger_receipt receipt;
};
CHECKED enum err_kind store_release(struct store *store, const uint8_t *key, struct store_now now,
                                    struct store_release *out, struct err *err);
void store_release_fini(struct store_release *release);
/* Adds to the releases of an answer without reading it. */
CHECKED enum err_kind store_add_releases(struct store *store, const uint8_t *key, uint32_t n,
                                         struct err *err);
CHECKED enum err_kind store_receipt(struct store *store, const uint8_t *key,
                                    struct ledger_receipt *out, struct err *err);

/* What the settler needs of a payment. Strings owned by the struct. */
struct store_settlement {
    bool found;
    enum payment_state state;
    char facilitator[512];
    struct buf body; /* the settle bytes; empty once resolved */
    char network[64], network_raw[64], payer[LEDGER_PAYER_MAX + 1], charge[80],
        asset[LEDGER_TEXT_MAX + 1], pay_to[LEDGER_TEXT_MAX + 1], nonce[LEDGER_TEXT_MAX + 1],
        method[16], transaction[161];
    uint8_t x402_version;
    int64_t valid_before, sealed_s;
    bool empty_transaction, unproven_release, nonce_first;
};
CHECKED enum err_kind store_settlement(struct store *store, const uint8_t *key,
                                       struct store_settlement *out, struct err *err);
void store_settlement_fini(struct store_settlement *settlement);

/* ---- room ---- */

struct store_bounds {
    struct store_now now;
    int64_t sealed_ttl_ms;
    int64_t retention_ms; /* of rows, by the ledger's clock */
    bool evict;           /* also delivered answers, oldest first */
    uint32_t batch;       /* at most so many of each per call */
};
struct store_room {
    uint64_t sealed_bytes;
    uint64_t unresolved;
    uint32_t answers_removed, rows_removed;
};
CHECKED enum err_kind store_tidy(struct store *store, const struct store_bounds *bounds,
                                 struct store_room *out, struct err *err);
CHECKED enum err_kind store_room(struct store *store, struct store_room *out, struct err *err);

/* Marks what a dead process left: RUNNING to UNCHARGED, SETTLING to UNKNOWN. */
CHECKED enum err_kind store_restart(struct store *store, struct store_now now, struct err *err);
