/*
 * `init`: five questions, and a commented endpoint.yaml that `check` takes.
 */
#pragma once

#include <stdio.h>

#include "base/err.h"

/* Asks on `out`, reads a line for each answer from `in` (an empty one takes the default, where
 * there is one), and writes `path`, which must not exist. What the file's own rules refuse is
 * refused here with their line, and nothing is written. */
CHECKED enum err_kind init_run(FILE *in, FILE *out, const char *path, struct err *err);
