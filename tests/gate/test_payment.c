/*
 * Payments against the official clients' own headers and their mutants. Names with A or B and a
 * number are the attack classes of the threat model.
 */
#include "gate/payment_parts.h"
#include "tests/gate/payment_fixture.h"

static int setup(void **state)
{
    *state = fixture_load();
    return 0;
}

static int teardown(void **state)
{
    config_unref(*state);
    return 0;
}

static void official_payments_are_taken(void **state)
{
    static const struct {
        const char *name;
        enum pay_kind kind;
        const char *key;
    } rows[] = {
        { "v2_eip3009", PAY_EIP3009,
          "eip3009/84532/0x036cbd53842c5426634e7929541ec2318f3dcf7e/" FIXTURE_PAYER
          "/0xd054c710bda0735b215b7d466cdbdb6e69a2c7c6c0454e144ab861da907029c3" },
        { "v2_permit2", PAY_PERMIT2,
          "permit2/84532/" FIXTURE_PAYER
          "/96419544757123242488684296073780168644365335922761163270280931515296033786805" },
        { "v2_upto", PAY_UPTO,
          "permit2/84532/" FIXTURE_PAYER
          "/61532800654645546523438958146016339624145323309674186923450142716677852589002" },
        { "v1_eip3009", PAY_EIP3009,
          "eip3009/84532/0x036cbd53842c5426634e7929541ec2318f3dcf7e/" FIXTURE_PAYER
          "/0xaed21a3facdd5023fa60e78a1221f82cfe0ab0503f6f5d175218779fd4dab1f7" },
    };
    const struct route *route = fixture_route(*state, "/a");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *payment CLEANUP_JSON = fixture_payment(rows[i].name);
        struct payment p CLEANUP(payment_fini);
        assert_int_equal(fixture_judge(payment, route, &p), PAYMENT_OK);
        assert_int_equal(p.kind, rows[i].kind);
        assert_int_equal(p.proof, PAYER_PROVEN);
        assert_false(p.to_facilitator);
        assert_string_equal(p.payer, FIXTURE_PAYER);
        assert_string_equal(p.key.text, rows[i].key);
        assert_int_equal(p.valid_before, FIXTURE_TIME + 120);
    }
}

static void official_python_payment_is_taken(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    json_t *payment CLEANUP_JSON = fixture_payment("python_v2_eip3009");
    struct payment p CLEANUP(payment_fini);
    assert_int_equal(fixture_read(payment, &p), PAYMENT_OK);
    assert_int_equal(payment_bind(&p, route, NULL), PAYMENT_OK);
    struct payment_limits l = fixture_limits(p.valid_before - 120);
    assert_int_equal(payment_check(&p, route, &l, NULL), PAYMENT_OK);
    assert_int_equal(p.proof, PAYER_PROVEN);
}

/* ---- A1: one authorization, one key ---- */

static void expect_same_key(json_t *a, json_t *b, const struct route *route)
{
    struct payment p CLEANUP(payment_fini), q CLEANUP(payment_fini);
    assert_int_equal(fixture_read(a, &p), PAYMENT_OK);
    assert_int_equal(payment_bind(&p, route, NULL), PAYMENT_OK);
    assert_int_equal(fixture_read(b, &q), PAYMENT_OK);
    assert_int_equal(payment_bind(&q, route, NULL), PAYMENT_OK);
    assert_string_equal(p.key.text, q.key.text);
    assert_memory_equal(p.key.hash, q.key.hash, 32);
}

static void upper_hex(json_t *root, const char *pointer)
{
    char text[512];
    snprintf(text, sizeof(text), "%s", json_string_value(json_at(root, pointer)));
    for (char *c = text + 2; *c; c++)
        *c = *c >= 'a' && *c <= 'f' ? (char)(*c - 32) : *c;
    fixture_set(root, pointer, json_string(text));
}

static void A1_reencodings_have_one_key(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    json_t *a CLEANUP_JSON = fixture_payment("v2_eip3009");
    json_t *b CLEANUP_JSON = json_deep_copy(a);
    upper_hex(b, "/payload/authorization/nonce");
    upper_hex(b, "/payload/authorization/from");
    upper_hex(b, "/payload/authorization/to");
    upper_hex(b, "/payload/signature");
    upper_hex(b, "/accepted/asset");
    fixture_set(b, "/junk", json_integer(7));
    fixture_set(b, "/payload/junk", json_string("x"));
    fixture_set(b, "/payload/authorization/junk", json_string("x"));
    char *sorted CLEANUP_FREE = json_canonical(b);
    json_t *c CLEANUP_JSON = json_loads(sorted, 0, NULL);
    expect_same_key(a, b, route);
    expect_same_key(a, c, route);
    struct payment p CLEANUP(payment_fini);
    assert_int_equal(fixture_judge(b, route, &p), PAYMENT_OK);
}

