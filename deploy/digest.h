/*
 * sha256 as OCI spells it: "sha256:" and 64 lower-case hex digits. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

#define DIGEST_SIZE (7 + 64 + 1)

void digest_of(const void *data, size_t len, char out[DIGEST_SIZE]);
bool digest_valid(const char *s);

/* Piecewise. */
struct digest;
struct digest *digest_new(void);
void digest_add(struct digest *d, const void *data, size_t len);
void digest_end(struct digest *d, char out[DIGEST_SIZE]);
void digest_free(struct digest *d);
DEFINE_CLEANUP(struct digest, digest_free, digest_freep)
