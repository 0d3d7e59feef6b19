/* What the policy tests share: documents from tests/data, one run of the rules. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "policy/policy.h"
#include "tests/test.h"

static inline json_t *load_data(const char *name)
{
    json_t *tree = NULL;
    struct err err;
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", TEST_DATA, name);
    if (json_strict_load_file(path, JSON_SIZE_MAX, &tree, &err))
        fail_msg("%s", err.msg);
    return tree;
}

static inline json_t *load_spec(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "specs/%s.json", name);
    return load_data(path);
}

static inline json_t *parse(const char *text)
{
    json_t *tree = NULL;
    struct err err;
    if (json_strict_load(text, strlen(text), JSON_SIZE_MAX, JSON_DECODE_ANY | JSON_TAKE_UINT64_MAX,
                         &tree, &err))
        fail_msg("%s: %s", text, err.msg);
    return tree;
}

/* The distinct rules of a report in order, "a b c". */
static inline char *rules_of(const struct policy_report *report)
{
    char *text = xcalloc(1, 8192);
    for (size_t i = 0; i < report->n; i++) {
        const char *id = report->findings[i].rule->id;
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen |= strcmp(report->findings[k].rule->id, id) == 0;
        if (!seen)
            (void)snprintf(text + strlen(text), 8192 - strlen(text), "%s%s", *text ? " " : "", id);
    }
    return text;
}

/* As expect_rules(), but only tells; for tables, where all that is wrong is wanted at once. */
static inline int differs(const struct policy_report *report, const char *expected,
                          const char *what)
{
    char *rules CLEANUP_FREE = rules_of(report);
    char *text CLEANUP_FREE = policy_report_text(report);
    if (strcmp(rules, expected) == 0)
        return 0;
    print_error("%s: rules \"%s\", expected \"%s\": %s\n", what, rules, expected,
                text ? text : "accepted");
    return 1;
}

static inline void expect_rules(const struct policy_report *report, const char *expected,
                                const char *what)
{
    char *rules CLEANUP_FREE = rules_of(report);
    char *text CLEANUP_FREE = policy_report_text(report);
    if (strcmp(rules, expected) != 0)
        fail_msg("%s: rules \"%s\", expected \"%s\": %s", what, rules, expected,
                 text ? text : "accepted");
}

/* Sets (or, with NULL, removes) what an RFC 6901 pointer names; "-" appends to an array. */
static inline void set_at(json_t *root, const char *pointer, const char *value)
{
    char parent[512], last[256];
    const char *slash = strrchr(pointer, '/');
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - pointer), pointer);
    size_t n = 0;
    for (const char *p = slash + 1; *p; p++) {
        bool escape = *p == '~';
        last[n++] = escape ? (p[1] == '1' ? '/' : '~') : *p;
        p += escape;
    }
    last[n] = 0;
    json_t *object = *parent ? json_at(root, parent) : root;
    if (!object)
        fail_msg("nothing at %s", parent);
    if (json_is_object(object) && value)
        json_object_set_new(object, last, parse(value));
    else if (json_is_object(object))
        json_object_del(object, last);
    else if (strcmp(last, "-") == 0)
        json_array_append_new(object, parse(value));
    else if (value)
        json_array_set_new(object, (size_t)atoi(last), parse(value));
    else
        json_array_remove(object, (size_t)atoi(last));
}