static void A1_v1_and_v2_have_one_key(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    json_t *v2 CLEANUP_JSON = fixture_payment("v2_eip3009");
    json_t *v1 CLEANUP_JSON = fixture_payment("v1_eip3009");
    json_object_set(v1, "payload", json_object_get(v2, "payload"));
    expect_same_key(v1, v2, route);
    struct payment p CLEANUP(payment_fini);
    assert_int_equal(fixture_judge(v1, route, &p),
                     PAYMENT_OK); /* the same signature is good in both */
}

static void A1_exact_and_upto_share_permit2_nonces(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    json_t *exact CLEANUP_JSON = fixture_payment("v2_permit2");
    json_t *upto CLEANUP_JSON = fixture_payment("v2_upto");
    fixture_set(upto, "/payload/permit2Authorization/nonce",
                json_incref(json_at(exact, "/payload/permit2Authorization/nonce")));
    expect_same_key(exact, upto, route);
}

static void A1_keys_differ_by_what_is_signed(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    static const struct {
        const char *pointer, *value;
    } rows[] = {
        { "/payload/authorization/from", "0x0000000000000000000000000000000000000001" },
        { "/payload/authorization/nonce",
          "0x0000000000000000000000000000000000000000000000000000000000000001" },
        { "/accepted/network", "eip155:8453" },
        { "/accepted/asset", "0x0000000000000000000000000000000000000001" },
    };
    json_t *a CLEANUP_JSON = fixture_payment("v2_eip3009");
    struct payment p CLEANUP(payment_fini);
    assert_int_equal(fixture_read(a, &p), PAYMENT_OK);
    assert_int_equal(payment_bind(&p, route, NULL), PAYMENT_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *b CLEANUP_JSON = json_deep_copy(a);
        struct payment q CLEANUP(payment_fini);
        fixture_set(b, rows[i].pointer, json_string(rows[i].value));
        assert_int_equal(fixture_read(b, &q), PAYMENT_OK);
        assert_int_equal(payment_bind(&q, route, NULL), PAYMENT_OK);
        assert_string_not_equal(p.key.text, q.key.text);
    }
}

/* ---- A13: terms ---- */

struct mutant {
    const char *name, *pointer;
    const char *json; /* the new value */
    enum payment_fault fault;
    bool resign;
};

static void expect_mutants(const struct route *route, const struct mutant *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *payment CLEANUP_JSON = fixture_payment(rows[i].name);
        struct payment p CLEANUP(payment_fini);
        fixture_set(payment, rows[i].pointer, json_loads(rows[i].json, JSON_DECODE_ANY, NULL));
        if (rows[i].resign)
            fixture_sign(payment, route);
        enum payment_fault f = fixture_judge(payment, route, &p);
        if (f != rows[i].fault)
            print_error("%s %s = %s gave %s\n", rows[i].name, rows[i].pointer, rows[i].json,
                        payment_fault_text(f));
        assert_int_equal(f, rows[i].fault);
    }
}

#define AUTH "/payload/authorization/"
#define PERMIT "/payload/permit2Authorization/"
#define OTHER "\"0x0000000000000000000000000000000000000001\""

