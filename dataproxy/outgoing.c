#include "dataproxy/outgoing.h"

#include <stdint.h>
#include <string.h>

#include "base/own.h"

#define URL_MAX 16384

void outgoing_init(struct outgoing *out)
{
    *out = (struct outgoing){ 0 };
    buf_init(&out->url, URL_MAX);
}

static void wipe_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void outgoing_fini(struct outgoing *out)
{
    for (size_t i = 0; i < out->n_headers; i++) {
        wipe_free((char *)(uintptr_t)out->header[i].name);
        wipe_free((char *)(uintptr_t)out->header[i].value);
    }
    wipe_free(out->userpwd);
    free(out->sigv4);
    buf_wipe(&out->url);
    *out = (struct outgoing){ 0 };
}

bool outgoing_add(struct outgoing *out, const char *name, const char *value)
{
    if (out->n_headers == OUTGOING_HEADERS_MAX || !http_token_valid(name, strlen(name)) ||
        !http_value_valid(value, strlen(value)))
        return false;
    out->header[out->n_headers++] =
        (struct http_header){ .name = xstrdup(name), .value = xstrdup(value) };
    return true;
}
