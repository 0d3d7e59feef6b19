/*
 * The ledger: what this gate durably knows of every payment, and who may do what with it next.
 *
 * One process owns a ledger (OFD lock on PATH.lock). One writer thread owns all file I/O and
 * commits in groups with synchronous=FULL; one reader thread looks keys up. The loop never waits
 * for the disk: every call below that has a completion returns at once and calls back on the loop's
 * thread, never from inside the call itself. A completion is called exactly once unless its owner
 * cancels; after ledger_free() none is called.
 *
 * Always true: RUNNING is on disk before ledger_run() completes, SETTLING with the sealed answer
 * and the settle bytes before ledger_seal() completes, SETTLED before any waiter is woken with an
 * answer. A write that fails (disk full, I/O) completes with LEDGER_UNAVAILABLE and leaves the
 * payment in the state before; nothing of it is acted upon. After a failed sync the ledger is
 * broken until restart: all further calls say LEDGER_UNAVAILABLE, because nobody can say what the
 * disk holds.
 *
 * The life of a paid request in calls:
 *
 *   ledger_lookup(key)        held → skip terms, window, caps, breaker; not held → judge
 *   … body is read …
 *   ledger_claim(in)          CLAIMED → facilitator_verify(); else what the verdict says
 *   ledger_run(terms)         CLAIMED → handler (Utter-Payment-Id, Utter-Attempt from
 * ledger_payment_*) ledger_uncharge()         the answer is not one to charge for: the request
 * answers by itself ledger_seal(seal)         SEALED → settler_start(), then ledger_wait() like any
 * other waiter ledger_wait()             ANSWER, FAILED, UNPROVEN, or WAIT when the time is over:
 * 503 + Retry-After
 *
 * Times: *_ms arguments are durations. Expiry of sealed answers and replay windows counts the
 * ledger's own running time (CLOCK_BOOTTIME while open, kept across restarts), never the wall
 * clock, so neither a clock step nor an outage robs a buyer. Wall time is stored for people and for
 * the retention floor only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "gate/payment_state.h"

#define LEDGER_KEY_LEN 32 /* payment key: a hash over chain id, asset, payer, nonce (key.h) */
#define LEDGER_FINGERPRINT_LEN                                                                     \
    32                       /* hash over route, method, canonical path, query, body, terms        \
                              */
#define LEDGER_SECRET_LEN 32 /* SHA-256 of the Utter-Resume value */
#define LEDGER_PAYER_MAX 128
#define LEDGER_TEXT_MAX 255

struct ledger;
struct ledger_payment; /* one payment as the loop's side holds it; counted references */

struct ledger_setup {
    const char *path; /* the SQLite file; PATH-wal, PATH-shm, PATH.lock stand beside it */
    bool create;      /* make it if it does not exist; else a missing ledger is ERR_NOT_FOUND */
    bool force_fs;    /* accept tmpfs, overlay, NFS */
    bool adopt;       /* accept a file that was copied or restored: new generation id */
    uint64_t sealed_max_bytes;    /* 1 GiB; reserved before a handler runs */
    uint32_t sealed_ttl_s;        /* 3600; from settlement or resolution */
    uint32_t retention_s;         /* 90 days; rows of ended payments. Never below 24 h nor before
                                     validBefore + 1 h */
    uint32_t waiters_max;         /* 8 per payment */
    uint32_t payment_runs_max;    /* 3 uncharged runs of one payment */
    uint32_t payer_runs_max;      /* 20 uncharged runs of one payer … */
    uint32_t payer_window_s;      /* … in 600 s */
    uint32_t payer_in_flight_max; /* 16 */
    uint32_t settle_hold_s;       /* how long reconciliation goes on: 7 days at least */
    uint32_t tidy_ms;             /* 10000; expiry, retention and the heartbeat */
    const char *synchronous; /* NULL: FULL. For the tests that show that nothing less will do */
    const char *vfs;         /* SQLite VFS name, NULL for the default; tests of power loss */
};
/* Fills in the defaults above; path stays NULL. */
void ledger_setup_defaults(struct ledger_setup *config);

