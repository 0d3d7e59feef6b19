/*
 * A request as outside bytes: head, then its body. Where llhttp (Node's parser, strict mode) is
 * present it is the oracle: what we take, it must take too, with the same end of the message.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/chunked.h"
#include "http/message.h"
#include "tests/http/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static void check_inside(struct http_str s, const char *data, size_t size)
{
    static const char root[] = "/";
    if (s.len == 0 || (s.len == 1 && s.p[0] == root[0] && (s.p < data || s.p >= data + size)))
        return;
    demand(s.p >= data && s.p + s.len <= data + size, "slices lie in the input");
}

static void check_head(const struct http_head *head, const char *data, size_t size)
{
    demand(head->size <= size && head->size >= 16, "size of the head");
    demand(head->n_fields <= HTTP_FIELDS_MAX, "number of fields");
    check_inside(head->target, data, size);
    check_inside(head->path, data, size);
    check_inside(head->query, data, size);
    check_inside(head->authority, data, size);
    for (size_t i = 0; i < head->n_fields; i++) {
        check_inside(head->fields[i].name, data, size);
        demand(http_token_valid(head->fields[i].name.p, head->fields[i].name.len), "name");
        demand(http_value_valid(head->fields[i].value.p, head->fields[i].value.len), "value");
    }
    demand(http_count(head, "Content-Length") + http_count(head, "Transfer-Encoding") <= 1,
           "one framing");
    demand(http_count(head, "Host") <= 1, "one Host");
}

/* Where the message ends, or SIZE_MAX when it is not complete or not acceptable. */
static size_t message_end(const struct http_head *head, const char *data, size_t size,
                          bool *trailers)
{
    if (head->framing == HTTP_FRAMED_NONE)
        return head->size;
    if (head->framing == HTTP_FRAMED_LENGTH)
        return head->content_length <= size - head->size ? head->size + (size_t)head->content_length
                                                         : SIZE_MAX;
    struct chunked c;
    size_t at = head->size, used, len;
    const char *piece;
    chunked_init(&c);
    for (;;) {
        enum chunked_status s = chunked_feed(&c, data + at, size - at, &used, &piece, &len);
        demand(used <= size - at, "used is inside");
        at += used;
        *trailers = c.trailer > 0;
        if (s == CHUNKED_DONE)
            return at;
        if (s != CHUNKED_DATA)
            return SIZE_MAX;
        demand(piece >= data && piece + len <= data + size, "piece is inside");
    }
}

static void ask_oracle(const struct http_head *head, const char *data, size_t end)
{
#ifdef HAVE_LLHTTP
    size_t theirs = 0;
    const char *why = "";
    if (head->method == HTTP_OTHER || head->method == HTTP_CONNECT || http_find(head, "Upgrade") ||
        http_find(head, "Proxy-Connection"))
        return; /* methods it does not know; upgrades end its message early */
    bool takes = oracle_takes(data, end, &theirs, &why);
    if (!takes)
        fprintf(stderr, "llhttp: %s\n", why);
    demand(takes, "llhttp takes what we take");
    demand(theirs == end || theirs + 1 == end, "llhttp ends the message where we do");
#else
    (void)head;
    (void)data;
    (void)end;
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_field fields[HTTP_FIELDS_MAX], moved[HTTP_FIELDS_MAX];
    struct http_head head;
    struct http_fault fault = { 0 };
    char *bytes = malloc(size ? size : 1);
    memcpy(bytes, data, size);
    enum http_parsed parsed = http_parse_request(bytes, size, fields, &head, &fault);
    if (parsed == HTTP_REFUSED)
        demand(fault.status >= 400 && fault.status < 600 && fault.why, "a fault says why");
    if (parsed == HTTP_PARSED) {
        check_head(&head, bytes, size);
        bool trailers = false; /* ours are dropped; llhttp reads framing into them */
        size_t end = message_end(&head, bytes, size, &trailers);
        if (end != SIZE_MAX && !trailers)
            ask_oracle(&head, bytes, end);
        char *copy = malloc(size);
        memcpy(copy, bytes, size);
        http_head_rebase(&head, bytes, copy, moved);
        memset(bytes, 'X', size);
        check_head(&head, copy, size);
        free(copy);
    }
    free(bytes);
    return 0;
}
