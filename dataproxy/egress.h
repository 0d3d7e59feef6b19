/*
 * The record of what left: per upstream call the request id, upstream, status, bytes and time.
 * Never a path, a body, a header or a secret.
 *
 * SQLite (WAL), written in batches a few times a second: a crash of the machine may lose the last
 * instant's rows, which cost nobody money; the payment's own record is the gate's. Bounded to
 * EGRESS_ROWS_MAX rows, the oldest go first.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "proto/data_token.h"

#define EGRESS_ROWS_MAX 200000

struct egress_record {
    char request_id[DATA_ID_MAX + 1]; /* "" for a call that named no open request */
    char upstream[DATA_UPSTREAM_MAX + 1];
    char method[8];
    int status;          /* what the handler got */
    int upstream_status; /* 0: the upstream gave none */
    uint64_t bytes_up;
    uint64_t bytes_down;
    uint64_t ms;
    const char *outcome; /* static: "ok", "refused", "cached", "cut", … */
};

struct egress;

/* path NULL: nothing is kept and every call is fine. The loop is borrowed. */
CHECKED enum err_kind egress_new(struct loop *loop, const char *path, struct egress **out,
                                 struct err *err);
void egress_free(struct egress *egress); /* writes what is queued */
DEFINE_CLEANUP(struct egress, egress_free, egress_freep)

void egress_add(struct egress *egress, const struct egress_record *record);
/* Rows that could not be written since start. */
uint64_t egress_lost(const struct egress *egress);
