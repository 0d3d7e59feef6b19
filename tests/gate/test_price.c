/* u256 text, prices and the token tables. */
#include <string.h>

#include "base/own.h"
#include "gate/evm_signature.h"
#include "gate/price.h"
#include "gate/tokens.h"
#include "tests/test.h"

static void u256_texts(void **state)
{
    (void)state;
    static const char *const good[] = {
        "0",
        "1",
        "10",
        "18446744073709551615",
        "18446744073709551616",
        "115792089237316195423570985008687907853269984665640564039457584007913129639935"
    };
    static const char *const bad[] = {
        "",
        "00",
        "01",
        "+1",
        "-1",
        " 1",
        "1 ",
        "0x1",
        "1e3",
        "1.0",
        "١",
        "1_000",
        "115792089237316195423570985008687907853269984665640564039457584007913129639936",
        "999999999999999999999999999999999999999999999999999999999999999999999999999999",
        "1000000000000000000000000000000000000000000000000000000000000000000000000000000"
    };
    struct u256 v;
    char text[U256_TEXT_MAX];
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(u256_parse(good[i], &v));
        assert_string_equal(u256_text(&v, text), good[i]);
        uint8_t be[32];
        u256_to_be(&v, be);
        struct u256 back = u256_from_be(be);
        assert_int_equal(u256_compare(&v, &back), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(u256_parse(bad[i], &v));
}

static void u256_arithmetic(void **state)
{
    (void)state;
    struct u256 max, one = u256_from_u64(1), out;
    assert_true(u256_parse(
        "115792089237316195423570985008687907853269984665640564039457584007913129639935", &max));
    assert_false(u256_add(&max, &one, &out));
    assert_true(u256_sub(&max, &one, &out));
    assert_true(u256_compare(&out, &max) < 0);
    assert_true(u256_add(&out, &one, &out));
    assert_int_equal(u256_compare(&out, &max), 0);
    struct u256 zero = { 0 };
    assert_false(u256_sub(&zero, &one, &out));
    assert_true(u256_to_u64_saturated(&max) == UINT64_MAX);
    assert_true(u256_to_u64_saturated(&one) == 1);
}

static void prices_to_atomic(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned decimals;
        const char *atomic; /* NULL: refused */
    } rows[] = {
        { "0.01", 6, "10000" },
        { "$0.001", 6, "1000" },
        { "2", 6, "2000000" },
        { "2", 0, "2" },
        { "0.000001", 6, "1" },
        { "0.1", 18, "100000000000000000" },
        { "1234567.891", 3, "1234567891" },
        { "0.0000001", 6, NULL },
        { "0.1", 0, NULL },
        { "0", 6, NULL },
        { "0.00", 6, NULL },
        { "", 6, NULL },
        { "$", 6, NULL },
        { ".5", 6, NULL },
        { "5.", 6, NULL },
        { "01", 6, NULL },
        { "-1", 6, NULL },
        { "+1", 6, NULL },
        { "1e3", 6, NULL },
        { "0x10", 6, NULL },
        { " 1", 6, NULL },
        { "1 ", 6, NULL },
        { "1.2.3", 6, NULL },
        { "1,5", 6, NULL },
        { "NaN", 6, NULL },
        { "1e30", 6, NULL },
        { "999999999999999999999999999999999999999999999999999999999999999999999999999999", 6,
          NULL },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct u256 v;
        struct err err;
        char text[U256_TEXT_MAX];
        enum err_kind kind = price_to_atomic(rows[i].text, rows[i].decimals, &v, &err);
        assert_int_equal(kind, rows[i].atomic ? ERR_OK : ERR_INVALID);
        if (rows[i].atomic)
            assert_string_equal(u256_text(&v, text), rows[i].atomic);
    }
}

static void prices_from_atomic(void **state)
{
    (void)state;
    static const struct {
        const char *atomic;
        unsigned decimals;
        const char *text;
    } rows[] = {
        { "10000", 6, "0.01" },
        { "1000000", 6, "1" },
        { "1", 6, "0.000001" },
        { "1500000", 6, "1.5" },
        { "100", 0, "100" },
        { "999999", 6, "0.999999" },
        { "0", 6, "0" },
        { "123", 2, "1.23" },
        { "1", 36, "0.000000000000000000000000000000000001" },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct u256 v;
        char out[PRICE_TEXT_MAX];
        assert_true(u256_parse(rows[i].atomic, &v));
        assert_string_equal(price_from_atomic(&v, rows[i].decimals, out), rows[i].text);
    }
}

static void tables(void **state)
{
    (void)state;
    struct evm_address a;
    assert_string_equal(network_by_v1("base")->caip2, "eip155:8453");
    assert_string_equal(network_by_caip2("eip155:84532")->v1, "base-sepolia");
    assert_null(network_by_caip2("EIP155:84532"));
    assert_null(network_by_v1("Base"));
    assert_string_equal(token_by_symbol("eip155:8453", "USDC")->name, "USD Coin");
    assert_string_equal(token_by_symbol("eip155:84532", "USDC")->name, "USDC");
    assert_non_null(token_by_address("eip155:84532", "0x036cbd53842c5426634e7929541ec2318f3dcf7e"));
    assert_null(token_by_address("eip155:8453", "0x036cbd53842c5426634e7929541ec2318f3dcf7e"));
    static const char *const chains[] = { "eip155:8453",  "eip155:84532", "eip155:1",
                                          "eip155:43114", "eip155:43113", "eip155:137",
                                          "eip155:80002", "eip155:42161", "eip155:421614",
                                          "eip155:42220", "eip155:143",   "eip155:1329",
                                          "eip155:1328" };
    for (size_t i = 0; i < ARRAY_LEN(chains); i++)
        assert_true(evm_address_parse_checked(token_by_symbol(chains[i], "USDC")->address, &a));
}

static void caip2_forms(void **state)
{
    (void)state;
    assert_true(caip2_valid("eip155:1"));
    assert_true(caip2_valid("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"));
    assert_false(caip2_valid("eip155"));
    assert_false(caip2_valid("eip155:"));
    assert_false(caip2_valid("EIP155:1"));
    assert_false(caip2_valid("ab:1"));
    assert_false(caip2_valid("eip155:1 "));
    assert_true(caip2_chain_id("eip155:8453") == 8453);
    assert_true(caip2_chain_id("eip155:08453") == 0);
    assert_true(caip2_chain_id("eip155:0") == 0);
    assert_true(caip2_chain_id("eip155:99999999999999999999") == 0);
    assert_true(caip2_chain_id("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u256_texts),       cmocka_unit_test(u256_arithmetic),
        cmocka_unit_test(prices_to_atomic), cmocka_unit_test(prices_from_atomic),
        cmocka_unit_test(tables),           cmocka_unit_test(caip2_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
