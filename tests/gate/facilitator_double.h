/*
 * A facilitator that can be told to fail in every way, in this process and on its loop. It counts
 * what it was asked and what it moved; a payment is its settle body, so a second settle with other
 * bytes would count as another payment. utter-facilitator, which checks signatures, is the real
 * part beside it.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "http/server.h"

enum fac_mode {
    FAC_OK,
    FAC_REFUSED,      /* nothing moves, a reason from the allow-list */
    FAC_PENDING,      /* moves, says settlement_pending */
    FAC_HANG,         /* moves, never answers */
    FAC_RESET_AFTER,  /* moves, resets the connection */
    FAC_500_AFTER,    /* moves, says 500 */
    FAC_FAILED_AFTER, /* moves, says transaction_failed with an empty transaction */
    FAC_HANG_BEFORE,  /* nothing moves, no answer */
    FAC_RESET_BEFORE, /* nothing moves, reset */
    FAC_500_BEFORE,   /* nothing moves, 500 */
    FAC_401,          /* nothing moves */
    FAC_EMPTY_TX,     /* moves, success without transaction */
    FAC_MODE_N,
};

static const char *const fac_mode_names[FAC_MODE_N] = {
    "ok",           "refused",     "pending",      "hang",       "reset-after", "500-after",
    "failed-after", "hang-before", "reset-before", "500-before", "401",         "empty-tx",
};

/* What a settle gets after the money moved. */
enum fac_resettle { FAC_OFFICIAL, FAC_PENDING_STORE, FAC_IDEMPOTENT, FAC_RESETTLE_N };
static const char *const fac_resettle_names[FAC_RESETTLE_N] = { "official", "pending-store",
                                                                "idempotent" };

static inline bool fac_mode_moves(enum fac_mode mode)
{
    return mode == FAC_OK || mode == FAC_PENDING || mode == FAC_HANG || mode == FAC_RESET_AFTER ||
           mode == FAC_500_AFTER || mode == FAC_FAILED_AFTER || mode == FAC_EMPTY_TX;
}

#define FAC_BODIES 64

struct fac {
    struct http_server *server;
    int port;
    enum fac_mode mode; /* how payments that are first seen from now on behave: */
    int mode_left;      /* for so many settles; then FAC_OK */
    enum fac_resettle resettle;
    int verifies, settles;
    struct {
        char *body;
        int settles;
        int transfers; /* 0 or 1: a chain lets a nonce move once */
        char tx[16];
        enum fac_mode mode;
        int mode_left;
        enum fac_resettle resettle;
    } payments[FAC_BODIES];
    int n;
    struct http_request *hanging[256];
    int n_hanging;
};

static inline int fac_transfers(const struct fac *fac)
{
    int n = 0;
    for (int i = 0; i < fac->n; i++)
        n += fac->payments[i].transfers;
    return n;
}

static inline void fac_json(struct http_request *request, int status, const char *text)
{
    static const struct http_header header = { "Content-Type", "application/json" };
    struct http_answer answer = {
        .status = status, .headers = &header, .n_headers = 1, .body = text, .body_len = strlen(text)
    };
    http_answer(request, &answer);
}

static inline int fac_find(struct fac *fac, const char *body, size_t len)
{
    for (int i = 0; i < fac->n; i++) {
        if (strlen(fac->payments[i].body) == len && !memcmp(fac->payments[i].body, body, len))
            return i;
    }
    if (fac->n == FAC_BODIES)
        abort();
    fac->payments[fac->n].body = xstrndup(body, len);
    snprintf(fac->payments[fac->n].tx, sizeof(fac->payments[0].tx), "0x%04x", fac->n + 1);
    fac->payments[fac->n].mode = fac->mode;
    fac->payments[fac->n].mode_left = fac->mode_left;
    fac->payments[fac->n].resettle = fac->resettle;
    return fac->n++;
}

static inline void fac_success(struct http_request *request, const char *tx)
{
    char text[256];
    snprintf(text, sizeof(text),
             "{\"success\":true,\"transaction\":\"%s\",\"network\":\"eip155:84532\"}", tx);
    fac_json(request, 200, text);
}