static void A13_requirement_mutants_end_here(void **state)
{
    static const struct mutant rows[] = {
        { "v2_eip3009", "/accepted/amount", "\"9999\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/amount", "10000", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/amount", "\"010000\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/amount", "\"1e4\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/network", "\"EIP155:84532\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/network", "\"eip155:8453\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/network", "\"base-sepolia\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/asset", OTHER, PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/payTo", OTHER, PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/scheme", "\"Exact\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/maxTimeoutSeconds", "\"120\"", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/maxTimeoutSeconds", "121", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/maxTimeoutSeconds", "120.0", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/extra", "{\"name\":\"USD Coin\",\"version\":\"2\"}",
          PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/extra", "{}", PAYMENT_NO_MATCH, false },
        { "v2_eip3009", "/accepted/foreign", "1", PAYMENT_NO_MATCH, false },
        { "v2_permit2", "/accepted/scheme", "\"upto\"", PAYMENT_BAD_SHAPE, false },
        { "v1_eip3009", "/network", "\"base\"", PAYMENT_NO_MATCH, false },
        { "v1_eip3009", "/network", "\"Base-Sepolia\"", PAYMENT_NO_MATCH, false },
        { "v1_eip3009", "/network", "\"eip155:84532\"", PAYMENT_NO_MATCH, false },
        { "v1_eip3009", "/scheme", "\"upto\"", PAYMENT_NO_MATCH, false },
    };
    expect_mutants(fixture_route(*state, "/a"), rows, ARRAY_LEN(rows));
}

static void A13_signed_mutants_end_here(void **state)
{
    static const struct mutant rows[] = {
        { "v2_eip3009", AUTH "to", OTHER, PAYMENT_WRONG_RECIPIENT, true },
        { "v2_eip3009", AUTH "value", "\"9999\"", PAYMENT_WRONG_AMOUNT, true },
        { "v2_eip3009", AUTH "value", "\"10001\"", PAYMENT_WRONG_AMOUNT, true },
        { "v2_eip3009", AUTH "value", "\"0\"", PAYMENT_WRONG_AMOUNT, true },
        { "v1_eip3009", AUTH "to", OTHER, PAYMENT_WRONG_RECIPIENT, true },
        { "v1_eip3009", AUTH "value", "\"9999\"", PAYMENT_WRONG_AMOUNT, true },
        { "v2_permit2", PERMIT "witness/to", OTHER, PAYMENT_WRONG_RECIPIENT, true },
        { "v2_permit2", PERMIT "permitted/amount", "\"9999\"", PAYMENT_WRONG_AMOUNT, true },
        { "v2_permit2", PERMIT "permitted/token", OTHER, PAYMENT_WRONG_TOKEN, true },
        { "v2_permit2", PERMIT "spender", OTHER, PAYMENT_WRONG_SPENDER, true },
        { "v2_permit2", PERMIT "spender", "\"0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002\"",
          PAYMENT_WRONG_SPENDER, true },
        { "v2_upto", PERMIT "witness/facilitator", OTHER, PAYMENT_WRONG_FACILITATOR, true },
        { "v2_upto", PERMIT "permitted/amount", "\"10001\"", PAYMENT_WRONG_AMOUNT, true },
        /* not signed again: the signature is no longer that of the payer */
        { "v2_eip3009", AUTH "from", OTHER, PAYMENT_BAD_SIGNATURE, false },
        { "v2_eip3009", AUTH "validAfter", "\"1\"", PAYMENT_BAD_SIGNATURE, false },
        { "v2_eip3009", AUTH "validBefore", "\"1796076374\"", PAYMENT_BAD_SIGNATURE, false },
        { "v2_permit2", PERMIT "nonce", "\"5\"", PAYMENT_BAD_SIGNATURE, false },
        { "v2_permit2", PERMIT "deadline", "\"1796076374\"", PAYMENT_BAD_SIGNATURE, false },
        { "v2_upto", PERMIT "witness/validAfter", "\"1\"", PAYMENT_BAD_SIGNATURE, false },
    };
    expect_mutants(fixture_route(*state, "/a"), rows, ARRAY_LEN(rows));
}

static void A13_malformed_numbers_are_400(void **state)
{
    static const char *const values[] = {
        "10000",
        "\"010000\"",
        "\"+10000\"",
        "\"0x2710\"",
        "\"-1\"",
        "\"1e4\"",
        "\"10000.0\"",
        "\"\"",
        "\" 10000\"",
        "null",
        "true",
        "\"115792089237316195423570985008687907853269984665640564039457584007913129639936\"",
        "\"1000000000000000000000000000000000000000000000000000000000000000000000000000000000\""
    };
    static const char *const members[] = { AUTH "value", AUTH "validAfter", AUTH "validBefore" };
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        for (size_t k = 0; k < ARRAY_LEN(members); k++) {
            const struct mutant row = { "v2_eip3009", members[k], values[i], PAYMENT_BAD_SHAPE,
                                        false };
            expect_mutants(fixture_route(*state, "/a"), &row, 1);
        }
    }
    assert_int_equal(payment_fault_status(PAYMENT_BAD_SHAPE), 400);
}

static void A13_malformed_members_are_400(void **state)
{
    static const struct mutant rows[] = {
        { "v2_eip3009", AUTH "nonce", "\"0x01\"", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", AUTH "nonce", "1", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", AUTH "from", "\"0x01\"", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", AUTH "to", "\"209693Bc6afc0C5328bA36FaF03C514EF312287C\"",
          PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/payload/signature", "\"0x\"", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/payload/signature", "\"0x123\"", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/payload/signature", "\"zz\"", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/payload/signature", "null", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/payload", "[]", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/accepted", "\"x\"", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/extensions", "[]", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/resource", "\"https://fixture.example\"", PAYMENT_BAD_SHAPE, false },
        { "v2_eip3009", "/payload/permit2Authorization", "{}", PAYMENT_BAD_SHAPE, false },
    };
    expect_mutants(fixture_route(*state, "/a"), rows, ARRAY_LEN(rows));
}

/* ---- signatures ---- */

static enum payment_fault with_signature(const struct route *route, const char *hex,
                                         struct payment *p)
{
    json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
    fixture_set(payment, "/payload/signature", json_string(hex));
    return fixture_judge(payment, route, p);
}

static void signature_of_other_length_goes_to_the_facilitator(void **state)
{
    static const char *const texts[] = { "0x00", "0x6492649264926492" };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct payment p CLEANUP(payment_fini);
        assert_int_equal(with_signature(fixture_route(*state, "/a"), texts[i], &p), PAYMENT_OK);
        assert_int_equal(p.proof, PAYER_CLAIMED);
        assert_true(p.to_facilitator);
    }
}

