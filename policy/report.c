/* Findings and changes, and the one text that every enforcer prints. */
#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "policy/check.h"

#define FOUND_MAX 200
#define ERR_RESERVE 128  /* of an error's text: for what callers put before and for the rest */
#define FINDINGS_MAX 200 /* a hostile document may hold thousands; nobody reads more */

struct at at(const char *fmt, ...)
{
    struct at out;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(out.s, sizeof(out.s), fmt, args);
    va_end(args);
    return out;
}

struct at member_at(const char *object, const char *key)
{
    struct at out = at("%s/", object);
    size_t n = strlen(out.s);
    for (; *key && n + 3 < sizeof(out.s); key++) {
        bool escaped = *key == '~' || *key == '/';
        out.s[n++] = escaped ? '~' : *key;
        if (escaped)
            out.s[n++] = *key == '~' ? '0' : '1';
    }
    out.s[n] = 0;
    return out;
}

struct at annotation_at(const char *key)
{
    return member_at("/annotations", key);
}

void policy_report_init(struct policy_report *report)
{
    *report = (struct policy_report){ .tool = POLICY_TOOL_CTR };
}

void policy_report_fini(struct policy_report *report)
{
    for (size_t i = 0; i < report->n; i++) {
        free(report->findings[i].at);
        free(report->findings[i].found);
    }
    for (size_t i = 0; i < report->n_notes; i++)
        free(report->notes[i]);
    free(report->findings);
    free(report->notes);
    policy_report_init(report);
}

/* One line without control bytes; quotes and UTF-8 stay readable. */
static char *one_line(const char *text)
{
    struct buf line;
    buf_init(&line, FOUND_MAX);
    for (const char *p = text; *p && line.len + 4 <= FOUND_MAX; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c >= 0x7f || c == '\\')
            buf_printf(&line, "\\x%02x", c);
        else
            buf_append(&line, p, 1);
    }
    char *out = xstrdup(buf_cstr(&line));
    buf_fini(&line);
    return out;
}

void report_add(struct policy_report *report, const struct policy_rule *rule, const char *pointer,
                const char *found, va_list args)
{
    char text[1024];
    (void)vsnprintf(text, sizeof(text), found, args);
    if (report->n >= FINDINGS_MAX)
        return;
    report->findings = xreallocarray(report->findings, report->n + 1, sizeof(*report->findings));
    report->findings[report->n++] = (struct policy_finding){
        .rule = rule,
        .at = xstrdup(pointer),
        .found = one_line(text),
        .fix = policy_rule_fix(rule, report->tool),
    };
    report->malformed |= strcmp(rule->id, "schema") == 0 || strcmp(rule->id, "json") == 0;
}

void policy_report_add(struct policy_report *report, const char *rule, const char *at,
                       const char *found, ...)
{
    const struct policy_rule *row = policy_rule_find(rule);
    assert(row);
    va_list args;
    va_start(args, found);
    report_add(report, row, at, found, args);
    va_end(args);
}

json_t *policy_document_parse(const char *text, size_t len, struct policy_report *report)
{
    json_t *tree = NULL;
    struct err err = { 0 };
    if (json_strict_load(text, len, JSON_SIZE_MAX, JSON_TAKE_UINT64_MAX, &tree, &err)) {
        policy_report_add(report, "json", "", "%s", err.msg);
        return NULL;
    }
    return tree;
}

void policy_find(struct policy_check_run *run, const char *pointer, const char *found, ...)
{
    va_list args;
    va_start(args, found);
    report_add(run->report, run->rule, pointer, found, args);
    va_end(args);
}

void policy_note(struct policy_check_run *run, const char *note, ...)
{
    char text[512];
    va_list args;
    va_start(args, note);
    (void)vsnprintf(text, sizeof(text), note, args);
    va_end(args);
    struct policy_report *report = run->report;
    report->notes = xreallocarray(report->notes, report->n_notes + 1, sizeof(*report->notes));
    report->notes[report->n_notes++] = one_line(text);
}

char *policy_finding_text(const struct policy_finding *finding)
{
    return xasprintf("%s: %s (%s)", finding->rule->id, finding->found, finding->fix);
}

/* Whole findings up to about `max` bytes, then how many were left out. */
static char *text_within(const struct policy_report *report, size_t max)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_append_str(&text, "utter: refused: ");
    for (size_t i = 0; i < report->n; i++) {
        char *line CLEANUP_FREE = policy_finding_text(&report->findings[i]);
        if (i > 0 && text.len + strlen(line) > max) {
            buf_printf(&text, "; and %zu more, which utter-policy check lists", report->n - i);
            break;
        }
        buf_printf(&text, "%s%s", i ? "; " : "", line);
    }
    char *out = xstrdup(buf_cstr(&text));
    buf_fini(&text);
    return out;
}

char *policy_report_text(const struct policy_report *report)
{
    return report->n ? text_within(report, 1 << 20) : NULL;
}

bool policy_report_has(const struct policy_report *report, const char *rule)
{
    for (size_t i = 0; i < report->n; i++) {
        if (strcmp(report->findings[i].rule->id, rule) == 0)
            return true;
    }
    return false;
}

enum err_kind policy_report_err(const struct policy_report *report, struct err *err)
{
    if (report->n == 0)
        return ERR_OK;
    char *text CLEANUP_FREE = text_within(report, sizeof(err->msg) - ERR_RESERVE);
    return err_set(err, report->malformed ? ERR_INVALID : ERR_PRECONDITION, "%s", text);
}

void policy_changes_init(struct policy_changes *changes)
{
    *changes = (struct policy_changes){ 0 };
}

void policy_changes_fini(struct policy_changes *changes)
{
    for (size_t i = 0; i < changes->n; i++) {
        free(changes->items[i].at);
        free(changes->items[i].what);
    }
    free(changes->items);
    policy_changes_init(changes);
}

void changes_add(struct policy_changes *changes, const char *pointer, const char *what, ...)
{
    char text[512];
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text, sizeof(text), what, args);
    va_end(args);
    changes->items = xreallocarray(changes->items, changes->n + 1, sizeof(*changes->items));
    changes->items[changes->n++] =
        (struct policy_change){ .at = one_line(pointer), .what = one_line(text) };
}
