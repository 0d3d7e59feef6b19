/*
 * A known text in outside bytes, in whatever spelling programs give what they reflect: percent-,
 * HTML-, JSON-, C- and quoted-printable escapes, each byte for itself and up to a few levels deep,
 * with line breaks put in between.
 *
 * Pure. Reading is always bounded: an escape is at most some 30 bytes long.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spelling_match {
    SPELLING_NONE,
    SPELLING_PARTIAL, /* the data ends before it is decided: more bytes could make it whole */
    SPELLING_WHOLE,
};

struct spelling {
    const uint8_t *text; /* borrowed */
    size_t len;          /* at least 1 */
    bool fold;           /* letters match in either case */
    bool odd;            /* it holds a byte that escapes begin with */
};

struct spelling spelling_of(const void *text, size_t len, bool fold);

/* Does the text stand, spelt in any way, at the very beginning of data (len at least 1)? `final`:
 * no more bytes will come, the answer is never SPELLING_PARTIAL. Otherwise, what can become whole
 * is partial from its first byte on. */
enum spelling_match spelling_at(const struct spelling *spelling, const uint8_t *data, size_t len,
                                bool final);

/* Marks in `first` every byte value that a spelling can begin with. */
void spelling_starts(const struct spelling *spelling, bool first[256]);
