/*
 * Misbehaviour on demand: what the facilitator does with the next requests, for tests of those who
 * have to live with facilitators. Pure.
 *
 *     {"verify": [{"mode": "429"}], "settle": {"mode": "reset"}}
 *
 * An object holds for every request of that operation until another script comes; a list is used up
 * one entry per request, then requests are served honestly. Members: mode; ms (delay); reason
 * (refuse, refuse-after).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum script_op { SCRIPT_VERIFY, SCRIPT_SETTLE, SCRIPT_SUPPORTED, SCRIPT_OP_N };

enum reply {
    REPLY_HONEST,
    REPLY_HANG,    /* silence until the peer leaves */
    REPLY_RESET,   /* RST */
    REPLY_STATUS,  /* `status` with an error body */
    REPLY_REFUSE,  /* a business refusal with `reason` */
    REPLY_PENDING, /* settlement_pending with a transaction, under `status` */
    REPLY_HTML,
    REPLY_EMPTY,  /* {} */
    REPLY_TRUTHY, /* "true" in place of true */
    REPLY_NO_TX,  /* success without transaction */
    REPLY_NO_NETWORK,
    REPLY_WRONG_NETWORK,
    REPLY_WRONG_PAYER,
    REPLY_ZERO_PAYER,
    REPLY_WRONG_AMOUNT, /* ten times what moved */
    REPLY_REDIRECT,     /* 307 to the same path */
    REPLY_HUGE,         /* 2 MiB of JSON */
    REPLY_CUT,          /* half a body, then RST */
};

struct script_mode {
    const char *name;
    enum reply reply;
    bool moves; /* settle: the money moves before the misbehaviour */
    int status;
};

struct script_step {
    const struct script_mode *mode;
    uint32_t ms;
    const char *reason; /* borrowed from the script */
};

struct script {
    json_t *root; /* owned or NULL */
    size_t used[SCRIPT_OP_N];
};

/* Replaces the script. ERR_INVALID names what is not understood; the old one then stays. */
CHECKED enum err_kind script_set(struct script *s, const char *text, size_t len, struct err *err);
void script_fini(struct script *s);
/* What to do with the next request; uses up a list entry. */
struct script_step script_next(struct script *s, enum script_op op);
