/*
 * EVM addresses and signatures: EIP-55 text, recovery of the signer of a 32-byte digest. Pure but
 * for libsecp256k1's own tables.
 *
 * Only what every verifier takes is taken: 65 bytes r|s|v, v one of 0, 1, 27, 28, r and s in range,
 * s in the lower half of the order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define EVM_ADDRESS_TEXT 43 /* "0x", 40 digits, NUL */
#define EVM_SIGNATURE_LEN 65

struct evm_address {
    uint8_t b[20];
};

/* "0x" and 40 hex digits in any case; a mixed-case text is not held to its checksum. */
bool evm_address_parse(const char *text, struct evm_address *out);
/* As above, and a mixed-case text must carry the right EIP-55 checksum: for configuration. */
bool evm_address_parse_checked(const char *text, struct evm_address *out);
/* EIP-55 into out (EVM_ADDRESS_TEXT bytes); returns out. */
const char *evm_address_text(const struct evm_address *a, char *out);
/* Lower case: the form in keys and logs. */
const char *evm_address_lower(const struct evm_address *a, char *out);
bool evm_address_equal(const struct evm_address *a, const struct evm_address *b);
bool evm_address_is_zero(const struct evm_address *a);

/* ERR_INVALID: length, v, range, high s, no point recovered. */
CHECKED enum err_kind evm_recover(const uint8_t digest[32], const uint8_t *sig, size_t sig_len,
                                  struct evm_address *out, struct err *err);

/* For the buyer's program and tests. `secret` is 32 bytes; sig gets r|s|v with low s, v 27 or 28.
 * ERR_INVALID when the secret is zero or not below the order. */
CHECKED enum err_kind evm_sign(const uint8_t digest[32], const uint8_t secret[32],
                               uint8_t sig[EVM_SIGNATURE_LEN], struct err *err);
CHECKED enum err_kind evm_secret_address(const uint8_t secret[32], struct evm_address *out,
                                         struct err *err);
