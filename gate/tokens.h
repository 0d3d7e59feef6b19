/*
 * The networks and assets that are known by name: how a CAIP-2 id and a v1 slug belong together,
 * and which EIP-712 domain a token signs under. Constant tables; pure.
 *
 * A network that is not in the table can be used by its CAIP-2 id, for v2 buyers only; a token that
 * is not in it needs its name, version and decimals from the configuration.
 * Source: x402 specifications and the official client's own tables.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CAIP2_MAX 64 /* bytes with NUL */

struct network {
    const char *caip2;
    const char *v1;    /* slug of x402 v1, NULL where the official v1 client knows none */
    uint64_t chain_id; /* EVM; 0 for others */
    const char *label; /* for people: "Base Sepolia (testnet)" */
    bool testnet;
};

struct token {
    const char *network; /* CAIP-2 */
    const char *symbol;  /* "USDC" */
    const char *address; /* EIP-55 */
    const char *name;    /* EIP-712 domain */
    const char *version; /* EIP-712 domain */
    unsigned decimals;
};

/* Exact, case-sensitive; NULL when unknown. */
const struct network *network_by_caip2(const char *caip2);
const struct network *network_by_v1(const char *slug);
/* Either form. */
const struct network *network_by_name(const char *name);

/* `[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}`. */
bool caip2_valid(const char *s);
/* The number of "eip155:N" (canonical decimal, 1..2^53), or 0. */
uint64_t caip2_chain_id(const char *s);

/* By address (hex compared without case) or by symbol; NULL when unknown. */
const struct token *token_by_address(const char *caip2, const char *address);
const struct token *token_by_symbol(const char *caip2, const char *symbol);
