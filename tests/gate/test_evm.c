/* Keccak-256, EIP-55, EIP-712 and secp256k1 against published vectors. */
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "gate/eip712.h"
#include "gate/evm_signature.h"
#include "gate/keccak.h"
#include "tests/test.h"

static void expect_hex(const uint8_t *got, size_t len, const char *want)
{
    char hex[256];
    text_hex(got, len, hex);
    assert_string_equal(hex, want);
}

static void keccak_vectors(void **state)
{
    (void)state;
    uint8_t out[32], long_text[300];
    keccak256("", 0, out);
    expect_hex(out, 32, "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
    keccak256("abc", 3, out);
    expect_hex(out, 32, "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
    const char *type = "TransferWithAuthorization(address from,address to,uint256 value,uint256 "
                       "validAfter,uint256 validBefore,bytes32 nonce)";
    keccak256(type, strlen(type), out); /* the constant of EIP-3009 */
    expect_hex(out, 32, "7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267");
    memset(long_text, 0, sizeof(long_text));
    keccak256(long_text, 135, out); /* both padding bits in one byte */
    uint8_t full[32];
    keccak256(long_text, 136, full); /* a block of padding alone */
    assert_memory_not_equal(out, full, 32);
}

static void eip55_vectors(void **state)
{
    (void)state;
    static const char *const right[] = {
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
        "0x52908400098527886E0F7030069857D2E4169EE7", "0xde709f2102306220921060314715629080e2fb77",
    };
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        struct evm_address a;
        char text[EVM_ADDRESS_TEXT];
        assert_true(evm_address_parse_checked(right[i], &a));
        assert_string_equal(evm_address_text(&a, text), right[i]);
    }
    struct evm_address a;
    assert_false(evm_address_parse_checked("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", &a));
    assert_true(evm_address_parse("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", &a));
    assert_true(evm_address_parse_checked("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", &a));
    assert_false(evm_address_parse("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", &a));
    assert_false(evm_address_parse("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", &a));
    assert_false(evm_address_parse("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAedd", &a));
    assert_false(evm_address_parse("0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", &a));
}

/* The example of EIP-712 itself: Mail from Cow to Bob, key keccak256("cow"). */
static void eip712_mail(void **state)
{
    (void)state;
    struct eip712_domain domain = { .name = "Ether Mail", .version = "1", .chain_id = 1 };
    uint8_t separator[32], struct_hash[32], digest[32], secret[32], sig[65];
    struct evm_address cow, signer;
    char text[EVM_ADDRESS_TEXT];
    assert_true(evm_address_parse("0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC", &domain.contract));
    eip712_domain_separator(&domain, separator);
    expect_hex(separator, 32, "f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f");
    assert_true(text_unhex("c52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e",
                           struct_hash, 32));
    eip712_digest(separator, struct_hash, digest);
    expect_hex(digest, 32, "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2");
    keccak256("cow", 3, secret);
    assert_int_equal(evm_secret_address(secret, &cow, NULL), ERR_OK);
    assert_string_equal(evm_address_text(&cow, text), "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826");
    assert_int_equal(evm_sign(digest, secret, sig, NULL), ERR_OK);
    expect_hex(sig, 65,
               "4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d"
               "07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b91562"
               "1c");
    assert_int_equal(evm_recover(digest, sig, 65, &signer, NULL), ERR_OK);
    assert_true(evm_address_equal(&signer, &cow));
}

static void v_forms(void **state)
{
    (void)state;
    uint8_t secret[32], digest[32], sig[65];
    struct evm_address want, got;
    keccak256("cow", 3, secret);
    keccak256("x", 1, digest);
    assert_int_equal(evm_secret_address(secret, &want, NULL), ERR_OK);
    assert_int_equal(evm_sign(digest, secret, sig, NULL), ERR_OK);
    uint8_t v = sig[64];
    for (unsigned i = 0; i < 256; i++) {
        sig[64] = (uint8_t)i;
        bool taken = !evm_recover(digest, sig, 65, &got, NULL) && evm_address_equal(&got, &want);
        assert_int_equal(taken, i == v || i == (unsigned)v - 27);
    }
}

/* (r, n-s, v^1) recovers to the same key: the second text of one payment is refused. */
static void high_s_refused(void **state)
{
    (void)state;
    static const uint8_t order[32] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                       0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
                                       0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b,
                                       0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41 };
    uint8_t secret[32], digest[32], sig[65];
    struct evm_address got;
    struct err err;
    keccak256("cow", 3, secret);
    keccak256("x", 1, digest);
    assert_int_equal(evm_sign(digest, secret, sig, NULL), ERR_OK);
    struct u256 n = u256_from_be(order), s = u256_from_be(sig + 32), mirror;
    assert_true(u256_sub(&n, &s, &mirror));
    u256_to_be(&mirror, sig + 32);
    sig[64] = sig[64] == 27 ? 28 : 27;
    assert_int_equal(evm_recover(digest, sig, 65, &got, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "upper half"));
}

static void malformed_signatures(void **state)
{
    (void)state;
    uint8_t digest[32] = { 1 }, sig[66] = { 0 };
    struct evm_address got;
    struct err err;
    assert_int_equal(evm_recover(digest, sig, 64, &got, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "64 bytes"));
    assert_int_equal(evm_recover(digest, sig, 66, &got, &err), ERR_INVALID);
    assert_int_equal(evm_recover(digest, sig, 65, &got, &err), ERR_INVALID); /* r = s = 0 */
    memset(sig, 0xff, 64);
    assert_int_equal(evm_recover(digest, sig, 65, &got, &err), ERR_INVALID); /* beyond the order */
    uint8_t zero[32] = { 0 };
    assert_int_equal(evm_sign(digest, zero, sig, &err), ERR_INVALID);
    memset(zero, 0xff, 32);
    assert_int_equal(evm_secret_address(zero, &got, &err), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keccak_vectors), cmocka_unit_test(eip55_vectors),
        cmocka_unit_test(eip712_mail),    cmocka_unit_test(v_forms),
        cmocka_unit_test(high_s_refused), cmocka_unit_test(malformed_signatures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
