/* The `payload` of one payment: what the buyer signs, and the signature. Pure but for randomness.
 */
#pragma once

#include "gate/pay/purchase.h"

/* By the kind of p->offer; fills p->payer. *out is owned by the caller. now: seconds. */
CHECKED enum err_kind authorization_sign(struct purchase *p, const uint8_t secret[32], int64_t now,
                                         json_t **out, struct err *err);
