/* A handler's answer as outside bytes: parsed head, framing, slices. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_field fields[HTTP_FIELDS_MAX];
    struct http_head head;
    struct http_fault fault = { 0 };
    if (size == 0)
        return 0;
    char *bytes = malloc(size);
    memcpy(bytes, data, size);
    enum http_method method = bytes[0] & 1 ? HTTP_HEAD : HTTP_GET;
    enum http_parsed parsed =
        http_parse_response(bytes + 1, size - 1, method, fields, &head, &fault);
    if (parsed == HTTP_REFUSED)
        demand(fault.status == 502 && fault.why, "a fault says why");
    if (parsed == HTTP_PARSED) {
        demand(head.status >= 100 && head.status <= 599, "status");
        demand(head.size <= size - 1, "size");
        if (method == HTTP_HEAD || head.status < 200 || head.status == 204 || head.status == 304)
            demand(head.framing == HTTP_FRAMED_NONE, "no body where there is none");
        for (size_t i = 0; i < head.n_fields; i++)
            demand(http_token_valid(fields[i].name.p, fields[i].name.len) &&
                       http_value_valid(fields[i].value.p, fields[i].value.len),
                   "fields can be sent");
    }
    free(bytes);
    return 0;
}
