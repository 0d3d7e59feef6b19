#include "base/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/text.h"

static bool is_json_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Nesting is bounded before jansson recurses. Strings are skipped; other faults are jansson's. */
static CHECKED enum err_kind check_depth(const char *text, size_t len, struct err *err)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_DEPTH_MAX)
                return err_set(err, ERR_INVALID, "nested deeper than %d levels", JSON_DEPTH_MAX);
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return ERR_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

static CHECKED enum err_kind check_folded_keys(const json_t *object, struct err *err)
{
    size_t n = json_object_size(object);
    const char **keys CLEANUP_FREE = xcalloc(n, sizeof(*keys));
    size_t i = 0;
    for (void *it = json_object_iter((json_t *)(uintptr_t)object); it;
         it = json_object_iter_next((json_t *)(uintptr_t)object, it))
        keys[i++] = json_object_iter_key(it);
    qsort(keys, n, sizeof(*keys), compare_keys);
    for (i = 1; i < n; i++) {
        if (strcasecmp(keys[i - 1], keys[i]) == 0) {
            char shown[80];
            return err_set(err, ERR_INVALID, "duplicate key \"%s\" (differs in letter case only)",
                           text_safe(keys[i], shown, sizeof(shown)));
        }
    }
    return ERR_OK;
}

static CHECKED enum err_kind check_tree(const json_t *value, struct err *err)
{
    if (json_is_object(value)) {
        if (check_folded_keys(value, err))
            return err->kind;
        const char *key;
        json_t *child;
        json_object_foreach((json_t *)(uintptr_t)value, key, child)
        {
            if (check_tree(child, err))
                return err->kind;
        }
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (check_tree(json_array_get(value, i), err))
                return err->kind;
        }
    }
    return ERR_OK;
}

/* The number and the real that stands for it, as jansson prints that real. */
static const char uint64_max[] = "18446744073709551615";
static const char uint64_real[] = "1.8446744073709552e19";

/* The next place where the token stands as a number of its own, outside strings; NULL if none. */
static const char *find_number(const char *text, size_t len, const char *token)
{
    size_t n = strlen(token);
    bool in_string = false;
    for (size_t i = 0; i + n <= len; i++) {
        if (in_string && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string && text[i] == token[0] && memcmp(text + i, token, n) == 0) {
            bool begins = i == 0 || !strchr("0123456789+-.eE", text[i - 1]);
            bool ends = i + n == len || !strchr("0123456789.eE", text[i + n]);
            if (begins && ends)
                return text + i;
        }
    }
    return NULL;
}

/* A copy of the text with every such token replaced; the caller frees. */
static char *replace_number(const char *text, size_t *len, const char *from, const char *to)
{
    struct buf b;
    buf_init(&b, SIZE_MAX / 2);
    size_t left = *len;
    for (const char *at = find_number(text, left, from); at; at = find_number(text, left, from)) {
        buf_append(&b, text, (size_t)(at - text));
        buf_append_str(&b, to);
        left -= (size_t)(at - text) + strlen(from);
        text = at + strlen(from);
    }
    buf_append(&b, text, left);
    *len = b.len;
    char *out = xstrndup(buf_cstr(&b), b.len);
    buf_fini(&b);
    return out;
}

static CHECKED enum err_kind load(const char *text, size_t len, size_t flags, json_t **out,
                                  struct err *err);

enum err_kind json_strict_load(const char *text, size_t len, size_t max, size_t flags, json_t **out,
                               struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    if (len > max)
        return err_set(err, ERR_INVALID, "larger than %zu bytes", max);
    if (check_depth(text, len, err))
        return err->kind;
    if (!(flags & JSON_TAKE_UINT64_MAX) || !memmem(text, len, uint64_max, strlen(uint64_max)))
        return load(text, len, flags & ~JSON_TAKE_UINT64_MAX, out, err);
    char *changed CLEANUP_FREE = replace_number(text, &len, uint64_max, uint64_real);
    return load(changed, len, flags & ~JSON_TAKE_UINT64_MAX, out, err);
}

