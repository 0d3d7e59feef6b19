/* endpoint.yaml from any bytes: accepted or refused with one line, never more. */
#include <assert.h>
#include <string.h>

#include "deploy/endpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = { 0 };
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    if (endpoint_parse((const char *)data, size, "f", "/srv", &e, &err)) {
        assert(err.msg[0] && !strchr(err.msg, '\n'));
        return 0;
    }
    assert(!strpbrk(e->host, "`\n\"' ") && !strstr(e->slug.s, "--"));
    assert(!e->folder || (strncmp(e->folder, "/srv/", 5) == 0 && !strstr(e->folder, "..")));
    return 0;
}
