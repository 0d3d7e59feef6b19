/*
 * Sizes, durations and CPU shares as people write them. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "67108864", "64Ki", "64KiB", "64M", "64MiB", "1G": powers of 1024 with and without "i". Bytes. */
bool units_size(const char *s, int64_t *out);
/* "30", "30s", "5m", "1h": seconds. */
bool units_seconds(const char *s, int64_t *out);
/* "1", "0.5", "0.25", up to three decimals: thousandths of a CPU. */
bool units_cpu_milli(const char *s, int64_t *out);
