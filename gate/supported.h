/* What a facilitator says in /supported, held against what the routes sell for. Pure. */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "gate/config.h"

/* The kind of `kinds` (an array, or NULL) that takes this offer, of version 2 where there is one;
 * borrowed. NULL: none. */
const json_t *supported_kind(const json_t *kinds, const struct offer *offer);

/* Every offer of every route learns what the facilitator adds to it (`supported` is its whole
 * answer), and the challenges are made again. ERR_UNSUPPORTED names the first offer it does not
 * take. */
CHECKED enum err_kind supported_learn(struct gate_config *config, const json_t *supported,
                                      struct err *err);
