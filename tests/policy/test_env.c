/* The environment: what the official images and tools set passes, the same names with a secret in
 * them do not. */
#include "policy/env.h"
#include "tests/policy/help.h"

static struct policy_config *config;

static void expect_env(const char *entry, bool pod, const char *expected)
{
    json_t *spec CLEANUP_JSON =
        load_spec(pod ? "cri24-hardened" : "nerdctl23-hardened-network-none");
    char quoted[4096];
    struct policy_context context = { 0 };
    struct policy_report report;
    (void)snprintf(quoted, sizeof(quoted), "[\"%s\"]", entry);
    set_at(spec, "/process/env", quoted);
    policy_report_init(&report);
    policy_check(spec, &context, config, &report);
    expect_rules(&report, expected, entry);
    policy_report_fini(&report);
}

static void test_images(void **state)
{
    (void)state;
    static const char *const entries[] = {
        "PATH=/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PATH=/usr/bin/:/",
        "HOSTNAME=7fe14d6d4ed2",
        "TERM=xterm-256color",
        "HOME=/root",
        "LANG=C.UTF-8",
        "GPG_KEY=7169605F62C751356D054A26A821E680E5FA6305",
        "PYTHON_VERSION=3.14.0rc2",
        "PYTHON_SHA256=c30bb24b7f1e9a19b11b55a546434f74e739bb4c271a3e3a80ff4380d49f7adb",
        "PYTHON_PIP_VERSION=23.2.1",
        "PYTHON_GET_PIP_URL=https://github.com/pypa/get-pip/raw/"
        "049c52c665e8c5fd1751f942316e0a5c777d304f/public/get-pip.py",
        "PYTHON_GET_PIP_SHA256=7cfd4bdc4d475ea971f1c0710a5953bcc704d171f83c797b9529d9974502fcc6",
        "NODE_VERSION=22.11.0",
        "YARN_VERSION=1.22.22",
        "GOLANG_VERSION=1.23.3",
        "GOTOOLCHAIN=local",
        "GOPATH=/go",
        "RUBY_VERSION=3.3.10",
        "RUBY_DOWNLOAD_URL=https://cache.ruby-lang.org/pub/ruby/3.3/ruby-3.3.10.tar.xz",
        "RUBY_DOWNLOAD_SHA256=3a06c3a709672a4ddae4e511d7e82f74799b8b3f550c8cf2d6f32089003cb84c",
        "GEM_HOME=/usr/local/bundle",
        "BUNDLE_SILENCE_ROOT_WARNING=1",
        "BUNDLE_APP_CONFIG=/usr/local/bundle",
        "JAVA_HOME=/opt/java/openjdk",
        "JAVA_VERSION=jdk-21.0.5+11",
        "LANGUAGE=en_US:en",
        "LC_ALL=en_US.UTF-8",
        "PHPIZE_DEPS=autoconf \\t\\tdpkg-dev \\t\\tfile \\t\\tg++ \\t\\tgcc \\t\\tlibc-dev",
        "PHP_INI_DIR=/usr/local/etc/php",
        "PHP_CFLAGS=-fstack-protector-strong -fpic -fpie -O2 -D_LARGEFILE_SOURCE "
        "-D_FILE_OFFSET_BITS=64",
        "PHP_LDFLAGS=-Wl,-O1 -pie",
        "GPG_KEYS=1198C0117593497A5EC5C199286AF1F9897469DC "
        "C28D937575603EB4ABB725861C0779DC5C0A9DE4",
        "PHP_URL=https://www.php.net/distributions/php-8.3.24.tar.xz",
        "PHP_ASC_URL=https://www.php.net/distributions/php-8.3.24.tar.xz.asc",
        "PHP_SHA256=388ee5fd111097e97bae439bff46aec4ea27f816d3f0c2cb5490a41410d44251",
        "RUSTUP_HOME=/usr/local/rustup",
        "CARGO_HOME=/usr/local/cargo",
        "RUST_VERSION=1.91.1",
    };
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        expect_env(entries[i], false, "");
}

/* Each default name in turn carries a token, a cloud key and a PEM line. */
static void test_names_carry_no_secret(void **state)
{
    (void)state;
    static const char *const secrets[] = {
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP",
        "AKIAIOSFODNN7EXAMPLE",
        "/-----BEGIN RSA PRIVATE KEY-----",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "sk_live_0123456789abcdef",
    };
    for (const struct env_source *source = env_sources; source->source; source++) {
        for (const struct env_name *row = source->names; row->name; row++) {
            for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
                char *entry CLEANUP_FREE = xasprintf("%s=%s", row->name, secrets[i]);
                expect_env(entry, false, "env-secret");
            }
            /* An AWS secret has no mark; the form keeps it out of all but short free words. */
            assert_false(row->form("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"));
        }
    }
}

