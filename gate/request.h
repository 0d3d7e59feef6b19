/*
 * The life of one request. gate/request.c reads from top to bottom as a request lives.
 */
#pragma once

#include "gate/gate.h"
#include "gate/passage.h"
#include "gate/payment.h"

/* In the order in which a paid request goes through them. */
enum step {
    STEP_ROUTE,   /* host, path, method: which route */
    STEP_PAYMENT, /* none: 402; else decode it and find its key */
    STEP_LOOKUP,  /* what does the ledger know of this key */
    STEP_JUDGE,   /* new ones only: terms, window, signature, breaker, caps */
    STEP_BODY,    /* read the body, 413 */
    STEP_CLAIM,   /* this request's to run, or what else */
    STEP_VERIFY,  /* the facilitator's word */
    STEP_SHARE,   /* no other gate of this wallet has it */
    STEP_RUN,     /* durable */
    STEP_OPEN,    /* the handler's way to its upstreams */
    STEP_HANDLER, /* call it, judge the answer */
    STEP_CLOSE,   /* ended before the answer goes anywhere */
    STEP_SEAL,    /* not to be charged: pass it on; else durable */
    STEP_SETTLE,  /* wait for the end of the settlement */
    STEP_FINISH,  /* log, release */
    STEP_WAIT,    /* I/O is under way; its completion goes on */
    STEP_N,
};

/* An answer of the handler on its way. */
struct reply {
    int status;
    struct passage head;
    uint8_t *body; /* owned */
    size_t body_len;
    bool sold;
    bool own;          /* made by the gate: `why` is its word */
    const char *why;   /* static */
    char override[80]; /* Settlement-Overrides amount, where the route honours it */
};

struct request {
    struct request_ring ring; /* first */
    struct gate *gate;
    struct gate_config *config; /* counted: terms never change under a request */
    struct http_request *http;
    const struct http_head *head;
    const struct route *route;
    char id[GATE_ID_TEXT];
    char method[40];
    char peer[HTTP_ADDRESS_MAX]; /* the client's address, as trusted */
    char *path;                  /* canonical */
    enum step at;                /* where it waits */

    bool paying;
    struct payment payment;
    uint8_t fingerprint[LEDGER_FINGERPRINT_LEN];
    uint8_t secret[LEDGER_SECRET_LEN];
    bool has_secret;
    bool held; /* the ledger knew the key: not judged */
    bool judged;
    unsigned rounds;                  /* how often it had to be judged again */
    bool counted;                     /* in gate->paid */
    char payer[LEDGER_PAYER_MAX + 1]; /* as verified */

    bool body_read;
    const void *body; /* the HTTP request's */
    size_t body_len;

    struct ledger_call ledger_call;
    struct ledger_payment *paid_by; /* our reference */
    bool owner;                     /* RESERVED or RUNNING is ours to end */
    bool shared;                    /* taken in the claims store */
    struct claims_call claims_call;
    struct facilitator_call verify_call;
    struct ledger_waiter waiter;
    struct http_call *handler_call;
    struct data_pending data_pending;
    bool data_open;
    char *data_token; /* owned, wiped */

    struct reply reply;
    uint64_t began_ms, part_ms;
    enum outcome outcome;
    int status;       /* answered with */
    const char *word; /* for the log */
    bool answered;
    bool gone_early; /* the client left */
};

/* http_request_fn of the public listener; arg is the gate. */
void request_begin(void *arg, struct http_request *http);
/* Goes on at `step` until it waits or is finished; frees it then. */
void request_go(struct request *r, enum step step);

/* The gate ends: gives everything back without an answer. What is RUNNING stays so in the ledger.
 */
void request_abandon(struct request *r);

/* ---- answer.c: each ends the exchange and returns STEP_FINISH ---- */

/* The 402 (400, 412) of the route. reason may be NULL. */
enum step answer_challenge(struct request *r, enum outcome outcome, int status,
                           enum payment_fault fault, const char *reason);
/* A small JSON body {"error": word, …}. retry_after_s 0: no such field. */
enum step answer_error(struct request *r, enum outcome outcome, int status, const char *word,
                       uint32_t retry_after_s);
/* Settlement refused or unproven: 402 or 409 with a receipt. */
enum step answer_refused(struct request *r, int status, const struct ledger_receipt *receipt);
/* A sealed answer with its receipt. */
enum step answer_release(struct request *r, enum outcome outcome,
                         const struct ledger_answer *answer, const struct ledger_receipt *receipt);
/* The handler's answer without charge, or the gate's own in its place. */
enum step answer_uncharged(struct request *r, enum outcome outcome);
/* 200 or 204 of the gate itself; body may be NULL. */
enum step answer_own(struct request *r, int status, const char *type, const char *body,
                     const char *allow);
enum step answer_preflight(struct request *r);
/* The client is gone: nothing to say. */
enum step answer_nobody(struct request *r, const char *word);

/* ---- handler.c ---- */

/* Calls the handler; goes on at STEP_CLOSE with r->reply set. */
enum step handler_start(struct request *r);
/* ---- upstreams.c ---- */

/* Opens the request at the data proxy, with a token; at once where there are no upstreams. Goes on
 * at STEP_HANDLER, or at STEP_SEAL with the gate's own answer. */
enum step upstreams_open(struct request *r);
/* Ends it there; an answer that the proxy found a credential in, or whose end is unknown, is not
 * sold. Goes on at STEP_SEAL. */
enum step upstreams_close(struct request *r);
/* The request goes away: whatever may be open is ended without waiting. */
void upstreams_abandon(struct request *r);
/* The gate's own answer in place of the handler's. */
void reply_own(struct request *r, int status, const char *why);

/* What to charge: the offer's amount, or what an `upto` handler asked for, clamped. */
struct u256 handler_charge(const struct request *r);
/* Stops a call under way. */
void handler_stop(struct request *r);
void reply_fini(struct reply *reply);

/* ---- page.c ---- */

/* HTML for browsers; appended. */
void paywall_page(const struct request *r, struct buf *out);
/* The request came from a person's browser. */
bool wants_page(const struct http_head *head);
