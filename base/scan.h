/*
 * The tripwire for secrets: no complete occurrence of one, in the forms it is likely to be
 * reflected in, passes a scanned stream.
 *
 * Forms: as is (letters in either case), hex (either case), base64 in both alphabets at all three
 * alignments (there the characters that depend on what stands beside the secret are left out); each
 * of them in every spelling of base/spelling.h: percent-, HTML-, JSON-, C- and quoted-printable
 * escapes byte by byte, broken into lines. A stream holds back from the first byte that can still
 * become one, so that a secret cut across reads is found before any of it is emitted, and other
 * text is not delayed.
 *
 * It is a tripwire, not a wall: whoever can compute can re-encode. The wall is that the handler
 * never holds the credential and that an upstream is named by the operator.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/own.h"

#define SCAN_SECRET_MIN 8 /* shorter ones would be found everywhere */
#define SCAN_SECRET_MAX 8192

/* The forms of some secrets; built once, then shared by streams, each of which holds a reference: a
 * rotated secret's set lives until the last stream that began under it has ended. */
struct scan_set;
struct scan_set *scan_set_new(void);
struct scan_set *scan_set_ref(struct scan_set *set);
void scan_set_unref(struct scan_set *set); /* the last one wipes and frees */
DEFINE_CLEANUP(struct scan_set, scan_set_unref, scan_set_unrefp)
/* Adds all forms of a secret of SCAN_SECRET_MIN … SCAN_SECRET_MAX bytes. */
void scan_set_add(struct scan_set *set, const void *secret, size_t len);
/* True when one of the forms stands in data. */
bool scan_once(const struct scan_set *set, const void *data, size_t len);

struct scan_stream {
    struct scan_set *set; /* a reference */
    struct buf held;
    bool hit; /* once true, nothing more comes out */
};

void scan_stream_init(struct scan_stream *stream,
                      struct scan_set *set);       /* takes a reference of its own */
void scan_stream_fini(struct scan_stream *stream); /* wipes what is held */
/* Takes bytes; appends to out what may be passed on. Returns false on a hit: cut the stream. */
bool scan_stream_feed(struct scan_stream *stream, const void *data, size_t len, struct buf *out);
/* The source has ended: passes on what was held back. */
bool scan_stream_end(struct scan_stream *stream, struct buf *out);
