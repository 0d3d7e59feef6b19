/*
 * Read-only evidence from an EVM chain: did this authorization move this value to this address, in
 * which transaction?
 *
 * Proof is one transaction, at least `confirmations` deep, with status 1, that holds both the
 * AuthorizationUsed event of (payer, nonce) and the Transfer event of the exact value from the
 * payer to payTo, both from the asset's contract. The used flag alone also turns true on a cancel
 * and proves nothing. With two URLs both must give the same answer, else there is none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct evm_rpc;
struct http_client;

struct evm_rpc_setup {
    const char *network;    /* CAIP-2, "eip155:8453" */
    const char *url[2];     /* the second NULL if there is one only */
    uint32_t confirmations; /* 12 */
    uint32_t deadline_ms;   /* 10000 for the whole question */
    uint64_t span_blocks;   /* how far back logs are searched: 50000, in steps of 2000 */
    bool plain_ok;          /* http beyond loopback */
};
void evm_rpc_setup_defaults(struct evm_rpc_setup *config);

CHECKED enum err_kind evm_rpc_new(const struct evm_rpc_setup *config, struct loop *loop,
                                  struct http_client *client, struct evm_rpc **out,
                                  struct err *err);
void evm_rpc_free(struct evm_rpc *rpc);
const char *evm_rpc_network(const struct evm_rpc *rpc);

struct evm_question {
    const char *asset, *payer, *pay_to; /* 0x + 40 hex */
    const char *nonce;                  /* 0x + 64 hex */
    const char *amount;                 /* decimal atomic units */
};
enum evm_evidence {
    EVM_NO_ANSWER = 0, /* unreachable, malformed, the two disagree, too few confirmations */
    EVM_MOVED,         /* proven; the transaction is given */
    EVM_NOT_SEEN,      /* no such log in the span: proves nothing */
};
typedef void evm_rpc_fn(void *arg, enum evm_evidence evidence, const char *transaction);
struct evm_rpc_call {
    void *op;
};
void evm_rpc_ask(struct evm_rpc *rpc, const struct evm_question *question,
                 struct evm_rpc_call *call, evm_rpc_fn *fn, void *arg);
void evm_rpc_cancel(struct evm_rpc_call *call);
