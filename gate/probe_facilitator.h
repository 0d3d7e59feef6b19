/*
 * `utter-gate probe-facilitator FILE`: asks the configured facilitator, with the configured token,
 * what the gate will ask it, and says what came back: /supported for every offer, and a /verify in
 * either payload form for a payment that nobody can honour. Nothing is ever settled.
 */
#pragma once

#include "gate/config.h"

/* Prints to stdout. True when every offer is taken and verify is understood in the configured form.
 * ERR when it could not be asked at all. Changes config's offers (what the facilitator adds). */
CHECKED enum err_kind probe_facilitator(struct gate_config *config, bool *fine, struct err *err);
