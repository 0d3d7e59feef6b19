/*
 * EIP-712 digests of what x402 buyers sign: TransferWithAuthorization (EIP-3009) and Permit2's
 * PermitWitnessTransferFrom with the witnesses of the exact and upto proxies. Pure.
 *
 * Sources: EIP-712, EIP-3009, Uniswap Permit2, x402 scheme_exact_evm and scheme_upto_evm.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gate/evm_signature.h"
#include "gate/u256.h"

#define PERMIT2_ADDRESS "0x000000000022D473030F116dDEE9F6B43aC78BA3"
#define PERMIT2_EXACT_PROXY "0x402085c248EeA27D92E8b30b2C58ed07f9E20001"
#define PERMIT2_UPTO_PROXY "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002"

struct eip712_domain {
    const char *name;
    const char *version; /* NULL: the domain has none (Permit2) */
    uint64_t chain_id;
    struct evm_address contract;
};

struct eip712_transfer {
    struct evm_address from, to;
    struct u256 value, valid_after, valid_before;
    uint8_t nonce[32];
};

struct eip712_permit {
    struct evm_address token, spender;
    struct u256 amount, nonce, deadline;
    struct evm_address to;          /* witness */
    struct evm_address facilitator; /* witness, upto only */
    struct u256 valid_after;        /* witness */
    bool upto;
};

/* keccak256(0x1901 | domain separator | struct hash). */
void eip712_transfer_digest(const struct eip712_domain *domain, const struct eip712_transfer *t,
                            uint8_t digest[32]);
/* The domain is Permit2's own, on chain_id. */
void eip712_permit_digest(uint64_t chain_id, const struct eip712_permit *p, uint8_t digest[32]);

void eip712_domain_separator(const struct eip712_domain *domain, uint8_t out[32]);
void eip712_digest(const uint8_t separator[32], const uint8_t struct_hash[32], uint8_t digest[32]);
