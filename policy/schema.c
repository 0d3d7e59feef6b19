/* The walk over a document by its table: unknown fields, wrong types, fields that must be empty. */
#include "policy/schema.h"

#include <string.h>

#include "policy/rlimit.h"

static const struct schema_field *find(const struct schema_field *table, const char *name, size_t n)
{
    for (; table && table->name; table++) {
        if (table->name[0] == name[0] && strncmp(table->name, name, n) == 0 && !table->name[n])
            return table;
    }
    return NULL;
}

/* Where the walk stands, rendered only when there is something to say: most walks say nothing. */
struct place {
    const struct place *up; /* NULL at the root */
    const char *key;        /* NULL: an index */
    size_t index;
};

static struct at place_pointer(const struct place *place)
{
    if (!place)
        return at("%s", "");
    struct at up = place_pointer(place->up);
    return place->key ? member_at(up.s, place->key) : at("%s/%zu", up.s, place->index);
}

static bool shape_is_list(enum schema_shape shape)
{
    return shape == SHAPE_STRINGS || shape == SHAPE_UINTS || shape == SHAPE_MAP ||
           shape == SHAPE_OBJECTS;
}

const struct schema_field *schema_row(const struct schema_field *table, const char *pointer)
{
    size_t n = strcspn(pointer + 1, "/");
    const struct schema_field *row = find(table, pointer + 1, n);
    const char *rest = pointer + 1 + n;
    if (!row || !*rest || row->how == HOW_EMPTY)
        return row;
    if (row->shape == SHAPE_OBJECT)
        return schema_row(row->members, rest);
    if (!shape_is_list(row->shape))
        return NULL;
    rest += 1 + strcspn(rest + 1, "/"); /* an index, or a key of a map */
    if (!*rest)
        return row;
    return row->members ? schema_row(row->members, rest) : NULL;
}

/* ---- types and unknown fields ------------------------------------------------------------- */

static void walk_object(struct policy_check_run *run, const struct place *place,
                        const json_t *object, const struct schema_field *table);

static const char *shape_words(enum schema_shape shape)
{
    switch (shape) {
    case SHAPE_STRING:
        return "a string";
    case SHAPE_BOOL:
        return "true or false";
    case SHAPE_INT:
        return "an integer";
    case SHAPE_UINT:
        return "an integer from 0 up";
    case SHAPE_RLIMIT:
        return "an integer from 0 up or 18446744073709551615";
    case SHAPE_STRINGS:
        return "an array of strings";
    case SHAPE_UINTS:
        return "an array of integers from 0 up";
    case SHAPE_MAP:
        return "an object of strings";
    case SHAPE_OBJECT:
        return "an object";
    case SHAPE_OBJECTS:
        return "an array of objects";
    case SHAPE_ANY:
        break;
    }
    return "anything";
}

static bool is_uint(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool array_is(const json_t *array, bool (*is)(const json_t *))
{
    if (!json_is_array(array))
        return false;
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!is(json_array_get(array, i)))
            return false;
    }
    return true;
}

static bool is_string(const json_t *value)
{
    return json_is_string(value);
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_string_map(const json_t *value)
{
    if (!json_is_object(value))
        return false;
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (!json_is_string(member))
            return false;
    }
    return true;
}

static bool shape_fits(enum schema_shape shape, const json_t *value)
{
    switch (shape) {
    case SHAPE_STRING:
        return json_is_string(value);
    case SHAPE_BOOL:
        return json_is_boolean(value);
    case SHAPE_INT:
        return json_is_integer(value);
    case SHAPE_UINT:
        return is_uint(value);
    case SHAPE_RLIMIT:
        return is_uint(value) || rlimit_is_unlimited(value);
    case SHAPE_STRINGS:
        return array_is(value, is_string);
    case SHAPE_UINTS:
        return array_is(value, is_uint);
    case SHAPE_MAP:
        return is_string_map(value);
    case SHAPE_OBJECT:
        return json_is_object(value);
    case SHAPE_OBJECTS:
        return array_is(value, is_object);
    case SHAPE_ANY:
        break;
    }
    return true;
}

static void walk_value(struct policy_check_run *run, const struct place *place, const json_t *value,
                       const struct schema_field *row)
{
    if (!shape_fits(row->shape, value)) {
        struct at here = place_pointer(place);
        policy_find(run, here.s, "%s is not %s", here.s, shape_words(row->shape));
        return;
    }
    if (!row->members)
        return;
    if (row->shape == SHAPE_OBJECT) {
        walk_object(run, place, value, row->members);
        return;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct place item = { .up = place, .index = i };
        walk_object(run, &item, json_array_get(value, i), row->members);
    }
}