static enum err_kind load(const char *text, size_t len, size_t flags, json_t **out, struct err *err)
{
    json_error_t fault;
    json_t *root CLEANUP_JSON =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK | flags, &fault);
    if (!root) {
        char shown[160];
        return err_set(err, ERR_INVALID, "not JSON at line %d column %d: %s", fault.line,
                       fault.column, text_safe(fault.text, shown, sizeof(shown)));
    }
    for (size_t i = (size_t)fault.position; i < len; i++) {
        if (!is_json_space(text[i]))
            return err_set(err, ERR_INVALID, "data after the JSON value at byte %zu", i);
    }
    if (check_tree(root, err))
        return err->kind;
    *out = STEAL(root);
    return ERR_OK;
}

enum err_kind json_strict_load_file(const char *path, size_t max, json_t **out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    if (fs_read(path, max, &text, &len, err))
        return err->kind;
    if (json_strict_load(text, len, max, 0, out, err))
        return err_prefix(err, "%s", path);
    return ERR_OK;
}

enum err_kind json_only_keys(const json_t *object, const char *const names[], const char *where,
                             struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (names[i] && strcmp(names[i], key) != 0)
            i++;
        if (!names[i]) {
            char shown[80];
            return err_set(err, ERR_INVALID, "%s: unknown key \"%s\"", where,
                           text_safe(key, shown, sizeof(shown)));
        }
    }
    return ERR_OK;
}

/* One reference token with ~0 and ~1 undone; false if it does not fit. */
static bool pointer_token(const char **p, char *out, size_t size)
{
    size_t n = 0;
    while (**p && **p != '/') {
        char c = *(*p)++;
        if (c == '~' && (**p == '0' || **p == '1'))
            c = *(*p)++ == '0' ? '~' : '/';
        if (n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = 0;
    return true;
}

json_t *json_at(const json_t *root, const char *pointer)
{
    const json_t *at = root;
    while (at && *pointer == '/') {
        char token[256];
        uint64_t index;
        pointer++;
        if (!pointer_token(&pointer, token, sizeof(token)))
            return NULL;
        if (json_is_object(at))
            at = json_object_get(at, token);
        else if (json_is_array(at) && text_u64(token, &index))
            at = json_array_get(at, index);
        else
            at = NULL;
    }
    return (json_t *)(uintptr_t)at;
}

/* The member, or NULL with *status telling whether that is an error. */
static json_t *member(const json_t *object, const char *key, bool required, enum err_kind *status,
                      struct err *err)
{
    json_t *value = json_object_get(object, key);
    *status = ERR_OK;
    if (!value && required)
        *status = err_set(err, ERR_INVALID, "\"%s\" is missing", key);
    return value;
}

enum err_kind json_get_string(const json_t *object, const char *key, bool required,
                              const char **out, struct err *err)
{
    enum err_kind status;
    json_t *value = member(object, key, required, &status, err);
    if (!value)
        return status;
    if (!json_is_string(value))
        return err_set(err, ERR_INVALID, "\"%s\" must be a string", key);
    *out = json_string_value(value);
    return ERR_OK;
}

enum err_kind json_get_int(const json_t *object, const char *key, bool required, int64_t min,
                           int64_t max, int64_t *out, struct err *err)
{
    enum err_kind status;
    json_t *value = member(object, key, required, &status, err);
    if (!value)
        return status;
    if (!json_is_integer(value))
        return err_set(err, ERR_INVALID, "\"%s\" must be an integer", key);
    json_int_t v = json_integer_value(value);
    if (v < min || v > max)
        return err_set(err, ERR_INVALID, "\"%s\" is %" PRId64 ", must be %" PRId64 " to %" PRId64,
                       key, (int64_t)v, min, max);
    *out = v;
    return ERR_OK;
}

enum err_kind json_get_bool(const json_t *object, const char *key, bool required, bool *out,
                            struct err *err)
{
    enum err_kind status;
    json_t *value = member(object, key, required, &status, err);
    if (!value)
        return status;
    if (!json_is_boolean(value))
        return err_set(err, ERR_INVALID, "\"%s\" must be true or false", key);
    *out = json_is_true(value);
    return ERR_OK;
}

char *json_canonical(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (!text)
        abort();
    size_t len = strlen(text);
    if (!memmem(text, len, uint64_real, strlen(uint64_real)))
        return text;
    char *changed = replace_number(text, &len, uint64_real, uint64_max);
    free(text);
    return changed;
}
