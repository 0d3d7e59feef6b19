#include "policy/cpuset.h"

#include <string.h>

/* A number below CPUSET_MAX; moves *p behind it. */
static bool number(const char **p, unsigned *out)
{
    unsigned n = 0;
    const char *start = *p;
    while (**p >= '0' && **p <= '9' && n < CPUSET_MAX)
        n = n * 10 + (unsigned)(*(*p)++ - '0');
    *out = n;
    return *p != start && n < CPUSET_MAX;
}

bool cpuset_parse(const char *text, struct cpuset *out)
{
    *out = (struct cpuset){ 0 };
    for (;;) {
        unsigned first = 0;
        unsigned last = 0;
        if (!number(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!number(&text, &last) || last < first)
                return false;
        }
        for (unsigned i = first; i <= last; i++)
            out->bits[i / 64] |= (uint64_t)1 << (i % 64);
        if (*text != ',')
            return !*text || strcmp(text, "\n") == 0;
        text++;
    }
}

bool cpuset_within(const struct cpuset *part, const struct cpuset *whole)
{
    uint64_t outside = 0;
    for (unsigned i = 0; i < CPUSET_MAX / 64; i++)
        outside |= part->bits[i] & ~whole->bits[i];
    return outside == 0;
}
