/*
 * The strict head parser. A head is taken line by line; each line ends in CRLF and nothing else,
 * each byte is checked once against a table, and the first fault ends it. Pure.
 */
#include "http/message.h"

#include <string.h>
#include <strings.h>

#include "base/own.h"

#define LEADING_CRLF_MAX 4
#define METHOD_MAX 32

enum { C_TOKEN = 1, C_VALUE = 2, C_TARGET = 4 };

#define ALNUM (C_TOKEN | C_VALUE | C_TARGET)
#define MARK (C_TOKEN | C_VALUE | C_TARGET)
#define VISIBLE (C_VALUE | C_TARGET)

/* What each byte may be part of. A missing cell is a control byte or DEL: part of nothing. '#' is a
 * token and value byte but never part of a target (a fragment is not sent). */
static const unsigned char CLASS[256] = {
    ['\t'] = C_VALUE,
    [' '] = C_VALUE,
    ['#'] = C_TOKEN | C_VALUE,
    ['0' ... '9'] = ALNUM,
    ['A' ... 'Z'] = ALNUM,
    ['a' ... 'z'] = ALNUM,
    ['!'] = MARK,
    ['$'] = MARK,
    ['%'] = MARK,
    ['&'] = MARK,
    ['\''] = MARK,
    ['*'] = MARK,
    ['+'] = MARK,
    ['-'] = MARK,
    ['.'] = MARK,
    ['^'] = MARK,
    ['_'] = MARK,
    ['`'] = MARK,
    ['|'] = MARK,
    ['~'] = MARK,
    ['"'] = VISIBLE,
    ['('] = VISIBLE,
    [')'] = VISIBLE,
    [','] = VISIBLE,
    ['/'] = VISIBLE,
    [':'] = VISIBLE,
    [';'] = VISIBLE,
    ['<'] = VISIBLE,
    ['='] = VISIBLE,
    ['>'] = VISIBLE,
    ['?'] = VISIBLE,
    ['@'] = VISIBLE,
    ['['] = VISIBLE,
    ['\\'] = VISIBLE,
    [']'] = VISIBLE,
    ['{'] = VISIBLE,
    ['}'] = VISIBLE,
    [0x80 ... 0xff] = C_VALUE,
};

static size_t span(const char *p, size_t len, unsigned char mask)
{
    size_t n = 0;
    while (n < len && (CLASS[(unsigned char)p[n]] & mask))
        n++;
    return n;
}

static enum http_parsed refuse(struct http_fault *fault, int status, const char *why)
{
    *fault = (struct http_fault){ .status = status, .why = why };
    return HTTP_REFUSED;
}

/* Reading position: lines are taken from it one by one. */
struct lines {
    const char *p;
    const char *end;
};

/* The next line without its CRLF. HTTP_PARTIAL when its end has not come. */
static enum http_parsed take_line(struct lines *in, struct http_str *line, int bad,
                                  struct http_fault *fault)
{
    size_t left = (size_t)(in->end - in->p);
    const char *lf = left ? memchr(in->p, '\n', left) : NULL;
    if (!lf)
        return HTTP_PARTIAL;
    if (lf == in->p || lf[-1] != '\r')
        return refuse(fault, bad, "line ends in a bare LF");
    *line = (struct http_str){ in->p, (size_t)(lf - in->p) - 1 };
    in->p = lf + 1;
    return HTTP_PARSED;
}

static enum http_parsed parse_field(struct http_str line, int bad, struct http_head *head,
                                    struct http_fault *fault)
{
    if (head->n_fields == HTTP_FIELDS_MAX)
        return refuse(fault, bad == 502 ? bad : 431, "too many header fields");
    if (line.p[0] == ' ' || line.p[0] == '\t')
        return refuse(fault, bad, "folded header line");
    size_t name = span(line.p, line.len, C_TOKEN);
    if (name == 0 || name == line.len || line.p[name] != ':')
        return refuse(fault, bad, "malformed header field name");
    size_t from = name + 1;
    if (span(line.p + from, line.len - from, C_VALUE) != line.len - from)
        return refuse(fault, bad, "control byte in header field value");
    size_t to = line.len;
    while (from < to && (line.p[from] == ' ' || line.p[from] == '\t'))
        from++;
    while (to > from && (line.p[to - 1] == ' ' || line.p[to - 1] == '\t'))
        to--;
    head->fields[head->n_fields++] = (struct http_field){
        .name = { line.p, name },
        .value = { line.p + from, to - from },
    };
    return HTTP_PARSED;
}

