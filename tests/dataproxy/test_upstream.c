/* dataproxy/upstream: what a declaration may say, and which requests it lets through. */
#include "dataproxy/upstream.h"

#include <string.h>

#include "base/json.h"
#include "tests/test.h"

static enum err_kind load(const char *text, struct upstream *u, struct err *err)
{
    json_t *tree CLEANUP_JSON = NULL;
    if (json_strict_load(text, strlen(text), JSON_SIZE_MAX, 0, &tree, err)) {
        *u = (struct upstream){ 0 };
        fail_msg("test's own JSON: %s", err->msg);
    }
    return upstream_read(tree, u, err);
}

static const char good[] = "{\"name\":\"api\",\"url\":\"https://API.example.org:8443/v1/"
                           "\",\"allow\":[{\"methods\":[\"GET\",\"POST\"],"
                           "\"path\":\"/items/{id}\"},{\"methods\":[\"GET\"],\"path\":\"/files/"
                           "*\"},{\"methods\":[\"HEAD\"],\"path\":\"/\"}],"
                           "\"headers\":[\"X-Custom\"],\"inject\":{\"header\":{\"name\":\"X-Api-"
                           "Key\",\"file\":\"/k\",\"value\":\"k {secret}\"}},"
                           "\"limits\":{\"timeout_ms\":2000,\"rate_per_minute\":60}}";

