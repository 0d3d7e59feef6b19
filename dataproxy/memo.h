/*
 * Tokens whose signature has been checked: a handler shows the same token with every call of its
 * request, and the signature is the dear part (over 100 us of an Ed25519 check). What can change is
 * checked each time: the window here, the open request by its table.
 *
 * A token is known by the SHA-256 of its whole text. Bounded; the oldest go first.
 */
#pragma once

#include "proto/data_token.h"

#define MEMO_TOKENS 256

struct memo {
    struct memo_entry {
        uint8_t digest[32];
        struct data_token token;
        bool used;
    } entry[MEMO_TOKENS];
    size_t next;
};

/* data_token_check(), with the signature checked once per token. */
CHECKED enum err_kind memo_check(struct memo *memo, const struct data_keys *keys, const char *text,
                                 size_t len, const char *slug, int64_t now, struct data_token *out,
                                 struct err *err);
/* The keys have changed: every token is checked anew. */
void memo_clear(struct memo *memo);
