/*
 * Between two looks at something that others change.
 */
#pragma once

#include <time.h>

static inline void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 },
                    NULL);
}