static void test_service_links(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *rules;
    } cases[] = {
        { "KUBERNETES_SERVICE_HOST=10.96.0.1", "" },
        { "KUBERNETES_SERVICE_PORT_HTTPS=443", "" },
        { "KUBERNETES_PORT=tcp://10.96.0.1:443", "" },
        { "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443", "" },
        { "KUBERNETES_PORT_443_TCP_PROTO=tcp", "" },
        { "KUBERNETES_PORT_443_TCP_PORT=443", "" },
        { "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1", "" },
        { "MY_WEB_SERVICE_HOST=fd00::1", "" },
        { "MY_WEB_PORT=tcp://[fd00::1]:80", "" },
        { "MY_WEB_PORT_53_UDP=udp://10.0.0.1:53", "" },
        { "MY_WEB_SERVICE_HOST=evil.example.org", "env-value" },
        { "MY_WEB_SERVICE_PORT=70000", "env-value" },
        { "MY_WEB_PORT=tcp://evil:80", "env-value" },
        { "MY_WEB_PORT=http://10.0.0.1:80", "env-value" },
        { "MY_WEB_PORT_53_UDP_PROTO=x", "env-value" },
        { "MY_WEB_PORT=AKIAIOSFODNN7EXAMPLE", "env-secret" },
        { "_SERVICE_HOST=10.0.0.1", "env-name" },
        { "MY_PORTS=1", "env-name" },
        { "WEB_PORT_80_SMTP=1", "env-name" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_env(cases[i].entry, true, cases[i].rules);
    expect_env("WEB_SERVICE_HOST=10.0.0.1", false, "env-name");
}

static void test_operator_names(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *rules;
    } cases[] = {
        { "API_BASE=https://api.example.org/v1", "" },
        { "API_BASE=", "" },
        { "API_BASE=some words, and more of them in a row", "" },
        { "API_BASE=/usr/share/handlers/a/very/long/path/with/digits1/And/Capitals", "" },
        { "API_BASE=https://u:p@api.example.org/v1", "env-secret" },
        { "API_BASE=postgres://u:p@db/x", "env-secret" },
        { "API_BASE=0123456789abcdef0123456789abcdef", "env-secret" },
        { "API_BASE=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "env-secret" },
        { "API_BASE=0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
          "env-secret" },
        { "API_BASE=x AIzaSyD-0123456789abcdefghijklmnopqrstu", "env-secret" },
        { "API_BASE=glpat-0123456789abcdefghij", "env-secret" },
        { "API_BASE=xoxb-0123456789-abc", "env-secret" },
        { "API_BASE=sk-proj-0123456789-abcdefghij", "env-secret" },
        { "api_base=x", "env-name" },
        { "API_BASE2=x", "env-name" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_env(cases[i].entry, false, cases[i].rules);
}

/* A refusal is printed and logged: it must not carry the secret on. */
static void test_values_are_not_quoted(void **state)
{
    (void)state;
    json_t *spec CLEANUP_JSON = load_spec("nerdctl23-hardened-network-none");
    struct policy_context context = { 0 };
    struct policy_report report;
    set_at(spec, "/process/env/-", "\"TOKEN=hunter2\"");
    set_at(spec, "/process/env/-", "\"HOME=AKIAIOSFODNN7EXAMPLE\"");
    set_at(spec, "/process/env/-", "\"hunter3\"");
    set_at(spec, "/process/env/-", "\"GPG_KEY=hunter4\"");
    policy_report_init(&report);
    policy_check(spec, &context, config, &report);
    char *text CLEANUP_FREE = policy_report_text(&report);
    assert_int_equal(report.n, 4);
    assert_null(strstr(text, "hunter"));
    assert_null(strstr(text, "AKIA"));
    policy_report_fini(&report);
}

static int set_up(void **state)
{
    (void)state;
    struct err err;
    json_t *tree CLEANUP_JSON = parse("{\"env\":[\"API_BASE\"]}");
    return policy_config_parse(tree, &config, &err) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    policy_config_free(config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_names_carry_no_secret),
        cmocka_unit_test(test_service_links),
        cmocka_unit_test(test_operator_names),
        cmocka_unit_test(test_values_are_not_quoted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