/* Opens, takes the lock, migrates (after a copy to PATH.before-N), turns RUNNING into UNCHARGED and
 * SETTLING into UNKNOWN, loads what is unresolved. Blocks; call before serving. ERR_NOT_FOUND: no
 * file and create is off. ERR_PRECONDITION: file system, copied file, newer schema, truncated or
 * foreign file. ERR_EXISTS: another process holds the lock. */
CHECKED enum err_kind ledger_open(const struct ledger_setup *config, struct loop *loop,
                                  struct ledger **out, struct err *err);

/* `--standby`: as ledger_open() but checks everything except the lock first, then tries for the
 * lock each 100 ms and calls `fn` once, with the opened ledger or an error. ledger_standby_free()
 * ends the waiting. */
struct ledger_standby;
typedef void ledger_standby_fn(void *arg, struct ledger *taken, const struct err *err);
CHECKED enum err_kind ledger_standby_new(const struct ledger_setup *config, struct loop *loop,
                                         ledger_standby_fn *fn, void *arg,
                                         struct ledger_standby **out, struct err *err);
void ledger_standby_free(struct ledger_standby *standby);

/* Commits what is queued, ends the threads, lets the lock go. Payments in RUNNING stay as they are
 * on disk (a restart releases them). All references to payments must be given back before. NULL is
 * fine. */
void ledger_free(struct ledger *ledger);
DEFINE_CLEANUP(struct ledger, ledger_free, ledger_freep)

/* `utter-gate ledger init`: makes an empty ledger and nothing else. ERR_EXISTS if there is a file.
 */
CHECKED enum err_kind ledger_init(const struct ledger_setup *config, struct err *err);

/* False once a sync failed or the file is gone: readiness and /.well-known/utter/alive follow it.
 */
bool ledger_healthy(const struct ledger *ledger);

/* The ledger cannot hold all payments of the last `validity_s` seconds: it is younger, was
 * restored, or was not open for a while. A payment that it does not hold and that verify refuses as
 * nonce-used is then 409 settlement_unproven, not 402. */
bool ledger_is_young(const struct ledger *ledger, int64_t now_s, uint64_t validity_s);

/* ---- lookup ---- */

struct ledger_found {
    bool failed; /* the ledger cannot be read: 503 */
    bool held; /* RUNNING or later (also RESERVED by another request): never judged by today's terms
                */
    enum payment_state state; /* NEW or UNCHARGED when not held */
};
typedef void ledger_found_fn(void *arg, const struct ledger_found *found);

/* Embedded in its owner until it completes or is cancelled. */
struct ledger_call {
    void *op; /* the ledger's; NULL when idle */
};

void ledger_lookup(struct ledger *ledger, const uint8_t key[LEDGER_KEY_LEN],
                   struct ledger_call *call, ledger_found_fn *fn, void *arg);

/* The completion will not be called. What was asked for happens all the same (a write is not
 * undone). Fine when idle. */
void ledger_cancel(struct ledger_call *call);

/* ---- claim, run, seal ---- */

enum ledger_verdict {
    LEDGER_UNAVAILABLE = 0, /* 503: broken, full disk, closing */
    LEDGER_NEW,     /* not held any more (or the first run ended uncharged): judge it as new, claim
                       again */
    LEDGER_CLAIMED, /* the caller's to verify (claim) or to run (run) */
    LEDGER_SEALED,  /* stored: settle it */
    LEDGER_DONE,    /* written (ledger_uncharge and the settler's calls) */
    LEDGER_WAIT, /* another request has it, or its end is unknown: ledger_wait(); as an end of that:
                    503 + Retry-After */
    LEDGER_BLOCKED, /* a new payment of this payer for this request must not run now and may not see
                       the first's answer (no secret) or there is no room to wait: 503 + Retry-After
                       + resume hint */
    LEDGER_ANSWER,  /* release->answer may go out, it is counted */
    LEDGER_FAILED,  /* 402, receipt success:false, reason */
    LEDGER_UNPROVEN, /* 409 settlement_unproven */
    LEDGER_SPENT, /* settled, but the answer is beyond its replay bounds or gone: 409 payment_spent,
                     with the receipt */
    LEDGER_MISMATCH,    /* this payment was used for another request: 409 */
    LEDGER_ID_CONFLICT, /* the payment-identifier was used for another request: 409 */
    LEDGER_SECRET, /* the first request carried a secret or identifier that this one lacks: 403, no
                      byte */
    LEDGER_BUDGET, /* too many uncharged runs: 429 + retry_after_s; nothing reserved */
    LEDGER_IN_FLIGHT, /* too many payments of this payer in flight: 429 + retry_after_s */
    LEDGER_FULL,      /* sealed_max_bytes is taken: 503 + Retry-After */
};
const char *ledger_verdict_name(enum ledger_verdict verdict);

