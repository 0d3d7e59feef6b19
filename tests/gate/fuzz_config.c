/* A configuration: whatever comes in, it is refused with a line or made whole. */
#include <stdlib.h>
#include <string.h>

#include "gate/challenge.h"
#include "gate/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count(void *arg, bool warning, const char *line)
{
    if (!line[0])
        abort();
    *(unsigned *)arg += !warning;
}

static void use(const struct gate_config *c)
{
    for (size_t i = 0; i < c->routes.n; i++) {
        const struct route *r = &c->routes.routes[i];
        struct buf scratch;
        struct challenge out;
        if (r->free != (r->offer_n == 0))
            abort();
        if (r->free)
            continue;
        buf_init(&scratch, 1 << 20);
        challenge_make(r, c->origin, r->path, PAYMENT_BAD_SHAPE, NULL, &scratch, &out);
        if (!out.header_len || !out.body_len)
            abort();
        buf_fini(&scratch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gate_config *c = NULL;
    unsigned faults = 0;
    enum err_kind kind = config_parse((const char *)data, size, "fuzz", count, &faults, &c, NULL);
    if ((kind == ERR_OK) != (faults == 0) || (kind == ERR_OK) != (c != NULL))
        abort();
    if (c)
        use(c);
    config_unref(c);
    return 0;
}
