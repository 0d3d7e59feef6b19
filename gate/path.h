/*
 * The one spelling of a request path. Pure.
 *
 * Whatever two readers could take for different paths (GHSA-3j63-5h8p-gf7c and its kin) is refused,
 * not repaired: bad or incomplete escapes, encoded or raw NUL and control bytes, encoded slash or
 * backslash, raw backslash, empty segments, dot segments in any spelling, bytes that are not UTF-8.
 * What remains is normalised (RFC 3986 section 6.2.2): escapes of unreserved characters are
 * decoded, others upper-cased. The canonical form is what routes are matched with, what the
 * fingerprint covers and what the handler gets.
 */
#pragma once

#include "base/err.h"
#include "http/message.h"

#define PATH_MAX_BYTES HTTP_TARGET_MAX

/* Writes the canonical path, terminated, into out (at least path.len + 1 bytes). ERR_INVALID says
 * what was wrong without repeating it. */
CHECKED enum err_kind path_canonical(struct http_str path, char *out, struct err *err);
