/* Any text as a stream: no crash, and what is accepted has an absolute path. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "shim/stream_uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text CLEANUP_FREE = xstrndup((const char *)data, size);
    struct stream_uri uri CLEANUP_STREAM_URI;
    struct err err;
    if (stream_uri_parse(text, "stdout", &uri, &err) == ERR_OK && uri.kind != STREAM_NONE)
        assert(uri.path && uri.path[0] == '/');
    return 0;
}
