/* A token bucket: so many calls a minute, so many at once. Pure; times are loop milliseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rate {
    uint32_t per_minute; /* 0: no limit */
    uint32_t burst;
    uint64_t level_us; /* spare time in microseconds: one call costs 60 s / per_minute */
    uint64_t then_ms;
};

void rate_init(struct rate *rate, uint32_t per_minute, uint32_t burst, uint64_t now_ms);
/* Takes one call; false when there is none, with the seconds until there is one. */
bool rate_take(struct rate *rate, uint64_t now_ms, uint32_t *retry_s);
