/*
 * Reads a ledger for people: rows in pages, totals. Read-only, blocking; never in the gate's own
 * process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "gate/ledger_store.h"

enum report_form { REPORT_TABLE, REPORT_JSON, REPORT_CSV };

struct report {
    enum report_form form;
    const char *state; /* a state's name, "unresolved", or NULL for all */
    int64_t since_s;   /* created at or after; 0 all */
    const char *key;   /* hex prefix of a payment's key, or NULL */
    uint64_t limit;    /* rows; 0 all */
};

/* Writes rows, oldest first. JSON: one array of objects; CSV: RFC 4180 with a header line. *rows
 * gets their number. */
CHECKED enum err_kind report_rows(struct store *store, const struct report *report, FILE *out,
                                  uint64_t *rows, struct err *err);
/* Per UTC day, network and asset: payments by end, and the sum settled in atomic units. */
CHECKED enum err_kind report_totals(struct store *store, enum report_form form, FILE *out,
                                    struct err *err);
