/* The configuration: every fault has its place, defaults are what the manual says. */
#include <sys/stat.h>
#include <unistd.h>

#include "gate/auth.h"
#include "gate/challenge.h"
#include "tests/gate/payment_fixture.h"

struct report {
    char text[8192];
    unsigned faults, warnings;
};

static void collect(void *arg, bool warning, const char *line)
{
    struct report *r = arg;
    size_t n = strlen(r->text);
    snprintf(r->text + n, sizeof(r->text) - n, "%s\n", line);
    if (warning)
        r->warnings++;
    else
        r->faults++;
}

static const char good[] =
    "{\"origin\":\"https://api.example.com\",\"listen\":\"127.0.0.1:8402\","
    "\"admin\":\"unix:/run/utter-gate/admin.sock\",\"handler\":{\"url\":\"http://127.0.0.1:9000\"},"
    "\"facilitator\":{\"url\":\"https://f.example/x402/\"},\"ledger\":{\"path\":\"/l/l.db\"},"
    "\"pay\":[{\"network\":\"base\",\"asset\":\"USDC\","
    "\"to\":\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"}],"
    "\"routes\":[{\"path\":\"/a\",\"price\":\"0.01\",\"description\":\"d\"}]}";

/* The good one with a member set (value as JSON text) or, with NULL, removed. */
static char *with(const char *pointer, const char *value)
{
    json_t *root CLEANUP_JSON = json_loads(good, 0, NULL);
    char path[128];
    snprintf(path, sizeof(path), "%s", pointer);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    json_t *at = *path ? json_at(root, path) : root;
    if (value)
        json_object_set_new(at, slash + 1, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(at, slash + 1);
    return json_dumps(root, JSON_COMPACT);
}

static enum err_kind parse(const char *text, struct report *r, struct gate_config **out)
{
    memset(r, 0, sizeof(*r));
    return config_parse(text, strlen(text), "gate.json", collect, r, out, NULL);
}

static void a_good_one_and_its_defaults(void **state)
{
    (void)state;
    struct report r;
    struct gate_config *c CLEANUP(config_unrefp) = NULL;
    assert_int_equal(parse(good, &r, &c), ERR_OK);
    assert_string_equal(r.text, "");
    const struct route *route = fixture_route(c, "/a");
    const struct offer *o = &route->offers[0];
    assert_string_equal(c->hosts[0], "api.example.com");
    assert_null(c->hosts[1]);
    assert_string_equal(c->handler.host, "127.0.0.1:9000");
    assert_string_equal(c->facilitator.url, "https://f.example/x402");
    assert_int_equal(c->facilitator.auth, AUTH_NONE);
    assert_int_equal(o->kind, PAY_EIP3009);
    assert_string_equal(o->network, "eip155:8453");
    assert_string_equal(o->v1_network, "base");
    assert_string_equal(o->domain_name, "USD Coin");
    assert_string_equal(o->amount_text, "10000");
    assert_string_equal(o->price_text, "0.01");
    assert_int_equal(o->max_timeout_s, 30 + 30 + 60);
    assert_int_equal(route->handler_ms, 30000);
    assert_int_equal(route->replay_max, 5);
    assert_int_equal(route->replay_s, 600);
    assert_int_equal(c->limits.per_payer, 16);
    assert_int_equal(c->limits.uncharged_per_payment, 3);
    assert_int_equal(c->limits.uncharged_per_payer, 20);
    assert_int_equal(c->limits.response_body, 1 << 20);
    assert_int_equal(c->deadlines.settle_hold, 60000);
    assert_int_equal(c->ledger.reconcile_s, 7 * 86400);
    assert_false(c->ledger.unproven_release);
    assert_true(c->ledger.sealed_max_bytes == 1 << 30);
    assert_false(route->contract_wallets);
    assert_false(route->answer.close_delimited);
    assert_int_equal(strlen(c->sha256), 64);
}

static void every_fault_has_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *pointer, *value;
        const char *line; /* begins a reported line */
    } rows[] = {
        { "/unknown", "1", "configuration: unknown key \"unknown\"" },
        { "/origin", NULL, "origin: missing" },
        { "/origin", "\"api.example.com\"", "origin: " },
        { "/origin", "\"https://api.example.com/\"", "origin: " },
        { "/origin", "\"https://API.example.com\"", "origin: " },
        { "/origin", "\"https://u@api.example.com\"", "origin: " },
        { "/origin", "7", "origin: must be a string" },
        { "/hosts", "[\"A.example\"]", "hosts: " },
        { "/hosts", "\"a\"", "hosts: must be a list" },
        { "/listen", NULL, "listen: missing" },
        { "/listen", "\"8402\"", "listen: must be" },
        { "/listen", "\"api.example.com:80\"", "listen: must be" },
        { "/listen", "\"127.0.0.1:65536\"", "listen: must be" },
        { "/admin", "\"tcp\"", "admin: must be" },
        { "/slug", "\"-a\"", "slug: " },
        { "/handler", NULL, "handler: missing" },
        { "/handler/url", "\"https://127.0.0.1:9\"", "handler.url: must be" },
        { "/handler/url", "\"http://127.0.0.1:0\"", "handler.url: port 0" },
        { "/handler/timeout_s", "0", "handler.timeout_s: must be a whole number" },
        { "/handler/x", "0", "handler: unknown key \"x\"" },
        { "/facilitator", NULL, "facilitator: missing" },
        { "/facilitator/url", "\"http://f.example\"", "facilitator.url: plain http" },
        { "/facilitator/url", "\"https://u:p@f.example\"", "facilitator.url: " },
        { "/facilitator/url", "\"https://f.example?x=1\"", "facilitator.url: " },
        { "/facilitator/payload", "\"x\"", "facilitator.payload: must be one of \"exact\"" },
        { "/facilitator/auth", "{}", "facilitator.auth: needs bearer_file or cdp" },
        { "/facilitator/auth", "{\"bearer_file\":\"token\"}",
          "facilitator.auth.bearer_file: must be an absolute path" },
        { "/facilitator/auth", "{\"bearer_file\":\"/d/\"}", "facilitator.auth.bearer_file: names" },
        { "/facilitator/auth", "{\"cdp\":{\"key_file\":\"/k\"}}",
          "facilitator.auth.cdp.key_id: missing" },
        { "/ledger", NULL, "ledger: missing" },
        { "/ledger/path", "\"l.db\"", "ledger.path: must be an absolute path" },
        { "/ledger/unproven", "\"maybe\"", "ledger.unproven: must be one of" },
        { "/ledger/sealed_max_bytes", "1", "ledger.sealed_max_bytes: must be" },
        { "/limits", "{\"response_body\":1048577}", "limits.response_body: must be" },
        { "/limits", "{\"response_body\":\"1\"}", "limits.response_body: must be" },
        { "/deadlines", "{\"verify_ms\":1}", "deadlines.verify_ms: must be" },
        { "/deadlines", "{\"handler_ms\":1}", "deadlines: unknown key" },
        { "/max_timeout_s", "89", "routes[0]: max_timeout_s 89 leaves less than 30 s" },
        { "/cors", "7", "cors: must be an object" },
        { "/cors", "{\"origins\":[\"*\"]}", "cors.origins: " },
        { "/rpc", "[{\"network\":\"solana\",\"urls\":[\"https://r\"]}]", "rpc[0].network: " },
        { "/rpc", "[{\"network\":\"base\"}]", "rpc[0].urls: needs" },
        { "/rpc", "[{\"network\":\"base\",\"urls\":[\"ftp://r\"]}]", "rpc[0].urls: " },
        { "/pay", NULL, "routes[0]: pay must be a list" },
        { "/pay", "[]", "routes[0]: pay must be a list" },
        { "/routes", "[]", "routes: must be a list" },
        { "/routes/0", "{\"path\":\"/a\"}", "routes[0].pay[0]: the route has neither a price" },
        { "/routes/0/path", "\"a\"", "routes[0].path: " },
        { "/routes/0/path", "\"/a//b\"", "routes[0].path: " },
        { "/routes/0/path", "\"/a/../b\"", "routes[0].path: " },
        { "/routes/0/path", "\"/a%20b\"", "routes[0].path: " },
        { "/routes/0/path", "\"/a*\"", "routes[0].path: " },
        { "/routes/0/path", "\"/*/b\"", "routes[0].path: " },
        { "/routes/0/path", "\"/{}/b\"", "routes[0].path: " },
        { "/routes/0/path", "\"/.well-known/utter/alive\"",
          "routes[0].path: /.well-known/utter/ is" },
        { "/routes/0/methods", "[\"get\"]", "routes[0].methods: " },
        { "/routes/0/methods", "[\"TRACE\"]", "routes[0].methods: " },
        { "/routes/0/price", "\"0.0000001\"", "routes[0].pay[0]: price \"0.0000001\" has more" },
        { "/routes/0/price", "\"0\"", "routes[0].pay[0]: price \"0\" is zero" },
        { "/routes/0/price", "0.01", "routes[0].price: must be a string" },
        { "/routes/0/free", "true", "routes[0]: a free route has no price" },
        { "/routes/0/free", "1", "routes[0].free: must be true or false" },
        { "/routes/0/replay", "\"maybe\"", "routes[0].replay: must be one of" },
        { "/routes/0/replay_s", "7200", "routes[0].replay_s: longer than ledger.sealed_ttl_s" },
        { "/routes/0/tags", "[\"\xc3\xa9\"]", "routes[0].tags: " },
        { "/routes/0/service_name", "\"012345678901234567890123456789012\"",
          "routes[0].service_name: must be printable text of at most 32 bytes" },
        { "/routes/0/description", "\"a\\nb\"", "routes[0].description: must be printable" },
        { "/routes/0/icon_url", "\"javascript:x\"", "routes[0].icon_url: " },
        { "/routes/0/extensions", "{\"payment-identifier\":{\"info\":{}}}",
          "routes[0].extensions: payment-identifier is set by" },
        { "/routes/0/extensions", "{\"x\":1}", "routes[0].extensions[\"x\"]: " },
        { "/routes/0/answer", "{\"close_delimited\":true}",
          "routes[0].answer.close_delimited: needs a body rule" },
        { "/routes/0/answer", "{\"charge\":[500]}", "routes[0].answer.charge: " },
        { "/routes/0/answer", "{\"json_pointer\":\"a\"}", "routes[0].answer.json_pointer: " },
        { "/routes/0/answer", "{\"x\":1}", "routes[0].answer: unknown key" },
        { "/routes/0/forward", "[\"host\"]", "routes[0].forward: only" },
        { "/routes/0/upto", "{\"handler_charge\":true}", "routes[0].upto: no offer" },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct report r;
        struct gate_config *c CLEANUP(config_unrefp) = NULL;
        char *text CLEANUP_FREE = NULL;
        if (strcmp(rows[i].pointer, "/routes/0") == 0) {
            char *list CLEANUP_FREE = xasprintf("[%s]", rows[i].value);
            text = with("/routes", list);
        } else if (text_starts(rows[i].pointer, "/routes/0/")) {
            json_t *root CLEANUP_JSON = json_loads(good, 0, NULL);
            json_object_set_new(json_at(root, "/routes/0"), rows[i].pointer + 10,
                                json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
            text = json_dumps(root, JSON_COMPACT);
        } else {
            text = with(rows[i].pointer, rows[i].value);
        }
        enum err_kind kind = parse(text, &r, &c);
        char *line = strstr(r.text, rows[i].line);
        if (kind != ERR_INVALID || !line || (line != r.text && line[-1] != '\n'))
            print_error("%s = %s reported:\n%s", rows[i].pointer, rows[i].value, r.text);
        assert_int_equal(kind, ERR_INVALID);
        assert_non_null(line);
        assert_true(line == r.text || line[-1] == '\n');
        assert_null(c);
    }
}

