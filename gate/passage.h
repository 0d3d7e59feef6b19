/*
 * Which header fields may pass the gate, and in which direction. Pure.
 *
 * Towards the handler nothing passes that pays, authenticates towards us, frames, or speaks for the
 * gate; towards the buyer nothing that speaks about money, about the connection or for our origin.
 * Names are compared without case and with '_' read as '-', since many handlers cannot tell them
 * apart.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "gate/route.h"
#include "http/message.h"

#define PASSAGE_MAX (HTTP_FIELDS_MAX + 24)

/* Fields to send, with the text they point into. */
struct passage {
    struct http_header fields[PASSAGE_MAX];
    size_t n;
    struct buf text;           /* owned: terminated copies */
    size_t at[PASSAGE_MAX][2]; /* offsets in text until passage_seal() */
};

void passage_init(struct passage *p);
void passage_fini(struct passage *p); /* wipes */
/* Adds one field (copied). A field beyond PASSAGE_MAX or with bytes that cannot be sent is left out
 * and *p->text.failed is set. */
void passage_add(struct passage *p, const char *name, size_t name_len, const char *value,
                 size_t value_len);
void passage_put(struct passage *p, const char *name, const char *value);
/* Fields are complete: fills `fields`. No more adding. */
void passage_seal(struct passage *p);

/* The buyer's fields that the handler of this route may see. `connection` lists are honoured for
 * the buyer's own fields only. */
void passage_to_handler(struct passage *p, const struct http_head *head, const struct route *route);

/* The handler's fields that the buyer may see. `origin`: a Location that leaves it is dropped. */
void passage_to_buyer(struct passage *p, const struct http_field *fields, size_t n,
                      const struct route *route, const char *origin);

/* The fields as "Name: value\r\n" lines, as the ledger keeps them, and back (adds to p). */
void passage_write(const struct passage *p, struct buf *out);
bool passage_read(struct passage *p, const char *lines, size_t len);
