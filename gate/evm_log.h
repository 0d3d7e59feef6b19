/*
 * What a JSON-RPC answer of an EVM node proves. Pure; every byte is outside text.
 *
 * Sources: Ethereum JSON-RPC (eth_getLogs, eth_getTransactionReceipt, eth_blockNumber); EIP-20
 * Transfer(address,address,uint256), EIP-3009 AuthorizationUsed(address,bytes32): topic 0 is the
 * Keccak-256 of the signature.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gate/evm_rpc.h"

#define EVM_TOPIC_TRANSFER "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
#define EVM_TOPIC_AUTHORIZATION_USED                                                               \
    "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
#define EVM_HASH_TEXT 67 /* 0x, 64 digits, NUL */

/* The `result` of a JSON-RPC answer, a new reference; ERR_INVALID: malformed or an error object. */
CHECKED enum err_kind evm_result(const char *body, size_t len, json_t **out, struct err *err);

/* "0x1b4" without leading zeros, at most 64 bits. */
bool evm_quantity(const json_t *value, uint64_t *out);

/* True if the question is one that can be asked: lengths and hex of its members. */
bool evm_question_valid(const struct evm_question *question);

/* From the logs of AuthorizationUsed: the transaction that used exactly (payer, nonce) on the
 * asset. False: none. */
bool evm_find_use(const json_t *logs, const struct evm_question *question,
                  char transaction[EVM_HASH_TEXT]);

/* Does this receipt prove it: status 1, of that transaction, both events from the asset's contract,
 * exact value, payer to payTo? `block` gets its number. */
bool evm_receipt_proves(const json_t *receipt, const char *transaction,
                        const struct evm_question *question, uint64_t *block);

/* The address as a 32-byte topic ("0x000…<40 digits>"), lower case. */
void evm_address_topic(const char *address, char out[EVM_HASH_TEXT]);
