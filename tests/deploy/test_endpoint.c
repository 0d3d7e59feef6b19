/* deploy/slug, units, yaml, schema, endpoint: what a file may say, and the one line it gets
 * otherwise. */
#include "deploy/endpoint.h"

#include <string.h>

#include "base/json.h"
#include "deploy/schema.h"
#include "deploy/slug.h"
#include "deploy/units.h"
#include "deploy/yaml.h"
#include "tests/test.h"

#define GOOD                                                                                       \
    "slug: weather\n"                                                                              \
    "handler: ./handler\n"                                                                         \
    "routes: [{path: /now, price: \"0.01\"}]\n"                                                    \
    "pay: {to: \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"}\n"                                  \
    "facilitator: {url: \"https://f.example\"}\n"                                                  \
    "host: weather.example.com\n"

static enum err_kind parse(const char *text, struct err *err)
{
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    memset(err, 0, sizeof(*err));
    return endpoint_parse(text, strlen(text), "endpoint.yaml", "/srv/w", &e, err);
}

static void test_defaults(void **state)
{
    (void)state;
    struct err err;
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    assert_int_equal(endpoint_parse(GOOD, strlen(GOOD), "f", "/srv/w", &e, &err), ERR_OK);
    assert_string_equal(e->folder, "/srv/w/handler");
    assert_int_equal(e->port, 8080);
    assert_int_equal(e->uid, 65532);
    assert_int_equal(e->memory, 128 << 20);
    assert_int_equal(e->lifetime, 3600);
    assert_string_equal(e->pay_network, "base-sepolia");
    assert_null(e->tls_resolver);
}

static void test_everything(void **state)
{
    (void)state;
    static const char text[] =
        "slug: a-1\n"
        "handler:\n  folder: h/x\n  entry: run.py\n  port: 9000\n  user: 1000\n"
        "  env:\n    MODE: \"1\"\n"
        "routes:\n  - path: /a/{id}\n    methods: [GET, POST]\n    price: 2\n    description: d\n"
        "    mimeType: application/json\n"
        "pay: {to: \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\", network: eip155:8453, asset: "
        "USDC, scheme: exact}\n"
        "facilitator: {url: \"https://f.example/x\", tokenFile: /etc/utter/tokens/a}\n"
        "host: a.example.com\n"
        "tls: {resolver: le, wildcard: true}\n"
        "limits: {memory: 64MiB, pids: 32, cpu: 0.25, tmp: 8M, lifetime: 2h}\n"
        "timeouts: {handler: 20s}\n"
        "logs: {max: 1MiB}\n";
    struct err err;
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    assert_int_equal(endpoint_parse(text, strlen(text), "f", "/srv/w", &e, &err), ERR_OK);
    assert_int_equal(e->memory, 64 << 20);
    assert_int_equal(e->cpu_milli, 250);
    assert_int_equal(e->lifetime, 7200);
    assert_int_equal(e->entry, ENDPOINT_ENTRY_PYTHON);
    assert_string_equal(e->token_file, "/etc/utter/tokens/a");
    assert_true(e->tls_wildcard);
}

struct bad {
    const char
        *replace; /* a line of GOOD that starts so is replaced; NULL: text is put behind it */
    const char *text;
    const char *says;
};

static char *mutate(const struct bad *bad)
{
    char *out = xstrdup("");
    for (const char *line = GOOD; *line;) {
        size_t n = strcspn(line, "\n") + 1;
        bool hit = bad->replace && strncmp(line, bad->replace, strlen(bad->replace)) == 0;
        char *next =
            hit ? xasprintf("%s%s\n", out, bad->text) : xasprintf("%s%.*s", out, (int)n, line);
        free(out);
        out = next;
        line += n;
    }
    if (!bad->replace) {
        char *next = xasprintf("%s%s\n", out, bad->text);
        free(out);
        out = next;
    }
    return out;
}

/* Every line names where and what; none of them may come to life in a path, a rule or a command. */
static void test_malicious(void **state)
{
    (void)state;
    static const struct bad all[] = {
        { "slug", "slug: ../../etc", "slug: \"../../etc\" is not allowed here" },
        { "slug", "slug: netns", "slug \"netns\" is a name of utter-deploy's own directories" },
        { "slug", "slug: locks", "slug \"locks\" is a name of utter-deploy's own directories" },
        { "slug", "slug: a--b", "slug \"a--b\" may not hold --" },
        { "slug", "slug: A", "slug: \"A\" is not allowed" },
        { "slug", "slug: \"a\\nb\"", "slug: \"a\\nb\" is not allowed" },
        { "slug", "slug: -a", "is not allowed here" },
        { "slug", "slug: 12", "slug: must be of type string" },
        { "slug", "slug: \"\"", "slug: is too short" },
        { "slug", "slug: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "slug: is too long" },
        { "handler", "handler: ../x", "write the path without . and .. parts" },
        { "handler", "handler: /etc", "is not allowed here" },
        { "handler", "handler: a/../../etc", "write the path without . and .. parts" },
        { "handler", "handler: {folder: h, image: x}", "handler: says two things at once" },
        { "handler", "handler: {image: alpine:latest}", "handler.image: \"alpine:latest\" is not" },
        { "handler", "handler: {folder: h, entry: ../x.py}", "handler.entry: \"../x.py\" is not" },
        { "handler", "handler: {folder: h, port: 80}", "handler.port: 80 is out of range" },
        { "handler", "handler: {folder: h, user: 0}", "handler.user: 0 is out of range" },
        { "handler", "handler: {folder: h, privileged: true}", "handler.privileged: no such key" },
        { "handler", "handler: {folder: h, env: {LD_PRELOAD: x, bad-name: y}}",
          "handler.env.bad-name: no such key" },
        { "host", "host: \"a.example`) || Host(`b\"", "host: \"a.example`) || Host(`b\" is not" },
        { "host", "host: \"a.example\\n  priority: 9\"", "host: \"a.example\\n" },
        { "host", "host: 10.0.0.1", "host: \"10.0.0.1\" is not" },
        { "host", "host: UP.example", "host: \"UP.example\" is not" },
        { "pay", "pay: {to: \"0x1\"}", "pay.to: \"0x1\" is not allowed here" },
        { "pay", "pay: {network: base}", "pay.to: is missing" },
        { "facilitator", "facilitator: {url: \"file:///etc/shadow\"}", "facilitator.url" },
        { "facilitator", "facilitator: {url: \"https://f\", tokenFile: /etc/shadow}",
          "must lie below the endpoint file's folder or /etc/utter/" },
        { "facilitator", "facilitator: {url: \"http://f\", tokenFile: t}",
          "a token goes over https:// only" },
        { "routes", "routes: []", "routes: has too few entries" },
        { "routes", "routes: [{path: x, price: 1}]", "routes[0].path: \"x\" is not allowed" },
        { "routes", "routes: [{path: /x, price: -1}]", "routes[0].price: -1 is out of range" },
        { "routes", "routes: [{path: /x, price: \"1e9\"}]", "routes[0].price: \"1e9\" is not" },
        { "routes", "routes: [{path: /x, price: 99999999999999999999}]", "routes[0].price" },
        { NULL, "limits: {memory: 1}", "limits.memory: 1 is out of range" },
        { NULL, "limits: {memory: 9999999999G}", "limits.memory" },
        { NULL, "limits: {tmp: 128MiB}", "limits.tmp: at most half" },
        { NULL, "limits: {pids: 1000000}", "limits.pids: 1000000 is out of range" },
        { NULL, "limits: {cpu: \"1.2345\"}", "limits.cpu" },
        { NULL, "limits: {lifetime: 25h}", "limits.lifetime" },
        { NULL, "upstreams: [x]", "upstreams[0]" },
        { NULL, "upstreams: [{name: A}]", "upstreams.0: \"name\" must be" },
        { NULL, "upstreams: [{name: a, url: \"https://a.example\"}]",
          "nothing is allowed by default" },
        { NULL,
          "upstreams: [{name: a, url: \"http://a.example\", allow: [{methods: [GET], path: /x}]}]",
          "is plain http" },
        { NULL,
          "upstreams: [{name: a, url: \"https://a.example\", allow: [{methods: [GET], path: /x}], "
          "inject: {header: {name: "
          "X-K, file: /etc/shadow}}}]",
          "inject.file: /etc/shadow: must lie below" },
        { NULL,
          "upstreams: [{name: a, url: \"https://a.example\", allow: [{methods: [GET], path: /x}], "
          "inject: {header: {name: "
          "X-K, file: ../k}}}]",
          "without . and .. parts" },
        { "routes", "routes: [{path: /x, price: 1, upstreams: [b]}]", "\"b\" is not declared" },
        { NULL, "slug: b", "line 7: key \"slug\" is there twice" },
        { NULL, "x: &a [1]", "anchors (&) and tags (!) are not allowed" },
        { NULL, "x: &a 1", "anchors (&) are not allowed" },
        { NULL, "x: *a", "aliases (*) are not allowed" },
        { NULL, "x: !!python/object/apply:os.system [id]", "anchors (&) and tags (!)" },
        { NULL, "<<: {a: 1}", "only letters, digits, _ and -" },
        { NULL, "? [a]\n: 1", "a key must be a plain name" },
        { NULL, "x: [[[[[[[[[[1]]]]]]]]]]", "nested too deeply" },
        { NULL, "---\nslug: b", "a second document is not allowed" },
        { NULL, "x: \"\\0\"", "NUL in a value" },
        { NULL, "\tx: 1", "line 7" },
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct err err;
        char *text CLEANUP_FREE = mutate(&all[i]);
        if (parse(text, &err) == ERR_OK)
            fail_msg("accepted: %s", all[i].text);
        if (!strstr(err.msg, all[i].says))
            fail_msg("%s: said \"%s\", not \"%s\"", all[i].text, err.msg, all[i].says);
        assert_null(strchr(err.msg, '\n'));
        assert_true(strncmp(err.msg, "endpoint.yaml: ", 15) == 0);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    struct err err;
    json_t *tree CLEANUP_JSON = NULL;
    char *big CLEANUP_FREE = xmalloc(YAML_SIZE_MAX + 2);
    memset(big, 'a', YAML_SIZE_MAX + 1);
    assert_int_equal(yaml_load(big, YAML_SIZE_MAX + 1, &tree, &err), ERR_INVALID);
    assert_string_equal(err.msg, "larger than 64 KiB");
    memset(big, ',', 10000);
    big[0] = '[';
    for (int i = 1; i < 9999; i++)
        big[i] = i % 2 ? '1' : ',';
    big[9999] = ']';
    assert_int_equal(yaml_load(big, 10000, &tree, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "too many values"));
    assert_int_equal(yaml_load("a: \xff", 4, &tree, &err), ERR_INVALID);
    assert_int_equal(yaml_load("", 0, &tree, &err), ERR_INVALID);
}

static void test_scalars(void **state)
{
    (void)state;
    struct err err;
    static const char text[] = "a: no\nb: 0x10\nc: 1.50\nd: 07\ne: -3\nf: \"3\"\ng: true\nh: ~\n";
    json_t *tree CLEANUP_JSON = NULL;
    json_t *wanted CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:b, s:n}", "a", "no", "b", "0x10", "c", "1.50",
                  "d", "07", "e", -3, "f", "3", "g", 1, "h");
    assert_int_equal(yaml_load(text, strlen(text), &tree, &err), ERR_OK);
    assert_true(json_equal(tree, wanted));
}

static void test_units(void **state)
{
    (void)state;
    int64_t n;
    assert_true(units_size("64MiB", &n) && n == 64 << 20);
    assert_true(units_size("1G", &n) && n == 1 << 30);
    assert_true(units_seconds("90s", &n) && n == 90);
    assert_true(units_seconds("2h", &n) && n == 7200);
    assert_true(units_cpu_milli("0.05", &n) && n == 50);
    assert_true(units_cpu_milli("2", &n) && n == 2000);
    static const char *const bad[] = { "", "-1", "1MB", "1 M", "M", "999999999999999999G", "1.5" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(units_size(bad[i], &n));
    assert_false(units_cpu_milli("0.", &n));
    assert_false(units_cpu_milli("1.2345", &n));
    assert_false(units_seconds("1d", &n));
}

/* The schema is what users' editors read: it must itself be strict JSON, with each $ref resolvable.
 */
static void test_schema_is_sound(void **state)
{
    (void)state;
    size_t len;
    const char *text = endpoint_schema_text(&len);
    json_t *schema CLEANUP_JSON = NULL;
    struct err err;
    assert_int_equal(json_strict_load(text, len, JSON_SIZE_MAX, 0, &schema, &err), ERR_OK);
    static const char *const keys[] = { "slug",        "handler", "routes",   "pay",
                                        "facilitator", "host",    "tls",      "limits",
                                        "timeouts",    "logs",    "upstreams" };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_non_null(json_object_get(json_object_get(schema, "properties"), keys[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_malicious),       cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_scalars),         cmocka_unit_test(test_units),
        cmocka_unit_test(test_schema_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