static enum http_parsed parse_fields(struct lines *in, int bad, struct http_head *head,
                                     struct http_fault *fault)
{
    for (;;) {
        struct http_str line;
        enum http_parsed parsed = take_line(in, &line, bad, fault);
        if (parsed != HTTP_PARSED)
            return parsed;
        if (line.len == 0)
            return HTTP_PARSED;
        parsed = parse_field(line, bad, head, fault);
        if (parsed != HTTP_PARSED)
            return parsed;
    }
}

/* ---- framing: the fields that decide where a message ends ---- */

struct framing_fields {
    const struct http_field *length, *coding, *host, *expect;
};

/* Keeps the one field of a kind; a second one is a fault. */
static bool keep_single(const struct http_field **slot, const struct http_field *field)
{
    if (*slot)
        return false;
    *slot = field;
    return true;
}

static const char *sort_fields(struct http_head *head, struct framing_fields *out)
{
    bool close = false, keep = false;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];
        bool single = true;
        switch (f->name.len) {
        case 4:
            if (http_str_is_nocase(f->name, "host"))
                single = keep_single(&out->host, f);
            break;
        case 6:
            if (http_str_is_nocase(f->name, "expect"))
                single = keep_single(&out->expect, f);
            break;
        case 10:
            if (http_str_is_nocase(f->name, "connection")) {
                close |= http_list_has(f->value, "close");
                keep |= http_list_has(f->value, "keep-alive");
            }
            break;
        case 14:
            if (http_str_is_nocase(f->name, "content-length"))
                single = keep_single(&out->length, f);
            break;
        case 17:
            if (http_str_is_nocase(f->name, "transfer-encoding"))
                single = keep_single(&out->coding, f);
            break;
        default:
            break;
        }
        if (!single)
            return "Host, Expect, Content-Length or Transfer-Encoding more than once";
    }
    head->keep_alive = !close && (head->minor == 1 || keep);
    return NULL;
}

/* 1 to 19 digits: always fits. */
static bool parse_length(struct http_str s, uint64_t *out)
{
    if (s.len == 0 || s.len > 19)
        return false;
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(s.p[i] - '0');
    }
    *out = n;
    return n <= INT64_MAX;
}

static const char *apply_framing(struct http_head *head, const struct framing_fields *f)
{
    head->framing = HTTP_FRAMED_NONE;
    if (f->coding) {
        if (f->length)
            return "Content-Length beside Transfer-Encoding";
        if (head->minor == 0)
            return "Transfer-Encoding on HTTP/1.0";
        if (!http_str_is_nocase(f->coding->value, "chunked"))
            return "Transfer-Encoding is not exactly chunked";
        head->framing = HTTP_FRAMED_CHUNKED;
    }
    if (f->length) {
        if (!parse_length(f->length->value, &head->content_length))
            return "malformed Content-Length";
        head->has_content_length = true;
        head->framing = HTTP_FRAMED_LENGTH;
    }
    return NULL;
}

/* ---- request line ---- */

static enum http_parsed parse_version(struct http_str s, struct http_head *head, int bad,
                                      struct http_fault *fault)
{
    if (s.len != 8 || memcmp(s.p, "HTTP/", 5) != 0 || s.p[6] != '.' || s.p[5] < '0' ||
        s.p[5] > '9' || s.p[7] < '0' || s.p[7] > '9')
        return refuse(fault, bad, "malformed HTTP version");
    if (s.p[5] != '1' || (s.p[7] != '0' && s.p[7] != '1'))
        return refuse(fault, bad == 502 ? bad : 505, "HTTP version is neither 1.0 nor 1.1");
    head->minor = s.p[7] - '0';
    return HTTP_PARSED;
}

static void split_path(struct http_head *head, struct http_str rest)
{
    const char *mark = rest.len ? memchr(rest.p, '?', rest.len) : NULL;
    size_t n = mark ? (size_t)(mark - rest.p) : rest.len;
    head->path = n ? (struct http_str){ rest.p, n } : (struct http_str){ "/", 1 };
    if (mark)
        head->query = (struct http_str){ mark + 1, rest.len - n - 1 };
}

