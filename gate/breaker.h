/*
 * A circuit breaker for verify: after enough failures in a row nobody asks for a while, then one
 * probe at a time. Pure: the caller hands in the time. It never stands before settle or
 * reconciliation.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct breaker {
    uint32_t failures_max;
    uint32_t open_ms;
    uint32_t failures; /* in a row */
    bool open;
    bool probing;
    uint64_t until_ms;
};

void breaker_init(struct breaker *breaker, uint32_t failures_max, uint32_t open_ms);
/* May this call go out? When open and the time is over, true for one caller: it must end in
 * breaker_note() or _cancelled(). */
bool breaker_allows(struct breaker *breaker, uint64_t now_ms);
void breaker_note(struct breaker *breaker, bool worked, uint64_t now_ms);
void breaker_cancelled(struct breaker *breaker);
/* 0 when a call may go out (or a probe is out); else how long to wait. */
uint32_t breaker_wait_ms(const struct breaker *breaker, uint64_t now_ms);
