/* What the facilitator refuses, on the official clients' own payments; the book's arithmetic. */
#include <unistd.h>

#include "gate/facilitator/book.h"
#include "gate/facilitator/script.h"
#include "tests/gate/payment_fixture.h"

#define FACILITATOR "0x1111111111111111111111111111111111111111"

/* A verify body for a fixture and the offer of the fixture configuration it was made for. */
static json_t *body_of(const char *name)
{
    struct gate_config *c CLEANUP(config_unrefp) = fixture_load();
    const struct route *route = fixture_route(c, "/a");
    json_t *payment CLEANUP_JSON = fixture_payment(name);
    struct payment p CLEANUP(payment_fini);
    struct buf out CLEANUP(buf_fini);
    assert_int_equal(fixture_read(payment, &p), PAYMENT_OK);
    assert_int_equal(payment_bind(&p, route, NULL), PAYMENT_OK);
    assert_non_null(p.offer);
    buf_init(&out, 65536);
    payment_facilitator_body(&p, p.offer, "https://fixture.example/a", PAYLOAD_EXACT, NULL, &out);
    json_t *body = json_loads(buf_cstr(&out), 0, NULL);
    assert_non_null(body);
    return body;
}

static void judge_body(const json_t *body, bool settle, int64_t now, struct judgement *j)
{
    struct evm_address facilitator;
    char *text CLEANUP_FREE = json_dumps(body, JSON_COMPACT);
    assert_true(evm_address_parse(FACILITATOR, &facilitator));
    judge(text, strlen(text), settle, now, &facilitator, NULL, j);
}

static void official_payments_are_fine(void **state)
{
    (void)state;
    static const char *const names[] = { "v2_eip3009", "v2_permit2", "v2_upto", "v1_eip3009" };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        for (int settle = 0; settle < 2; settle++) {
            json_t *body CLEANUP_JSON = body_of(names[i]);
            struct judgement j CLEANUP(judgement_fini);
            judge_body(body, settle, FIXTURE_TIME, &j);
            assert_null(j.reason);
            assert_string_equal(j.payer, "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826");
        }
    }
}

static void mutants_have_the_specified_reason(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pointer, *json, *verify, *settle;
    } rows[] = {
#define PAYLOAD "/paymentPayload/payload/"
#define TERMS "/paymentRequirements/"
#define SAME NULL
        { "v2_permit2", PAYLOAD "permit2Authorization/spender",
          "\"0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002\"", "invalid_permit2_spender", SAME },
        { "v2_permit2", PAYLOAD "permit2Authorization/permitted/token", "\"" FACILITATOR "\"",
          "permit2_token_mismatch", SAME },
        { "v2_permit2", PAYLOAD "permit2Authorization/permitted/amount", "\"1\"",
          "invalid_permit2_signature", SAME },
        { "v2_permit2", PAYLOAD "permit2Authorization/nonce", "\"1\"", "invalid_permit2_signature",
          SAME },
        { "v2_permit2", PAYLOAD "permit2Authorization/nonce", "\"01\"", "invalid_payload", SAME },
        { "v2_permit2", TERMS "payTo", "\"" FACILITATOR "\"", "invalid_permit2_recipient_mismatch",
          SAME },
        { "v2_permit2", TERMS "amount", "\"9999\"", "permit2_amount_mismatch", SAME },
        { "v2_upto", PAYLOAD "permit2Authorization/witness/facilitator",
          "\"0x2222222222222222222222222222222222222222\"", "upto_facilitator_mismatch", SAME },
        { "v2_upto", TERMS "amount", "\"10001\"", "permit2_amount_mismatch",
          "invalid_upto_evm_payload_settlement_exceeds_amount" },
        { "v1_eip3009", TERMS "maxAmountRequired", "\"10001\"",
          "invalid_exact_evm_payload_authorization_value", SAME },
        { "v1_eip3009", TERMS "network", "\"base\"", "invalid_exact_evm_network_mismatch", SAME },
        { "v1_eip3009", TERMS "network", "\"eip155:84532\"", "invalid_network", SAME },
        { "v1_eip3009", "/x402Version", "2", "invalid_x402_version", SAME },
        { "v2_eip3009", "/paymentRequirements", "[]", "invalid_payment_requirements", SAME },
        { "v2_eip3009", "/paymentPayload/payload", "{}", "unsupported_payload_type", SAME },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *body CLEANUP_JSON = body_of(rows[i].name);
        struct judgement v CLEANUP(judgement_fini), s CLEANUP(judgement_fini);
        fixture_set(body, rows[i].pointer, json_loads(rows[i].json, JSON_DECODE_ANY, NULL));
        judge_body(body, false, FIXTURE_TIME, &v);
        judge_body(body, true, FIXTURE_TIME, &s);
        assert_string_equal(v.reason ? v.reason : "", rows[i].verify);
        assert_string_equal(s.reason ? s.reason : "",
                            rows[i].settle ? rows[i].settle : rows[i].verify);
    }
}

