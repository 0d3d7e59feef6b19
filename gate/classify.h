/*
 * What a handler's answer is worth: sold, passed on without charge, or replaced by the gate. Pure.
 *
 * The default is not to charge: an answer is sold only when its status, its framing and its body
 * are each named here or by the route as what the buyer paid for.
 */
#pragma once

#include "gate/route.h"
#include "http/client.h"

#define CLASSIFY_ERROR_BODY_MAX 8192 /* bytes of an uncharged 4xx that is passed on */

enum sale {
    SALE_SOLD,    /* settle it */
    SALE_PASS,    /* the handler's own answer, not charged */
    SALE_REPLACE, /* the gate's own answer with `status`, not charged */
};

struct classified {
    enum sale sale;
    int status;      /* to the buyer */
    const char *why; /* one word, static: for log, metrics and the buyer */
};

/* `result` is of a call made with HTTP_CALL_STRICT and the route's cap. */
struct classified classify(const struct http_result *result, const struct answer_rule *rule,
                           enum http_method method);
