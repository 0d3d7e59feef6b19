/* utter-policy: the policy for people, CI and API clients. Exit: 0 accepted, 1 refused, 2 usage. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/job.h"

#define EXIT_REFUSED 1

struct command {
    const char *name;
    const char *args;
    const char *what;
    int (*run)(int argc, char **argv);
};

static int fail(const struct err *err)
{
    fprintf(stderr, "utter-policy: %s\n", err->msg);
    return EXIT_USAGE;
}

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "utter-policy: %s%s; see utter-policy --help\n", what, value);
    return EXIT_USAGE;
}

/* ---- check ------------------------------------------------------------------------------------
 */

static json_t *findings_json(const struct policy_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->n; i++) {
        const struct policy_finding *finding = &report->findings[i];
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s,s:s,s:s}", "rule", finding->rule->id, "at",
                                        finding->at, "found", finding->found, "required",
                                        finding->rule->required, "fix", finding->fix));
    }
    return list;
}

static json_t *changes_json(const struct policy_changes *changes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < changes->n; i++)
        json_array_append_new(list, json_pack("{s:s,s:s}", "at", changes->items[i].at, "what",
                                              changes->items[i].what));
    return list;
}

static void print_json(json_t *value)
{
    (void)json_dumpf(value, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(value);
}

static void report_json(const struct job *job, const struct policy_report *report,
                        const struct policy_changes *changes)
{
    json_t *notes = json_array();
    char *text CLEANUP_FREE = policy_report_text(report);
    for (size_t i = 0; i < report->n_notes; i++)
        json_array_append_new(notes, json_string(report->notes[i]));
    print_json(json_pack("{s:s,s:s?,s:s,s:s,s:s,s:o,s:o,s:o}", "verdict",
                         report->n ? "refused" : "accepted", "text", text, "role",
                         role_name(job->context.role), "namespace", job->context.ns, "id",
                         job->context.id, "findings", findings_json(report), "adjusted",
                         changes_json(changes), "notes", notes));
}

static void report_text(const struct policy_report *report, const struct policy_changes *changes)
{
    for (size_t i = 0; i < report->n; i++) {
        char *line CLEANUP_FREE = policy_finding_text(&report->findings[i]);
        puts(line);
    }
    if (report->n)
        return;
    puts("accepted");
    for (size_t i = 0; i < changes->n; i++)
        printf("adjusted: %s: %s\n", changes->items[i].at, changes->items[i].what);
    for (size_t i = 0; i < report->n_notes; i++)
        puts(report->notes[i]);
}

/* The adjusted form, for its list of changes. */
static void note_changes(const struct job *job, struct policy_changes *changes)
{
    struct policy_plan plan;
    json_t *hardened CLEANUP_JSON = NULL;
    if (job->options.update)
        return;
    if (job->options.exec) {
        hardened = policy_harden_exec(job->extra, job->spec, &job->context, job->config, changes);
        return;
    }
    hardened = policy_harden(job->spec, &job->context, job->config, &plan, changes);
    policy_plan_fini(&plan);
}

static void judge(const struct job *job, struct policy_report *report)
{
    struct policy_limits limits;
    if (job->options.exec) {
        policy_check_exec(job->extra, job->spec, &job->context, job->config, report);
    } else if (job->options.update) {
        limits = policy_limits_of(job->spec, &job->context, job->config);
        policy_check_update(job->extra, &limits, &job->context, job->config, NULL, report);
    } else {
        policy_check(job->spec, &job->context, job->config, report);
        if (job->options.host)
            policy_check_host(job->spec, &job->context, job->config, report);
    }
}

static int check_and_print(struct job *job, const char *spec)
{
    struct err err;
    struct policy_report report;
    struct policy_changes changes;
    policy_report_init(&report);
    policy_changes_init(&changes);
    int status = EXIT_USAGE;
    if (job_load(job, spec, &report, &err)) {
        (void)fail(&err);
    } else {
        if (report.n == 0)
            judge(job, &report);
        status = report.n ? EXIT_REFUSED : 0;
        if (status == 0)
            note_changes(job, &changes);
        if (job->options.json)
            report_json(job, &report, &changes);
        else
            report_text(&report, &changes);
    }
    policy_report_fini(&report);
    policy_changes_fini(&changes);
    return status;
}

static int run_check(int argc, char **argv)
{
    struct job job = { 0 };
    if (options_parse(argc, argv, &job.options))
        return EXIT_USAGE;
    if (optind + 1 != argc)
        return usage_error("check takes one SPEC", "");
    int status = check_and_print(&job, argv[optind]);
    job_fini(&job);
    return status;
}

/* ---- harden -----------------------------------------------------------------------------------
 */

static int nearest_and_print(struct job *job, const char *spec)
{
    struct err err;
    struct policy_report report;
    struct policy_changes changes;
    json_t *nearest CLEANUP_JSON = NULL;
    policy_report_init(&report);
    policy_changes_init(&changes);
    int status = EXIT_USAGE;
    if (job_load(job, spec, &report, &err)) {
        (void)fail(&err);
    } else if (report.n == 0) {
        nearest = policy_nearest(job->spec, &job->context, job->config, &changes);
        policy_check(nearest, &job->context, job->config, &report);
        print_json(json_incref(nearest));
    }
    for (size_t i = 0; i < changes.n; i++)
        fprintf(stderr, "%s\n", changes.items[i].what);
    for (size_t i = 0; i < report.n; i++) {
        char *line CLEANUP_FREE = policy_finding_text(&report.findings[i]);
        fprintf(stderr, "not mended: %s\n", line);
    }
    if (job->spec || report.n)
        status = report.n ? EXIT_REFUSED : 0;
    policy_report_fini(&report);
    policy_changes_fini(&changes);
    return status;
}

static int run_harden(int argc, char **argv)
{
    struct job job = { 0 };
    if (options_parse(argc, argv, &job.options))
        return EXIT_USAGE;
    if (optind + 1 != argc || job.options.exec || job.options.update)
        return usage_error("harden takes one SPEC, no --exec and no --update", "");
    int status = nearest_and_print(&job, argv[optind]);
    job_fini(&job);
    return status;
}

/* ---- effective --------------------------------------------------------------------------------
 */

static int effective_and_print(struct job *job, const char *spec)
{
    struct err err;
    struct policy_report report;
    struct policy_changes changes;
    struct policy_plan plan;
    policy_report_init(&report);
    policy_changes_init(&changes);
    int status = EXIT_USAGE;
    if (job_load(job, spec, &report, &err)) {
        (void)fail(&err);
    } else {
        if (report.n == 0)
            policy_check(job->spec, &job->context, job->config, &report);
        status = report.n ? EXIT_REFUSED : 0;
        if (report.n) {
            report_text(&report, &changes);
        } else {
            print_json(policy_harden(job->spec, &job->context, job->config, &plan, &changes));
            policy_plan_fini(&plan);
        }
    }
    policy_report_fini(&report);
    policy_changes_fini(&changes);
    return status;
}

static int run_effective(int argc, char **argv)
{
    struct job job = { 0 };
    if (options_parse(argc, argv, &job.options))
        return EXIT_USAGE;
    if (optind + 1 != argc || job.options.exec || job.options.update)
        return usage_error("effective takes one SPEC, no --exec and no --update", "");
    int status = effective_and_print(&job, argv[optind]);
    job_fini(&job);
    return status;
}

/* ---- the table --------------------------------------------------------------------------------
 */

static json_t *rule_json(const struct policy_rule *rule)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:{s:s,s:s,s:s},s:s?}", "id", rule->id, "at", rule->at,
                     "required", rule->required, "why", rule->why, "fix", "nerdctl",
                     rule->fix_nerdctl, "ctr", rule->fix_ctr, "pod", rule->fix_pod, "cel",
                     rule->cel);
}

