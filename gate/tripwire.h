/*
 * Does a token stand in a handler's answer? In every form and spelling of base/scan.h.
 *
 * A tripwire against mistakes: a handler that means to can always encode it otherwise. The control
 * is that the token dies with its request.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* token: terminated, URL-safe characters and dots. */
bool tripwire_hit(const char *token, const void *data, size_t len);
