#include "dataproxy/rate.h"

static uint64_t cost_us(const struct rate *rate)
{
    return 60000000u / rate->per_minute;
}

void rate_init(struct rate *rate, uint32_t per_minute, uint32_t burst, uint64_t now_ms)
{
    *rate =
        (struct rate){ .per_minute = per_minute, .burst = burst ? burst : 1, .then_ms = now_ms };
    if (per_minute)
        rate->level_us = cost_us(rate) * rate->burst;
}

bool rate_take(struct rate *rate, uint64_t now_ms, uint32_t *retry_s)
{
    if (!rate->per_minute)
        return true;
    uint64_t cost = cost_us(rate);
    uint64_t most = cost * rate->burst;
    uint64_t passed = now_ms - rate->then_ms;
    rate->then_ms = now_ms;
    rate->level_us += passed > most / 1000 + 1 ? most : passed * 1000;
    if (rate->level_us > most)
        rate->level_us = most;
    if (rate->level_us < cost) {
        *retry_s = (uint32_t)((cost - rate->level_us) / 1000000) + 1;
        return false;
    }
    rate->level_us -= cost;
    return true;
}
