/*
 * The admin listener: /healthz, /readyz, /metrics, the operator's page, and what `utter-gate
 * ledger` asks a running gate. Never on the public port.
 */
#pragma once

#include "http/server.h"

/* http_request_fn; arg is the gate. */
void admin_begin(void *arg, struct http_request *http);