static bool parse_absolute(struct http_head *head)
{
    struct http_str t = head->target;
    size_t scheme = t.len >= 7 && strncasecmp(t.p, "http://", 7) == 0    ? 4
                    : t.len >= 8 && strncasecmp(t.p, "https://", 8) == 0 ? 5
                                                                         : 0;
    if (!scheme)
        return false;
    head->form = HTTP_FORM_ABSOLUTE;
    head->scheme = (struct http_str){ t.p, scheme };
    struct http_str rest = { t.p + scheme + 3, t.len - scheme - 3 };
    size_t n = 0;
    while (n < rest.len && rest.p[n] != '/' && rest.p[n] != '?')
        n++;
    head->authority = (struct http_str){ rest.p, n };
    split_path(head, (struct http_str){ rest.p + n, rest.len - n });
    return true;
}

static bool parse_target(struct http_head *head)
{
    struct http_str t = head->target;
    if (head->method == HTTP_CONNECT) {
        head->form = HTTP_FORM_AUTHORITY;
        head->authority = t;
        return true;
    }
    if (t.p[0] == '/') {
        head->form = HTTP_FORM_ORIGIN;
        split_path(head, t);
        return true;
    }
    if (http_str_is(t, "*")) {
        head->form = HTTP_FORM_ASTERISK;
        head->path = t;
        return head->method == HTTP_OPTIONS;
    }
    return parse_absolute(head);
}

static enum http_parsed parse_request_line(struct http_str line, struct http_head *head,
                                           struct http_fault *fault)
{
    size_t method = span(line.p, line.len, C_TOKEN);
    if (method == 0 || method == line.len || line.p[method] != ' ')
        return refuse(fault, 400, "malformed request line");
    if (method > METHOD_MAX)
        return refuse(fault, 501, "method is too long");
    head->method_name = (struct http_str){ line.p, method };
    head->method = http_method_of(head->method_name);
    const char *p = line.p + method + 1;
    size_t left = line.len - method - 1;
    size_t target = span(p, left, C_TARGET);
    if (target > HTTP_TARGET_MAX)
        return refuse(fault, 414, "request target is too long");
    if (target == 0 || target == left || p[target] != ' ')
        return refuse(fault, 400, "malformed request target");
    head->target = (struct http_str){ p, target };
    enum http_parsed parsed =
        parse_version((struct http_str){ p + target + 1, left - target - 1 }, head, 400, fault);
    if (parsed != HTTP_PARSED)
        return parsed;
    if (!parse_target(head))
        return refuse(fault, 400, "request target is in no known form");
    return HTTP_PARSED;
}

static bool same_nocase(struct http_str a, struct http_str b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.p, b.p, a.len) == 0);
}

static enum http_parsed check_host(struct http_head *head, const struct http_field *host,
                                   struct http_fault *fault)
{
    char name[256];
    int port;
    if (!host && head->minor == 1)
        return refuse(fault, 400, "no Host header field");
    if (host && !http_authority_parse(host->value, name, sizeof(name), &port))
        return refuse(fault, 400, "malformed Host header field");
    if (head->form == HTTP_FORM_ORIGIN || head->form == HTTP_FORM_ASTERISK) {
        if (host)
            head->authority = host->value;
        return HTTP_PARSED;
    }
    if (!http_authority_parse(head->authority, name, sizeof(name), &port))
        return refuse(fault, 400, "malformed authority in the request target");
    if (head->form == HTTP_FORM_AUTHORITY && port < 0)
        return refuse(fault, 400, "CONNECT without a port");
    if (host && !same_nocase(host->value, head->authority))
        return refuse(fault, 400, "Host differs from the request target");
    return HTTP_PARSED;
}

static enum http_parsed check_expect(struct http_head *head, const struct http_field *expect,
                                     struct http_fault *fault)
{
    if (!expect || head->minor == 0)
        return HTTP_PARSED;
    if (!http_str_is_nocase(expect->value, "100-continue"))
        return refuse(fault, 417, "unknown expectation");
    head->expect_continue = true;
    return HTTP_PARSED;
}

/* Leading empty lines are skipped (RFC 9112 section 2.2). */
static void skip_blank_lines(struct lines *in)
{
    for (int i = 0; i < LEADING_CRLF_MAX; i++) {
        if (in->end - in->p < 2 || in->p[0] != '\r' || in->p[1] != '\n')
            return;
        in->p += 2;
    }
}

