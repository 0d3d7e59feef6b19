/* Frames from any bytes, fed in pieces whose size the input chooses. */
#include <stdlib.h>

#include "proto/ttrpc_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t step = 1 + data[0];
    data++;
    size--;
    struct ttrpc_reader r;
    ttrpc_reader_init(&r);
    volatile uint8_t sink = 0;
    for (size_t at = 0; at < size; at += step) {
        ttrpc_reader_feed(&r, data + at, size - at < step ? size - at : step);
        struct ttrpc_header h;
        const uint8_t *p;
        enum ttrpc_read got;
        while ((got = ttrpc_reader_next(&r, &h, &p)) == TTRPC_READ_FRAME ||
               got == TTRPC_READ_TOO_LONG) {
            for (size_t i = 0; got == TTRPC_READ_FRAME && i < h.length; i++)
                sink = (uint8_t)(sink ^ p[i]);
        }
        if (got == TTRPC_READ_GARBAGE)
            break;
        if (r.in.len > TTRPC_HEADER_SIZE + (size_t)TTRPC_DATA_MAX)
            abort();
    }
    ttrpc_reader_fini(&r);
    return 0;
}
