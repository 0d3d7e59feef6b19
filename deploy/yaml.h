/*
 * YAML as a strict tree: what an operator's file goes through before anything else sees it. Pure.
 *
 * One document. Refused, each with its line: more than YAML_SIZE_MAX bytes, nesting deeper than
 * YAML_DEPTH_MAX, more than YAML_NODES_MAX nodes, anchors, aliases, tags, directives, duplicate
 * keys, keys that are not plain names, bytes that are not UTF-8. A plain scalar is an integer,
 * true, false or null where it looks exactly so (decimal, no leading zeros, JSON's spelling);
 * everything else is a string: "no", "0x10" and 1.50 stay text. Quoted scalars are always strings.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

#define YAML_SIZE_MAX (64 * 1024)
#define YAML_DEPTH_MAX 8
#define YAML_NODES_MAX 4000

/* *out is a new reference, the caller's. */
CHECKED enum err_kind yaml_load(const char *text, size_t len, json_t **out, struct err *err);
