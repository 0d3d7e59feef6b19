/*
 * What `watch` serves on its loopback address: routes for Traefik's HTTP provider, and one scrape
 * target for the metrics of all gates.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "deploy/settings.h"

struct watch_http;

/* Everything is borrowed and must outlive it. An address that is not loopback is refused. */
CHECKED enum err_kind watch_http_new(struct loop *loop, const struct settings *settings,
                                     const uint64_t *restarts, struct watch_http **out,
                                     struct err *err);
void watch_http_free(struct watch_http *http);
