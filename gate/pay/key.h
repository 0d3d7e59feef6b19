/*
 * The buyer's key file: 64 hex digits of a secp256k1 secret, mode 0600. Touches the file system.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "gate/evm_signature.h"

/* Reads a key file; one that group or others can read is ERR_PRECONDITION. Wipe the secret after
 * use. */
CHECKED enum err_kind key_read(const char *path, uint8_t secret[32], struct evm_address *address,
                               struct err *err);
/* Makes a new one; an existing file is ERR_EXISTS and stays as it is. */
CHECKED enum err_kind key_new(const char *path, struct evm_address *address, struct err *err);
/* $HOME/.config/utter/pay.key, the caller's; NULL without HOME. */
char *key_default_path(void);
