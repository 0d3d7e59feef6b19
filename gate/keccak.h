/*
 * Keccak-256 as Ethereum uses it: the padding of the original submission (0x01), not SHA-3's
 * (0x06). The permutation is nettle's; only the sponge is here. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KECCAK_LEN 32

void keccak256(const void *data, size_t len, uint8_t out[KECCAK_LEN]);
