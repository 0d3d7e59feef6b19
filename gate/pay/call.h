/*
 * One call of a buyer: ask, pay once, repeat the same payment until its outcome is known. Touches
 * the network.
 *
 * A call signs at most one payment. Whatever happens after it was first sent is answered by sending
 * the identical request again, never by signing anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "gate/pay/purchase.h"
#include "http/client.h"

/* Exit codes of utter-pay; the man page explains them. */
enum pay_exit {
    PAY_DONE = 0,
    PAY_LOCAL = 1, /* nothing was sent that could be paid for */
    PAY_USAGE = 2,
    PAY_NOT_AGREED = 3, /* price above the limit or not confirmed */
    PAY_REFUSED = 4,    /* the seller did not take the payment; nothing was charged */
    PAY_UNKNOWN = 5,    /* sent, outcome not known: the same payment can be sent again */
    PAY_HTTP = 6,       /* an answer of 300 or above, not charged */
    PAY_NO_OFFER = 7,   /* nothing that can be paid from here */
};

struct pay_request {
    const char *method;
    const char *url;
    const struct http_header *headers;
    size_t n_headers;
    const void *body;
    size_t body_len;
    uint32_t deadline_ms; /* of one HTTP call */
    uint32_t retry_for_s; /* how long the same payment is repeated */
};

struct pay_call {
    struct loop *loop;          /* borrowed */
    struct http_client *client; /* borrowed */
    const struct pay_request *request;
    char resume[65];           /* the resume secret */
    struct http_stored answer; /* the last answer; http_stored_fini() by the owner */
};

/* Sends the request without payment. */
CHECKED enum err_kind pay_ask(struct pay_call *c, struct err *err);

/* Sends it with this payment until there is an outcome. `tell` gets a line before each wait. */
enum pay_exit pay_send(struct pay_call *c, const char *header_name, const char *payment,
                       void (*tell)(const char *line), struct err *err);

/* The receipt of the last answer, checked against the purchase; NULL without one. ERR_INVALID when
 * there is one that does not say what it should. *out is a new reference. */
CHECKED enum err_kind pay_receipt(const struct pay_call *c, const struct purchase *p, json_t **out,
                                  struct err *err);