static void signature_of_another_account(void **state)
{
    json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
    struct payment p CLEANUP(payment_fini), q CLEANUP(payment_fini);
    fixture_set(payment, AUTH "from", json_string("0x0000000000000000000000000000000000000001"));
    fixture_sign(payment, fixture_route(*state, "/a"));
    assert_int_equal(fixture_judge(payment, fixture_route(*state, "/a"), &p),
                     PAYMENT_BAD_SIGNATURE);
    assert_int_equal(fixture_judge(payment, fixture_route(*state, "/wallets"), &q), PAYMENT_OK);
    assert_int_equal(q.proof, PAYER_CLAIMED);
    assert_true(q.to_facilitator);
}

static void malleable_signatures_end_here(void **state)
{
    json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
    char hex[140];
    snprintf(hex, sizeof(hex), "%s", json_string_value(json_at(payment, "/payload/signature")));
    struct payment p CLEANUP(payment_fini), q CLEANUP(payment_fini), r CLEANUP(payment_fini);
    memcpy(hex + 130, "02", 2); /* v */
    assert_int_equal(with_signature(fixture_route(*state, "/wallets"), hex, &p),
                     PAYMENT_BAD_SIGNATURE);
    memcpy(hex + 130, "00", 2); /* 27 spelled as 0: the same signature */
    assert_int_equal(with_signature(fixture_route(*state, "/a"), hex, &q), PAYMENT_OK);
    memset(hex + 66, 'f', 64); /* s beyond the order */
    assert_int_equal(with_signature(fixture_route(*state, "/wallets"), hex, &r),
                     PAYMENT_BAD_SIGNATURE);
}

/* ---- A12, A15c: windows ---- */

static void A12_window_has_to_cover_the_work(void **state)
{
    static const struct {
        int64_t now_offset;
        enum payment_fault fault;
    } rows[] = {
        { 0, PAYMENT_OK },        { 60, PAYMENT_OK },         { 61, PAYMENT_EXPIRED },
        { 120, PAYMENT_EXPIRED }, { 600, PAYMENT_EXPIRED },   { -30, PAYMENT_OK },
        { -3600, PAYMENT_OK },    { -3601, PAYMENT_TOO_FAR },
    };
    const struct route *route = fixture_route(*state, "/a");
    json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct payment p CLEANUP(payment_fini);
        struct payment_limits l = fixture_limits(FIXTURE_TIME + rows[i].now_offset);
        assert_int_equal(fixture_read(payment, &p), PAYMENT_OK);
        assert_int_equal(payment_bind(&p, route, NULL), PAYMENT_OK);
        assert_int_equal(payment_check(&p, route, &l, NULL), rows[i].fault);
    }
}

static void A12_extreme_windows_do_not_wrap(void **state)
{
    static const char max[] =
        "\"115792089237316195423570985008687907853269984665640564039457584007913129639935\"";
    const struct mutant rows[] = {
        { "v2_eip3009", AUTH "validBefore", max, PAYMENT_TOO_FAR, true },
        { "v2_eip3009", AUTH "validBefore", "\"18446744073709551616\"", PAYMENT_TOO_FAR, true },
        { "v2_eip3009", AUTH "validBefore", "\"0\"", PAYMENT_EXPIRED, true },
        { "v2_eip3009", AUTH "validAfter", max, PAYMENT_NOT_YET_VALID, true },
        { "v2_permit2", PERMIT "deadline", max, PAYMENT_TOO_FAR, true },
        { "v2_permit2", PERMIT "witness/validAfter", max, PAYMENT_NOT_YET_VALID, true },
    };
    expect_mutants(fixture_route(*state, "/a"), rows, ARRAY_LEN(rows));
}

