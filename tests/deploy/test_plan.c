/* deploy/settings, plan, spec, traefik, network (rules): what is derived, and what a change means.
 */
#include "deploy/plan.h"

#include <string.h>

#include "base/json.h"
#include "deploy/network.h"
#include "deploy/settings.h"
#include "deploy/traefik.h"
#include "policy/policy.h"
#include "tests/test.h"

#define FILE_(price, memory)                                                                       \
    "slug: weather\n"                                                                              \
    "handler: ./handler\n"                                                                         \
    "routes: [{path: /now, price: \"" price "\"}]\n"                                               \
    "pay: {to: \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"}\n"                                  \
    "facilitator: {url: \"https://f.example\"}\n"                                                  \
    "limits: {memory: " memory "}\n"                                                               \
    "tls: {resolver: le}\n"                                                                        \
    "host: weather.example.com\n"

static struct plan *make(const char *file, unsigned generation, unsigned side)
{
    struct err err = { 0 };
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    struct settings *s CLEANUP(settings_freep) = NULL;
    json_t *none CLEANUP_JSON = json_object();
    json_t *config CLEANUP_JSON = json_pack("{s:{s:[s]}}", "config", "Entrypoint", "/app/x");
    struct plan *plan = NULL;
    assert_int_equal(settings_parse(none, &s, &err), ERR_OK);
    if (endpoint_parse(file, strlen(file), "f", "/srv", &e, &err))
        fail_msg("%s", err.msg);
    struct plan_facts facts = { .index = 3,
                                .generation = generation,
                                .side = side,
                                .handler = { "h:1", "sha256:a", config },
                                .gate = { "g:1", "sha256:b", config },
                                .logger = "/usr/bin/utter-log" };
    if (plan_make(e, s, &facts, &plan, &err))
        fail_msg("%s", err.msg);
    return plan;
}

static void test_numbers(void **state)
{
    (void)state;
    struct plan *p CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 1, 0);
    assert_string_equal(p->bridge, "ut-3");
    assert_string_equal(p->subnet, "198.18.0.24/29");
    assert_string_equal(p->gate.address, "198.18.0.26/29");
    assert_string_equal(p->handler.address, "198.18.0.28/29");
    assert_string_equal(p->gate.edge, "198.19.0.22/17");
    assert_string_equal(p->edge_gateway, "198.19.0.1");
    assert_string_equal(p->handler.id, "weather.h1");
    assert_string_equal(p->handler.runtime, "io.containerd.utter.v1");
    assert_string_equal(p->gate.id, "weather.gate");
    assert_int_equal(p->uid, 210003);
}

/* The generations of a handler, the sides of a gate: other names and addresses, the same hashes. */
static void test_generations_do_not_change_hashes(void **state)
{
    (void)state;
    struct plan *a CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 1, 0);
    struct plan *b CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 2, 1);
    assert_string_equal(a->hash, b->hash);
    assert_string_equal(a->handler.hash, b->handler.hash);
    assert_string_equal(a->gate.hash, b->gate.hash);
    assert_string_not_equal(a->handler.address, b->handler.address);
    assert_string_not_equal(a->gate.address, b->gate.address);
    assert_string_not_equal(a->gate.edge, b->gate.edge);
    assert_string_equal(b->handler.id, "weather.h2");
    assert_string_equal(b->gate.id, "weather.gate2");
}

static void test_what_a_change_means(void **state)
{
    (void)state;
    struct plan *a CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 1, 0);
    struct plan *price CLEANUP(plan_freep) = make(FILE_("0.02", "64MiB"), 1, 0);
    struct plan *memory CLEANUP(plan_freep) = make(FILE_("0.01", "96MiB"), 1, 0);
    assert_string_equal(a->handler.hash, price->handler.hash);
    assert_string_equal(a->gate.hash, price->gate.hash);
    assert_string_not_equal(a->config_hash, price->config_hash);
    assert_string_not_equal(a->handler.hash, memory->handler.hash);
    assert_string_equal(a->config_hash, memory->config_hash);
    assert_string_not_equal(a->hash, memory->hash);
    assert_string_not_equal(a->hash, price->hash);
}

