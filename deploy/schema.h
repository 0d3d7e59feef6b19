/*
 * The part of JSON Schema that our own schema files use, applied to a tree. Pure.
 *
 * Understood: type, enum, const, properties, required, additionalProperties (false or a schema),
 * propertyNames.pattern, items, minItems, maxItems, minimum, maximum, minLength, maxLength, pattern
 * (POSIX extended), oneOf (by type or by the one property that tells the branches apart), $ref to
 * "#/$defs/x". A keyword that is none of these, nor an annotation, is a bug and asserts: nothing is
 * skipped silently.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/* ERR_INVALID with one line that names the place ("pay.to") and what it must be: the schema's own
 * "description" of that place where it has one. */
CHECKED enum err_kind schema_check(const json_t *schema, const json_t *value, struct err *err);