static void A15c_skew_is_tolerated_and_bounded(void **state)
{
    static const struct mutant rows[] = {
        { "v2_eip3009", AUTH "validAfter", "\"1796076259\"", PAYMENT_OK, true },
        { "v2_eip3009", AUTH "validAfter", "\"1796076260\"", PAYMENT_NOT_YET_VALID, true },
    };
    expect_mutants(fixture_route(*state, "/a"), rows, ARRAY_LEN(rows));
}

/* ---- A14, B9: which header ---- */

static void A14_header_decides_the_version(void **state)
{
    (void)state;
    json_t *v2 CLEANUP_JSON = fixture_payment("v2_eip3009");
    json_t *v1 CLEANUP_JSON = fixture_payment("v1_eip3009");
    char *t2 CLEANUP_FREE = json_dumps(v2, 0), *t1 CLEANUP_FREE = json_dumps(v1, 0);
    struct payment p CLEANUP(payment_fini) = { 0 };
    assert_int_equal(fixture_read_text(1, t2, strlen(t2), &p), PAYMENT_BAD_VERSION);
    assert_int_equal(fixture_read_text(2, t1, strlen(t1), &p), PAYMENT_BAD_VERSION);
    static const char *const versions[] = { "3", "0", "\"2\"", "2.0", "null" };
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        fixture_set(v2, "/x402Version", json_loads(versions[i], JSON_DECODE_ANY, NULL));
        char *t CLEANUP_FREE = json_dumps(v2, 0);
        assert_int_equal(fixture_read_text(2, t, strlen(t), &p), PAYMENT_BAD_VERSION);
    }
    assert_int_equal(payment_fault_status(PAYMENT_BAD_VERSION), 400);
}

static void B9_header_counts_and_sizes(void **state)
{
    (void)state;
    struct payment p CLEANUP(payment_fini) = { 0 };
    struct payment_headers none = { 0 };
    assert_int_equal(payment_read(&none, &p, NULL), PAYMENT_NONE);
    struct payment_headers both = {
        .v1 = "e30=", .v1_len = 4, .v1_count = 1, .v2 = "e30=", .v2_len = 4, .v2_count = 1
    };
    assert_int_equal(payment_read(&both, &p, NULL), PAYMENT_TWO_HEADERS);
    struct payment_headers twice = { .v2 = "e30=", .v2_len = 4, .v2_count = 2 };
    assert_int_equal(payment_read(&twice, &p, NULL), PAYMENT_TWO_HEADERS);
    char *text CLEANUP_FREE = xmalloc(PAYMENT_HEADER_MAX + 4);
    memset(text, 'A', PAYMENT_HEADER_MAX + 4);
    struct payment_headers full = { .v2 = text, .v2_len = PAYMENT_HEADER_MAX, .v2_count = 1 };
    assert_int_equal(payment_read(&full, &p, NULL), PAYMENT_NOT_JSON);
    full.v2_len += 4;
    assert_int_equal(payment_read(&full, &p, NULL), PAYMENT_TOO_LONG);
}

/* ---- B10: JSON ---- */

static void B10_json_abuse_is_400(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{}x",
        "[]",
        "1",
        "null",
        "\xef\xbb\xbf{}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":1,\"b\":2}}",
        "{\"amount\":1,\"Amount\":2}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":1e999}",
        "{\"a\":99999999999999999999}",
        "{\"a\":01}",
        "{\"a\":1,}",
        "{'a':1}",
        "{\"a\":NaN}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":1}{\"b\":2}",
        "{\"a\":\"\n\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct payment p CLEANUP(payment_fini) = { 0 };
        enum payment_fault f = fixture_read_text(2, texts[i], strlen(texts[i]), &p);
        assert_true(f == PAYMENT_NOT_JSON || (i == 0 && f == PAYMENT_NOT_BASE64));
    }
}

static void B10_depth_and_size_are_bounded(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    for (unsigned depth = 13; depth <= 16; depth++) {
        json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
        json_t *deep = json_object();
        for (unsigned i = 3; i < depth; i++)
            deep = json_pack("{s:o}", "d", deep);
        json_object_set_new(payment, "deep", deep); /* the root is level 1, `deep` level 2 */
        struct payment p CLEANUP(payment_fini) = { 0 };
        assert_int_equal(fixture_judge(payment, route, &p), PAYMENT_OK);
    }
    json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
    json_t *deep = json_object();
    for (unsigned i = 0; i < 15; i++)
        deep = json_pack("{s:o}", "d", deep);
    json_object_set_new(payment, "deep", deep);
    struct payment p CLEANUP(payment_fini) = { 0 };
    assert_int_equal(fixture_read(payment, &p), PAYMENT_NOT_JSON);
    json_t *wide CLEANUP_JSON = fixture_payment("v2_eip3009");
    json_t *list = json_array();
    for (int i = 0; i < PAYMENT_NODES; i++)
        json_array_append_new(list, json_integer(i));
    json_object_set_new(wide, "wide", list);
    assert_int_equal(fixture_read(wide, &p), PAYMENT_NOT_JSON);
}

