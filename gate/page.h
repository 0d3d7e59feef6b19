/* The frame of the gate's HTML pages. Pure. */
#pragma once

#include "base/buf.h"

void page_open(struct buf *out, const char *title);
void page_close(struct buf *out);
/* Text as HTML text or attribute value. */
void page_escape(struct buf *out, const char *s);
