#include "shim/stream_uri.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

void stream_uri_fini(struct stream_uri *uri)
{
    free(uri->path);
    for (size_t i = 0; i < uri->n_args; i++)
        free(uri->args[i]);
    *uri = (struct stream_uri){ 0 };
}

static CHECKED enum err_kind bad(const char *text, const char *which, const char *why,
                                 struct err *err)
{
    char safe[128];
    return err_set(err, ERR_INVALID, "%s %s: %s", which, text_safe(text, safe, sizeof(safe)), why);
}

static bool path_fine(const char *path)
{
    if (path[0] != '/' || path[1] == '\0')
        return false;
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return true;
}

/* Query unescaping: %XX and '+'. NULL on a bad escape or an escaped NUL. */
static char *unescape(const char *s, size_t n)
{
    char *out = xmalloc(n + 1);
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)s[i];
        if (byte == '+') {
            byte = ' ';
        } else if (byte == '%') {
            if (n - i < 3 || !text_unhex(s + i + 1, &byte, 1) || byte == 0) {
                free(out);
                return NULL;
            }
            i += 2;
        }
        out[len++] = (char)byte;
    }
    out[len] = '\0';
    return out;
}

static bool add_arg(struct stream_uri *uri, const char *s, size_t n)
{
    if (uri->n_args == STREAM_ARGS_MAX)
        return false;
    char *arg = unescape(s, n);
    if (!arg)
        return false;
    uri->args[uri->n_args++] = arg;
    return true;
}

static bool parse_query(struct stream_uri *uri, const char *query)
{
    while (*query) {
        size_t n = strcspn(query, "&");
        const char *eq = memchr(query, '=', n);
        size_t key = eq ? (size_t)(eq - query) : n;
        if (key == 0 || !add_arg(uri, query, key))
            return false;
        if (eq && !add_arg(uri, eq + 1, n - key - 1))
            return false;
        if (!eq && !add_arg(uri, "", 0))
            return false;
        query += n;
        if (*query == '&')
            query++;
    }
    return true;
}

static CHECKED enum err_kind parse_schemed(const char *text, const char *which,
                                           struct stream_uri *out, struct err *err)
{
    static const struct {
        const char *prefix;
        enum stream_kind kind;
    } SCHEMES[] = {
        { "fifo://", STREAM_FIFO },
        { "file://", STREAM_FILE },
        { "binary://", STREAM_BINARY },
    };
    for (size_t i = 0; i < ARRAY_LEN(SCHEMES); i++) {
        if (!text_starts(text, SCHEMES[i].prefix))
            continue;
        const char *rest = text + strlen(SCHEMES[i].prefix);
        size_t n = strcspn(rest, "?");
        out->kind = SCHEMES[i].kind;
        out->path = unescape(rest, n);
        if (!out->path || !path_fine(out->path))
            return bad(text, which, "not an absolute path", err);
        if (rest[n] == '\0')
            return ERR_OK;
        if (out->kind != STREAM_BINARY || !parse_query(out, rest + n + 1))
            return bad(text, which, "malformed query", err);
        return ERR_OK;
    }
    return bad(text, which, "must be a FIFO path, binary:// or file://", err);
}

enum err_kind stream_uri_parse(const char *text, const char *which, struct stream_uri *out,
                               struct err *err)
{
    *out = (struct stream_uri){ 0 };
    if (!text || !*text)
        return ERR_OK;
    if (strlen(text) > STREAM_URI_MAX)
        return err_set(err, ERR_INVALID, "%s: longer than %d bytes", which, STREAM_URI_MAX);
    enum err_kind kind = ERR_OK;
    if (text[0] != '/') {
        kind = parse_schemed(text, which, out, err);
    } else if (!path_fine(text)) {
        kind = bad(text, which, "not an absolute path", err);
    } else {
        out->kind = STREAM_FIFO;
        out->path = xstrdup(text);
    }
    if (kind)
        stream_uri_fini(out);
    return kind;
}
