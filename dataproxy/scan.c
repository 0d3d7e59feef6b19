#include "dataproxy/scan.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define FORMS_MAX 512

struct form {
    uint8_t *data; /* owned */
    size_t len;
};

struct scan_set {
    struct form form[FORMS_MAX];
    size_t n;
    size_t longest;
    unsigned refs;
};

struct scan_set *scan_set_new(void)
{
    struct scan_set *set = xcalloc(1, sizeof(*set));
    set->refs = 1;
    return set;
}

struct scan_set *scan_set_ref(struct scan_set *set)
{
    set->refs++;
    return set;
}

void scan_set_unref(struct scan_set *set)
{
    if (!set || --set->refs)
        return;
    for (size_t i = 0; i < set->n; i++) {
        explicit_bzero(set->form[i].data, set->form[i].len);
        free(set->form[i].data);
    }
    free(set);
}

size_t scan_set_holdback(const struct scan_set *set)
{
    return set->longest ? set->longest - 1 : 0;
}

static bool known(const struct scan_set *set, const void *data, size_t len)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->form[i].len == len && memcmp(set->form[i].data, data, len) == 0)
            return true;
    }
    return false;
}

static void add_form(struct scan_set *set, const void *data, size_t len)
{
    if (len < SCAN_SECRET_MIN || known(set, data, len))
        return;
    if (set->n == FORMS_MAX)
        abort(); /* the configuration caps the number of credentials far below this */
    struct form *form = &set->form[set->n++];
    form->data = xmalloc(len);
    form->len = len;
    memcpy(form->data, data, len);
    if (len > set->longest)
        set->longest = len;
}

static bool unreserved(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("-._~", c) != NULL;
}

static void add_percent(struct scan_set *set, const uint8_t *secret, size_t len, bool every,
                        const char *format)
{
    struct buf b CLEANUP(buf_wipe);
    buf_init(&b, 3 * SCAN_SECRET_MAX);
    for (size_t i = 0; i < len; i++) {
        char piece[4];
        int n =
            every || secret[i] == 0 || !unreserved(secret[i])
                ? snprintf(piece, sizeof(piece), format[0] == 'X' ? "%%%02X" : "%%%02x", secret[i])
                : snprintf(piece, sizeof(piece), "%c", secret[i]);
        buf_append(&b, piece, (size_t)n);
    }
    add_form(set, b.data, b.len);
}

static void add_json(struct scan_set *set, const uint8_t *secret, size_t len, bool slash)
{
    struct buf b CLEANUP(buf_wipe);
    buf_init(&b, 6 * SCAN_SECRET_MAX);
    for (size_t i = 0; i < len; i++) {
        if (secret[i] == '"' || secret[i] == '\\' || (slash && secret[i] == '/'))
            buf_append_str(&b, "\\");
        if (secret[i] < 0x20)
            buf_printf(&b, "\\u%04x", secret[i]);
        else
            buf_append(&b, &secret[i], 1);
    }
    add_form(set, b.data, b.len);
}

static void add_hex(struct scan_set *set, const uint8_t *secret, size_t len)
{
    char *text = xmalloc(2 * len + 1);
    text_hex(secret, len, text);
    add_form(set, text, 2 * len);
    for (size_t i = 0; i < 2 * len; i++) {
        if (text[i] >= 'a')
            text[i] = (char)(text[i] - 'a' + 'A');
    }
    add_form(set, text, 2 * len);
    explicit_bzero(text, 2 * len);
    free(text);
}

/* The secret behind `shift` unknown bytes: only the characters that it alone decides. */
static void add_base64(struct scan_set *set, const uint8_t *secret, size_t len, size_t shift)
{
    static const size_t first_own[] = { 0, 2, 3 };
    size_t total = shift + len;
    uint8_t *padded = xcalloc(total, 1);
    char *text = xmalloc(text_b64_len(total) + 1);
    memcpy(padded + shift, secret, len);
    text_b64(padded, total, text);
    size_t own_end = total * 8 / 6;
    add_form(set, text + first_own[shift], own_end - first_own[shift]);
    (void)text_b64url(padded, total, text);
    add_form(set, text + first_own[shift], own_end - first_own[shift]);
    explicit_bzero(padded, total);
    explicit_bzero(text, own_end);
    free(padded);
    free(text);
}

void scan_set_add(struct scan_set *set, const void *secret, size_t len)
{
    const uint8_t *bytes = secret;
    add_form(set, bytes, len);
    add_json(set, bytes, len, false);
    add_json(set, bytes, len, true);
    add_percent(set, bytes, len, false, "X");
    add_percent(set, bytes, len, false, "x");
    add_percent(set, bytes, len, true, "X");
    add_percent(set, bytes, len, true, "x");
    add_hex(set, bytes, len);
    for (size_t shift = 0; shift < 3; shift++)
        add_base64(set, bytes, len, shift);
}

bool scan_once(const struct scan_set *set, const void *data, size_t len)
{
    for (size_t i = 0; i < set->n; i++) {
        if (memmem(data, len, set->form[i].data, set->form[i].len))
            return true;
    }
    return false;
}

void scan_stream_init(struct scan_stream *stream, struct scan_set *set)
{
    *stream = (struct scan_stream){ .set = scan_set_ref(set) };
    buf_init(&stream->held, SIZE_MAX / 4);
}

void scan_stream_fini(struct scan_stream *stream)
{
    buf_wipe(&stream->held);
    scan_set_unref(stream->set);
    stream->set = NULL;
}

bool scan_stream_feed(struct scan_stream *stream, const void *data, size_t len, struct buf *out)
{
    if (stream->hit)
        return false;
    size_t keep = scan_set_holdback(stream->set);
    buf_append(&stream->held, data, len);
    if (scan_once(stream->set, stream->held.data, stream->held.len)) {
        stream->hit = true;
        return false;
    }
    if (stream->held.len > keep) {
        size_t pass = stream->held.len - keep;
        buf_append(out, stream->held.data, pass);
        buf_consume(&stream->held, pass);
    }
    return true;
}

bool scan_stream_end(struct scan_stream *stream, struct buf *out)
{
    if (stream->hit)
        return false;
    buf_append(out, stream->held.data, stream->held.len);
    buf_clear(&stream->held);
    return true;
}