/* An incomplete request head: is it hopeless already? */
static enum http_parsed judge_partial(const struct lines *in, bool in_first_line, size_t len,
                                      struct http_fault *fault)
{
    unsigned char first = in->p < in->end ? (unsigned char)*in->p : 'G';
    if (in_first_line && first != '\r' && !(CLASS[first] & C_TOKEN))
        return refuse(fault, 400, "this is not an HTTP request");
    if (len < HTTP_HEAD_MAX)
        return HTTP_PARTIAL;
    return in_first_line ? refuse(fault, 414, "request target is too long")
                         : refuse(fault, 431, "header is too large");
}

enum http_parsed http_parse_request(const char *data, size_t len, struct http_field *fields,
                                    struct http_head *head, struct http_fault *fault)
{
    struct lines in = { data, data + (len > HTTP_HEAD_MAX ? HTTP_HEAD_MAX : len) };
    struct http_str line;
    *head = (struct http_head){ .fields = fields };
    skip_blank_lines(&in);
    enum http_parsed parsed = take_line(&in, &line, 400, fault);
    if (parsed == HTTP_PARTIAL)
        return judge_partial(&in, true, len, fault);
    if (parsed == HTTP_PARSED)
        parsed = parse_request_line(line, head, fault);
    if (parsed != HTTP_PARSED)
        return parsed;
    parsed = parse_fields(&in, 400, head, fault);
    if (parsed == HTTP_PARTIAL)
        return judge_partial(&in, false, len, fault);
    if (parsed != HTTP_PARSED)
        return parsed;
    struct framing_fields f = { 0 };
    const char *why = sort_fields(head, &f);
    if (!why)
        why = apply_framing(head, &f);
    if (why)
        return refuse(fault, 400, why);
    parsed = check_host(head, f.host, fault);
    if (parsed == HTTP_PARSED)
        parsed = check_expect(head, f.expect, fault);
    head->size = (size_t)(in.p - data);
    return parsed;
}

/* ---- responses ---- */

static enum http_parsed parse_status_line(struct http_str line, struct http_head *head,
                                          struct http_fault *fault)
{
    if (line.len < 12 || line.p[8] != ' ')
        return refuse(fault, 502, "malformed status line");
    enum http_parsed parsed = parse_version((struct http_str){ line.p, 8 }, head, 502, fault);
    if (parsed != HTTP_PARSED)
        return parsed;
    int status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.p[i] < '0' || line.p[i] > '9')
            return refuse(fault, 502, "malformed status");
        status = status * 10 + (line.p[i] - '0');
    }
    if (status < 100 || status > 599)
        return refuse(fault, 502, "status out of range");
    head->status = status;
    if (line.len == 12)
        return HTTP_PARSED;
    if (line.p[12] != ' ' || span(line.p + 13, line.len - 13, C_VALUE) != line.len - 13)
        return refuse(fault, 502, "malformed reason");
    head->reason = (struct http_str){ line.p + 13, line.len - 13 };
    return HTTP_PARSED;
}

/* RFC 9112 section 6.3 for answers. */
static const char *response_framing(struct http_head *head, const struct framing_fields *f,
                                    enum http_method method)
{
    const char *why = apply_framing(head, f);
    if (why)
        return why;
    bool never = head->status < 200 || head->status == 204;
    if (never && (f->coding || head->content_length > 0))
        return "body announced on an answer that has none";
    if (never || head->status == 304 || method == HTTP_HEAD)
        head->framing = HTTP_FRAMED_NONE;
    else if (!f->length && !f->coding)
        head->framing = HTTP_FRAMED_CLOSE;
    return NULL;
}

enum http_parsed http_parse_response(const char *data, size_t len, enum http_method method,
                                     struct http_field *fields, struct http_head *head,
                                     struct http_fault *fault)
{
    struct lines in = { data, data + (len > HTTP_HEAD_MAX ? HTTP_HEAD_MAX : len) };
    struct http_str line;
    *head = (struct http_head){ .fields = fields };
    enum http_parsed parsed = take_line(&in, &line, 502, fault);
    if (parsed == HTTP_PARSED)
        parsed = parse_status_line(line, head, fault);
    if (parsed == HTTP_PARSED)
        parsed = parse_fields(&in, 502, head, fault);
    if (parsed == HTTP_PARTIAL && len >= HTTP_HEAD_MAX)
        return refuse(fault, 502, "header is too large");
    if (parsed != HTTP_PARSED)
        return parsed;
    struct framing_fields f = { 0 };
    const char *why = sort_fields(head, &f);
    if (!why)
        why = response_framing(head, &f, method);
    if (why)
        return refuse(fault, 502, why);
    head->size = (size_t)(in.p - data);
    return HTTP_PARSED;
}