static void walk_object(struct policy_check_run *run, const struct place *place,
                        const json_t *object, const struct schema_field *table)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const struct schema_field *row = find(table, key, strlen(key));
        struct place here = { .up = place, .key = key };
        if (row) {
            walk_value(run, &here, value, row);
        } else {
            struct at pointer = place_pointer(&here);
            policy_find(run, pointer.s, "unknown field %s", pointer.s);
        }
    }
}

/* ---- fields that must be empty ------------------------------------------------------------ */

static void empty_object(struct policy_check_run *run, const struct place *place,
                         const json_t *object, const struct schema_field *table);

static bool row_is_ours(const struct policy_check_run *run, const struct schema_field *row)
{
    return row->how == HOW_EMPTY && strcmp(row->rule ? row->rule : "field", run->rule->id) == 0;
}

static void empty_value(struct policy_check_run *run, const struct place *place,
                        const json_t *value, const struct schema_field *row)
{
    if (row->how == HOW_EMPTY) {
        if (row_is_ours(run, row) && !json_is_empty(value)) {
            struct at here = place_pointer(place);
            policy_find(run, here.s, "%s is set", here.s);
        }
    } else if (json_is_object(value)) {
        empty_object(run, place, value, row->members);
    } else {
        for (size_t i = 0; i < json_array_size(value); i++) {
            struct place item = { .up = place, .index = i };
            empty_object(run, &item, json_array_get(value, i), row->members);
        }
    }
}

/* Does the table hold a row that must be empty, at any depth? Most subtrees do not. */
static bool has_empty_rows(const struct schema_field *table)
{
    for (; table->name; table++) {
        if (table->how == HOW_EMPTY || (table->members && has_empty_rows(table->members)))
            return true;
    }
    return false;
}

static void empty_object(struct policy_check_run *run, const struct place *place,
                         const json_t *object, const struct schema_field *table)
{
    for (; table->name; table++) {
        struct place here = { .up = place, .key = table->name };
        if (table->how != HOW_EMPTY && (!table->members || !has_empty_rows(table->members)))
            continue;
        const json_t *value = json_object_get(object, table->name);
        if (value)
            empty_value(run, &here, value, table);
    }
}

/* ---- the checks ------------------------------------------------------------------------------ */

static const json_t *document(const struct policy_check_run *run, const struct schema_field **table)
{
    if (run->spec) {
        *table = schema_spec;
        return run->spec;
    }
    *table = run->in_force ? schema_resources : schema_process;
    return run->in_force ? run->resources : run->process;
}

void check_schema(struct policy_check_run *run)
{
    const struct schema_field *table;
    const json_t *root = document(run, &table);
    if (!json_is_object(root))
        policy_find(run, "", "the document is not an object");
    else
        walk_object(run, NULL, root, table);
}

/* Fields whose rows name the rule being checked (or none: rule "field"). */
void check_field(struct policy_check_run *run)
{
    const struct schema_field *table;
    const json_t *root = document(run, &table);
    empty_object(run, NULL, root, table);
}

void check_selinux(struct policy_check_run *run)
{
    check_field(run);
}

/* The device rules that tools write; runsc ignores them, so they are a sign, not a right. */
static bool device_rule_is_plain(const json_t *rule)
{
    static const struct {
        int64_t major, minor;
    } known[] = { { 1, 3 }, { 1, 5 }, { 1, 7 }, { 1, 8 }, { 1, 9 }, { 5, 0 }, { 5, 1 }, { 5, 2 } };
    if (!member_true(rule, "allow"))
        return true;
    int64_t major = member_int(rule, "major", -1), minor = member_int(rule, "minor", -1);
    if (strcmp(member_str(rule, "type"), "c") != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i].major == major && known[i].minor == minor)
            return true;
    }
    return major == 136; /* /dev/pts */
}

void check_devices(struct policy_check_run *run)
{
    check_field(run);
    const json_t *rules = json_object_get(run->resources, "devices");
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i);
        if (!device_rule_is_plain(rule)) {
            char *text CLEANUP_FREE = json_dumps(rule, JSON_COMPACT | JSON_ENCODE_ANY);
            policy_find(run, at("%s/devices/%zu", run->resources_at, i).s, "devices allowed: %s",
                        text ? text : "?");
        }
    }
}
