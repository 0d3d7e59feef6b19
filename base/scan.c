#include "base/scan.h"

#include <string.h>

#include "base/spelling.h"
#include "base/text.h"

#define FORMS_MAX 64

struct form {
    uint8_t *data; /* owned */
    size_t len;
    struct spelling spelling; /* of data */
};

struct scan_set {
    struct form form[FORMS_MAX];
    size_t n;
    bool first[256]; /* what a form can begin with */
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

static bool known(const struct scan_set *set, const void *data, size_t len)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->form[i].len == len && memcmp(set->form[i].data, data, len) == 0)
            return true;
    }
    return false;
}

static void add_form(struct scan_set *set, const void *data, size_t len, bool fold)
{
    if (len < SCAN_SECRET_MIN || known(set, data, len))
        return;
    if (set->n == FORMS_MAX)
        abort(); /* callers add a handful of secrets */
    struct form *form = &set->form[set->n++];
    *form = (struct form){ .data = xmalloc(len), .len = len };
    memcpy(form->data, data, len);
    form->spelling = spelling_of(form->data, len, fold);
    spelling_starts(&form->spelling, set->first);
}

static void add_hex(struct scan_set *set, const uint8_t *secret, size_t len)
{
    char *text = xmalloc(2 * len + 1);
    text_hex(secret, len, text);
    add_form(set, text, 2 * len, true);
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
    add_form(set, text + first_own[shift], own_end - first_own[shift], false);
    (void)text_b64url(padded, total, text);
    add_form(set, text + first_own[shift], own_end - first_own[shift], false);
    explicit_bzero(padded, total);
    explicit_bzero(text, own_end);
    free(padded);
    free(text);
}

void scan_set_add(struct scan_set *set, const void *secret, size_t len)
{
    add_form(set, secret, len, true);
    add_hex(set, secret, len);
    for (size_t shift = 0; shift < 3; shift++)
        add_base64(set, secret, len, shift);
}

static enum spelling_match match_at(const struct scan_set *set, const uint8_t *data, size_t len,
                                    bool final)
{
    enum spelling_match best = SPELLING_NONE;
    for (size_t i = 0; i < set->n; i++) {
        enum spelling_match match = spelling_at(&set->form[i].spelling, data, len, final);
        best = match > best ? match : best;
    }
    return best;
}

/* Bytes at the beginning of data in which no form begins; *hit when one stands in it whole. */
static size_t clear_of(const struct scan_set *set, const uint8_t *data, size_t len, bool final,
                       bool *hit)
{
    size_t clear = len;
    *hit = false;
    for (size_t i = 0; i < len && !*hit; i++) {
        if (!set->first[data[i]])
            continue;
        enum spelling_match match = match_at(set, data + i, len - i, final);
        *hit = match == SPELLING_WHOLE;
        if (match == SPELLING_PARTIAL && clear == len)
            clear = i;
    }
    return clear;
}

bool scan_once(const struct scan_set *set, const void *data, size_t len)
{
    bool hit;
    (void)clear_of(set, data, len, true, &hit);
    return hit;
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

static bool pass(struct scan_stream *stream, bool final, struct buf *out)
{
    struct buf *held = &stream->held;
    size_t clear = clear_of(stream->set, held->data, held->len, final, &stream->hit);
    if (stream->hit)
        return false;
    if (clear)
        buf_append(out, held->data, clear);
    buf_consume(held, clear);
    return true;
}

bool scan_stream_feed(struct scan_stream *stream, const void *data, size_t len, struct buf *out)
{
    if (stream->hit)
        return false;
    buf_append(&stream->held, data, len);
    return pass(stream, false, out);
}

bool scan_stream_end(struct scan_stream *stream, struct buf *out)
{
    return !stream->hit && pass(stream, true, out);
}