static inline void fac_failure(struct http_request *request, int status, const char *reason,
                               const char *tx)
{
    char text[256];
    snprintf(text, sizeof(text),
             "{\"success\":false,\"errorReason\":\"%s\",\"transaction\":\"%s\",\"network\":"
             "\"eip155:84532\"}",
             reason, tx);
    fac_json(request, status, text);
}

static inline void fac_hang(struct fac *fac, struct http_request *request)
{
    if (fac->n_hanging == 256)
        abort();
    fac->hanging[fac->n_hanging++] = request;
}

static inline void fac_answer(struct fac *fac, struct http_request *request, enum fac_mode mode,
                              const char *tx)
{
    switch (mode) {
    case FAC_REFUSED:
        fac_failure(request, 200, "invalid_exact_evm_signature", "");
        return;
    case FAC_PENDING:
        fac_failure(request, 500, "settlement_pending", tx);
        return;
    case FAC_HANG:
    case FAC_HANG_BEFORE:
        fac_hang(fac, request);
        return;
    case FAC_RESET_AFTER:
    case FAC_RESET_BEFORE:
        http_answer_reset(request);
        return;
    case FAC_500_AFTER:
    case FAC_500_BEFORE:
        fac_json(request, 500, "{\"error\":\"oops\"}");
        return;
    case FAC_FAILED_AFTER:
        fac_failure(request, 200, "invalid_exact_evm_transaction_failed", "");
        return;
    case FAC_401:
        fac_json(request, 401, "{\"error\":\"who are you\"}");
        return;
    case FAC_EMPTY_TX:
        fac_success(request, "");
        return;
    case FAC_OK:
    case FAC_MODE_N:
    default:
        fac_success(request, tx);
        return;
    }
}

static inline void fac_settle(struct fac *fac, struct http_request *request, const char *body,
                              size_t len)
{
    int i = fac_find(fac, body, len);
    fac->settles++;
    fac->payments[i].settles++;
    enum fac_mode mode = fac->payments[i].mode_left > 0 ? fac->payments[i].mode : FAC_OK;
    fac->payments[i].mode_left -= fac->payments[i].mode_left > 0;
    bool moved = fac->payments[i].transfers > 0;
    if (!moved && fac_mode_moves(mode))
        fac->payments[i].transfers = 1;
    if (moved && mode == FAC_OK && fac->payments[i].resettle == FAC_OFFICIAL)
        fac_failure(request, 200, "invalid_exact_evm_nonce_already_used", "");
    else
        fac_answer(fac, request, mode, fac->payments[i].tx);
}

static inline void fac_on_body(struct http_request *request, enum http_body result,
                               const void *data, size_t len, void *arg)
{
    struct fac *fac = arg;
    const struct http_head *head = http_request_head(request);
    if (result != HTTP_BODY_OK) {
        http_answer_reset(request);
        return;
    }
    if (head->path.len == 7 && !memcmp(head->path.p, "/verify", 7)) {
        fac->verifies++;
        fac_json(request, 200, "{\"isValid\":true}");
    } else {
        fac_settle(fac, request, data, len);
    }
}

static inline void fac_on_request(void *arg, struct http_request *request)
{
    http_request_read_body(request, 65536, fac_on_body, arg);
}

static inline void fac_init(struct fac *fac, struct loop *loop)
{
    struct err err;
    *fac = (struct fac){ 0 };
    struct http_server_config config = { .on_request = fac_on_request, .arg = fac };
    if (http_server_new(loop, &config, &fac->server, &err) ||
        http_server_listen(fac->server, "127.0.0.1:0", &err)) {
        fprintf(stderr, "facilitator double: %s\n", err.msg);
        abort();
    }
    fac->port = http_server_port(fac->server, 0);
}

static inline void fac_fini(struct fac *fac)
{
    for (int i = 0; i < fac->n_hanging; i++)
        http_answer_reset(fac->hanging[i]);
    http_server_free(fac->server);
    for (int i = 0; i < fac->n; i++)
        free(fac->payments[i].body);
}
