/*
 * Credentials as files: read when they change, never logged, wiped when replaced.
 *
 * A file must be regular, hold 8 to 8192 bytes (one trailing newline is dropped), and be readable
 * by its owner only (mode 0400 or 0600).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"

struct secret {
    char *path;  /* owned */
    char *value; /* owned, terminated; wiped */
    size_t len;
    struct timespec changed; /* ctime of what was read */
    unsigned long inode;
};

void secret_init(struct secret *secret, const char *path);
void secret_fini(struct secret *secret);

/* Reads the file if it is new or has changed; *changed (may be NULL) tells. On failure the value in
 * hand stays: a half-done rotation does not take a working upstream down; the caller reports it.
 * ERR_* when there is no value at all or the new file is bad. */
CHECKED enum err_kind secret_refresh(struct secret *secret, bool *changed, struct err *err);