/* ---- B11: base64 ---- */

static void B11_base64_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum payment_fault fault;
    } rows[] = {
        { "eyJ4NDAyVmVyc2lvbiI6OX0=", PAYMENT_BAD_VERSION }, /* padded */
        { "eyJ4NDAyVmVyc2lvbiI6OX0", PAYMENT_BAD_VERSION },  /* unpadded */
        { "eyJ4NDAyVmVyc2lvbiI6OX0==", PAYMENT_NOT_BASE64 },
        { "eyJ4NDAyVmVyc2lvbiI6OX1=", PAYMENT_NOT_BASE64 }, /* unused bits set */
        { "eyJ4NDAy=VmVyc2lvbiI6OX0", PAYMENT_NOT_BASE64 },
        { "eyJ4NDAyVmVyc2lvbiI6OX0=,eyJ9", PAYMENT_NOT_BASE64 },
        { "eyJ4NDAy\nVmVyc2lvbiI6OX0=", PAYMENT_NOT_BASE64 },
        { " eyJ4NDAyVmVyc2lvbiI6OX0=", PAYMENT_NOT_BASE64 },
        { "\"eyJ4NDAyVmVyc2lvbiI6OX0=\"", PAYMENT_NOT_BASE64 },
        { "eyJhIjoi_-__In0", PAYMENT_NOT_BASE64 }, /* base64url */
        { "e", PAYMENT_NOT_BASE64 },
        { "", PAYMENT_NOT_BASE64 },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct payment p CLEANUP(payment_fini) = { 0 };
        struct payment_headers h = { .v2 = rows[i].text,
                                     .v2_len = strlen(rows[i].text),
                                     .v2_count = 1 };
        assert_int_equal(payment_read(&h, &p, NULL), rows[i].fault);
    }
}

/* ---- extensions ---- */

static void identifier_forms(void **state)
{
    static const struct {
        const char *id;
        enum payment_fault fault;
    } rows[] = {
        { "\"pay_0123456789ab\"", PAYMENT_OK },
        { "\"pay_0123456789a\"", PAYMENT_BAD_IDENTIFIER },
        { "\"pay_0123456789ab.\"", PAYMENT_BAD_IDENTIFIER },
        { "7", PAYMENT_BAD_IDENTIFIER },
        { "null", PAYMENT_NEEDS_IDENTIFIER },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
        struct payment p CLEANUP(payment_fini) = { 0 };
        fixture_set(payment, "/extensions/payment-identifier/info/required", json_true());
        fixture_set(payment, "/extensions/payment-identifier/info/id",
                    json_loads(rows[i].id, JSON_DECODE_ANY, NULL));
        assert_int_equal(fixture_judge(payment, fixture_route(*state, "/id"), &p), rows[i].fault);
        if (!rows[i].fault)
            assert_string_equal(p.identifier, "pay_0123456789ab");
    }
    assert_int_equal(payment_fault_status(PAYMENT_NEEDS_IDENTIFIER), 400);
}

static void echo_of_declared_extensions(void **state)
{
    static const struct {
        const char *echo;
        enum payment_fault fault;
    } rows[] = {
        { "{\"info\":{\"a\":{\"b\":1,\"more\":2},\"l\":[1,2],\"z\":0}}", PAYMENT_OK },
        { "{\"info\":{\"a\":{\"b\":2},\"l\":[1,2]}}", PAYMENT_ECHO_MISMATCH },
        { "{\"info\":{\"a\":{\"b\":1}}}", PAYMENT_ECHO_MISMATCH },
        { "{\"info\":{\"a\":{\"b\":1},\"l\":[1,2,3]}}", PAYMENT_ECHO_MISMATCH },
        { "{}", PAYMENT_ECHO_MISMATCH },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *payment CLEANUP_JSON = fixture_payment("v2_eip3009");
        struct payment p CLEANUP(payment_fini) = { 0 };
        fixture_set(payment, "/extensions/bazaar", json_loads(rows[i].echo, 0, NULL));
        assert_int_equal(fixture_judge(payment, fixture_route(*state, "/ext"), &p), rows[i].fault);
    }
}

/* ---- opaque schemes ---- */

