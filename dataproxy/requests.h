/*
 * The requests that gates have opened and not ended: the only ones the proxy serves.
 *
 * One request holds its scope, its budgets and the calls in flight. Ending it, by the gate, by its
 * deadline or because the gate's connection closed, aborts those calls at once and makes every
 * later use a refusal. Ids are never used twice while the table remembers them: an ended id stays
 * known as ended until its deadline.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "proto/data_session.h"
#include "proto/data_token.h"

#define REQUESTS_MAX 4096

struct requests;
struct request;

/* One upstream call in flight, embedded in its owner. `abort` is called when its request ends; the
 * call is unlinked by then. */
struct request_call {
    struct request *request; /* NULL while not in flight */
    struct request_call *next;
    struct request_call **prev;
    void (*abort)(struct request_call *call, const char *why);
};

struct requests *requests_new(void);
void requests_free(struct requests *requests); /* ends all */
DEFINE_CLEANUP(struct requests, requests_free, requests_freep)

/* Opens what a gate's message says, for `owner` (the session, an opaque identity). ERR_EXISTS for
 * an id that is open or was ended, ERR_UNAVAILABLE when REQUESTS_MAX are known. */
CHECKED enum err_kind requests_open(struct requests *requests, const struct data_message *open,
                                    const void *owner, uint64_t now_ms, struct err *err);

/* Ends one and reports its use. ERR_NOT_FOUND for one that is not open or belongs to another owner.
 */
CHECKED enum err_kind requests_end(struct requests *requests, const char *id, const void *owner,
                                   struct data_message *ended, struct err *err);
void requests_end_owner(struct requests *requests, const void *owner, const char *why);
/* Ends what is past its deadline and forgets ended ones whose deadline has passed. */
void requests_expire(struct requests *requests, uint64_t now_ms);

/* Is the request that the token names open, with this upstream in its scope? Takes nothing. */
CHECKED enum err_kind requests_check(const struct requests *requests,
                                     const struct data_token *token, const char *upstream,
                                     uint64_t now_ms, struct err *err);
/* Takes one call from the budgets of the request that the token names and links `call` to it. The
 * request's own scope and budgets bound the token's. ERR_DENIED: not open, ended, out of scope;
 * ERR_UNAVAILABLE: a budget is used up. */
CHECKED enum err_kind requests_begin_call(struct requests *requests, const struct data_token *token,
                                          const char *upstream, uint64_t now_ms,
                                          struct request_call *call, struct err *err);
/* Counts bytes; false when the budget is used up: the call must be cut. */
bool request_call_count(struct request_call *call, size_t bytes);
/* The credential was about to leak: the request's answer must not be sold. */
void request_call_taint(struct request_call *call);
void request_call_end(struct request_call *call); /* fine on one that has been aborted */
const char *request_id(const struct request *request);

struct requests_stats {
    size_t open;
    size_t calls; /* in flight */
};
void requests_stats(const struct requests *requests, struct requests_stats *out);
