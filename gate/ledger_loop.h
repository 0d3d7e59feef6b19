/*
 * Inside the ledger: what ledger.c, ledger_claim.c, ledger_wait.c and ledger_settle.c share. Not
 * for others.
 */
#pragma once

#include "gate/db_thread.h"
#include "gate/ledger.h"
#include "gate/ledger_index.h"
#include "gate/ledger_settle.h"
#include "gate/ledger_store.h"

struct ledger {
    struct ledger_setup setup; /* path points at `path` */
    char *path;
    struct loop *loop;
    int lock_fd;
    uint64_t inode;
    struct store *write_store, *read_store;
    struct db_thread *writer, *reader;
    struct ledger_index index;
    struct ledger_op *ops; /* all that have not completed */
    char generation[33];
    uint8_t secret[32];
    int64_t complete_since_s;
    int64_t clock_base_ms;   /* ledger clock at opening */
    uint64_t opened_boot_ms; /* loop time at opening */
    int64_t anchor_wall_ms;  /* wall clock that the last turn of the tidier agreed with … */
    uint64_t anchor_boot_ms; /* … at this loop time */
    bool deletion_paused;
    bool file_gone;
    bool closing;
    bool tidying;
    bool evict_wanted;
    struct loop_timer tidy_timer;
    struct store_room room;  /* as last read */
    uint64_t reserved_bytes; /* of claims in flight */
    uint64_t settled_total, failed_total, uncharged_total, replayed_total;
};

/* One call under way. The job is the first member. */
struct ledger_op {
    struct db_job job;
    struct ledger *ledger;
    struct ledger_op *next;
    struct ledger_op **link;
    struct ledger_call *call; /* NULL: cancelled, or nobody asked */
    ledger_found_fn *found_fn;
    ledger_result_fn *fn;
    ledger_settlement_fn *settlement_fn;
    void *arg;
    struct loop_timer timer;
    void (*later)(struct ledger_op *op);
    struct ledger_payment *payment; /* a reference, or NULL */

    uint8_t key[LEDGER_KEY_LEN];
    struct store_now now;
    /* read */
    bool want_identifier;
    struct store_row row, bound;
    struct store_settlement settlement;
    /* write */
    enum payment_event event;
    struct ledger_terms terms; /* pointers into `texts` */
    struct ledger_seal seal;   /* likewise */
    char *texts[16];
    size_t n_texts;
    struct buf head, body, settle_body;
    char transaction[161], charged[80], reason[129], why[LEDGER_TEXT_MAX + 1];
    bool has_transaction, nonce_first;
    uint32_t releases;
    struct store_release release;
    struct store_bounds bounds;
    struct store_room room;
    /* out */
    bool refused;
    uint32_t runs;
    enum ledger_verdict verdict;
};

struct ledger_op *ledger_op_new(struct ledger *ledger, struct ledger_call *call,
                                struct ledger_payment *payment);
void ledger_op_free(struct ledger_op *op); /* gives the payment's reference back */
const char *ledger_op_text(struct ledger_op *op,
                           const char *s); /* a copy that lives as long as the op */
/* Runs `later` in the next turn or after `ms`. */
void ledger_op_defer(struct ledger_op *op, uint64_t ms, void (*later)(struct ledger_op *op));
/* Calls the result function with a verdict and frees the op. `with` is handed out with a new
 * reference, or NULL. */
void ledger_op_finish(struct ledger_op *op, enum ledger_verdict verdict,
                      struct ledger_payment *with, uint32_t retry_after_s);
void ledger_write(struct ledger_op *op,
                  enum err_kind (*apply)(struct db_job *, void *, struct err *),
                  void (*done)(struct db_job *));
void ledger_read(struct ledger_op *op,
                 enum err_kind (*apply)(struct db_job *, void *, struct err *),
                 void (*done)(struct db_job *));

struct store_now ledger_now(const struct ledger *ledger);

struct ledger_payment *ledger_payment_new(struct ledger *ledger, const struct ledger_claim *claim);
struct ledger_payment *ledger_payment_from_row(struct ledger *ledger, const struct store_row *row);
/* Steps the state in memory (which must be possible) and keeps the counters right. */
void ledger_payment_step(struct ledger_payment *payment, enum payment_event event);
void ledger_payment_set_payer(struct ledger_payment *payment, const char *payer);
/* Hands the end of a payment to all who wait for it. Also when nobody does: the answer's memory
 * goes. */
void ledger_payment_end(struct ledger_payment *payment);
/* Frees the answer's memory when nobody waits for it. */
void ledger_payment_shed(struct ledger_payment *payment);
/* RESERVED → free again; waiters are told. Consumes one reference. */
void ledger_payment_drop(struct ledger_payment *payment);

/* Takes one release from the disk and finishes the op with ANSWER, SPENT or (FAILED, UNPROVEN) the
 * receipt. */
void ledger_op_release(struct ledger_op *op, const uint8_t *key, enum payment_state state);