static void pay_faults(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *line;
    } rows[] = {
        { "network", "\"bases\"", "network: \"bases\" is neither" },
        { "network", "\"eip155:08453\"", "network: \"eip155:08453\" has no valid chain number" },
        { "asset", "\"EURC\"", "asset: \"EURC\" is no token known" },
        { "asset", "\"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02914\"", "asset: " },
        { "to", "\"0x209693bc6afc0C5328bA36FaF03C514EF312287C\"", "to: " }, /* checksum */
        { "to", "\"0x0000000000000000000000000000000000000000\"", "to: " },
        { "to", "\"\"", "to: " },
        { "name", "\"USDC\"", "USDC on eip155:8453 signs as name \"USD Coin\"" },
        { "version", "\"1\"", "USDC on eip155:8453 signs as" },
        { "decimals", "18", "USDC on eip155:8453 signs as" },
        { "scheme", "\"batch-settlement\"", "batch-settlement on eip155:8453 needs \"members\"" },
        { "method", "\"wire\"", "method: \"wire\" is not" },
        { "extra", "{\"paymentFlow\":\"escrow\"}", "extra: must be an object without paymentFlow" },
        { "amount", "\"1e3\"", "amount: \"1e3\" is not a whole number" },
        { "x", "1", "unknown key \"x\"" },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct report r;
        struct gate_config *c CLEANUP(config_unrefp) = NULL;
        json_t *root CLEANUP_JSON = json_loads(good, 0, NULL);
        json_object_set_new(json_at(root, "/pay/0"), rows[i].key,
                            json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        char *text CLEANUP_FREE = json_dumps(root, JSON_COMPACT);
        assert_int_equal(parse(text, &r, &c), ERR_INVALID);
        if (!strstr(r.text, rows[i].line))
            print_error("pay %s = %s reported:\n%s", rows[i].key, rows[i].value, r.text);
        assert_non_null(strstr(r.text, rows[i].line));
        assert_non_null(strstr(r.text, "routes[0].pay[0]"));
    }
}