static void upto_settles_any_amount_below_the_ceiling(void **state)
{
    (void)state;
    json_t *body CLEANUP_JSON = body_of("v2_upto");
    struct judgement j CLEANUP(judgement_fini);
    struct u256 want = u256_from_u64(700);
    fixture_set(body, TERMS "amount", json_string("700"));
    judge_body(body, true, FIXTURE_TIME, &j);
    assert_null(j.reason);
    assert_int_equal(u256_compare(&j.charge, &want), 0);
}

static void windows(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t offset;
        const char *reason;
    } rows[] = {
        { "v2_eip3009", 114, NULL },
        { "v2_eip3009", 115, "invalid_exact_evm_payload_authorization_valid_before" },
        { "v1_eip3009", -600, NULL },
        { "v1_eip3009", -601, "invalid_exact_evm_payload_authorization_valid_after" },
        { "v2_permit2", 114, NULL },
        { "v2_permit2", 115, "permit2_deadline_expired" },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *body CLEANUP_JSON = body_of(rows[i].name);
        struct judgement j CLEANUP(judgement_fini);
        judge_body(body, false, FIXTURE_TIME + rows[i].offset, &j);
        assert_string_equal(j.reason ? j.reason : "", rows[i].reason ? rows[i].reason : "");
    }
}

static void bodies_that_are_none(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "{}", "[]", "{\"x402Version\":2}",
                                         "{\"x402Version\":2,\"x402Version\":2}" };
    struct evm_address facilitator = { { 0 } };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct judgement j CLEANUP(judgement_fini);
        judge(texts[i], strlen(texts[i]), true, 0, &facilitator, NULL, &j);
        assert_non_null(j.reason);
        assert_string_equal(j.key, "");
    }
}

/* One nonce, one transfer: exact and upto share Permit2's, v1 and v2 share EIP-3009's. */
static void the_book_moves_once_per_nonce(void **state)
{
    (void)state;
    struct u256 credit = u256_from_u64(15000);
    struct book *b CLEANUP(book_closep) = NULL;
    assert_int_equal(book_open("", &credit, &b, NULL), ERR_OK);
    json_t *body CLEANUP_JSON = body_of("v2_eip3009");
    struct judgement j CLEANUP(judgement_fini);
    char tx[BOOK_TX_TEXT];
    const char *reason;
    judge_body(body, true, FIXTURE_TIME, &j);
    assert_int_equal(book_move(b, &j, 1, true, "", tx, &reason, NULL), ERR_OK); /* dry */
    assert_null(reason);
    assert_string_equal(tx, "");
    assert_int_equal(book_move(b, &j, 1, false, "{}", tx, &reason, NULL), ERR_OK);
    assert_null(reason);
    assert_int_equal(strlen(tx), 66);
    assert_int_equal(book_move(b, &j, 1, false, "{}", tx, &reason, NULL), ERR_OK);
    assert_string_equal(reason, "invalid_exact_evm_nonce_already_used");
    json_t *other CLEANUP_JSON = body_of("v2_permit2");
    struct judgement k CLEANUP(judgement_fini);
    judge_body(other, true, FIXTURE_TIME, &k);
    assert_int_equal(book_move(b, &k, 1, false, "{}", tx, &reason, NULL), ERR_OK);
    assert_string_equal(reason, "permit2_insufficient_balance"); /* 5000 are left */
    struct book_transfer found;
    assert_int_equal(book_find(b, k.key, &found, NULL), ERR_OK);
    assert_false(found.found);
}

static void scripts(void **state)
{
    (void)state;
    struct script s CLEANUP(script_fini) = { 0 };
    static const char text[] = "{\"settle\":[{\"mode\":\"reset\"},{\"mode\":\"refuse\",\"reason\":"
                               "\"x\"}],\"verify\":{\"mode\":\"delay\",\"ms\":5}}";
    struct err err;
    assert_int_equal(script_next(&s, SCRIPT_SETTLE).mode->reply, REPLY_HONEST);
    assert_int_equal(script_set(&s, text, strlen(text), &err), ERR_OK);
    assert_int_equal(script_next(&s, SCRIPT_SETTLE).mode->reply, REPLY_RESET);
    assert_string_equal(script_next(&s, SCRIPT_SETTLE).reason, "x");
    assert_int_equal(script_next(&s, SCRIPT_SETTLE).mode->reply, REPLY_HONEST);
    for (int i = 0; i < 3; i++)
        assert_int_equal(script_next(&s, SCRIPT_VERIFY).ms, 5);
    assert_int_equal(script_set(&s, "{\"settle\":{\"mode\":\"no\"}}", 25, &err), ERR_INVALID);
    assert_int_equal(script_next(&s, SCRIPT_VERIFY).ms, 5); /* the old one stays */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(official_payments_are_fine),
        cmocka_unit_test(mutants_have_the_specified_reason),
        cmocka_unit_test(upto_settles_any_amount_below_the_ceiling),
        cmocka_unit_test(windows),
        cmocka_unit_test(bodies_that_are_none),
        cmocka_unit_test(the_book_moves_once_per_nonce),
        cmocka_unit_test(scripts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
