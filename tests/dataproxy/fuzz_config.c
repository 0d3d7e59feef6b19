/* Any bytes as a configuration: refused or read, never a crash; what is read has hosts and paths
 * with one reading. */
#include <stdlib.h>
#include <string.h>

#include "dataproxy/address.h"
#include "dataproxy/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *config CLEANUP(config_freep) = NULL;
    if (config_parse((const char *)data, size, &config, NULL))
        return 0;
    for (size_t i = 0; i < config->n_upstreams; i++) {
        const struct upstream *u = &config->upstream[i];
        if (address_is_odd_literal(u->host) || strpbrk(u->host, "@/ ") ||
            (!u->tls && !u->internal) || u->n_rules == 0 || u->port == 0)
            abort();
    }
    return 0;
}
