/* What a settle or verify answer can mean: every known reason and 100 random strings × {first,
 * later} × {moved, not moved}. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/own.h"
#include "gate/settle_outcome.h"
#include "tests/gate/reasons.h"

#define PAYER "0x857b06519e91e3a54538791bdbb0e22373e36b66"
#define OK_BODY                                                                                    \
    "{\"success\":true,\"transaction\":\"0xab\",\"network\":\"eip155:84532\",\"payer\":\"" PAYER   \
    "\"}"

static const struct settle_asked first = {
    .network = "eip155:84532",
    .network2 = "base-sepolia",
    .payer = PAYER,
    .amount = "10000",
    .first_send = true,
    .delivered_once = true,
};

static struct settle_outcome read_with(const struct settle_asked *asked, int status,
                                       const char *body)
{
    struct facilitator_reply reply = { FACILITATOR_ANSWERED, status, body, strlen(body) };
    struct settle_outcome out;
    settle_outcome_read(asked, &reply, &out);
    return out;
}

static enum settle_verdict refusal(const struct settle_asked *asked, int status, const char *reason,
                                   const char *tx)
{
    char *body CLEANUP_FREE = xasprintf("{\"success\":false,\"errorReason\":\"%s\",\"transaction\":"
                                        "\"%s\",\"network\":\"eip155:84532\"}",
                                        reason, tx);
    return read_with(asked, status, body).verdict;
}

/* Written down apart from the code under test: families that cannot follow a transfer. All others
 * must stay unknown. */
static bool harmless(const char *reason)
{
    static const char *const after[] = {
        "nonce",         "simulation",   "transaction_failed",
        "timed_out",     "time",         "expired",
        "pending",       "duplicate",    "unexpected",
        "state",         "event",        "tx_",
        "broadcast",     "valid_after",  "valid_before",
        "early",         "not_yet",      "exceeded",
        "deploy",        "eip2612",      "2612",
        "erc20",         "batch",        "unauthorized",
        "svm",           "smart_wallet", "factory",
        "not_supported", "token_name",   "token_version",
        "asset_",        "extension",    "svm",
        "example",
    };
    for (size_t i = 0; i < ARRAY_LEN(after); i++) {
        if (strstr(reason, after[i]) &&
            strcmp(reason, "invalid_upto_evm_payload_settlement_exceeds_amount"))
            return false;
    }
    return true;
}

/* `moved` is what really happened at the facilitator: no answer may be read as refused when it is
 * possible with a transfer. */
static void check_reason(const char *reason)
{
    for (int later = 0; later < 2; later++) {
        for (int moved = 0; moved < 2; moved++) {
            struct settle_asked asked = first;
            asked.first_send = !later;
            for (int status = 200; status <= 500; status += 100) {
                enum settle_verdict plain = refusal(&asked, status, reason, "");
                enum settle_verdict with_tx = refusal(&asked, status, reason, "0xab");
                assert_int_equal(with_tx, SETTLE_UNKNOWN);
                if (later || status == 500 || status == 300)
                    assert_int_equal(plain, SETTLE_UNKNOWN);
                if (moved && !harmless(reason))
                    assert_int_equal(plain, SETTLE_UNKNOWN);
                assert_int_not_equal(plain, SETTLE_SETTLED);
            }
        }
    }
}

static void every_known_reason(void **unused)
{
    (void)unused;
    size_t refused = 0;
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        check_reason(reasons[i]);
        refused += refusal(&first, 200, reasons[i], "") == SETTLE_REFUSED;
    }
    assert_true(ARRAY_LEN(reasons) > 90);
    assert_true(refused > 25); /* the table can refuse at all */
}

static void every_listed_refusal_is_harmless(void **unused)
{
    (void)unused;
    for (const char *const *r = settle_refusals; *r; r++) {
        assert_true(harmless(*r));
        assert_false(facilitator_reason_nonce_used(*r));
        assert_int_equal(refusal(&first, 200, *r, ""), SETTLE_REFUSED);
        assert_int_equal(refusal(&first, 400, *r, ""), SETTLE_REFUSED);
        assert_int_equal(refusal(&first, 412, *r, ""), SETTLE_REFUSED);
        struct settle_asked twice = first;
        twice.delivered_once = false;
        assert_int_equal(refusal(&twice, 200, *r, ""), SETTLE_UNKNOWN);
    }
}

