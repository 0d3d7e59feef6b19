/*
 * Strict text forms: numbers, hex, base64, names. Pure. Nothing here accepts leading blanks,
 * signs that the form does not have, or trailing bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Decimal without sign or leading zeros ("0" itself is fine); false on anything else or overflow.
 */
bool text_u64(const char *s, uint64_t *out);
bool text_i64(const char *s, int64_t *out); /* as text_u64, one leading '-' allowed */

bool text_starts(const char *s, const char *prefix);
bool text_ends(const char *s, const char *suffix);

/* Lower-case hex of len bytes into out, which takes 2*len+1 bytes. */
void text_hex(const void *data, size_t len, char *out);
/* Exactly 2*len hex digits (any case) at s, s[2*len] is not looked at. */
bool text_unhex(const char *s, uint8_t *out, size_t len);

/* Standard alphabet, padded. out takes text_b64_len(len)+1 bytes; NUL-terminated. */
size_t text_b64_len(size_t len);
void text_b64(const void *data, size_t len, char *out);
/* URL alphabet, unpadded (JWT). out takes text_b64_len(len)+1 bytes. Returns the length. */
size_t text_b64url(const void *data, size_t len, char *out);
/* Decodes n characters into out (room for 3*n/4+3); strict: padding either complete or absent,
 * unused bits zero, no other characters. False otherwise. */
bool text_unb64(const char *s, size_t n, uint8_t *out, size_t *out_len);
bool text_unb64url(const char *s, size_t n, uint8_t *out, size_t *out_len);

/* Well-formed UTF-8 (no surrogates, no overlong forms). */
bool text_utf8_valid(const char *s, size_t n);

/* Copies s with control bytes, quotes, backslashes and non-ASCII escaped (\xNN, \n, \"), cut to
 * fit; for log lines and refusals made from outside text. Always terminated. Returns out. */
const char *text_safe(const char *s, char *out, size_t out_size);

/* Equal without a timing difference that depends on the content. */
bool text_equal_secret(const void *a, const void *b, size_t len);
