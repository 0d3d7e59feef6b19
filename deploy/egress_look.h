/*
 * What a slug's data proxy recorded: read only, for `status`.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "deploy/plan.h"

/* {"upstreams": [{"upstream", "calls", "bytesUp", "bytesDown", "refused"}], "last": [{"request",
 * "upstream", "status", "ms", "outcome"}]}: totals of what the record holds and its last `limit`
 * calls. The caller's. ERR_NOT_FOUND: there is no record. */
CHECKED enum err_kind egress_look(const struct plan *plan, int limit, json_t **out,
                                  struct err *err);

/* What the running data proxy has counted, by the names of its metrics without their prefix. The
 * caller's; empty when it does not answer. */
json_t *egress_counted(const struct plan *plan);
