/*
 * The crash matrix: a buyer and a facilitator in the parent, a gate in the child that is killed at
 * a named point, started again, and asked again. The child tells the buyer each thing it learned or
 * was handed as one line on a pipe; the lines of all lives and the facilitator's book are the
 * history that is checked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/gate/crash/power_vfs.h"
#include "tests/gate/facilitator_double.h"

#define LIVES_MAX 8
#define LINES_MAX 64

/* What one life of the gate said, in order. */
enum line_kind {
    LINE_STATE,  /* the state in which the ledger was found, arg: enum payment_state; detail: its
                    runs */
    LINE_RUN,    /* about to run the handler: RUNNING is durable; arg: attempt */
    LINE_SEALED, /* about to settle: SETTLING is durable */
    LINE_ANSWER, /* the buyer has the answer, arg: which run made it */
    LINE_402,    /* refused for good */
    LINE_503,    /* try again */
    LINE_409,    /* unproven, spent, mismatch: arg the verdict */
    LINE_UNRESOLVED, /* arg: how many the ledger lists at the end of a life */
    LINE_END,        /* the life ended in order */
};

struct line {
    enum line_kind kind;
    int arg;
    int detail;
};

struct life {
    struct line lines[LINES_MAX];
    int n;
    bool killed; /* by the fault point */
    bool failed; /* ended in any other way */
};

struct scenario {
    const char *fault; /* name or name:nth; NULL none */
    enum fac_mode mode;
    enum fac_resettle resettle;
    bool power;
    enum power_loss loss;
    unsigned seed;
    const char *synchronous; /* NULL: FULL */
};

struct history {
    struct scenario scenario;
    struct life lives[LIVES_MAX];
    int n;
    int transfers, payments_seen; /* of the facilitator's book */
    bool told;                    /* a settle was answered with a success */
};

/* The child: one life. Arguments as the parent made them. Returns the exit code. */
int crash_child(int argc, char **argv);
/* NULL, or what the history violates. */
const char *crash_check(const struct history *history);
