/*
 * A payment whose outcome is not known yet, kept in a file so that a later run sends the same one.
 * Touches the file system.
 */
#pragma once

#include "base/err.h"
#include "base/own.h"

struct ticket {
    int version;
    char *url; /* owned, all of them */
    char *method;
    char *payment; /* value of the payment header */
    char *resume;  /* resume secret */
};

void ticket_fini(struct ticket *t); /* wipes */

/* Writes to $HOME/.local/state/utter/pay-<part of the secret>.json (0600) and returns the path, the
 * caller's. */
CHECKED enum err_kind ticket_save(const struct ticket *t, char **path, struct err *err);
CHECKED enum err_kind ticket_load(const char *path, struct ticket *out, struct err *err);
