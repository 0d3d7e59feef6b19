/*
 * Inside policy/: lists of CPUs and of memory nodes as the kernel writes them, "0-3,7".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CPUSET_MAX 8192 /* numbers from 0 below this; no kernel is built for more */

struct cpuset {
    uint64_t bits[CPUSET_MAX / 64];
};

/* False for what is no such list, "" included. A trailing newline is fine: sysfs writes one. */
bool cpuset_parse(const char *text, struct cpuset *out);
bool cpuset_within(const struct cpuset *part, const struct cpuset *whole);