struct ledger_answer {
    uint16_t status;
    const char *head; /* the caller's own serialised header lines; opaque here */
    size_t head_len;
    const uint8_t *body;
    size_t body_len;
};

/* The receipt's facts; strings "" where absent. */
struct ledger_receipt {
    char network[64]; /* as the payload spelt it: slug or CAIP-2 */
    char payer[LEDGER_PAYER_MAX + 1];
    char transaction[161];
    char amount[80];  /* what was charged */
    char reason[129]; /* of a refusal, filtered */
    uint8_t x402_version;
};

struct ledger_result {
    enum ledger_verdict verdict;
    struct ledger_payment
        *payment; /* a reference, now the caller's (ledger_payment_unref); NULL unless CLAIMED,
              WAIT or SEALED of a claim or run. ledger_wait() hands out none. */
    uint32_t retry_after_s;
    const struct ledger_answer *answer;   /* ANSWER only; valid during the callback */
    const struct ledger_receipt *receipt; /* ANSWER, SPENT, FAILED; valid during the callback */
};
typedef void ledger_result_fn(void *arg, const struct ledger_result *result);

/* What a request is that wants a payment. Copied; pointers are borrowed for the call. */
struct ledger_claim {
    uint8_t key[LEDGER_KEY_LEN];
    uint8_t fingerprint[LEDGER_FINGERPRINT_LEN];
    const char *payer; /* canonical spelling (0x lower-case), "" if the scheme is opaque */
    bool payer_proven; /* signature checked locally; else the rules per payer wait for ledger_run()
                        */
    const char *identifier; /* payment-identifier or NULL */
    const uint8_t *secret;  /* LEDGER_SECRET_LEN bytes or NULL */
    bool held; /* what ledger_lookup() said: true and the key is free by now → LEDGER_NEW, nothing
                  claimed */
    uint64_t reserve_bytes;   /* the largest sealed answer of the route (head and body) */
    uint32_t replays_max;     /* 5; 0 for `replay: off` */
    uint32_t replay_window_s; /* 600 */
};

/* Decides, in this order: same key held (fingerprint → MISMATCH, secret → SECRET, then by state),
 * identifier, first payment of the same payer and fingerprint in SETTLING or UNKNOWN, budgets, in
 * flight, space. CLAIMED hands the payment over in RESERVED: the caller must end it by ledger_run()
 * or ledger_drop(). */
void ledger_claim(struct ledger *ledger, const struct ledger_claim *claim, struct ledger_call *call,
                  ledger_result_fn *fn, void *arg);

/* Verify said no, the facilitator is down, or the client left: the key is free again. Consumes the
 * reference. Nothing is written. Waiters get LEDGER_NEW. */
void ledger_drop(struct ledger_payment *payment);

/* The terms that were agreed, for the record and for proof. All strings borrowed for the call, cut
 * never: longer than LEDGER_TEXT_MAX is a bug of the caller. */