static void random_reasons(void **unused)
{
    (void)unused;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    for (int i = 0; i < 100; i++) {
        char reason[24];
        int n = 1 + rand_r(&seed) % 20;
        for (int k = 0; k < n; k++)
            reason[k] = "abcdefghijklmnopqrstuvwxyz_0123456789"[rand_r(&seed) % 37];
        reason[n] = '\0';
        struct settle_asked later = first;
        later.first_send = false;
        assert_int_equal(refusal(&first, 200, reason, ""), SETTLE_UNKNOWN);
        assert_int_equal(refusal(&later, 200, reason, ""), SETTLE_UNKNOWN);
    }
}

/* A9: a facilitator that lies or is broken. None of these is settled, none is refused. */
static void lies_are_unknown(void **unused)
{
    (void)unused;
    static const char *const bodies[] = {
        "{\"success\":\"true\",\"transaction\":\"0xab\",\"network\":\"eip155:84532\"}",
        "{\"success\":1,\"transaction\":\"0xab\",\"network\":\"eip155:84532\"}",
        "{\"success\":true,\"transaction\":\"\",\"network\":\"eip155:84532\"}",
        "{\"success\":true,\"network\":\"eip155:84532\"}",
        "{\"success\":true,\"transaction\":7,\"network\":\"eip155:84532\"}",
        "{\"success\":true,\"transaction\":\"0xab\"}",
        "{\"success\":true,\"transaction\":\"0xab\",\"network\":\"eip155:8453\"}",
        "{\"success\":true,\"transaction\":\"0xab\",\"network\":\"eip155:84532\",\"payer\":"
        "\"0x0000000000000000000000000000000000000000\"}",
        "{\"success\":true,\"transaction\":\"0xab\",\"network\":\"eip155:84532\",\"amount\":"
        "\"10001\"}",
        "{\"success\":true,\"transaction\":\"0xab\",\"network\":\"eip155:84532\",\"amount\":"
        "\"010\"}",
        "{\"success\":true,\"transaction\":\"0xab\\r\\nX: y\",\"network\":\"eip155:84532\"}",
        "{\"success\":true,\"success\":false,\"transaction\":\"0xab\",\"network\":\"eip155:"
        "84532\"}",
        "{\"success\":true,\"transaction\":\"0xab\",\"network\":\"eip155:84532\"} x",
        "[true]",
        "true",
        "{}",
        "",
        "<html>ok</html>",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
        assert_int_equal(read_with(&first, 200, bodies[i]).verdict, SETTLE_UNKNOWN);
    assert_int_equal(read_with(&first, 500, OK_BODY).verdict, SETTLE_UNKNOWN);
    assert_int_equal(read_with(&first, 302, OK_BODY).verdict, SETTLE_UNKNOWN);
    assert_true(read_with(&first, 200, bodies[2]).lied);
    assert_true(read_with(&first, 200, bodies[6]).lied);
}

static void successes(void **unused)
{
    (void)unused;
    struct settle_outcome out = read_with(&first, 200, OK_BODY);
    assert_int_equal(out.verdict, SETTLE_SETTLED);
    assert_string_equal(out.transaction, "0xab");
    static const char v1[] =
        "{\"success\":true,\"transaction\":\"0xab\",\"network\":\"base-sepolia\",\"payer\":null,"
        "\"errorReason\":null,\"amount\":\"9999\"}";
    assert_int_equal(read_with(&first, 201, v1).verdict, SETTLE_SETTLED);
    struct settle_asked zero = first;
    zero.empty_transaction = true;
    static const char none[] =
        "{\"success\":true,\"transaction\":\"\",\"network\":\"eip155:84532\"}";
    assert_int_equal(read_with(&zero, 200, none).verdict, SETTLE_SETTLED);
}

static void transport_is_unknown(void **unused)
{
    (void)unused;
    static const enum facilitator_transport all[] = { FACILITATOR_NOT_SENT, FACILITATOR_LOST,
                                                      FACILITATOR_TIMED_OUT };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct facilitator_reply reply = { all[i], 200, OK_BODY, strlen(OK_BODY) };
        struct settle_outcome out;
        settle_outcome_read(&first, &reply, &out);
        assert_int_equal(out.verdict, SETTLE_UNKNOWN);
        struct verify_outcome verify;
        verify_outcome_read(PAYER, &reply, &verify);
        assert_int_equal(verify.verdict, VERIFY_UNAVAILABLE);
    }
}

