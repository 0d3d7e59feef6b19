/*
 * Strict JSON: what every document from outside goes through before anything else sees it.
 *
 * Refused: more than `max` bytes, nesting deeper than JSON_DEPTH_MAX, bytes that are not UTF-8, NUL
 * in strings, duplicate keys (also those that differ only in ASCII letter case), numbers out of
 * range, data after the value. Go's decoder is case-insensitive and takes the last duplicate; runsc
 * is Go: a document that two readers read differently is an attack, not a style.
 *
 * Integers beyond int64 are refused: the parser has no exact form for them. One of them has a
 * meaning, 18446744073709551615, how "unlimited" is written in rlimits: with JSON_TAKE_UINT64_MAX
 * it is the real number JSON_UINT64_MAX (no integer, so whoever asks for one still refuses it), and
 * json_canonical() writes it as it was.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"

#define JSON_DEPTH_MAX 64
#define JSON_TAKE_UINT64_MAX ((size_t)1 << 30) /* a flag of json_strict_load(), ours alone */
#define JSON_UINT64_MAX 18446744073709551616.0
#define JSON_SIZE_MAX (1024 * 1024)

static inline void json_cleanup_(json_t **j)
{
    json_decref(*j);
}
#define CLEANUP_JSON CLEANUP(json_cleanup_)

/* Parses text into a new reference, the caller's. ERR_INVALID names the fault and its line:column
 * or key. `flags` 0, JSON_DECODE_ANY to accept a bare scalar, JSON_TAKE_UINT64_MAX. */
CHECKED enum err_kind json_strict_load(const char *text, size_t len, size_t max, size_t flags,
                                       json_t **out, struct err *err);

/* Reads and parses a file (regular, at most max bytes); errors carry the path. */
CHECKED enum err_kind json_strict_load_file(const char *path, size_t max, json_t **out,
                                            struct err *err);

/* ERR_INVALID naming the first member of `object` that is not in `names` (NULL-terminated), as
 * "<where>: unknown key \"x\"". `where` is a JSON pointer or a file name. */
CHECKED enum err_kind json_only_keys(const json_t *object, const char *const names[],
                                     const char *where, struct err *err);

/* A member by RFC 6901 pointer ("/process/user/uid"); borrowed, NULL if any step is missing. */
json_t *json_at(const json_t *root, const char *pointer);

/* Member readers that keep "absent" and "wrong type" apart. *out is untouched when absent and
 * `required` is false. Strings are borrowed from the tree. */
CHECKED enum err_kind json_get_string(const json_t *object, const char *key, bool required,
                                      const char **out, struct err *err);
CHECKED enum err_kind json_get_int(const json_t *object, const char *key, bool required,
                                   int64_t min, int64_t max, int64_t *out, struct err *err);
CHECKED enum err_kind json_get_bool(const json_t *object, const char *key, bool required, bool *out,
                                    struct err *err);

/* Compact text with keys sorted: the same tree gives the same bytes. The caller frees. */
char *json_canonical(const json_t *value);
