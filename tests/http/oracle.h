/* Node's parser (llhttp, strict mode) on one request; apart, because its names clash with ours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Takes the message in data; *end is where it ended. False: refused or not complete; *why. */
bool oracle_takes(const char *data, size_t len, size_t *end, const char **why);
