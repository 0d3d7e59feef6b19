/* The chunked decoder: cut anywhere, it yields the same body or the same refusal. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/chunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum chunked_status status;
    size_t end, len;
    unsigned sum;
};

static struct outcome run(const char *data, size_t size, size_t step)
{
    struct chunked c;
    struct outcome o = { .status = CHUNKED_MORE };
    chunked_init(&c);
    while (o.end < size && o.status != CHUNKED_DONE && o.status != CHUNKED_BAD) {
        size_t n = size - o.end < step ? size - o.end : step, used, len;
        const char *piece;
        o.status = chunked_feed(&c, data + o.end, n, &used, &piece, &len);
        o.end += used;
        for (size_t i = 0; o.status == CHUNKED_DATA && i < len; i++)
            o.sum = o.sum * 31 + (unsigned char)piece[i];
        o.len += o.status == CHUNKED_DATA ? len : 0;
    }
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct outcome whole = run((const char *)data + 1, size - 1, size);
    struct outcome cut = run((const char *)data + 1, size - 1, 1 + data[0] % 7);
    int same = (whole.status == CHUNKED_BAD) == (cut.status == CHUNKED_BAD) &&
               (whole.status == CHUNKED_DONE) == (cut.status == CHUNKED_DONE) &&
               whole.len == cut.len && whole.sum == cut.sum;
    if (!same && !(whole.status == CHUNKED_BAD && cut.status == CHUNKED_BAD)) {
        fprintf(stderr, "cut differs: %d %d\n", (int)whole.status, (int)cut.status);
        abort();
    }
    return 0;
}
