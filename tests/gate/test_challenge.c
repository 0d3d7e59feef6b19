/* The 402 for both versions, receipts, and how routes are found. */
#include "gate/challenge.h"
#include "tests/gate/payment_fixture.h"

static json_t *header_json(const struct challenge *c)
{
    uint8_t text[8192];
    size_t n = 0;
    json_t *out = NULL;
    assert_true(c->header_len > 0 && c->header_len <= CHALLENGE_HEADER_MAX);
    assert_true(text_unb64(c->header, c->header_len, text, &n));
    assert_int_equal(json_strict_load((const char *)text, n, 8192, 0, &out, NULL), ERR_OK);
    return out;
}

static void one_402_serves_both_versions(void **state)
{
    (void)state;
    struct gate_config *c CLEANUP(config_unrefp) = fixture_load();
    const struct route *r = fixture_route(c, "/a");
    struct buf scratch CLEANUP(buf_fini);
    struct challenge out;
    buf_init(&scratch, 65536);
    challenge_make(r, c->origin, "/a", PAYMENT_NONE, NULL, &scratch, &out);
    assert_int_equal(scratch.len, 0); /* made once, at load */
    json_t *v2 CLEANUP_JSON = header_json(&out);
    assert_int_equal(json_integer_value(json_at(v2, "/x402Version")), 2);
    assert_string_equal(json_string_value(json_at(v2, "/resource/url")),
                        "https://fixture.example/a");
    assert_int_equal(json_array_size(json_at(v2, "/accepts")), 4);
    assert_string_equal(json_string_value(json_at(v2, "/accepts/0/amount")), "10000");
    assert_string_equal(json_string_value(json_at(v2, "/accepts/0/extra/name")), "USDC");
    assert_int_equal(json_integer_value(json_at(v2, "/accepts/0/maxTimeoutSeconds")), 120);
    assert_non_null(json_at(v2, "/extensions/payment-identifier/info"));
    json_t *v1 CLEANUP_JSON = json_loadb(out.body, out.body_len, 0, NULL);
    assert_int_equal(json_integer_value(json_at(v1, "/x402Version")), 1);
    assert_int_equal(json_array_size(json_at(v1, "/accepts")), 2); /* eip3009 and solana */
    /* what the official v1 client rejects a challenge for */
    assert_string_equal(json_string_value(json_at(v1, "/accepts/0/resource")),
                        "https://fixture.example/a");
    assert_string_equal(json_string_value(json_at(v1, "/accepts/0/network")), "base-sepolia");
    assert_true(json_is_string(json_at(v1, "/accepts/0/mimeType")));
    assert_true(json_is_string(json_at(v1, "/accepts/0/description")));
    assert_null(json_at(v1, "/accepts/0/outputSchema"));
    assert_string_equal(json_string_value(json_at(v1, "/accepts/0/maxAmountRequired")), "10000");
}

static void a_fault_is_named_in_both(void **state)
{
    (void)state;
    struct gate_config *c CLEANUP(config_unrefp) = fixture_load();
    struct buf scratch CLEANUP(buf_fini);
    struct challenge out;
    buf_init(&scratch, 65536);
    challenge_make(fixture_route(c, "/a"), c->origin, "/a", PAYMENT_EXPIRED, NULL, &scratch, &out);
    assert_int_equal(strlen(out.header), out.header_len); /* a header is sent as a string */
    assert_int_equal(strlen(out.body), out.body_len);
    json_t *v2 CLEANUP_JSON = header_json(&out);
    json_t *v1 CLEANUP_JSON = json_loadb(out.body, out.body_len, 0, NULL);
    assert_string_equal(json_string_value(json_at(v2, "/error")),
                        payment_fault_reason(PAYMENT_EXPIRED));
    assert_string_equal(json_string_value(json_at(v1, "/error")),
                        payment_fault_reason(PAYMENT_EXPIRED));
}

/* B8: neither Host nor a strange path gets into the challenge other than as JSON text. */
static void B8_resource_is_origin_and_canonical_path(void **state)
{
    (void)state;
    struct gate_config *c CLEANUP(config_unrefp) = fixture_load();
    const struct route *r = fixture_route(c, "/a");
    struct buf out CLEANUP(buf_fini), scratch CLEANUP(buf_fini);
    char path[3000];
    buf_init(&out, 8192);
    buf_init(&scratch, 65536);
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    challenge_resource(r, c->origin, path, &out);
    assert_string_equal(buf_cstr(&out), "https://fixture.example/a");
    struct challenge ch;
    challenge_make(r, c->origin, "/a\",\"x\":\"", PAYMENT_BAD_SHAPE, NULL, &scratch, &ch);
    json_t *v2 CLEANUP_JSON = header_json(&ch);
    assert_string_equal(json_string_value(json_at(v2, "/resource/url")),
                        "https://fixture.example/a\",\"x\":\"");
}

