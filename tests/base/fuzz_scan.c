/* Any bytes, cut anywhere: a stream says the same as a look at the whole, passes on exactly what it
 * was given, and never a whole occurrence. The first byte chooses the secret, the second the cuts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const secrets[] = { "sk-1/+=&\"<", "%2F%25==", "\\u002f\\n&amp;", "aaaaaaaaab",
                                       "pass word%" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *secret = secrets[data[0] % ARRAY_LEN(secrets)];
    uint32_t cuts = data[1] * 2654435761u + 1;
    struct scan_set *set CLEANUP(scan_set_unrefp) = scan_set_new();
    struct scan_stream stream;
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, 1 << 20);
    scan_set_add(set, secret, strlen(secret));
    scan_stream_init(&stream, set);
    data += 2;
    size -= 2;
    bool passed = true;
    for (size_t at = 0; passed && at < size;) {
        size_t n = 1 + (cuts >> 16) % 9;
        cuts = cuts * 1103515245u + 12345;
        n = n < size - at ? n : size - at;
        passed = scan_stream_feed(&stream, data + at, n, &out);
        at += n;
    }
    passed = passed && scan_stream_end(&stream, &out);
    if (passed == scan_once(set, data, size) || scan_once(set, out.data, out.len) ||
        memcmp(out.data ? out.data : data, data, out.len) != 0 || (passed && out.len != size))
        abort();
    scan_stream_fini(&stream);
    return 0;
}
