/*
 * The data proxy's part of a plan: what it reads, and what the gate reads about it. Pure.
 */
#pragma once

#include <jansson.h>

#include "deploy/plan.h"

/* The gate's "data": its socket, its key, the names. A new reference. */
json_t *plan_data_for_gate(const struct endpoint *endpoint);
/* The data proxy's configuration file. A new reference. */
json_t *plan_data_config(const struct endpoint *endpoint, const struct plan *plan);