static int run_rules(int argc, char **argv)
{
    struct options options = { 0 };
    size_t n;
    const struct policy_rule *rules = policy_rules(&n);
    if (options_parse(argc, argv, &options))
        return EXIT_USAGE;
    if (optind != argc)
        return usage_error("rules takes no argument", "");
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, rule_json(&rules[i]));
        if (!options.json)
            printf("%-18s %s\n", rules[i].id, rules[i].required);
    }
    if (options.json)
        print_json(json_incref(list));
    json_decref(list);
    return 0;
}

static int run_explain(int argc, char **argv)
{
    const struct policy_rule *rule = argc == 2 ? policy_rule_find(argv[1]) : NULL;
    if (argc != 2)
        return usage_error("explain takes one RULE", "");
    if (!rule) {
        fprintf(stderr, "utter-policy: no rule %s; utter-policy rules lists them\n", argv[1]);
        return EXIT_USAGE;
    }
    printf(
        "%s\n\nat:       %s\nrequired: %s\nwhy:      %s\n\nnerdctl:  %s\nctr:      %s\npod:      "
        "%s\n",
        rule->id, rule->at, rule->required, rule->why, rule->fix_nerdctl, rule->fix_ctr,
        rule->fix_pod);
    if (rule->cel)
        printf("\nadmission (CEL): %s\n", rule->cel);
    return 0;
}

