/*
 * Certificates that an operator handed over by file: how long each is good for.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

#define CERTIFICATE_WARN_DAYS 14

/* Whole days until the first certificate of a PEM file ends; negative once it has. ERR_NOT_FOUND
 * without the file, ERR_INVALID where it holds no certificate. */
CHECKED enum err_kind certificate_days(const char *path, int64_t *days, struct err *err);
/* Of a Traefik route (plan.route): its certificate's file, borrowed, or NULL (none, or ACME's). */
const char *certificate_of_route(const json_t *route);