static void force_overrides_a_known_domain(void **state)
{
    (void)state;
    struct report r;
    struct gate_config *c CLEANUP(config_unrefp) = NULL;
    json_t *root CLEANUP_JSON = json_loads(good, 0, NULL);
    json_object_set_new(json_at(root, "/pay/0"), "name", json_string("Bridged"));
    json_object_set_new(json_at(root, "/pay/0"), "force", json_true());
    char *text CLEANUP_FREE = json_dumps(root, JSON_COMPACT);
    assert_int_equal(parse(text, &r, &c), ERR_OK);
    assert_string_equal(fixture_route(c, "/a")->offers[0].domain_name, "Bridged");
}

/* An asset that no table knows needs its domain and decimals, and is called by its address. */
static void unknown_tokens(void **state)
{
    (void)state;
    static const char *const needed[] = { "name", "version", "decimals" };
    for (size_t without = 0; without <= ARRAY_LEN(needed); without++) {
        struct report r;
        struct gate_config *c CLEANUP(config_unrefp) = NULL;
        json_t *root CLEANUP_JSON = json_loads(good, 0, NULL);
        json_t *pay = json_at(root, "/pay/0");
        json_object_set_new(pay, "asset",
                            json_string("0x1111111111111111111111111111111111111111"));
        json_object_set_new(pay, "name", json_string("Coin"));
        json_object_set_new(pay, "version", json_string("1"));
        json_object_set_new(pay, "decimals", json_integer(2));
        if (without < ARRAY_LEN(needed))
            json_object_del(pay, needed[without]);
        char *text CLEANUP_FREE = json_dumps(root, JSON_COMPACT);
        bool whole = without == ARRAY_LEN(needed);
        assert_int_equal(parse(text, &r, &c), whole ? ERR_OK : ERR_INVALID);
        if (!whole)
            continue;
        assert_string_equal(fixture_route(c, "/a")->offers[0].amount_text, "1");
        assert_string_equal(fixture_route(c, "/a")->offers[0].symbol,
                            "0x1111111111111111111111111111111111111111");
    }
}

