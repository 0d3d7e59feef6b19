#include "deploy/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/json.h"
#include "base/text.h"

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one; always initialised */
    unsigned nodes;
    struct err *err;
};

static size_t line_of(const struct reader *r)
{
    return r->event.start_mark.line + 1;
}

static enum err_kind fault(struct reader *r, const char *what)
{
    return err_set(r->err, ERR_INVALID, "line %zu: %s", line_of(r), what);
}

static enum err_kind next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return ERR_OK;
    char safe[200];
    memset(&r->event, 0, sizeof(r->event));
    return err_set(
        r->err, ERR_INVALID, "line %zu: %s", r->parser.problem_mark.line + 1,
        text_safe(r->parser.problem ? r->parser.problem : "not YAML", safe, sizeof(safe)));
}

static json_t *scalar_value(const yaml_event_t *event)
{
    const char *s = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    int64_t number;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
            return json_boolean(s[0] == 't');
        if (n == 0 || strcmp(s, "null") == 0 || strcmp(s, "~") == 0)
            return json_null();
        if (strlen(s) == n && text_i64(s, &number))
            return json_integer(number);
    }
    return json_stringn(s, n);
}

static enum err_kind scalar(struct reader *r, json_t **out)
{
    const yaml_event_t *event = &r->event;
    if (event->data.scalar.anchor)
        return fault(r, "anchors (&) are not allowed");
    if (event->data.scalar.tag)
        return fault(r, "tags (!) are not allowed");
    if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
        return fault(r, "NUL in a value");
    *out = scalar_value(event);
    return *out ? ERR_OK : fault(r, "not UTF-8");
}

static enum err_kind node(struct reader *r, unsigned depth, json_t **out);

static enum err_kind sequence(struct reader *r, unsigned depth, json_t **out)
{
    if (r->event.data.sequence_start.anchor || r->event.data.sequence_start.tag)
        return fault(r, "anchors (&) and tags (!) are not allowed");
    json_t *list CLEANUP_JSON = json_array();
    for (;;) {
        json_t *item = NULL;
        if (next(r))
            return r->err->kind;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (node(r, depth, &item))
            return r->err->kind;
        json_array_append_new(list, item);
    }
    *out = STEAL(list);
    return ERR_OK;
}

/* A key is a name: what a schema or an environment can hold, nothing that reads as something else.
 */
static enum err_kind key_check(struct reader *r, const json_t *map)
{
    const yaml_event_t *event = &r->event;
    if (event->type != YAML_SCALAR_EVENT)
        return fault(r, "a key must be a plain name");
    if (event->data.scalar.anchor || event->data.scalar.tag)
        return fault(r, "anchors (&) and tags (!) are not allowed");
    const char *s = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    char safe[100];
    if (n == 0 || n > 64 ||
        strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != n)
        return err_set(r->err, ERR_INVALID, "line %zu: key \"%s\": only letters, digits, _ and -",
                       line_of(r), text_safe(s, safe, sizeof(safe)));
    if (json_object_get(map, s))
        return err_set(r->err, ERR_INVALID, "line %zu: key \"%s\" is there twice", line_of(r), s);
    return ERR_OK;
}

static enum err_kind mapping(struct reader *r, unsigned depth, json_t **out)
{
    if (r->event.data.mapping_start.anchor || r->event.data.mapping_start.tag)
        return fault(r, "anchors (&) and tags (!) are not allowed");
    json_t *map CLEANUP_JSON = json_object();
    for (;;) {
        json_t *value = NULL;
        if (next(r))
            return r->err->kind;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (key_check(r, map))
            return r->err->kind;
        char *key CLEANUP_FREE = xstrdup((const char *)r->event.data.scalar.value);
        if (next(r) || node(r, depth, &value))
            return r->err->kind;
        json_object_set_new(map, key, value);
    }
    *out = STEAL(map);
    return ERR_OK;
}

static enum err_kind node(struct reader *r, unsigned depth, json_t **out)
{
    if (depth >= YAML_DEPTH_MAX)
        return fault(r, "nested too deeply");
    if (++r->nodes > YAML_NODES_MAX)
        return fault(r, "too many values");
    if (r->event.type == YAML_ALIAS_EVENT)
        return fault(r, "aliases (*) are not allowed");
    if (r->event.type == YAML_SCALAR_EVENT)
        return scalar(r, out);
    if (r->event.type == YAML_SEQUENCE_START_EVENT)
        return sequence(r, depth + 1, out);
    if (r->event.type == YAML_MAPPING_START_EVENT)
        return mapping(r, depth + 1, out);
    return fault(r, "unexpected end");
}

static enum err_kind document(struct reader *r, json_t **out)
{
    json_t *tree CLEANUP_JSON = NULL;
    if (next(r) || next(r)) /* stream start, document start or stream end */
        return r->err->kind;
    if (r->event.type != YAML_DOCUMENT_START_EVENT)
        return fault(r, "the file is empty");
    if (r->event.data.document_start.version_directive ||
        r->event.data.document_start.tag_directives.start !=
            r->event.data.document_start.tag_directives.end)
        return fault(r, "directives (%) are not allowed");
    if (next(r) || node(r, 0, &tree) || next(r) || next(r))
        return r->err->kind;
    if (r->event.type != YAML_STREAM_END_EVENT)
        return fault(r, "a second document is not allowed");
    *out = STEAL(tree);
    return ERR_OK;
}

enum err_kind yaml_load(const char *text, size_t len, json_t **out, struct err *err)
{
    struct err local;
    if (len > YAML_SIZE_MAX)
        return err_set(err, ERR_INVALID, "larger than 64 KiB");
    if (!text_utf8_valid(text, len))
        return err_set(err, ERR_INVALID, "not UTF-8");
    struct reader r = { .nodes = 0, .err = err ? err : &local };
    if (!yaml_parser_initialize(&r.parser))
        abort();
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    enum err_kind kind = document(&r, out);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return kind;
}
