/* deploy/render, watch (pure parts): parsed back and compared with the plan. */
#include "deploy/render.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "deploy/watch.h"
#include "policy/policy.h"
#include "tests/test.h"

static const char file[] = "slug: weather\n"
                           "handler: ./handler\n"
                           "routes: [{path: /now, price: \"0.01\"}]\n"
                           "pay: {to: \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"}\n"
                           "facilitator: {url: \"https://f.example\", tokenFile: t}\n"
                           "limits: {memory: 64MiB, pids: 40, cpu: 0.25, tmp: 8MiB}\n"
                           "tls: {resolver: le}\n"
                           "host: weather.example.com\n";

static void make(struct endpoint **e, struct settings **s, struct plan **p)
{
    struct err err = { 0 };
    json_t *none CLEANUP_JSON = json_object();
    json_t *config CLEANUP_JSON = json_pack("{s:{s:[s]}}", "config", "Entrypoint", "/app/x");
    assert_int_equal(settings_parse(none, s, &err), ERR_OK);
    assert_int_equal(endpoint_parse(file, strlen(file), "f", "/srv", e, &err), ERR_OK);
    struct plan_facts facts = { .index = 3,
                                .generation = 1,
                                .handler = { "h:1", "sha256:a", config },
                                .gate = { "g:1", "sha256:b", config },
                                .logger = "/usr/bin/utter-log" };
    assert_int_equal(plan_make(*e, *s, &facts, p, &err), ERR_OK);
}

static const json_t *item(const json_t *list, const char *kind, const char *name)
{
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(list, "items"), i, value)
    {
        if (strcmp(json_string_value(json_object_get(value, "kind")), kind) == 0 &&
            strcmp(json_string_value(json_at(value, "/metadata/name")), name) == 0)
            return value;
    }
    fail_msg("no %s %s", kind, name);
    return NULL;
}

static const char *text_at(const json_t *root, const char *pointer)
{
    const char *s = json_string_value(json_at(root, pointer));
    return s ? s : "(absent)";
}

static void test_kubernetes(void **state)
{
    (void)state;
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    struct settings *s CLEANUP(settings_freep) = NULL;
    struct plan *p CLEANUP(plan_freep) = NULL;
    make(&e, &s, &p);
    json_t *list CLEANUP_JSON = render_kubernetes(e, p, s);
    assert_non_null(list);
    const json_t *handler = item(list, "Deployment", "weather-handler");
    assert_string_equal(text_at(handler, "/spec/template/spec/runtimeClassName"), "utter");
    assert_true(
        json_is_false(json_at(handler, "/spec/template/spec/automountServiceAccountToken")));
    const char *c = "/spec/template/spec/containers/0";
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/resources/limits/memory", c);
    assert_string_equal(text_at(handler, path), "67108864");
    (void)snprintf(path, sizeof(path), "%s/resources/limits/cpu", c);
    assert_string_equal(text_at(handler, path), "250m");
    (void)snprintf(path, sizeof(path), "%s/securityContext/capabilities/drop/0", c);
    assert_string_equal(text_at(handler, path), "ALL");
    /* the gate is another pod, on the ordinary runtime */
    const json_t *gate = item(list, "Deployment", "weather-gate");
    assert_null(json_at(gate, "/spec/template/spec/runtimeClassName"));
    const json_t *closed = item(list, "NetworkPolicy", "weather-handler");
    assert_int_equal(json_array_size(json_at(closed, "/spec/egress")), 0);
    assert_int_equal(json_array_size(json_at(closed, "/spec/policyTypes")), 2);
    const json_t *route = item(list, "IngressRoute", "weather-gate");
    assert_string_equal(text_at(route, "/spec/routes/0/services/0/name"), "weather-gate");
    assert_string_equal(text_at(route, "/spec/routes/0/match"), "Host(`weather.example.com`)");
    char *all CLEANUP_FREE = json_dumps(handler, 0);
    assert_null(strstr(all, "hostNetwork"));
    assert_null(strstr(all, "token"));
    (void)item(list, "RuntimeClass", "utter");
}

/* One validation per rule that a Pod can express, in the table's own words. */
static void test_admission_policy(void **state)
{
    (void)state;
    json_t *policy CLEANUP_JSON = render_admission_policy();
    const json_t *list = json_at(policy, "/spec/validations");
    size_t n, with_cel = 0;
    const struct policy_rule *rules = policy_rules(&n);
    for (size_t i = 0; i < n; i++) {
        if (!rules[i].cel)
            continue;
        const json_t *v = json_array_get(list, with_cel++);
        assert_string_equal(text_at(v, "/expression"), rules[i].cel);
        assert_non_null(strstr(text_at(v, "/message"), rules[i].id));
    }
    assert_true(with_cel > 5);
    assert_int_equal(json_array_size(list), with_cel);
    assert_string_equal(text_at(policy, "/spec/failurePolicy"), "Fail");
    /* what the rules stand on; init and ephemeral containers are containers too */
    assert_string_equal(text_at(policy, "/spec/variables/0/name"), "containers");
    assert_non_null(strstr(text_at(policy, "/spec/variables/0/expression"), "initContainers"));
    assert_non_null(strstr(text_at(policy, "/spec/variables/0/expression"), "ephemeralContainers"));
}

static void test_compose(void **state)
{
    (void)state;
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    struct settings *s CLEANUP(settings_freep) = NULL;
    struct plan *p CLEANUP(plan_freep) = NULL;
    make(&e, &s, &p);
    json_t *compose CLEANUP_JSON = render_compose(e, p, s);
    assert_non_null(compose);
    const json_t *handler = json_at(compose, "/services/handler");
    assert_string_equal(text_at(handler, "/runtime"), "io.containerd.utter.v1");
    assert_string_equal(text_at(handler, "/cap_drop/0"), "ALL");
    assert_int_equal(json_integer_value(json_at(handler, "/mem_limit")), 64 << 20);
    assert_int_equal(json_integer_value(json_at(handler, "/pids_limit")), 40);
    assert_string_equal(text_at(handler, "/cpus"), "0.250");
    /* nerdctl compose ignores `internal`: only a network made before will do */
    assert_true(json_is_true(json_at(compose, "/networks/internal/external")));
    assert_null(json_at(compose, "/networks/internal/internal"));
    assert_null(json_at(handler, "/networks/edge"));
}

static void test_backoff(void **state)
{
    (void)state;
    assert_int_equal(watch_backoff_ms(1), 500);
    assert_int_equal(watch_backoff_ms(2), 1000);
    assert_int_equal(watch_backoff_ms(7), 30000);
    assert_int_equal(watch_backoff_ms(1000), 30000);
    assert_int_equal(watch_replace_after(3600), 2880);
    assert_int_equal(watch_replace_after(60), 45);
    assert_int_equal(watch_replace_after(30), 15);
    assert_int_equal(watch_replace_after(10), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kubernetes),
        cmocka_unit_test(test_admission_policy),
        cmocka_unit_test(test_compose),
        cmocka_unit_test(test_backoff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
