/* Every field of runtime-spec 1.3.0 has a row; what has none is refused wherever it stands. The
 * list of fields (pointer and type) was flattened from the specification's own JSON schema, v1.3.0.
 */
#include "policy/schema.h"
#include "tests/policy/help.h"

static bool type_fits(const struct schema_field *row, const char *type)
{
    if (row->how == HOW_EMPTY)
        return true;
    switch (row->shape) {
    case SHAPE_STRING:
        return strcmp(type, "string") == 0;
    case SHAPE_BOOL:
        return strcmp(type, "boolean") == 0;
    case SHAPE_INT:
    case SHAPE_UINT:
    case SHAPE_RLIMIT:
        return strcmp(type, "integer") == 0;
    case SHAPE_STRINGS:
        return strcmp(type, "array") == 0 || strcmp(type, "string") == 0;
    case SHAPE_UINTS:
        return strcmp(type, "array") == 0 || strcmp(type, "integer") == 0;
    case SHAPE_MAP:
        return strcmp(type, "map") == 0 || strcmp(type, "string") == 0;
    case SHAPE_OBJECT:
        return strcmp(type, "object") == 0;
    case SHAPE_OBJECTS:
        return strcmp(type, "array") == 0 || strcmp(type, "object") == 0;
    case SHAPE_ANY:
        break;
    }
    return false;
}

static void test_every_field_has_a_row(void **state)
{
    (void)state;
    char *text CLEANUP_FREE = NULL;
    struct err err;
    int fields = 0;
    assert_int_equal(fs_read(TEST_DATA "/runtime-spec-1.3.0.fields", 1 << 20, &text, NULL, &err),
                     0);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *type = strchr(line, ' ');
        *type++ = 0;
        const struct schema_field *row = schema_row(schema_spec, line);
        if (!row)
            fail_msg("no row for %s", line);
        if (!type_fits(row, type))
            fail_msg("%s is %s in the specification", line, type);
        fields++;
    }
    assert_int_equal(fields, 393);
}

/* A row that names a rule names one of the table; one that is adjusted or passed needs none. */
static void rows_name_rules(const struct schema_field *table)
{
    for (; table->name; table++) {
        if (table->rule)
            assert_non_null(policy_rule_find(table->rule));
        else
            assert_int_not_equal(table->how, HOW_CHECKED);
        if (table->members)
            rows_name_rules(table->members);
    }
}

static void test_rows_name_rules(void **state)
{
    (void)state;
    rows_name_rules(schema_spec);
}

static void test_unknown_pointers(void **state)
{
    (void)state;
    assert_null(schema_row(schema_spec, "/Process"));
    assert_null(schema_row(schema_spec, "/process/user/uid/x"));
    assert_null(schema_row(schema_spec, "/mounts/0/Type"));
    assert_null(schema_row(schema_spec, "/root/readonlyx"));
    assert_string_equal(schema_row(schema_spec, "/mounts/0/type")->name, "type");
    assert_string_equal(schema_row(schema_spec, "/windows/hyperv/utilityVMPath")->name, "windows");
}

/* An unknown member in every object, a wrong type in every field. */
static void break_each(const json_t *whole, json_t *here, const struct policy_config *config,
                       int *tried)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(here, next, key, value)
    {
        json_t *kept = json_incref(value);
        char *name CLEANUP_FREE = xstrdup(key);
        struct policy_report report;
        struct policy_context context = { .ns = "nd", .id = "x" };
        policy_report_init(&report);
        json_object_set_new(here, name, json_null());
        policy_check(whole, &context, config, &report);
        if (!report.malformed)
            fail_msg("null as \"%s\" is not malformed", name);
        json_object_set(here, name, kept);
        json_decref(kept);
        policy_report_fini(&report);
        ++*tried;
    }
}

static void walk(const json_t *whole, json_t *here, const struct policy_config *config, int *tried)
{
    const char *key;
    json_t *value;
    if (json_is_object(here)) {
        break_each(whole, here, config, tried);
        json_object_foreach(here, key, value) walk(whole, value, config, tried);
    }
    for (size_t i = 0; json_is_array(here) && i < json_array_size(here) && i < 3; i++)
        walk(whole, json_array_get(here, i), config, tried);
}

static void test_wrong_types_are_malformed(void **state)
{
    (void)state;
    struct policy_config *config CLEANUP(policy_config_freep) = policy_config_new_default();
    json_t *spec CLEANUP_JSON = load_spec("nerdctl23-hardened-internal-net");
    int tried = 0;
    walk(spec, spec, config, &tried);
    assert_true(tried > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_has_a_row),
        cmocka_unit_test(test_rows_name_rules),
        cmocka_unit_test(test_unknown_pointers),
        cmocka_unit_test(test_wrong_types_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
