/*
 * The facilitator's balances, used nonces and transfers in one SQLite file. It stands in for a
 * chain: a settlement either moved the money durably, once per nonce, or it did not.
 *
 * Accounts that were never funded hold the book's standing credit. Amounts are 256-bit decimals.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "gate/facilitator/judge.h"

#define BOOK_TX_TEXT 67 /* "0x", 64 digits, NUL */

struct book;

/* Opens or makes the file ("" keeps the book in memory). `credit` is what an unfunded account
 * holds. ERR_UNAVAILABLE or ERR_INVALID with SQLite's words. */
CHECKED enum err_kind book_open(const char *path, const struct u256 *credit, struct book **out,
                                struct err *err);
void book_close(struct book *b);
DEFINE_CLEANUP(struct book, book_close, book_closep)

struct book_transfer {
    bool found;
    char tx[BOOK_TX_TEXT];
    char value[U256_TEXT_MAX];
    char pay_to[EVM_ADDRESS_TEXT];
    int64_t at; /* seconds */
};

/* The transfer that used this nonce, if any. */
CHECKED enum err_kind book_find(struct book *b, const char *key, struct book_transfer *out,
                                struct err *err);

/* NULL in *reason and a transaction when the money moved (durable on return); else why it did not:
 * nonce used, balance too small. A charge of zero moves nothing and has no transaction. With
 * `dry` nothing is moved: what a verification asks. */
CHECKED enum err_kind book_move(struct book *b, const struct judgement *j, int64_t now, bool dry,
                                const char *body, char tx[BOOK_TX_TEXT], const char **reason,
                                struct err *err);

CHECKED enum err_kind book_fund(struct book *b, const char *network, const char *asset,
                                const char *account, const struct u256 *balance, struct err *err);

/* {"transfers":[{key,tx,network,asset,from,to,value,at,body?}]}, a new reference; calldata is
 * public on a chain, so are the bodies here. */
CHECKED enum err_kind book_dump(struct book *b, bool with_bodies, json_t **out, struct err *err);