static void test_record_round_trip(void **state)
{
    (void)state;
    struct err err;
    struct plan *a CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 7, 1);
    json_t *record CLEANUP_JSON = plan_record(a);
    struct plan *b CLEANUP(plan_freep) = NULL;
    assert_int_equal(plan_load(record, &b, &err), ERR_OK);
    json_t *again CLEANUP_JSON = plan_record(b);
    assert_true(json_equal(record, again));
    json_object_set_new(record, "index", json_integer(-1));
    struct plan *c CLEANUP(plan_freep) = NULL;
    assert_int_equal(plan_load(record, &c, &err), ERR_INVALID);
}

static void test_advance_is_the_next_generation(void **state)
{
    (void)state;
    struct err err;
    struct settings *s CLEANUP(settings_freep) = NULL;
    json_t *none CLEANUP_JSON = json_object();
    struct plan *a CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 1, 0);
    struct plan *b CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 2, 0);
    assert_int_equal(settings_parse(none, &s, &err), ERR_OK);
    assert_int_equal(plan_advance(a, s, &err), ERR_OK);
    json_t *ra CLEANUP_JSON = plan_record(a);
    json_t *rb CLEANUP_JSON = plan_record(b);
    assert_true(json_equal(ra, rb));
}

/* The handler's spec is what the runtime's own policy accepts; the gate's has no privilege. */
static void test_specs(void **state)
{
    (void)state;
    struct plan *p CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 1, 0);
    struct policy_config *config CLEANUP(policy_config_freep) = policy_config_new_default();
    struct policy_context context = { .ns = "utter",
                                      .id = p->handler.id,
                                      .role = POLICY_ROLE_SINGLE };
    struct policy_report report CLEANUP(policy_report_fini);
    policy_report_init(&report);
    policy_check(p->handler.spec, &context, config, &report);
    char *text CLEANUP_FREE = policy_report_text(&report);
    if (report.n)
        fail_msg("%s", text);
    assert_string_equal(
        json_string_value(json_at(p->handler.spec, "/annotations/io.utter.address")),
        "198.18.0.28/29");
    assert_true(json_is_true(json_at(p->gate.spec, "/root/readonly")));
    assert_true(json_is_true(json_at(p->gate.spec, "/process/noNewPrivileges")));
    assert_int_equal(json_array_size(json_at(p->gate.spec, "/process/capabilities/bounding")), 0);
    assert_int_equal(json_integer_value(json_at(p->gate.spec, "/process/user/uid")), 210003);
    char *all CLEANUP_FREE = json_dumps(p->handler.spec, 0);
    assert_null(strstr(all, "ledger"));
    assert_null(strstr(all, "token"));
}

static void test_refused_by_policy(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    struct settings *s CLEANUP(settings_freep) = NULL;
    json_t *none CLEANUP_JSON = json_object();
    json_t *config CLEANUP_JSON = json_pack("{s:{s:[s]}}", "config", "Entrypoint", "/app/x");
    static const char text[] = "slug: w\nhandler: {folder: h, env: {AWS_SECRET_ACCESS_KEY: abc}}\n"
                               "routes: [{path: /now, price: \"1\"}]\n"
                               "pay: {to: \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"}\n"
                               "facilitator: {url: \"https://f.example\"}\nhost: w.example\n";
    struct plan *plan CLEANUP(plan_freep) = NULL;
    assert_int_equal(settings_parse(none, &s, &err), ERR_OK);
    assert_int_equal(endpoint_parse(text, strlen(text), "f", "/srv", &e, &err), ERR_OK);
    struct plan_facts facts = { .index = 1,
                                .generation = 1,
                                .handler = { "h", "sha256:a", config },
                                .gate = { "g", "sha256:b", config },
                                .logger = "/x" };
    assert_int_not_equal(plan_make(e, s, &facts, &plan, &err), ERR_OK);
    assert_non_null(strstr(err.msg, "AWS_SECRET_ACCESS_KEY"));
}

