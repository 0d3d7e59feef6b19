#include "base/spelling.h"

#include <string.h>

#include "base/own.h"

#define LEVELS 3 /* %252525 2F, &amp;amp;#47; */
#define BACKSLASHES_MAX 8
#define DIGITS_MAX 8

/* How the next bytes can be read as one expected byte. */
enum reading { READ_NO, READ_CUT, READ_YES };

struct view {
    const uint8_t *data;
    size_t len;
    bool plain;  /* no escapes are looked for */
    bool quoted; /* '=' never stands for itself: quoted-printable */
    bool final;  /* nothing comes after data */
};

static bool is_alnum(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + ('a' - 'A')) : c;
}

static inline bool same(const struct spelling *s, uint8_t found, uint8_t wanted)
{
    return found == wanted || (s->fold && lower(found) == lower(wanted));
}

static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly n digits of a base. READ_CUT where the data ends among good ones. */
static enum reading read_digits(const uint8_t *p, size_t have, size_t n, int base, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == have)
            return READ_CUT;
        int d = digit(p[i]);
        if (d < 0 || d >= base)
            return READ_NO;
        *out = *out * (uint32_t)base + (uint32_t)d;
    }
    return READ_YES;
}

static enum reading judge(const struct spelling *s, uint32_t value, uint8_t wanted)
{
    return value < 256 && same(s, (uint8_t)value, wanted) ? READ_YES : READ_NO;
}

/* %2F, %252f, … */
static enum reading read_percent(const struct spelling *s, const uint8_t *p, size_t n,
                                 uint8_t wanted, size_t *used)
{
    size_t at = 1;
    uint32_t value;
    for (size_t level = 0; wanted != '%' && level < LEVELS && n - at >= 2; level++) {
        if (p[at] != '2' || p[at + 1] != '5')
            break;
        at += 2;
    }
    enum reading r = read_digits(p + at, n - at, 2, 16, &value);
    *used = at + 2;
    return r == READ_YES ? judge(s, value, wanted) : r;
}

/* =2F of quoted-printable */
static enum reading read_quoted(const struct spelling *s, const uint8_t *p, size_t n,
                                uint8_t wanted, size_t *used)
{
    uint32_t value;
    enum reading r = read_digits(p + 1, n - 1, 2, 16, &value);
    *used = 3;
    return r == READ_YES ? judge(s, value, wanted) : r;
}

/* What stands behind backslashes: u002f, x2f, 057, or the byte itself. */
static enum reading read_escaped(const struct spelling *s, const uint8_t *p, size_t n,
                                 uint8_t wanted, size_t *used)
{
    uint32_t value;
    size_t lead = p[0] == 'u' || p[0] == 'x' ? 1 : 0;
    size_t digits = p[0] == 'u' ? 4 : p[0] == 'x' ? 2 : 3;
    if (!is_alnum(p[0])) {
        *used = 1;
        return same(s, p[0], wanted) ? READ_YES : READ_NO;
    }
    enum reading r = read_digits(p + lead, n - lead, digits, lead ? 16 : 8, &value);
    *used = lead + digits;
    return r == READ_YES ? judge(s, value, wanted) : r;
}

static enum reading read_backslash(const struct spelling *s, const uint8_t *p, size_t n,
                                   uint8_t wanted, size_t *used)
{
    size_t run = 1;
    if (wanted == '\\' && n > 1 && p[1] == '\\') {
        *used = 2;
        return READ_YES;
    }
    while (wanted != '\\' && run < n && run < BACKSLASHES_MAX && p[run] == '\\')
        run++;
    if (run == n)
        return READ_CUT;
    enum reading r = read_escaped(s, p + run, n - run, wanted, used);
    *used += run;
    return r;
}

