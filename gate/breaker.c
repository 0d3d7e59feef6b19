#include "gate/breaker.h"

void breaker_init(struct breaker *breaker, uint32_t failures_max, uint32_t open_ms)
{
    *breaker = (struct breaker){ .failures_max = failures_max, .open_ms = open_ms };
}

bool breaker_allows(struct breaker *breaker, uint64_t now_ms)
{
    if (!breaker->open)
        return true;
    if (breaker->probing || now_ms < breaker->until_ms)
        return false;
    breaker->probing = true;
    return true;
}

void breaker_note(struct breaker *breaker, bool worked, uint64_t now_ms)
{
    breaker->probing = false;
    if (worked) {
        breaker->failures = 0;
        breaker->open = false;
        return;
    }
    breaker->failures++;
    if (breaker->failures < breaker->failures_max)
        return;
    breaker->open = true;
    breaker->until_ms = now_ms + breaker->open_ms;
}

void breaker_cancelled(struct breaker *breaker)
{
    breaker->probing = false;
}

uint32_t breaker_wait_ms(const struct breaker *breaker, uint64_t now_ms)
{
    if (!breaker->open || now_ms >= breaker->until_ms)
        return 0;
    return (uint32_t)(breaker->until_ms - now_ms);
}
