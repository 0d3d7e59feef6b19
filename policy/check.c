/* The engine: which rules look at which document. */
#include "policy/check.h"

#include <string.h>

#include "base/json.h"

static bool has_key_prefix(const json_t *object, const char *prefix)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (strncmp(key, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

/* Who wrote the document, for the fix that is printed. */
static enum policy_tool tool_of(const json_t *spec, enum policy_role role)
{
    if (role != POLICY_ROLE_SINGLE)
        return POLICY_TOOL_POD;
    return has_key_prefix(json_object_get(spec, "annotations"), "nerdctl/") ? POLICY_TOOL_NERDCTL
                                                                            : POLICY_TOOL_CTR;
}

static void run_rules(struct policy_check_run *run, unsigned surfaces)
{
    size_t n;
    const struct policy_rule *rules = policy_rules(&n);
    for (size_t i = 0; i < n; i++) {
        if (!(rules[i].surfaces & surfaces) || !rules[i].check)
            continue;
        run->rule = &rules[i];
        rules[i].check(run);
    }
}

static struct policy_check_run run_make(const json_t *spec, const struct policy_context *context,
                                        const struct policy_config *config,
                                        struct policy_report *report, struct policy_guess *guess)
{
    struct policy_check_run run = { .context = *context, .config = config, .report = report };
    policy_context_guess(spec, &run.context, guess);
    report->tool = tool_of(spec, run.context.role);
    run.cri = run.context.role != POLICY_ROLE_SINGLE;
    return run;
}

void policy_check(const json_t *spec, const struct policy_context *context,
                  const struct policy_config *config, struct policy_report *report)
{
    struct policy_guess guess;
    struct policy_check_run run = run_make(spec, context, config, report, &guess);
    run.spec = spec;
    run.process = json_object_get(spec, "process");
    run.process_at = "/process";
    run.resources = json_at(spec, "/linux/resources");
    run.resources_at = "/linux/resources";
    run.mounts = mount_views_read(spec, &run.n_mounts);
    run.n_mounts = run.n_mounts < MOUNTS_MAX ? run.n_mounts : MOUNTS_MAX;
    run_rules(&run, POLICY_ON_CREATE | POLICY_ON_ROOTFS);
    free(run.mounts);
}

void policy_check_exec(const json_t *process, const json_t *container,
                       const struct policy_context *context, const struct policy_config *config,
                       struct policy_report *report)
{
    struct policy_guess guess;
    struct policy_check_run run = run_make(container, context, config, report, &guess);
    run.process = process;
    run.process_at = "";
    run.resources_at = "";
    run.container = container;
    run_rules(&run, POLICY_ON_EXEC);
}

static int64_t kept(int64_t asked, int64_t in_force)
{
    return asked > 0 ? asked : in_force;
}

void policy_check_update(const json_t *resources, const struct policy_limits *in_force,
                         const struct policy_context *context, const struct policy_config *config,
                         struct policy_limits *wanted, struct policy_report *report)
{
    struct policy_guess guess;
    struct policy_check_run run = run_make(NULL, context, config, report, &guess);
    run.resources = resources;
    run.resources_at = "";
    run.process_at = "";
    run.in_force = in_force;
    run_rules(&run, POLICY_ON_UPDATE);
    if (!wanted)
        return;
    const json_t *cpu = json_object_get(resources, "cpu");
    *wanted = *in_force;
    wanted->cpu_shares = 0;
    if (run.context.role == POLICY_ROLE_WORKLOAD)
        return; /* the sandbox's limits stay the pod's */
    wanted->memory =
        kept(member_int(json_object_get(resources, "memory"), "limit", 0), in_force->memory);
    wanted->cpu_quota = kept(member_int(cpu, "quota", 0), in_force->cpu_quota);
    wanted->cpu_period = kept(member_int(cpu, "period", 0), in_force->cpu_period);
    int64_t shares = member_int(cpu, "shares", 0);
    if (shares > 0 && wanted->cpu_period > 0)
        wanted->cpu_shares = shares_within(shares, wanted->cpu_quota, wanted->cpu_period);
}