/* B18: only a word of a facilitator's reason goes out. */
static void B18_reasons_are_filtered(void **state)
{
    (void)state;
    char out[129], long_word[200];
    assert_string_equal(reason_filter("insufficient_funds", out), "insufficient_funds");
    assert_string_equal(reason_filter("a.b:c-d_9", out), "a.b:c-d_9");
    memset(long_word, 'a', sizeof(long_word));
    long_word[128] = '\0';
    assert_int_equal(strlen(reason_filter(long_word, out)), 128);
    long_word[128] = 'a';
    long_word[129] = '\0';
    static const char *const bad[] = { "",         "a b",      "a\r\nSet-Cookie: x",
                                       "<script>", "\xc3\xa9", "token=secret" };
    assert_string_equal(reason_filter(long_word, out), "payment_invalid");
    assert_string_equal(reason_filter(NULL, out), "payment_invalid");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_string_equal(reason_filter(bad[i], out), "payment_invalid");
        struct gate_config *c CLEANUP(config_unrefp) = fixture_load();
        struct buf scratch CLEANUP(buf_fini);
        struct challenge ch;
        buf_init(&scratch, 65536);
        challenge_make(fixture_route(c, "/a"), c->origin, "/a", PAYMENT_BAD_SIGNATURE, bad[i],
                       &scratch, &ch);
        json_t *v2 CLEANUP_JSON = header_json(&ch);
        assert_string_equal(json_string_value(json_at(v2, "/error")), "payment_invalid");
    }
}

static void receipts(void **state)
{
    (void)state;
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, 4096);
    struct receipt r = {
        .success = true, .transaction = "0xab", .network = "base", .payer = "0x1"
    };
    receipt_make(&r, &out);
    uint8_t text[4096];
    size_t n = 0;
    assert_true(text_unb64((const char *)out.data, out.len, text, &n));
    json_t *got CLEANUP_JSON = json_loadb((const char *)text, n, 0, NULL);
    json_t *want CLEANUP_JSON = json_pack("{s:b, s:s, s:s, s:s}", "success", 1, "transaction",
                                          "0xab", "network", "base", "payer", "0x1");
    assert_true(json_equal(got, want));
    assert_string_equal(receipt_header_name(1), "X-PAYMENT-RESPONSE");
    assert_string_equal(receipt_header_name(2), "PAYMENT-RESPONSE");
}

static void learned_extra_reaches_the_challenge(void **state)
{
    (void)state;
    struct gate_config *c CLEANUP(config_unrefp) = fixture_load();
    struct route *r = &c->routes.routes[0];
    json_t *kind CLEANUP_JSON = json_pack("{s:s, s:s}", "feePayer", "payer1", "name", "Other");
    struct buf scratch CLEANUP(buf_fini);
    struct challenge out;
    buf_init(&scratch, 65536);
    offer_learn(&r->offers[0], kind);
    assert_int_equal(challenge_rebuild(r, c->origin, NULL, NULL), ERR_OK);
    challenge_make(r, c->origin, "/a", PAYMENT_NONE, NULL, &scratch, &out);
    json_t *v2 CLEANUP_JSON = header_json(&out);
    assert_string_equal(json_string_value(json_at(v2, "/accepts/0/extra/feePayer")), "payer1");
    assert_string_equal(json_string_value(json_at(v2, "/accepts/0/extra/name")), "USDC");
}

static void routes_are_found_by_rule(void **state)
{
    (void)state;
    static const char text[] =
        "{\"origin\":\"https://f.example\",\"listen\":\"127.0.0.1:0\",\"admin\":\"127.0.0.1:0\","
        "\"handler\":{\"url\":\"http://127.0.0.1:9\"},\"facilitator\":{\"url\":\"https://"
        "f.example\"},"
        "\"ledger\":{\"path\":\"/l\"},\"routes\":["
        "{\"path\":\"/a/*\",\"free\":true},{\"path\":\"/a/"
        "b\",\"methods\":[\"POST\"],\"free\":true},"
        "{\"path\":\"/u/{id}/x\",\"free\":true},{\"path\":\"/\",\"free\":true}]}";
    struct gate_config *c CLEANUP(config_unrefp) = NULL;
    assert_int_equal(config_parse(text, sizeof(text) - 1, "t", fixture_fault, NULL, &c, NULL),
                     ERR_OK);
    static const struct {
        const char *method, *path;
        enum route_found found;
        int index;
    } rows[] = {
        { "GET", "/", ROUTE_FOUND, 3 },
        { "GET", "/a/", ROUTE_FOUND, 0 },
        { "GET", "/a/x/y", ROUTE_FOUND, 0 },
        { "GET", "/a", ROUTE_NO_PATH, -1 },
        { "POST", "/a/b", ROUTE_FOUND, 1 },
        { "GET", "/a/b", ROUTE_NO_METHOD, 1 }, /* the exact path does not fall back to a wildcard */
        { "HEAD", "/a/x", ROUTE_NO_METHOD, 0 },
        { "GET", "/u/7/x", ROUTE_FOUND, 2 },
        { "GET", "/u//x", ROUTE_NO_PATH, -1 },
        { "GET", "/u/7/x/", ROUTE_NO_PATH, -1 },
        { "GET", "/u/7/8/x", ROUTE_NO_PATH, -1 },
        { "GET", "/A/b", ROUTE_NO_PATH, -1 },
        { "GET", "", ROUTE_NO_PATH, -1 },
        { "GET", "/ab", ROUTE_NO_PATH, -1 },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct route *r = NULL;
        assert_int_equal(route_find(&c->routes, rows[i].method, rows[i].path, &r), rows[i].found);
        assert_int_equal(r ? (int)r->index : -1, rows[i].index);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_402_serves_both_versions),
        cmocka_unit_test(a_fault_is_named_in_both),
        cmocka_unit_test(B8_resource_is_origin_and_canonical_path),
        cmocka_unit_test(B18_reasons_are_filtered),
        cmocka_unit_test(receipts),
        cmocka_unit_test(learned_extra_reaches_the_challenge),
        cmocka_unit_test(routes_are_found_by_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