static void test_route(void **state)
{
    (void)state;
    struct plan *p CLEANUP(plan_freep) = make(FILE_("0.01", "64MiB"), 1, 0);
    const json_t *route = p->route;
    assert_string_equal(json_string_value(json_at(route, "/http/routers/utter-weather/rule")),
                        "Host(`weather.example.com`)");
    assert_string_equal(
        json_string_value(json_at(route, "/http/routers/utter-weather/tls/certResolver")), "le");
    assert_string_equal(json_string_value(json_at(
                            route, "/http/services/utter-weather/loadBalancer/servers/0/url")),
                        "http://198.19.0.22:8402");
    assert_string_equal(json_string_value(json_at(
                            route, "/http/services/utter-weather/loadBalancer/healthCheck/path")),
                        "/.well-known/utter/alive");
    char *text CLEANUP_FREE = json_dumps(route, 0);
    assert_null(strstr(text, "198.18.")); /* the handler never appears */
    assert_null(strstr(text, "retry"));
    assert_null(strstr(text, "middlewares"));
    assert_string_equal(
        json_string_value(json_at(route, "/http/serversTransports/utter-weather/"
                                         "forwardingTimeouts/responseHeaderTimeout")),
        "180s");
}

static void test_settings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "{\"x\":1}", "unknown key" },
        { "{\"stateDir\":\"relative\"}", "absolute path" },
        { "{\"pools\":{\"internal\":\"10.0.0.1/8\"}}", "not an IPv4 network" },
        { "{\"pools\":{\"internal\":\"198.19.0.0/16\"}}", "may not overlap" },
        { "{\"traefik\":{\"port\":70000}}", "port" },
        { "{\"containerd\":{\"address\":\"tcp://x\"}}", "absolute path" },
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = { 0 };
        json_t *tree CLEANUP_JSON = json_loads(bad[i].text, 0, NULL);
        struct settings *s CLEANUP(settings_freep) = NULL;
        assert_int_not_equal(settings_parse(tree, &s, &err), ERR_OK);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("%s: %s", bad[i].text, err.msg);
    }
}

static void test_pools(void **state)
{
    (void)state;
    struct pool a = { 0 }, b = { 0 };
    char text[16];
    assert_true(pool_parse("198.18.0.0/16", &a) && pool_parse("198.18.4.0/24", &b));
    assert_true(pool_overlaps(a, b));
    assert_true(pool_parse("198.20.0.0/16", &b));
    assert_false(pool_overlaps(a, b));
    assert_true(pool_address(b, 65535, text));
    assert_string_equal(text, "198.20.255.255");
    assert_false(pool_address(b, 65536, text));
    assert_false(pool_parse("1.2.3.4", &a));
    assert_false(pool_parse("0.0.0.0/0", &a));
}

static void test_firewall_rules(void **state)
{
    (void)state;
    struct err err;
    json_t *none CLEANUP_JSON = json_object();
    json_t *bridges CLEANUP_JSON = json_pack("[s, s]", "ut-1", "ut-2");
    struct settings *s CLEANUP(settings_freep) = NULL;
    assert_int_equal(settings_parse(none, &s, &err), ERR_OK);
    char *filter CLEANUP_FREE = firewall_rules(s, bridges, false);
    char *nat CLEANUP_FREE = firewall_rules(s, bridges, true);
    const char *accept = strstr(filter, "-A UTTER-FORWARD -i ut-2 -o ut-2 -j ACCEPT");
    const char *drop = strstr(filter, "-A UTTER-FORWARD -i ut-+ -j DROP");
    assert_true(accept && drop && accept < drop);
    assert_non_null(strstr(filter, "-A UTTER-INPUT -i ut-+ -j DROP"));
    assert_non_null(strstr(nat, "-s 198.19.0.0/17 ! -o utter-edge -j MASQUERADE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_generations_do_not_change_hashes),
        cmocka_unit_test(test_what_a_change_means),
        cmocka_unit_test(test_record_round_trip),
        cmocka_unit_test(test_advance_is_the_next_generation),
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_refused_by_policy),
        cmocka_unit_test(test_route),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_firewall_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