static void all_faults_are_told_at_once(void **state)
{
    (void)state;
    struct report r;
    struct gate_config *c CLEANUP(config_unrefp) = NULL;
    assert_int_equal(parse("{\"x\":1,\"routes\":[{\"path\":\"a\",\"free\":true}]}", &r, &c),
                     ERR_INVALID);
    assert_true(r.faults >= 7);
    assert_int_equal(parse("{\"origin\":\"https://a\",\"origin\":\"https://b\"}", &r, &c),
                     ERR_INVALID);
    assert_non_null(strstr(r.text, "duplicate"));
    assert_int_equal(parse("", &r, &c), ERR_INVALID);
}

static void wide_challenges_are_refused(void **state)
{
    (void)state;
    char schema[5000];
    memset(schema, 'x', sizeof(schema));
    schema[sizeof(schema) - 1] = '\0';
    for (int big = 0; big < 2; big++) {
        struct report r;
        struct gate_config *c CLEANUP(config_unrefp) = NULL;
        json_t *root CLEANUP_JSON = json_loads(good, 0, NULL);
        json_object_set_new(
            json_at(root, "/routes/0"), "extensions",
            json_pack("{s:{s:{s:s}}}", "bazaar", "info", "x", schema + (big ? 0 : 3600)));
        char *text CLEANUP_FREE = json_dumps(root, JSON_COMPACT);
        assert_int_equal(parse(text, &r, &c), big ? ERR_INVALID : ERR_OK);
        assert_int_equal(r.warnings, big ? 0 : 1);
        assert_non_null(strstr(r.text, big ? "more than 4096" : "some intermediaries"));
    }
}

/* ---- files outside ---- */

static void write_file(const char *path, const char *text, mode_t mode)
{
    (void)unlink(path);
    FILE *f CLEANUP_FILE = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fchmod(fileno(f), mode), 0);
}

