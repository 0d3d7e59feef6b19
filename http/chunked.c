#include "http/chunked.h"

#include <string.h>

#include "http/message.h"

enum {
    S_SIZE,
    S_EXTENSION_START,
    S_EXTENSION,
    S_VALUE_START,
    S_VALUE,
    S_SIZE_LF,
    S_DATA,
    S_DATA_CR,
    S_DATA_LF,
    S_LINE,
    S_NAME,
    S_TRAILER,
    S_TRAILER_LF,
    S_LAST_LF,
    S_DONE,
    S_BAD
};

void chunked_init(struct chunked *c)
{
    memset(c, 0, sizeof(*c));
}

static int hex_value(unsigned char b)
{
    if (b >= '0' && b <= '9')
        return b - '0';
    if (b >= 'a' && b <= 'f')
        return b - 'a' + 10;
    if (b >= 'A' && b <= 'F')
        return b - 'A' + 10;
    return -1;
}

static int after_size_byte(struct chunked *c, unsigned char b)
{
    int value = hex_value(b);
    if (value >= 0) {
        if (++c->digits > 16)
            return S_BAD;
        c->left = c->left << 4 | (uint64_t)value;
        return S_SIZE;
    }
    if (c->digits == 0)
        return S_BAD;
    if (b == '\r')
        return S_SIZE_LF;
    return b == ';' ? S_EXTENSION_START : S_BAD;
}

static bool is_token(unsigned char b)
{
    char c = (char)b;
    return http_token_valid(&c, 1);
}

static bool is_plain(unsigned char b)
{
    return (b >= 0x20 && b != 0x7f) || b == '\t';
}

/* The state after one byte outside chunk data. */
static int step(struct chunked *c, unsigned char b)
{
    switch (c->state) {
    case S_SIZE:
        return ++c->line > HTTP_CHUNK_LINE_MAX ? S_BAD : after_size_byte(c, b);
    case S_EXTENSION_START: /* a name, or the value after its '=' */
    case S_VALUE_START:
        if (++c->line > HTTP_CHUNK_LINE_MAX || !is_token(b))
            return S_BAD;
        return c->state == S_VALUE_START ? S_VALUE : S_EXTENSION;
    case S_EXTENSION:
    case S_VALUE:
        if (++c->line > HTTP_CHUNK_LINE_MAX)
            return S_BAD;
        if (b == '\r')
            return S_SIZE_LF;
        if (b == '=' && c->state == S_EXTENSION)
            return S_VALUE_START;
        return is_token(b) ? c->state : S_BAD;
    case S_SIZE_LF:
        if (b != '\n')
            return S_BAD;
        return c->left ? S_DATA : S_LINE;
    case S_DATA_CR:
        return b == '\r' ? S_DATA_LF : S_BAD;
    case S_DATA_LF:
        c->left = c->digits = 0;
        c->line = 0;
        return b == '\n' ? S_SIZE : S_BAD;
    case S_LINE: /* start of a trailer line or of the final empty one */
        if (b == '\r')
            return S_LAST_LF;
        return ++c->trailer <= HTTP_TRAILER_MAX && is_token(b) ? S_NAME : S_BAD;
    case S_NAME:
        if (++c->trailer > HTTP_TRAILER_MAX)
            return S_BAD;
        if (b == ':')
            return S_TRAILER;
        return is_token(b) ? S_NAME : S_BAD;
    case S_TRAILER:
        if (b == '\r')
            return S_TRAILER_LF;
        return ++c->trailer <= HTTP_TRAILER_MAX && is_plain(b) ? S_TRAILER : S_BAD;
    case S_TRAILER_LF:
        return b == '\n' ? S_LINE : S_BAD;
    case S_LAST_LF:
        return b == '\n' ? S_DONE : S_BAD;
    default:
        return S_BAD;
    }
}

enum chunked_status chunked_feed(struct chunked *c, const char *input, size_t len, size_t *used,
                                 const char **data, size_t *data_len)
{
    *used = 0;
    while (c->state != S_DONE && *used < len) {
        if (c->state == S_BAD)
            return CHUNKED_BAD;
        if (c->state == S_DATA) {
            size_t n = len - *used;
            if (n > c->left)
                n = (size_t)c->left;
            *data = input + *used;
            *data_len = n;
            *used += n;
            c->left -= n;
            if (c->left == 0)
                c->state = S_DATA_CR;
            return CHUNKED_DATA;
        }
        c->state = step(c, (unsigned char)input[(*used)++]);
    }
    if (c->state == S_BAD)
        return CHUNKED_BAD;
    return c->state == S_DONE ? CHUNKED_DONE : CHUNKED_MORE;
}
