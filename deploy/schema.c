#include "deploy/schema.h"

#include <assert.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

struct place {
    const json_t *root;
    char path[200];
    struct err *err;
};

static const json_t *resolve(const struct place *at, const json_t *schema)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (!ref)
        return schema;
    assert(text_starts(ref, "#/"));
    const json_t *target = json_at(at->root, ref + 1);
    assert(target);
    return target;
}

static enum err_kind fault(struct place *at, const json_t *schema, const char *what)
{
    const char *say = json_string_value(json_object_get(schema, "description"));
    return err_set(at->err, ERR_INVALID, "%s: %s%s%s%s", at->path[0] ? at->path : "the file", what,
                   say ? " (" : "", say ? say : "", say ? ")" : "");
}

static bool type_is(const char *type, const json_t *value)
{
    if (strcmp(type, "object") == 0)
        return json_is_object(value);
    if (strcmp(type, "array") == 0)
        return json_is_array(value);
    if (strcmp(type, "string") == 0)
        return json_is_string(value);
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value);
    assert(strcmp(type, "boolean") == 0);
    return json_is_boolean(value);
}

static enum err_kind check_type(struct place *at, const json_t *schema, const json_t *value)
{
    const json_t *type = json_object_get(schema, "type");
    if (!type)
        return ERR_OK;
    char what[100];
    if (json_is_string(type)) {
        if (type_is(json_string_value(type), value))
            return ERR_OK;
        (void)snprintf(what, sizeof(what), "must be of type %s", json_string_value(type));
        return fault(at, schema, what);
    }
    for (size_t i = 0; i < json_array_size(type); i++) {
        if (type_is(json_string_value(json_array_get(type, i)), value))
            return ERR_OK;
    }
    return fault(at, schema, "is of the wrong type");
}

static bool matches(const char *pattern, const char *s)
{
    regex_t re;
    int rc = regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB);
    assert(rc == 0);
    rc = regexec(&re, s, 0, NULL, 0);
    regfree(&re);
    return rc == 0;
}

static enum err_kind check_string(struct place *at, const json_t *schema, const json_t *value)
{
    if (!json_is_string(value))
        return ERR_OK;
    const char *s = json_string_value(value);
    json_int_t least = json_integer_value(json_object_get(schema, "minLength"));
    const json_t *most = json_object_get(schema, "maxLength");
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    char safe[120], what[200];
    if ((json_int_t)strlen(s) < least)
        return fault(at, schema, "is too short");
    if (most && (json_int_t)strlen(s) > json_integer_value(most))
        return fault(at, schema, "is too long");
    /* POSIX "." and "$" let a newline pass; no value of ours holds control bytes. */
    bool control = false;
    for (const char *p = s; *p; p++)
        control = control || (unsigned char)*p < 0x20 || *p == 0x7f;
    if (control || (pattern && !matches(pattern, s))) {
        (void)snprintf(what, sizeof(what), "\"%s\" is not allowed here",
                       text_safe(s, safe, sizeof(safe)));
        return fault(at, schema, what);
    }
    return ERR_OK;
}

static enum err_kind check_number(struct place *at, const json_t *schema, const json_t *value)
{
    if (!json_is_integer(value))
        return ERR_OK;
    const json_t *least = json_object_get(schema, "minimum");
    const json_t *most = json_object_get(schema, "maximum");
    json_int_t n = json_integer_value(value);
    char what[120];
    if ((least && n < json_integer_value(least)) || (most && n > json_integer_value(most))) {
        (void)snprintf(what, sizeof(what), "%" PRId64 " is out of range", (int64_t)n);
        return fault(at, schema, what);
    }
    return ERR_OK;
}

static enum err_kind check_enum(struct place *at, const json_t *schema, const json_t *value)
{
    const json_t *list = json_object_get(schema, "enum");
    if (!list)
        return ERR_OK;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_equal(json_array_get(list, i), value))
            return ERR_OK;
    }
    char *choices CLEANUP_FREE = json_dumps(list, JSON_COMPACT);
    char *what CLEANUP_FREE = xasprintf("must be one of %s", choices);
    return fault(at, schema, what);
}

static enum err_kind check(struct place *at, const json_t *schema, const json_t *value);

static void place_push(struct place *at, const char *key)
{
    size_t n = strlen(at->path);
    (void)snprintf(at->path + n, sizeof(at->path) - n, "%s%s", n && key[0] != '[' ? "." : "", key);
}

