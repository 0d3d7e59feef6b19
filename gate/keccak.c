#include "gate/keccak.h"

#include <nettle/sha3.h>

#define RATE 136 /* bytes: 1600 bits less twice 256 */

static void absorb(struct sha3_state *state, const uint8_t block[RATE])
{
    for (size_t i = 0; i < RATE; i++)
        state->a[i / 8] ^= (uint64_t)block[i] << (8 * (i % 8));
    sha3_permute(state);
}

void keccak256(const void *data, size_t len, uint8_t out[KECCAK_LEN])
{
    struct sha3_state state = { 0 };
    const uint8_t *p = data;
    for (; len >= RATE; len -= RATE, p += RATE)
        absorb(&state, p);
    uint8_t last[RATE] = { 0 };
    for (size_t i = 0; i < len; i++)
        last[i] = p[i];
    last[len] ^= 0x01;
    last[RATE - 1] ^= 0x80;
    absorb(&state, last);
    for (size_t i = 0; i < KECCAK_LEN; i++)
        out[i] = (uint8_t)(state.a[i / 8] >> (8 * (i % 8)));
}
