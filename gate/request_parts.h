/*
 * What the files of a request's life share: gate/request.c has the life, the others what its steps
 * need to know and to say. Nobody else includes it.
 */
#pragma once

#include "gate/request.h"

/* ---- request_self.c: what the gate answers itself ---- */

/* The Host (or absolute-form authority) is one of the configured ones. */
bool request_is_ours(const struct request *r);
/* /.well-known/utter/alive */
enum step answer_alive(struct request *r);
/* No route for this method. HEAD where GET is sold shows the price. */
enum step answer_other_method(struct request *r);

/* ---- request_payment.c: the payment in a head ---- */

/* Points into head; counts of 0, 1 or more of each kind. */
void request_payment_headers(const struct http_head *head, struct payment_headers *out);
/* The buyer's secret for getting this answer again (hashed into r); false when malformed. */
bool request_read_secret(struct request *r);
/* Binds r->payment to an offer of r->route; terms that a reload replaced are tried where today's do
 * not match, and r keeps the configuration and route it was bound by. */
enum payment_fault request_bind(struct request *r, struct err *why);

/* ---- request_record.c: what the ledger and the facilitator are told ---- */

/* Makes r->fingerprint too. *out points into r. */
void request_claim(struct request *r, struct ledger_claim *out);

/* Appends the body of verify (charge NULL) or settle. */
void request_facilitator_bytes(const struct request *r, const struct u256 *charge, struct buf *out);

struct request_terms {
    struct ledger_terms terms; /* points into r and into what follows */
    char nonce[96];
    char amount[U256_TEXT_MAX];
    struct buf resource;
};
void request_terms_make(const struct request *r, struct request_terms *out);
void request_terms_fini(struct request_terms *terms);

struct request_seal {
    struct ledger_seal seal; /* points into r and into what follows */
    struct buf body, lines;
    char charge[U256_TEXT_MAX];
};
/* Only for a sold reply. */
void request_seal_make(struct request *r, struct request_seal *out);
/* Wipes what the payment was in. */
void request_seal_fini(struct request_seal *seal);

/* ---- request_verdict.c: each ends the exchange and returns STEP_FINISH ---- */

/* Verdicts of the ledger that end a request wherever they come. */
enum step answer_verdict(struct request *r, const struct ledger_result *result);
/* Not VERIFY_VALID. `forgotten`: a payment that this young ledger may have known before is not one
 * to ask money for again. */
enum step answer_unverified(struct request *r, const struct verify_outcome *outcome,
                            bool forgotten);
