/*
 * Counters of a gate and their Prometheus text. No label is made of anything a client or handler
 * sent: outcomes are an enum, routes are their index in the configuration. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* How a request ended. One word each in logs, metrics and on the operator page. */
enum outcome {
    OUTCOME_CHALLENGED,  /* 402, no payment */
    OUTCOME_SOLD,        /* settled and released in this request */
    OUTCOME_REPLAYED,    /* a sealed answer released again */
    OUTCOME_FREE,        /* free route */
    OUTCOME_UNCHARGED,   /* handler ran, nothing charged */
    OUTCOME_BAD_PAYMENT, /* 400, 402: the payment cannot be taken */
    OUTCOME_INVALID,     /* verify said no */
    OUTCOME_REFUSED,     /* settle said no */
    OUTCOME_UNRESOLVED,  /* 503: the settlement's outcome is not known yet */
    OUTCOME_UNPROVEN,    /* 409 */
    OUTCOME_CONFLICT,    /* 403, 409: used for another request, by another, or up */
    OUTCOME_LIMITED,     /* 429 */
    OUTCOME_UNAVAILABLE, /* 503: ours or the facilitator's fault */
    OUTCOME_NOT_FOUND,   /* 404, 405, 421 */
    OUTCOME_BAD_REQUEST, /* 400, 408, 413, 415 */
    OUTCOME_OWN,         /* alive, preflight */
    OUTCOME_GONE,        /* the client left before anything was charged */
    OUTCOME_N,
};
const char *outcome_name(enum outcome outcome);

#define METRICS_BUCKETS 14

struct histogram {
    uint64_t bucket[METRICS_BUCKETS + 1];
    uint64_t count;
    uint64_t sum_ms;
};
void histogram_add(struct histogram *h, uint64_t ms);
/* Upper bound of the bucket that holds the quantile (0..1), in ms; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);

struct metrics {
    uint64_t outcomes[OUTCOME_N];
    uint64_t status[6];     /* by hundreds, 0 unused */
    uint64_t refused_heads; /* by the HTTP parser */
    uint64_t handler_calls;
    struct histogram unpaid, paid, handler, verify, settle;
};
void metrics_count(struct metrics *m, enum outcome outcome, int status, uint64_t ms);
/* Appends the text exposition of these counters. */
void metrics_write(const struct metrics *m, struct buf *out);