static void pending_and_operators(void **unused)
{
    (void)unused;
    static const char pending[] =
        "{\"success\":false,\"errorReason\":\"settlement_pending\",\"transaction\":\"0xcd\"}";
    struct settle_outcome out = read_with(&first, 500, pending);
    assert_true(out.pending);
    assert_string_equal(out.transaction, "0xcd");
    assert_true(read_with(&first, 401, "no").operators);
    assert_true(
        read_with(&first, 403, "{\"success\":false,\"errorReason\":\"invalid_scheme\"}").operators);
    assert_int_equal(
        read_with(&first, 403, "{\"success\":false,\"errorReason\":\"invalid_scheme\"}").verdict,
        SETTLE_UNKNOWN);
    assert_true(read_with(&first, 422, "{\"error\":\"x\"}").operators);
    assert_false(read_with(&first, 429, "slow").operators);
    assert_false(read_with(&first, 500, "oops").operators);
}

static enum verify_verdict verify_with(int status, const char *body)
{
    struct facilitator_reply reply = { FACILITATOR_ANSWERED, status, body, strlen(body) };
    struct verify_outcome out;
    verify_outcome_read(PAYER, &reply, &out);
    for (const char *p = out.reason; *p; p++)
        assert_true(
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-", *p));
    return out.verdict;
}

/* A10, B18: faults of verify are 503, and no text of the facilitator gets out. */
static void verify_table(void **unused)
{
    (void)unused;
    static const char no[] =
        "{\"isValid\":false,\"invalidReason\":\"invalid_exact_evm_signature\"}";
    static const char allowance[] =
        "{\"isValid\":false,\"invalidReason\":\"permit2_allowance_required\"}";
    static const char crlf[] = "{\"isValid\":false,\"invalidReason\":\"a\\r\\nset-cookie: x\"}";
    assert_int_equal(verify_with(200, "{\"isValid\":true,\"payer\":\"" PAYER "\"}"), VERIFY_VALID);
    assert_int_equal(verify_with(200, "{\"isValid\":true,\"payer\":null}"), VERIFY_VALID);
    assert_int_equal(verify_with(200, "{\"isValid\":true,\"payer\":\"0x01\"}"), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(400, "{\"isValid\":true}"), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(200, "{\"isValid\":\"true\"}"), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(200, "{}"), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(200, "<html>"), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(500, no), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(429, no), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(302, no), VERIFY_UNAVAILABLE);
    assert_int_equal(verify_with(401, no), VERIFY_OPERATORS);
    assert_int_equal(verify_with(404, "not here"), VERIFY_OPERATORS);
    assert_int_equal(verify_with(200, no), VERIFY_INVALID);
    assert_int_equal(verify_with(400, no), VERIFY_INVALID);
    assert_int_equal(verify_with(412, allowance), VERIFY_ALLOWANCE);
    assert_int_equal(verify_with(200, crlf), VERIFY_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_known_reason),
        cmocka_unit_test(every_listed_refusal_is_harmless),
        cmocka_unit_test(random_reasons),
        cmocka_unit_test(lies_are_unknown),
        cmocka_unit_test(successes),
        cmocka_unit_test(transport_is_unknown),
        cmocka_unit_test(pending_and_operators),
        cmocka_unit_test(verify_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
