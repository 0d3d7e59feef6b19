/* Microseconds from config.json's bytes to the canonical document: parse, check, harden, print. One
 * line: parse, check, harden, canonical and whole, medians of ROUNDS. usage: policy_bench SPEC */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fs.h"
#include "base/json.h"
#include "policy/policy.h"

#define ROUNDS 2000

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), compare);
    return values[ROUNDS / 2];
}

/* One round; false if the spec is refused. */
static bool measure(const char *text, size_t len, const struct policy_config *config, double t[5])
{
    struct policy_report report;
    struct policy_changes changes;
    struct policy_plan plan;
    struct policy_context context = { 0 };
    policy_report_init(&report);
    policy_changes_init(&changes);
    double began = now_us();
    json_t *spec CLEANUP_JSON = policy_document_parse(text, len, &report);
    double parsed = now_us();
    policy_check(spec, &context, config, &report);
    double checked = now_us();
    if (report.n)
        return false;
    json_t *out CLEANUP_JSON = policy_harden(spec, &context, config, &plan, &changes);
    double hardened = now_us();
    char *canonical CLEANUP_FREE = json_canonical(out);
    double printed = now_us();
    if (!*canonical)
        return false;
    t[0] = parsed - began;
    t[1] = checked - parsed;
    t[2] = hardened - checked;
    t[3] = printed - hardened;
    t[4] = printed - began;
    policy_report_fini(&report);
    policy_changes_fini(&changes);
    policy_plan_fini(&plan);
    return canonical != NULL;
}

int main(int argc, char **argv)
{
    static double values[5][ROUNDS];
    struct policy_config *config CLEANUP(policy_config_freep) = policy_config_new_default();
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    struct err err;
    if (argc != 2 || fs_read(argv[1], JSON_SIZE_MAX, &text, &len, &err)) {
        fprintf(stderr, "usage: policy_bench SPEC\n");
        return 2;
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        double t[5];
        if (!measure(text, len, config, t)) {
            fprintf(stderr, "%s is refused\n", argv[1]);
            return 1;
        }
        for (size_t k = 0; k < 5; k++)
            values[k][i] = t[k];
    }
    for (size_t k = 0; k < 5; k++)
        printf("%.1f%c", median(values[k]), k < 4 ? ' ' : '\n');
    return 0;
}
