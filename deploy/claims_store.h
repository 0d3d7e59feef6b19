/*
 * The claims stores of this host's wallets: which slugs share one, and when it goes.
 */
#pragma once

#include "base/err.h"
#include "deploy/plan.h"
#include "deploy/settings.h"

/* Removes the plan's claims store unless a recorded slug shares it still. The caller holds the
 * host's lock; the slug's own record is gone already. A plan without one: nothing. */
CHECKED enum err_kind claims_forget(const struct settings *settings, const struct plan *plan,
                                    struct err *err);
