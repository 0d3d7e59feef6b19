/* Whatever bytes a client writes: the rules end, a refused document is never hardened, an accepted
 * one hardens to a document that keeps the promises, and mending never makes one worse. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct policy_config *config(void)
{
    static struct policy_config *shared;
    if (!shared)
        shared = policy_config_new_default();
    return shared;
}

static void check_promises(const json_t *out)
{
    static const char *const sets[] = { "bounding", "effective", "permitted", "inheritable",
                                        "ambient" };
    assert(json_is_true(json_at(out, "/process/noNewPrivileges")));
    assert(json_is_true(json_at(out, "/root/readonly")));
    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        assert(json_array_size(json_object_get(json_at(out, "/process/capabilities"), sets[i])) ==
               0);
    assert(json_integer_value(json_at(out, "/linux/resources/memory/limit")) >= 32 << 20);
    assert(json_equal(json_at(out, "/linux/resources/memory/limit"),
                      json_at(out, "/linux/resources/memory/swap")));
    assert(json_integer_value(json_at(out, "/linux/resources/cpu/quota")) > 0);
    assert(json_integer_value(json_at(out, "/linux/resources/pids/limit")) >= 8 * 8 + 64);
    const json_t *first = json_at(out, "/linux/seccomp/syscalls/0/names/0");
    assert(strcmp(json_string_value(first), "clone3") == 0);
    assert(!json_at(out, "/linux/devices") && !json_at(out, "/linux/uidMappings"));
}

static void harden(const json_t *spec, const struct policy_context *context)
{
    struct policy_plan plan;
    struct policy_changes changes;
    policy_changes_init(&changes);
    json_t *out CLEANUP_JSON = policy_harden(spec, context, config(), &plan, &changes);
    check_promises(out);
    assert(plan.timeout > 0);
    for (size_t i = 0; i < plan.n_binds; i++)
        assert(plan.binds[i].mount < json_array_size(json_object_get(out, "mounts")));
    policy_plan_fini(&plan);
    policy_changes_fini(&changes);
}

static void run_spec(const json_t *spec)
{
    struct policy_context context = { .rootfs = json_object_get(spec, "rootfs") };
    struct policy_report report;
    policy_report_init(&report);
    policy_check(spec, &context, config(), &report);
    if (report.n == 0)
        harden(spec, &context);
    char *text CLEANUP_FREE = policy_report_text(&report);
    assert((text == NULL) == (report.n == 0));
    for (const char *p = text ? text : ""; *p; p++)
        assert((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f);
    policy_report_fini(&report);
}

static void run_exec(const json_t *tree)
{
    struct policy_context context = { .ns = "nd" };
    struct policy_report report;
    struct policy_changes changes;
    policy_report_init(&report);
    policy_changes_init(&changes);
    policy_check_exec(tree, tree, &context, config(), &report);
    json_t *out CLEANUP_JSON = NULL;
    if (json_is_object(tree) && report.n == 0)
        out = policy_harden_exec(tree, tree, &context, config(), &changes);
    policy_report_fini(&report);
    policy_changes_fini(&changes);
}

static void run_update(const json_t *tree)
{
    struct policy_context context = { .ns = "nd", .id = "x" };
    struct policy_limits force = {
        .memory = 1 << 27, .cpu_quota = 50000, .cpu_period = 100000, .pids = 64, .host_pids = 192
    };
    struct policy_limits wanted;
    struct policy_report report;
    policy_report_init(&report);
    policy_check_update(tree, &force, &context, config(), &wanted, &report);
    assert(report.n || (wanted.memory >= 32 << 20 && wanted.cpu_quota > 0));
    policy_report_fini(&report);
}

/* Mending is slow (a check for each step); small documents show what there is to see. */
static void run_nearest(const json_t *spec)
{
    struct policy_context context = { 0 };
    struct policy_changes changes;
    policy_changes_init(&changes);
    json_decref(policy_nearest(spec, &context, config(), &changes));
    policy_changes_fini(&changes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy_report report;
    struct policy_stdio stdio;
    struct policy_context context = { .ns = "nd", .id = "x" };
    policy_report_init(&report);
    json_t *tree CLEANUP_JSON = policy_document_parse((const char *)data, size, &report);
    if (tree) {
        run_spec(tree);
        run_exec(tree);
        run_update(tree);
        if (size < 1024)
            run_nearest(tree);
    } else {
        char *text CLEANUP_FREE = xstrndup((const char *)data, size < 8192 ? size : 8192);
        policy_check_stdio(text, "stdout", NULL, &context, config(), &stdio, &report);
    }
    policy_report_fini(&report);
    return 0;
}
