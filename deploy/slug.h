/*
 * A slug: the name of a deployed endpoint, and the names derived from it. Pure.
 *
 * [a-z0-9]([a-z0-9-]{0,38}[a-z0-9])? without "--": valid as a DNS label, in containerd ids (which
 * refuse
 * "--"), file names and Traefik names. Only slug_parse() makes one.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#define SLUG_MAX 40
#define SLUG_ID_SIZE (SLUG_MAX + 16)

struct slug {
    char s[SLUG_MAX + 1];
};

CHECKED enum err_kind slug_parse(const char *text, struct slug *out, struct err *err);

/* "<slug>.h<generation>", "<slug>.gate" and "<slug>.gate2" (the two generations of a gate). */
void slug_handler_id(const struct slug *slug, unsigned generation, char out[SLUG_ID_SIZE]);
void slug_data_id(const struct slug *slug, char out[SLUG_ID_SIZE]); /* "<slug>.data" */
void slug_gate_id(const struct slug *slug, unsigned side, char out[SLUG_ID_SIZE]);