static void test_good(void **state)
{
    (void)state;
    struct upstream u CLEANUP(upstream_fini) = { 0 };
    struct err err = { 0 };
    if (load(good, &u, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(u.host, "api.example.org");
    assert_int_equal(u.port, 8443);
    assert_string_equal(u.base, "/v1");
    assert_true(u.tls);
    assert_int_equal(u.timeout_ms, 2000);
    assert_int_equal(u.rate_burst, 11);
    assert_int_equal(u.response_body, 1048576);
}

static void test_allow(void **state)
{
    (void)state;
    struct upstream u CLEANUP(upstream_fini) = { 0 };
    struct err err;
    assert_int_equal(load(good, &u, &err), 0);
    assert_true(upstream_allows(&u, "GET", "/items/7"));
    assert_true(upstream_allows(&u, "POST", "/items/7"));
    assert_false(upstream_allows(&u, "DELETE", "/items/7"));
    assert_false(upstream_allows(&u, "get", "/items/7"));
    assert_false(upstream_allows(&u, "GET", "/items/"));
    assert_false(upstream_allows(&u, "GET", "/items/7/"));
    assert_false(upstream_allows(&u, "GET", "/items/7/8"));
    assert_false(upstream_allows(&u, "GET", "/items"));
    assert_true(upstream_allows(&u, "GET", "/files/a"));
    assert_true(upstream_allows(&u, "GET", "/files/a/b/c"));
    assert_false(upstream_allows(&u, "GET", "/files/"));
    assert_false(upstream_allows(&u, "GET", "/files"));
    assert_true(upstream_allows(&u, "HEAD", "/"));
    assert_false(upstream_allows(&u, "GET", "/"));
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const fine[] = { "/",      "/a",   "/a/",          "/a/b.c",
                                        "/a%20b", "/...", "/a:b@c;d=e,f", "/%E2%82%AC" };
    static const char *const bad[] = { "",          "a",       "//",     "/a//b",     "/.",
                                       "/..",       "/a/../b", "/a/./b", "/%2e%2e/b", "/a%2fb",
                                       "/a%5cb",    "/a\\b",   "/a%00",  "/a%0d%0a",  "/a%",
                                       "/a%2",      "/a%zz",   "/a b",   "/a#b",      "/a?b",
                                       "/\xc3\xa4", "/a%252e", "/a%7f" };
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
        if (!upstream_path_valid(fine[i], strlen(fine[i])))
            fail_msg("refused: %s", fine[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (upstream_path_valid(bad[i], strlen(bad[i])))
            fail_msg("accepted: %s", bad[i]);
    }
}

static void test_headers(void **state)
{
    (void)state;
    struct upstream u CLEANUP(upstream_fini) = { 0 };
    struct err err;
    assert_int_equal(load(good, &u, &err), 0);
    assert_true(upstream_header_allowed(&u, "Accept"));
    assert_true(upstream_header_allowed(&u, "x-custom"));
    assert_false(upstream_header_allowed(&u, "Range") || upstream_header_allowed(&u, "if-range"));
    u.inject.kind = INJECT_NONE;
    assert_true(upstream_header_allowed(&u, "Range") && upstream_header_allowed(&u, "if-range"));
    u.inject.kind = INJECT_HEADER;
    static const char *const never[] = { "Host",
                                         "Cookie",
                                         "Authorization",
                                         "Connection",
                                         "X-Api-Key",
                                         "x-api-key",
                                         "Utter-Data-Token",
                                         "X-Forwarded-For",
                                         "Accept-Encoding",
                                         "X-Other",
                                         "Transfer-Encoding",
                                         "Proxy-Authorization" };
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        if (upstream_header_allowed(&u, never[i]))
            fail_msg("passed: %s", never[i]);
    }
    assert_true(upstream_answer_header_allowed("Content-Type"));
    assert_false(upstream_answer_header_allowed("Set-Cookie"));
    assert_false(upstream_answer_header_allowed("Location"));
    assert_false(upstream_answer_header_allowed("WWW-Authenticate"));
}

#define WITH(member)                                                                               \
    "{\"name\":\"api\",\"url\":\"https://"                                                         \
    "a.example\",\"allow\":[{\"methods\":[\"GET\"],\"path\":\"/\"}]," member "}"
#define URL(url)                                                                                   \
    "{\"name\":\"api\",\"url\":\"" url "\",\"allow\":[{\"methods\":[\"GET\"],\"path\":\"/\"}]}"
#define PATH(path)                                                                                 \
    "{\"name\":\"api\",\"url\":\"https://"                                                         \
    "a.example\",\"allow\":[{\"methods\":[\"GET\"],\"path\":\"" path "\"}]}"

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        { "{\"url\":\"https://a\"}", "\"name\" is missing" },
        { "{\"name\":\"A\"}", "a-z" },
        { "{\"name\":\"api\",\"url\":\"https://a.example\"}", "nothing is allowed by default" },
        { WITH("\"extra\":1"), "unknown key" },
        { WITH("\"limits\":{\"timeout_ms\":0}"), "timeout_ms" },
        { WITH("\"limits\":{\"x\":0}"), "unknown key" },
        { WITH("\"headers\":[\"Cookie\"]"), "never passed on" },
        { WITH("\"headers\":[\"a b\"]"), "not a header name" },
        { WITH("\"inject\":{}"), "one of header" },
        { WITH("\"inject\":{\"header\":{\"name\":\"X\",\"file\":\"/f\"},\"basic\":{}}"),
          "one of header" },
        { WITH("\"inject\":{\"header\":{\"name\":\"X\"}}"), "\"file\" is missing" },
        { WITH("\"inject\":{\"header\":{\"name\":\"X\",\"file\":\"rel\"}}"), "absolute" },
        { WITH("\"inject\":{\"header\":{\"name\":\"X\",\"file\":\"/f\",\"value\":\"none\"}}"),
          "{secret} once" },
        { WITH("\"inject\":{\"header\":{\"name\":\"Host\",\"file\":\"/f\"}}"), "cannot carry" },
        { WITH("\"inject\":{\"header\":{\"name\":\"X\\u000d\",\"file\":\"/f\"}}"), "printable" },
        { WITH("\"inject\":{\"basic\":{\"user\":\"a:b\",\"file\":\"/f\"}}"), "colon" },
        { WITH("\"inject\":{\"oauth2\":{\"user\":\"a\",\"file\":\"/f\",\"token_url\":\"http://"
               "a\"}}"),
          "https" },
        { WITH("\"inject\":{\"sigv4\":{\"user\":\"a\",\"file\":\"/f\",\"region\":\"r\"}}"),
          "service" },
        { URL("http://a.example"), "plain http" },
        { URL("ftp://a.example"), "https://" },
        { URL("https://u:p@a.example"), "no user and password" },
        { URL("https://127.1"), "host must be" },
        { URL("https://0x7f000001"), "host must be" },
        { URL("https://2130706433"), "host must be" },
        { URL("https://a.example."), "host must be" },
        { URL("https://.a"), "host must be" },
        { URL("https://a..b"), "host must be" },
        { URL("https://b\xc3\xbc"
              "cher.example"),
          "host must be" },
        { URL("https://[::1"), "host must be" },
        { URL("https://"), "host must be" },
        { URL("https://a.example:0"), "port" },
        { URL("https://a.example:65536"), "port" },
        { URL("https://a.example:"), "port" },
        { URL("https://a.example/../x"), "path" },
        { URL("https://a.example/?q"), "path" },
        { URL("https://a.example#f"), "path" },
        { PATH("items"), "must be /segments" },
        { PATH("/a/*/b"), "must be /segments" },
        { PATH("/a*"), "must be /segments" },
        { PATH("/../a"), "must be /segments" },
        { PATH("/a/{x"), "must be /segments" },
        { PATH("/a//b"), "must be /segments" },
        { "{\"name\":\"api\",\"url\":\"https://"
          "a.example\",\"allow\":[{\"methods\":[\"CONNECT\"],\"path\":\"/\"}]}",
          "methods are" },
        { "{\"name\":\"api\",\"url\":\"https://a.example\",\"allow\":[{\"methods\":[],\"path\":\"/"
          "\"}]}",
          "methods" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct upstream u CLEANUP(upstream_fini) = { 0 };
        struct err err = { 0 };
        if (load(cases[i].text, &u, &err) != ERR_INVALID)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(err.msg, cases[i].why))
            fail_msg("%s: expected \"%s\" in \"%s\"", cases[i].text, cases[i].why, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),     cmocka_unit_test(test_allow),
        cmocka_unit_test(test_paths),    cmocka_unit_test(test_headers),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