/* &#47; &#x2f; after the '&' and the '#' */
static enum reading read_reference(const struct spelling *s, const uint8_t *p, size_t n,
                                   uint8_t wanted, size_t *used)
{
    bool hex = n && lower(p[0]) == 'x';
    size_t at = hex;
    uint32_t value = 0;
    for (size_t i = 0; i <= DIGITS_MAX; i++, at++) {
        if (at == n)
            return READ_CUT;
        if (p[at] == ';') {
            *used = at + 1;
            return i ? judge(s, value, wanted) : READ_NO;
        }
        int d = digit(p[at]);
        if (d < 0 || (!hex && d > 9))
            return READ_NO;
        value = value > 0x10ffff ? value : value * (hex ? 16 : 10) + (uint32_t)d;
    }
    return READ_NO;
}

static const struct entity {
    char c;
    const char *name;
} entities[] = {
    { '&', "amp;" },  { '<', "lt;" },     { '>', "gt;" },     { '"', "quot;" },  { '\'', "apos;" },
    { '+', "plus;" }, { '=', "equals;" }, { '/', "sol;" },    { '\\', "bsol;" }, { ':', "colon;" },
    { ';', "semi;" }, { ',', "comma;" },  { '.', "period;" }, { '!', "excl;" },  { '?', "quest;" },
    { '#', "num;" },  { '$', "dollar;" }, { '%', "percnt;" }, { '*', "ast;" },   { '(', "lpar;" },
    { ')', "rpar;" }, { '[', "lsqb;" },   { ']', "rsqb;" },   { '{', "lcub;" },  { '}', "rcub;" },
    { '|', "vert;" }, { '@', "commat;" }, { '_', "lowbar;" }, { '^', "Hat;" },   { '`', "grave;" },
};

static enum reading read_name(const uint8_t *p, size_t n, uint8_t wanted, size_t *used)
{
    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        if ((uint8_t)entities[i].c != wanted)
            continue;
        size_t len = strlen(entities[i].name);
        *used = len;
        if (memcmp(p, entities[i].name, n < len ? n : len) == 0)
            return n < len ? READ_CUT : READ_YES;
    }
    return READ_NO;
}

static enum reading read_entity(const struct spelling *s, const uint8_t *p, size_t n,
                                uint8_t wanted, size_t *used)
{
    size_t at = 1;
    for (size_t level = 0; level < LEVELS; level++) {
        size_t left = n - at;
        if (left < 4 && memcmp(p + at, "amp;", left) == 0)
            return READ_CUT;
        if (wanted == '&' || left < 4 || memcmp(p + at, "amp;", 4) != 0)
            break;
        at += 4;
    }
    if (at == n)
        return READ_CUT;
    enum reading r = p[at] == '#' ? read_reference(s, p + at + 1, n - at - 1, wanted, used)
                                  : read_name(p + at, n - at, wanted, used);
    *used += p[at] == '#' ? at + 1 : at;
    return r;
}

static enum reading read_escape(const struct spelling *s, const uint8_t *p, size_t n,
                                uint8_t wanted, size_t *used)
{
    switch (p[0]) {
    case '%':
        return read_percent(s, p, n, wanted, used);
    case '\\':
        return read_backslash(s, p, n, wanted, used);
    case '&':
        return read_entity(s, p, n, wanted, used);
    case '=':
        return read_quoted(s, p, n, wanted, used);
    default:
        return READ_NO;
    }
}

/* A line break put in by a wrapping encoder: [=][CR] LF [blank], or its JSON spelling. */
static enum reading read_break(const uint8_t *p, size_t n, size_t *used)
{
    static const struct {
        const char *text;
        size_t len;
    } breaks[] = { { "\n", 1 },    { "\r\n", 2 }, { "=\n", 2 },
                   { "=\r\n", 3 }, { "\\n", 2 },  { "\\r\\n", 4 } };
    for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
        size_t len = breaks[i].len;
        if (memcmp(p, breaks[i].text, n < len ? n : len) != 0)
            continue;
        if (n <= len)
            return READ_CUT;
        *used = len + (p[len] == ' ' || p[len] == '\t');
        return READ_YES;
    }
    return READ_NO;
}

/* One expected byte at p. `final`: nothing follows the data, so what an escape lacks never comes.
 */
