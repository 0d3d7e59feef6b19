/*
 * Brings an older ledger to the present schema: first a whole copy beside it, then each step in one
 * transaction.
 */
#pragma once

#include <sqlite3.h>

#include "base/err.h"

/* steps[i] is SQL from version i+1 to i+2; `n` of them. The copy is PATH.before-<new version>; one
 * that exists already is a sign of an earlier try and is ERR_EXISTS (nothing is overwritten). On
 * any error the ledger is as it was. */
CHECKED enum err_kind ledger_migrate(sqlite3 *db, const char *path, const char *const steps[],
                                     int n, struct err *err);