static json_t *solana_payment(const struct route *route, const char *transaction)
{
    return json_pack("{s:i, s:O, s:{s:s}}", "x402Version", 2, "accepted", route->offers[3].v2,
                     "payload", "transaction", transaction);
}

static void solana_key_is_the_message(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    uint8_t tx[1 + 64 + 40] = { 1 };
    for (size_t i = 65; i < sizeof(tx); i++)
        tx[i] = (uint8_t)i;
    char *a CLEANUP_FREE = fixture_b64((const char *)tx, sizeof(tx));
    tx[7] = 0xaa; /* in a signature slot, which nobody signs */
    char *b CLEANUP_FREE = fixture_b64((const char *)tx, sizeof(tx));
    json_t *pa CLEANUP_JSON = solana_payment(route, a), *pb CLEANUP_JSON = solana_payment(route, b);
    expect_same_key(pa, pb, route);
    struct payment p CLEANUP(payment_fini) = { 0 }, q CLEANUP(payment_fini) = { 0 };
    assert_int_equal(fixture_judge(pa, route, &p), PAYMENT_OK);
    assert_int_equal(p.kind, PAY_OPAQUE);
    assert_true(p.to_facilitator);
    assert_string_equal(p.payer, "");
    json_object_set_new(json_object_get(pa, "payload"), "junk", json_integer(1));
    assert_int_equal(fixture_judge(pa, route, &q), PAYMENT_BAD_SHAPE);
}

static void solana_transactions_that_are_none(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    static const char *const texts[] = { "", "AQ==", "AAAA", "gYA=", "!!!!", "////" };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        json_t *payment CLEANUP_JSON = solana_payment(route, texts[i]);
        struct payment p CLEANUP(payment_fini) = { 0 };
        enum payment_fault f = fixture_judge(payment, route, &p);
        assert_int_equal(f, i == 2 ? PAYMENT_OK : PAYMENT_BAD_SHAPE); /* no signatures, 2 bytes */
    }
}

/* A second spelling of what is signed must not be a second payment; other content must be. */
static void opaque_spellings_are_one_payment(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {
        { "{\"m\":\"0xABcd\"}", "{\"m\":\"0xabcd\"}", true },
        { "{\"m\":\"0Xabcd\"}", "{\"m\":\"0xabcd\"}", true },
        { "{\"m\":\"AA+/\"}", "{\"m\":\"AA-_\"}", true },
        { "{\"m\":\"AAA=\"}", "{\"m\":\"AAA\"}", true },
        { "{\"m\":\"AAB=\"}", "{\"m\":\"AAA\"}", true },
        { "{\"m\":\"AA==\"}", "{\"m\":\"AP\"}", true },
        { "{\"m\":[{\"x\":\"0xA\"}]}", "{\"m\":[{\"x\":\"0xa\"}]}", true },
        { "{\"m\":1,\"k\":2}", "{\"k\":2,\"m\":1}", true },
        { "{\"m\":\"0xABce\"}", "{\"m\":\"0xabcd\"}", false },
        { "{\"m\":\"AAA\"}", "{\"m\":\"AQA\"}", false },
        { "{\"m\":\"a b\"}", "{\"m\":\"A b\"}", false },
        { "{\"m\":1}", "{\"m\":2}", false },
        { "{\"m\":\"1\"}", "{\"m\":1}", false },
        { "{\"m\":null}", "{\"m\":false}", false },
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        json_t *a CLEANUP_JSON = json_loads(pairs[i].a, 0, NULL);
        json_t *b CLEANUP_JSON = json_loads(pairs[i].b, 0, NULL);
        json_t *one CLEANUP_JSON = payment_one_spelling(a);
        json_t *two CLEANUP_JSON = payment_one_spelling(b);
        assert_non_null(one);
        assert_non_null(two);
        assert_int_equal(json_equal(one, two), pairs[i].same);
    }
    static const char *const refused[] = { "[1.0]", "[1e2]", "[9007199254740993]",
                                           "[-9007199254740993]", "{\"m\":{\"x\":[0.5]}}" };
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        json_t *value CLEANUP_JSON = json_loads(refused[i], 0, NULL);
        assert_null(payment_one_spelling(value));
    }
}

/* ---- what the facilitator gets ---- */

