/* Any bytes as a data token: never accepted without our key, never a crash. */
#include <stdlib.h>

#include "proto/data_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct data_keys keys;
    struct data_token out;
    if (!keys.n && !data_key_generate(&keys.key[0], NULL))
        keys.n = 1;
    if (!data_token_check(&keys, (const char *)data, size, "weather", 1800000000, &out, NULL))
        abort();
    return 0;
}
