/*
 * What gate and data proxy say to each other: which requests are open.
 *
 * A SOCK_SEQPACKET unix socket, one JSON object per packet, so that message borders are the
 * kernel's. The gate opens a request before the handler runs and ends it before it classifies the
 * answer; the proxy answers each with one packet. A closed socket ends every request that came over
 * it.
 *
 *   gate → proxy   {"op":"open","id":…,"scope":[…],"calls":N,"bytes":N,"ms":N}
 *   gate → proxy   {"op":"end","id":…}
 *   proxy → gate   {"op":"opened","id":…}   {"op":"refused","id":…,"why":…}
 *   proxy → gate   {"op":"ended","id":…,"calls":N,"bytes":N,"tainted":bool}
 *
 * Pure: bytes to structs and back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/data_token.h"

#define DATA_PACKET_MAX 4096
#define DATA_OPEN_MS_MAX (DATA_LIFETIME_MAX * 1000)

enum data_op {
    DATA_OPEN,
    DATA_END,
    DATA_OPENED,
    DATA_REFUSED,
    DATA_ENDED,
};

/* One message; which members count is said by op. */
struct data_message {
    enum data_op op;
    char id[DATA_ID_MAX + 1];
    size_t n_scope; /* open */
    char scope[DATA_SCOPE_MAX][DATA_UPSTREAM_MAX + 1];
    int64_t calls; /* open: allowed; ended: made */
    int64_t bytes; /* open: allowed; ended: moved, both directions summed */
    int64_t ms;    /* open: lives at most so long, 1 … DATA_OPEN_MS_MAX */
    bool tainted;  /* ended: a credential was about to leak, the answer must not be sold */
    char why[128]; /* refused */
};

/* Writes the packet to out (DATA_PACKET_MAX bytes) and returns its length. Members must be in
 * range. */
size_t data_message_encode(const struct data_message *message, char *out);

/* ERR_INVALID for anything but the forms above. */
CHECKED enum err_kind data_message_decode(const void *data, size_t len, struct data_message *out,
                                          struct err *err);