static void expect_token(struct auth *a, enum auth_op op, const char *want)
{
    struct buf authorization CLEANUP(buf_fini), correlation CLEANUP(buf_fini);
    buf_init(&authorization, 4096);
    buf_init(&correlation, 4096);
    assert_int_equal(
        auth_headers(a, op, "POST", "h", "/verify", 0, &authorization, &correlation, NULL),
        want ? ERR_OK : ERR_NOT_FOUND);
    if (want)
        assert_string_equal(buf_cstr(&authorization), want);
    assert_int_equal(correlation.len, 0);
}

static void token_directory(void **state)
{
    (void)state;
    char dir[] = "/tmp/utter-auth.XXXXXX", token[64], own[64], fresh[64];
    assert_non_null(mkdtemp(dir));
    snprintf(token, sizeof(token), "%s/token", dir);
    snprintf(own, sizeof(own), "%s/token.settle", dir);
    snprintf(fresh, sizeof(fresh), "%s/.new", dir);
    struct facilitator_config f = { .auth = AUTH_BEARER_DIR,
                                    .bearer_dir = dir,
                                    .bearer_name = "token" };
    struct auth *a CLEANUP(auth_closep) = NULL, *none CLEANUP(auth_closep) = NULL;
    struct err err;
    assert_int_equal(auth_open(&f, &none, &err), ERR_NOT_FOUND);
    write_file(token, "one\n", 0644);
    assert_int_equal(auth_open(&f, &none, &err), ERR_PRECONDITION);
    write_file(token, "one two\n", 0600);
    assert_int_equal(auth_open(&f, &none, &err), ERR_INVALID);
    write_file(token, "one\n", 0600);
    assert_int_equal(auth_open(&f, &a, &err), ERR_OK);
    expect_token(a, AUTH_VERIFY, "Bearer one");
    write_file(fresh, "two\n", 0600);
    assert_int_equal(rename(fresh, token), 0);
    expect_token(a, AUTH_VERIFY, "Bearer two");
    write_file(own, "three\n", 0600); /* an operation's own goes first */
    expect_token(a, AUTH_SETTLE, "Bearer three");
    expect_token(a, AUTH_VERIFY, "Bearer two");
    assert_int_equal(unlink(own), 0);
    expect_token(a, AUTH_SETTLE, "Bearer two");
    assert_int_equal(unlink(token), 0);
    expect_token(a, AUTH_SETTLE, NULL); /* gone: an error, never an old token */
    assert_int_equal(rmdir(dir), 0);
}

/* Started as root, the token may be root's or the account's that is dropped to, nobody else's. */
static void token_owner(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    char dir[] = "/tmp/utter-auth.XXXXXX", token[64];
    assert_non_null(mkdtemp(dir));
    snprintf(token, sizeof(token), "%s/token", dir);
    write_file(token, "one\n", 0600);
    assert_int_equal(chown(token, 65534, 65534), 0);
    struct facilitator_config f = {
        .auth = AUTH_BEARER_DIR, .bearer_dir = dir, .bearer_name = "token", .user = "nobody"
    };
    struct auth *a CLEANUP(auth_closep) = NULL, *none CLEANUP(auth_closep) = NULL;
    struct err err;
    assert_int_equal(auth_open(&f, &a, &err), ERR_OK);
    f.user = NULL;
    assert_int_equal(auth_open(&f, &none, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "another account"));
    assert_int_equal(unlink(token), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void files_are_checked(void **state)
{
    (void)state;
    struct report r = { 0 };
    struct gate_config *c CLEANUP(config_unrefp) = NULL;
    assert_int_equal(parse(good, &r, &c), ERR_OK);
    c->user = "no-such-account-here";
    c->facilitator.ca_file = "/nonexistent/ca.pem";
    c->facilitator.auth = AUTH_BEARER_DIR;
    c->facilitator.bearer_dir = "/nonexistent";
    c->facilitator.bearer_name = "token";
    assert_int_equal(config_check_files(c, collect, &r, NULL), ERR_INVALID);
    assert_non_null(strstr(r.text, "facilitator.auth: "));
    assert_non_null(strstr(r.text, "facilitator.ca_file: /nonexistent/ca.pem"));
    assert_non_null(strstr(r.text, "ledger.path: /l is no directory"));
    assert_non_null(strstr(r.text, "user: there is no account"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_one_and_its_defaults),
        cmocka_unit_test(every_fault_has_its_line),
        cmocka_unit_test(pay_faults),
        cmocka_unit_test(force_overrides_a_known_domain),
        cmocka_unit_test(unknown_tokens),
        cmocka_unit_test(all_faults_are_told_at_once),
        cmocka_unit_test(wide_challenges_are_refused),
        cmocka_unit_test(token_directory),
        cmocka_unit_test(token_owner),
        cmocka_unit_test(files_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
