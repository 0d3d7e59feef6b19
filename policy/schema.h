/*
 * Inside policy/: every field of the OCI runtime specification 1.3.0, and what is done with it.
 *
 * A field without a row is unknown and refused. A row says how its value is dealt with: by a rule
 * that reads it, by an adjustment, passed on as it is (its type checked), or refused unless empty.
 * A subtree that is refused unless empty has one row, its root's.
 */
#pragma once

#include "policy/check.h"

enum schema_shape {
    SHAPE_STRING,
    SHAPE_BOOL,
    SHAPE_INT,     /* any int64 */
    SHAPE_UINT,    /* 0 … int64 max */
    SHAPE_RLIMIT,  /* the same, or 18446744073709551615 for unlimited */
    SHAPE_STRINGS, /* array of strings */
    SHAPE_UINTS,   /* array of SHAPE_UINT */
    SHAPE_MAP,     /* object of strings */
    SHAPE_OBJECT,  /* of `members` */
    SHAPE_OBJECTS, /* array of objects of `members` */
    SHAPE_ANY,     /* only with HOW_EMPTY */
};

enum schema_how {
    HOW_CHECKED,  /* a rule reads it */
    HOW_ADJUSTED, /* replaced or dropped by policy_harden() */
    HOW_PASSED,   /* cannot do harm; handed on as it is */
    HOW_EMPTY,    /* refused unless empty, by rule `rule` (NULL: "field") */
};

struct schema_field {
    const char *name; /* NULL ends a table */
    enum schema_shape shape;
    enum schema_how how;
    const char *rule;
    const struct schema_field *members;
};

/* The roots of the three documents: a spec, a process (exec), resources (update). */
extern const struct schema_field schema_spec[];
extern const struct schema_field schema_process[];
extern const struct schema_field schema_resources[];

/* The row that decides over a pointer such as "/process/user/uid" or "/mounts/0/type" ("*" stands
 * for any index): its own or, inside a subtree refused unless empty, that subtree's. NULL if none.
 */
const struct schema_field *schema_row(const struct schema_field *table, const char *pointer);