struct ledger_terms {
    uint8_t x402_version;
    const char *scheme;
    const char *network;     /* CAIP-2 */
    const char *network_raw; /* as in the payload */
    const char *asset;
    const char *pay_to;
    const char *amount;   /* agreed, atomic units */
    const char *payer;    /* as verified; "" unknown */
    const char *nonce;    /* hex or decimal as signed; "" for opaque */
    const char *method;   /* "eip3009", "permit2", "opaque": what proof to look for */
    int64_t valid_before; /* Unix seconds; 0 unknown */
    const char *route;    /* the route's name in the configuration */
    const char *resource; /* URL for people */
};

/* RUNNING, durable. Completes CLAIMED (start the handler), or, for a payer that claim could not
 * prove, whatever the rules per payer say (the payment is then dropped and its reference consumed).
 * UNAVAILABLE: dropped and consumed. */
void ledger_run(struct ledger_payment *payment, const struct ledger_terms *terms,
                struct ledger_call *call, ledger_result_fn *fn, void *arg);

/* The run ended without charge. Consumes the reference. Waiters get LEDGER_NEW. `why` is one word
 * for the record. */
void ledger_uncharge(struct ledger_payment *payment, const char *why);

struct ledger_seal {
    struct ledger_answer answer; /* copied */
    const char *facilitator;     /* base URL, stored: reconciliation asks this one */
    const char *settle_body;     /* the exact bytes of every settle of this payment */
    size_t settle_len;
    const char *charge;     /* atomic units to settle (amount, or less with upto) */
    bool empty_transaction; /* settle_asked.empty_transaction */
    bool unproven_release;  /* the route's `unproven: release`; false is `hold` */
};

/* SETTLING with answer and settle bytes, durable. Completes SEALED, or UNAVAILABLE: the payment
 * stays RUNNING and the caller's; it may try again or ledger_uncharge(). */
void ledger_seal(struct ledger_payment *payment, const struct ledger_seal *seal,
                 struct ledger_call *call, ledger_result_fn *fn, void *arg);

/* ---- waiting ---- */

struct ledger_waiter {
    struct ledger_payment *payment; /* counted; NULL when idle */
    struct ledger_waiter *next;
    struct loop_timer timer;
    ledger_result_fn *fn;
    void *arg;
};

/* Waits for the end of a payment, at most `ms`. The sealer waits the same way as every other. The
 * callback gets ANSWER, FAILED, UNPROVEN, NEW, SPENT, or WAIT when the time is over. False (nothing
 * will be called) when waiters_max is reached. */
bool ledger_wait(struct ledger_payment *payment, struct ledger_waiter *waiter, uint64_t ms,
                 ledger_result_fn *fn, void *arg);
void ledger_wait_cancel(struct ledger_waiter *waiter); /* fine when idle */

void ledger_payment_unref(
    struct ledger_payment *payment); /* never ends a payment by itself; NULL is fine */
struct ledger_payment *ledger_payment_ref(struct ledger_payment *payment);

const uint8_t *ledger_payment_key(const struct ledger_payment *payment);
enum payment_state ledger_payment_state(const struct ledger_payment *payment);
/* Utter-Payment-Id: keyed hash, stable over retries and restarts, not computable from the chain.
 * Hex. */
#define LEDGER_PAYMENT_ID_TEXT 65
void ledger_payment_id(const struct ledger_payment *payment, char out[LEDGER_PAYMENT_ID_TEXT]);
/* Utter-Attempt: 1 for the first run. Set once ledger_run() completed. */
uint32_t ledger_payment_attempt(const struct ledger_payment *payment);

/* ---- figures for /metrics and the operator page; memory only ---- */

struct ledger_stats {
    uint64_t payments[PAYMENT_STATE_N]; /* in memory by state; ended ones only while referenced */
    uint64_t unresolved; /* SETTLING + UNKNOWN + ABANDONED + CONCEDED, whole ledger */
    uint64_t settled_total, failed_total, uncharged_total, replayed_total; /* since open */
    uint64_t sealed_bytes, reserved_bytes;
    uint64_t commits, writes; /* writes / commits is the batch size */
    uint64_t queue;           /* writes waiting now */
    bool deletion_paused;     /* the wall clock stepped */
};
void ledger_stats(const struct ledger *ledger, struct ledger_stats *out);