static enum reading read_one(const struct spelling *s, struct view v, uint8_t wanted, size_t *used)
{
    if (v.len == 0)
        return v.final ? READ_NO : READ_CUT;
    enum reading r = v.plain ? READ_NO : read_escape(s, v.data, v.len, wanted, used);
    if (r == READ_YES || (r == READ_CUT && !v.final))
        return r;
    if (v.quoted && v.data[0] == '=')
        return READ_NO;
    *used = 1;
    bool plus = wanted == ' ' && v.data[0] == '+' && !v.plain;
    return same(s, v.data[0], wanted) || plus ? READ_YES : READ_NO;
}

static struct view beyond(struct view v, size_t n)
{
    v.data += n;
    v.len -= n;
    return v;
}

static enum spelling_match match(const struct spelling *s, struct view v)
{
    for (size_t k = 0; k < s->len; k++) {
        size_t used = 0;
        size_t skip = 0;
        enum reading r = read_one(s, v, s->text[k], &used);
        if (r == READ_NO && k && v.len) {
            r = read_break(v.data, v.len, &skip);
            if (r == READ_YES)
                r = read_one(s, beyond(v, skip), s->text[k], &used);
        }
        if (r != READ_YES)
            return r == READ_CUT && !v.final ? SPELLING_PARTIAL : SPELLING_NONE;
        v = beyond(v, skip + used);
    }
    return SPELLING_WHOLE;
}

static inline bool escapes(uint8_t c)
{
    return c == '%' || c == '\\' || c == '&' || c == '=';
}

/* Could what follows an escape's first byte spell `wanted`, which begins no escape itself? */
static bool may_spell(uint8_t lead, uint8_t next, uint8_t wanted)
{
    int high = digit(next);
    switch (lead) {
    case '%':
        return next == '2' || (high | 2) == ((wanted >> 4) | 2);
    case '=':
        return next == '\r' || next == '\n' || (high | 2) == ((wanted >> 4) | 2);
    case '&':
        return next == '#' || next == 'a' || !is_alnum(wanted);
    default:
        return next == 'u' || next == 'x' || next == '\\' || next < '4' || next == wanted;
    }
}

static inline bool may_be(const struct spelling *s, uint8_t found, uint8_t wanted)
{
    return same(s, found, wanted) || (wanted == ' ' && found == '+');
}

/* The quick look that nearly every place in a text ends with. */
static bool hopeless(const struct spelling *s, const uint8_t *data, size_t len)
{
    if (escapes(s->text[0]))
        return false;
    if (escapes(data[0]))
        return len > 1 && !may_spell(data[0], data[1], s->text[0]);
    if (!may_be(s, data[0], s->text[0]))
        return true;
    return len > 1 && s->len > 1 && !may_be(s, data[1], s->text[1]) && !escapes(data[1]) &&
           data[1] != '\r' && data[1] != '\n';
}

struct spelling spelling_of(const void *text, size_t len, bool fold)
{
    struct spelling s = { .text = text, .len = len, .fold = fold };
    for (size_t i = 0; i < len; i++)
        s.odd |= escapes(s.text[i]);
    return s;
}

enum spelling_match spelling_at(const struct spelling *spelling, const uint8_t *data, size_t len,
                                bool final)
{
    const struct view view = { .data = data, .len = len, .final = final };
    if (hopeless(spelling, data, len))
        return SPELLING_NONE;
    enum spelling_match best = match(spelling, view);
    if (!spelling->odd || best == SPELLING_WHOLE)
        return best;
    /* A text that itself looks escaped is found as it stands too. */
    struct view other = view;
    other.plain = true;
    enum spelling_match plain = match(spelling, other);
    other.plain = false;
    other.quoted = true;
    enum spelling_match quoted = match(spelling, other);
    best = plain > best ? plain : best;
    return quoted > best ? quoted : best;
}

void spelling_starts(const struct spelling *spelling, bool first[256])
{
    for (size_t i = 0; i < 256; i++)
        first[i] = first[i] || escapes((uint8_t)i) || same(spelling, (uint8_t)i, spelling->text[0]);
    if (spelling->text[0] == ' ')
        first['+'] = true;
}
