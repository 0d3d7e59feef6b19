#include "gate/evm_signature.h"

#include <openssl/crypto.h>
#include <secp256k1.h>
#include <secp256k1_recovery.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "gate/keccak.h"

bool evm_address_parse(const char *text, struct evm_address *out)
{
    struct evm_address a;
    if (strnlen(text, EVM_ADDRESS_TEXT) != EVM_ADDRESS_TEXT - 1 || text[0] != '0' ||
        text[1] != 'x' || !text_unhex(text + 2, a.b, sizeof(a.b)))
        return false;
    *out = a;
    return true;
}

const char *evm_address_lower(const struct evm_address *a, char *out)
{
    out[0] = '0';
    out[1] = 'x';
    text_hex(a->b, sizeof(a->b), out + 2);
    return out;
}

const char *evm_address_text(const struct evm_address *a, char *out)
{
    uint8_t hash[KECCAK_LEN];
    evm_address_lower(a, out);
    keccak256(out + 2, 40, hash);
    for (size_t i = 0; i < 40; i++) {
        unsigned nibble = i % 2 ? hash[i / 2] & 15u : hash[i / 2] >> 4;
        if (nibble >= 8 && out[2 + i] >= 'a')
            out[2 + i] = (char)(out[2 + i] - 'a' + 'A');
    }
    return out;
}

bool evm_address_parse_checked(const char *text, struct evm_address *out)
{
    struct evm_address a;
    if (!evm_address_parse(text, &a))
        return false;
    bool lower = strpbrk(text + 2, "abcdef"), upper = strpbrk(text + 2, "ABCDEF");
    char right[EVM_ADDRESS_TEXT];
    if (lower && upper && strcmp(evm_address_text(&a, right), text) != 0)
        return false;
    *out = a;
    return true;
}

bool evm_address_equal(const struct evm_address *a, const struct evm_address *b)
{
    return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

bool evm_address_is_zero(const struct evm_address *a)
{
    static const struct evm_address zero;
    return evm_address_equal(a, &zero);
}

static void address_of_key(const secp256k1_pubkey *key, struct evm_address *out)
{
    uint8_t point[65], hash[KECCAK_LEN];
    size_t len = sizeof(point);
    secp256k1_ec_pubkey_serialize(secp256k1_context_static, point, &len, key,
                                  SECP256K1_EC_UNCOMPRESSED);
    keccak256(point + 1, 64, hash);
    memcpy(out->b, hash + 12, sizeof(out->b));
}

/* s > n/2 is the mirror of another valid signature: one payment, two texts. */
static bool high_s(const uint8_t sig[64])
{
    secp256k1_ecdsa_signature plain, low;
    return secp256k1_ecdsa_signature_parse_compact(secp256k1_context_static, &plain, sig) &&
           secp256k1_ecdsa_signature_normalize(secp256k1_context_static, &low, &plain);
}

enum err_kind evm_recover(const uint8_t digest[32], const uint8_t *sig, size_t sig_len,
                          struct evm_address *out, struct err *err)
{
    if (sig_len != EVM_SIGNATURE_LEN)
        return err_set(err, ERR_INVALID, "signature of %zu bytes instead of 65", sig_len);
    uint8_t v = sig[64];
    if (v != 0 && v != 1 && v != 27 && v != 28)
        return err_set(err, ERR_INVALID, "signature v is %u instead of 0, 1, 27 or 28", v);
    if (high_s(sig))
        return err_set(err, ERR_INVALID, "signature s is in the upper half of the order");
    secp256k1_ecdsa_recoverable_signature parsed;
    secp256k1_pubkey key;
    if (!secp256k1_ecdsa_recoverable_signature_parse_compact(secp256k1_context_static, &parsed, sig,
                                                             v >= 27 ? v - 27 : v) ||
        !secp256k1_ecdsa_recover(secp256k1_context_static, &key, &parsed, digest))
        return err_set(err, ERR_INVALID, "signature recovers to no key");
    address_of_key(&key, out);
    return ERR_OK;
}

static void context_free(secp256k1_context **ctx)
{
    if (*ctx)
        secp256k1_context_destroy(*ctx);
}

enum err_kind evm_sign(const uint8_t digest[32], const uint8_t secret[32],
                       uint8_t sig[EVM_SIGNATURE_LEN], struct err *err)
{
    CLEANUP(context_free)
    secp256k1_context *ctx = secp256k1_context_create(SECP256K1_CONTEXT_SIGN);
    secp256k1_ecdsa_recoverable_signature made;
    int recid = 0;
    if (!ctx || !secp256k1_ecdsa_sign_recoverable(ctx, &made, digest, secret, NULL, NULL))
        return err_set(err, ERR_INVALID, "not a secp256k1 private key");
    secp256k1_ecdsa_recoverable_signature_serialize_compact(ctx, sig, &recid, &made);
    OPENSSL_cleanse(&made, sizeof(made));
    sig[64] = (uint8_t)(27 + recid);
    return ERR_OK;
}

enum err_kind evm_secret_address(const uint8_t secret[32], struct evm_address *out, struct err *err)
{
    CLEANUP(context_free)
    secp256k1_context *ctx = secp256k1_context_create(SECP256K1_CONTEXT_SIGN);
    secp256k1_pubkey key;
    if (!ctx || !secp256k1_ec_pubkey_create(ctx, &key, secret))
        return err_set(err, ERR_INVALID, "not a secp256k1 private key");
    address_of_key(&key, out);
    return ERR_OK;
}