static enum err_kind check_member(struct place *at, const json_t *schema, const char *key,
                                  const json_t *value)
{
    const json_t *sub = json_object_get(json_object_get(schema, "properties"), key);
    const json_t *more = json_object_get(schema, "additionalProperties");
    const char *names =
        json_string_value(json_object_get(json_object_get(schema, "propertyNames"), "pattern"));
    size_t n = strlen(at->path);
    place_push(at, key);
    if (!sub && json_is_object(more) && (!names || matches(names, key)))
        sub = more;
    if (!sub)
        return err_set(at->err, ERR_INVALID, "%s: no such key", at->path);
    if (check(at, sub, value))
        return at->err->kind;
    at->path[n] = '\0';
    return ERR_OK;
}

static enum err_kind check_object(struct place *at, const json_t *schema, const json_t *value)
{
    if (!json_is_object(value))
        return ERR_OK;
    if (!json_object_get(schema, "properties") && !json_object_get(schema, "additionalProperties"))
        return ERR_OK; /* the schema leaves its members to somebody else */
    size_t i;
    json_t *name, *member;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (check_member(at, schema, key, member))
            return at->err->kind;
    }
    json_array_foreach(json_object_get(schema, "required"), i, name)
    {
        if (json_object_get(value, json_string_value(name)))
            continue;
        place_push(at, json_string_value(name));
        const json_t *sub =
            json_object_get(json_object_get(schema, "properties"), json_string_value(name));
        return fault(at, resolve(at, sub), "is missing");
    }
    return ERR_OK;
}

static enum err_kind check_array(struct place *at, const json_t *schema, const json_t *value)
{
    if (!json_is_array(value))
        return ERR_OK;
    const json_t *least = json_object_get(schema, "minItems");
    const json_t *most = json_object_get(schema, "maxItems");
    if (least && (json_int_t)json_array_size(value) < json_integer_value(least))
        return fault(at, schema, "has too few entries");
    if (most && (json_int_t)json_array_size(value) > json_integer_value(most))
        return fault(at, schema, "has too many entries");
    const json_t *items = json_object_get(schema, "items");
    for (size_t i = 0; items && i < json_array_size(value); i++) {
        size_t n = strlen(at->path);
        char index[24];
        (void)snprintf(index, sizeof(index), "[%zu]", i);
        place_push(at, index);
        if (check(at, items, json_array_get(value, i)))
            return at->err->kind;
        at->path[n] = '\0';
    }
    return ERR_OK;
}

/* True when a branch is the one meant: its type fits, and for objects a key of its "required" is
 * there. */
static bool branch_fits(const json_t *branch, const json_t *value)
{
    const char *type = json_string_value(json_object_get(branch, "type"));
    if (type && !type_is(type, value))
        return false;
    const json_t *required = json_object_get(branch, "required");
    if (!json_is_object(value) || json_array_size(required) == 0)
        return true;
    return json_object_get(value, json_string_value(json_array_get(required, 0))) != NULL;
}

static enum err_kind check_one_of(struct place *at, const json_t *schema, const json_t *value)
{
    const json_t *branches = json_object_get(schema, "oneOf");
    if (!branches)
        return ERR_OK;
    const json_t *meant = NULL;
    for (size_t i = 0; i < json_array_size(branches); i++) {
        const json_t *branch = resolve(at, json_array_get(branches, i));
        if (!branch_fits(branch, value))
            continue;
        if (meant)
            return fault(at, schema, "says two things at once");
        meant = branch;
    }
    return meant ? check(at, meant, value) : fault(at, schema, "is not complete");
}

static void assert_known(const json_t *schema)
{
    static const char *const known[] = {
        "type",      "enum",     "properties",    "required",    "additionalProperties",
        "items",     "minItems", "maxItems",      "minimum",     "maximum",
        "minLength", "pattern",  "maxLength",     "oneOf",       "$ref",
        "$defs",     "$schema",  "propertyNames", "description", "title",
        "$id",       "default",  "examples",
    };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < ARRAY_LEN(known) && !found; i++)
            found = strcmp(key, known[i]) == 0;
        assert(found);
    }
}

static enum err_kind check(struct place *at, const json_t *schema, const json_t *value)
{
    schema = resolve(at, schema);
    assert_known(schema);
    if (check_type(at, schema, value) || check_enum(at, schema, value) ||
        check_string(at, schema, value) || check_number(at, schema, value))
        return at->err->kind;
    if (json_object_get(schema, "oneOf"))
        return check_one_of(at, schema, value);
    if (check_object(at, schema, value) || check_array(at, schema, value))
        return at->err->kind;
    return ERR_OK;
}

enum err_kind schema_check(const json_t *schema, const json_t *value, struct err *err)
{
    struct err local;
    struct place at = { .root = schema, .err = err ? err : &local };
    at.err->kind = ERR_OK;
    return check(&at, schema, value);
}
