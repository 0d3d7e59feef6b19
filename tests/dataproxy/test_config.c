/* dataproxy/config: a whole file, and one clear line for each fault. */
#include "dataproxy/config.h"

#include <string.h>

#include "tests/test.h"

#define UPSTREAM(name, url)                                                                        \
    "{\"name\":\"" name "\",\"url\":\"" url "\",\"allow\":[{\"methods\":[\"GET\"],\"path\":\"/"    \
    "\"}]}"
#define HEAD                                                                                       \
    "{\"slug\":\"weather\",\"listen\":\"198.18.0.3:80\",\"admin\":\"unix:/a\",\"session\":\"/"     \
    "s\",\"keys\":\"/k\","                                                                         \
    "\"gate_uid\":1000"

static struct config *parsed(const char *text)
{
    struct config *config = NULL;
    struct err err = { 0 };
    if (config_parse(text, strlen(text), &config, &err))
        fail_msg("%s", err.msg);
    return config;
}

static void test_good(void **state)
{
    (void)state;
    struct config *c CLEANUP(config_freep) =
        parsed(HEAD ",\"upstreams\":[" UPSTREAM("a", "https://one.example") "," UPSTREAM(
            "b", "https://two.example:444") "," UPSTREAM("c", "https://two.example:444/v2") "]}");
    assert_string_equal(config_upstream(c, "b")->host, "two.example");
    assert_null(config_upstream(c, "d"));
    assert_string_equal(config_upstream_by_host(c, "one.example", 443)->name, "a");
    assert_string_equal(config_upstream_by_host(c, "one.example", 80)->name, "a");
    assert_null(config_upstream_by_host(c, "one.example", 8080));
    /* Two upstreams of one host cannot be told apart by host. */
    assert_null(config_upstream_by_host(c, "two.example", 444));
    assert_int_equal(c->max_calls, 256);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        { "[]", "must be a JSON object" },
        { "{}", "\"slug\" is missing" },
        { HEAD "}", "\"upstreams\" must list" },
        { HEAD ",\"upstreams\":[]}", "\"upstreams\" must list" },
        { HEAD ",\"upstreams\":[3]}", "must be an object" },
        { HEAD ",\"more\":1}", "unknown key \"more\"" },
        { HEAD ",\"max_calls\":0,\"upstreams\":[" UPSTREAM("a", "https://a.example") "]}",
          "max_calls" },
        { HEAD ",\"ledger\":\"rel\",\"upstreams\":[" UPSTREAM("a", "https://a.example") "]}",
          "absolute" },
        { HEAD ",\"upstreams\":[" UPSTREAM("a", "https://a.example") "," UPSTREAM(
              "a", "https://b.example") "]}",
          "declared twice" },
        { HEAD ",\"upstreams\":[" UPSTREAM("a", "http://a.example") "]}",
          "upstream \"a\": \"url\" is plain http" },
        { "{\"slug\":\"UP\",\"listen\":\"x\",\"admin\":\"x\",\"session\":\"/s\",\"keys\":\"/"
          "k\",\"gate_uid\":1}",
          "\"slug\" must" },
        { "{\"slug\":\"a\",\"slug\":\"b\"}", "duplicate" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config *config = NULL;
        struct err err = { 0 };
        if (config_parse(cases[i].text, strlen(cases[i].text), &config, &err) != ERR_INVALID)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(err.msg, cases[i].why))
            fail_msg("%s: expected \"%s\" in \"%s\"", cases[i].text, cases[i].why, err.msg);
        assert_null(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_good),
                                        cmocka_unit_test(test_refusals) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