static int run_flags(int argc, char **argv)
{
    static const char *const tools[] = {
        [POLICY_TOOL_CTR] = "ctr", [POLICY_TOOL_NERDCTL] = "nerdctl", [POLICY_TOOL_POD] = "pod"
    };
    struct options options = { 0 };
    struct policy_config *config CLEANUP(policy_config_freep) = NULL;
    struct err err;
    if (options_parse(argc, argv, &options))
        return EXIT_USAGE;
    if (optind + 1 != argc)
        return usage_error("flags takes one of nerdctl, ctr, pod", "");
    if (policy_config_load(options.config ? options.config : POLICY_CONFIG_PATH, &config, &err))
        return fail(&err);
    for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
        if (strcmp(tools[i], argv[optind]) == 0) {
            char *text CLEANUP_FREE = policy_flags((enum policy_tool)i, config);
            fputs(text, stdout);
            return 0;
        }
    }
    return usage_error("no tool ", argv[optind]);
}

/* ---- dispatch ---------------------------------------------------------------------------------
 */

static const struct command commands[] = {
    { "check",
      "[--config FILE] [--role ROLE] [--namespace NS] [--id ID]\n"
      "        [--rootfs MOUNTS.json] [--host] [--exec PROCESS.json | --update RESOURCES.json]\n"
      "        [--json] SPEC",
      "judge a container's spec, an exec or an update", run_check },
    { "harden", "[--config FILE] [--role ROLE] [--namespace NS] [--id ID] SPEC",
      "print the nearest spec that passes", run_harden },
    { "effective",
      "[--config FILE] [--role ROLE] [--namespace NS] [--id ID]\n"
      "        [--rootfs MOUNTS.json] SPEC",
      "print the document that runsc gets for an accepted spec", run_effective },
    { "rules", "[--json]", "print the table of rules", run_rules },
    { "explain", "RULE", "say what a rule requires, why, and how to meet it", run_explain },
    { "flags", "[--config FILE] nerdctl|ctr|pod", "print ready-to-paste options", run_flags },
};

static void print_usage(FILE *out)
{
    fputs("usage:\n", out);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(out, "  utter-policy %s %s\n        %s\n", commands[i].name, commands[i].args,
                commands[i].what);
    fputs("ROLE is auto (default), single, pause or workload. SPEC is an OCI config.json, - for "
          "standard input.\nExit: 0 accepted, 1 refused, "
          "2 usage or unreadable.\n",
          out);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        puts("utter-policy " UTTER_VERSION);
        return 0;
    }
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
        print_usage(stdout);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, argv[1]) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    print_usage(stderr);
    return EXIT_USAGE;
}