static void exact_body_carries_the_bytes(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    static const char *const names[] = { "v2_eip3009", "v2_permit2", "v2_upto", "v1_eip3009" };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        json_t *payment CLEANUP_JSON = fixture_payment(names[i]);
        struct payment p CLEANUP(payment_fini) = { 0 };
        assert_int_equal(fixture_judge(payment, route, &p), PAYMENT_OK);
        struct buf out CLEANUP(buf_fini), again CLEANUP(buf_fini), small CLEANUP(buf_fini);
        buf_init(&out, 65536);
        buf_init(&again, 65536);
        buf_init(&small, 65536);
        payment_facilitator_body(&p, p.offer, "https://fixture.example/a", PAYLOAD_EXACT, NULL,
                                 &out);
        payment_facilitator_body(&p, p.offer, "https://fixture.example/a", PAYLOAD_EXACT, NULL,
                                 &again);
        payment_facilitator_body(&p, p.offer, "https://fixture.example/a", PAYLOAD_MINIMAL, NULL,
                                 &small);
        assert_string_equal(buf_cstr(&out), buf_cstr(&again));
        assert_non_null(strstr(buf_cstr(&out), p.json));
        json_t *whole CLEANUP_JSON = json_loads(buf_cstr(&out), 0, NULL);
        json_t *min CLEANUP_JSON = json_loads(buf_cstr(&small), 0, NULL);
        assert_true(json_equal(json_at(whole, "/paymentRequirements"),
                               json_at(min, "/paymentRequirements")));
        assert_true(json_equal(json_at(whole, "/paymentPayload/payload"),
                               json_at(min, "/paymentPayload/payload")));
        assert_null(json_at(min, "/paymentPayload/extensions"));
        const char *resource = json_string_value(json_at(whole, "/paymentRequirements/resource"));
        assert_true(p.version == 2 ? !resource : !strcmp(resource, "https://fixture.example/a"));
    }
}

static void upto_charge_replaces_the_amount(void **state)
{
    const struct route *route = fixture_route(*state, "/a");
    json_t *payment CLEANUP_JSON = fixture_payment("v2_upto");
    struct payment p CLEANUP(payment_fini) = { 0 };
    struct u256 charge = u256_from_u64(700);
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, 65536);
    assert_int_equal(fixture_judge(payment, route, &p), PAYMENT_OK);
    payment_facilitator_body(&p, p.offer, "", PAYLOAD_EXACT, &charge, &out);
    json_t *body CLEANUP_JSON = json_loads(buf_cstr(&out), 0, NULL);
    assert_string_equal(json_string_value(json_at(body, "/paymentRequirements/amount")), "700");
    assert_string_equal(json_string_value(json_object_get(p.offer->v2, "amount")), "10000");
}

static void every_fault_has_a_status_and_words(void **state)
{
    (void)state;
    for (int f = PAYMENT_NONE; f < PAYMENT_FAULT_N; f++) {
        int status = payment_fault_status((enum payment_fault)f);
        assert_true(status == 400 || status == 402);
        assert_true(payment_fault_reason((enum payment_fault)f)[0] != '\0');
        assert_true(payment_fault_text((enum payment_fault)f)[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(official_payments_are_taken),
        cmocka_unit_test(official_python_payment_is_taken),
        cmocka_unit_test(A1_reencodings_have_one_key),
        cmocka_unit_test(A1_v1_and_v2_have_one_key),
        cmocka_unit_test(A1_exact_and_upto_share_permit2_nonces),
        cmocka_unit_test(A1_keys_differ_by_what_is_signed),
        cmocka_unit_test(A13_requirement_mutants_end_here),
        cmocka_unit_test(A13_signed_mutants_end_here),
        cmocka_unit_test(A13_malformed_numbers_are_400),
        cmocka_unit_test(A13_malformed_members_are_400),
        cmocka_unit_test(signature_of_other_length_goes_to_the_facilitator),
        cmocka_unit_test(signature_of_another_account),
        cmocka_unit_test(malleable_signatures_end_here),
        cmocka_unit_test(A12_window_has_to_cover_the_work),
        cmocka_unit_test(A12_extreme_windows_do_not_wrap),
        cmocka_unit_test(A15c_skew_is_tolerated_and_bounded),
        cmocka_unit_test(A14_header_decides_the_version),
        cmocka_unit_test(B9_header_counts_and_sizes),
        cmocka_unit_test(B10_json_abuse_is_400),
        cmocka_unit_test(B10_depth_and_size_are_bounded),
        cmocka_unit_test(B11_base64_forms),
        cmocka_unit_test(identifier_forms),
        cmocka_unit_test(echo_of_declared_extensions),
        cmocka_unit_test(solana_key_is_the_message),
        cmocka_unit_test(solana_transactions_that_are_none),
        cmocka_unit_test(opaque_spellings_are_one_payment),
        cmocka_unit_test(exact_body_carries_the_bytes),
        cmocka_unit_test(upto_charge_replaces_the_amount),
        cmocka_unit_test(every_fault_has_a_status_and_words),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
