/* EIP-3009 and Permit2 authorizations as the official clients make them. */
#include "gate/pay/authorization.h"

#include <openssl/rand.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/eip712.h"
#include "gate/evm_signature.h"
#include "gate/payment.h"

#define BACKDATE_S 600 /* as the official clients: clocks differ */

/* One signed authorization, whichever contract takes it. */
struct authorization {
    struct evm_address from;
    struct u256 after, before;
    uint8_t nonce[32];
    uint8_t digest[32];
};

static struct u256 backdated(int64_t now)
{
    return u256_from_u64(now > BACKDATE_S ? (uint64_t)now - BACKDATE_S : 0);
}

static void digest_transfer(const struct offer *o, struct authorization *a)
{
    struct eip712_domain domain = {
        .name = o->domain_name,
        .version = o->domain_version,
        .chain_id = o->chain_id,
        .contract = o->asset_address,
    };
    struct eip712_transfer t = {
        .from = a->from,
        .to = o->pay_to_address,
        .value = o->amount,
        .valid_after = a->after,
        .valid_before = a->before,
    };
    memcpy(t.nonce, a->nonce, sizeof(t.nonce));
    eip712_transfer_digest(&domain, &t, a->digest);
}

static json_t *transfer_json(const struct offer *o, const struct authorization *a)
{
    char from[EVM_ADDRESS_TEXT], to[EVM_ADDRESS_TEXT], value[U256_TEXT_MAX], after[U256_TEXT_MAX],
        before[U256_TEXT_MAX], nonce[65];
    text_hex(a->nonce, 32, nonce);
    char *hex CLEANUP_FREE = xasprintf("0x%s", nonce);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "from", evm_address_text(&a->from, from),
                     "to", evm_address_text(&o->pay_to_address, to), "value",
                     u256_text(&o->amount, value), "validAfter", u256_text(&a->after, after),
                     "validBefore", u256_text(&a->before, before), "nonce", hex);
}

static const char *spender_of(const struct offer *o)
{
    return o->kind == PAY_UPTO ? PERMIT2_UPTO_PROXY : PERMIT2_EXACT_PROXY;
}

static enum err_kind digest_permit(const struct purchase *p, struct authorization *a,
                                   struct err *err)
{
    const struct offer *o = &p->offer;
    struct eip712_permit permit = {
        .token = o->asset_address,
        .amount = o->amount,
        .nonce = u256_from_be(a->nonce),
        .deadline = a->before,
        .to = o->pay_to_address,
        .facilitator = p->facilitator,
        .valid_after = a->after,
        .upto = o->kind == PAY_UPTO,
    };
    if (!evm_address_parse(spender_of(o), &permit.spender))
        return err_set(err, ERR_INTERNAL, "the proxy's address");
    eip712_permit_digest(o->chain_id, &permit, a->digest);
    return ERR_OK;
}

static json_t *permit_json(const struct purchase *p, const struct authorization *a)
{
    const struct offer *o = &p->offer;
    char from[EVM_ADDRESS_TEXT], to[EVM_ADDRESS_TEXT], token[EVM_ADDRESS_TEXT],
        facilitator[EVM_ADDRESS_TEXT];
    char amount[U256_TEXT_MAX], nonce[U256_TEXT_MAX], before[U256_TEXT_MAX], after[U256_TEXT_MAX];
    struct u256 n = u256_from_be(a->nonce);
    json_t *witness = json_pack("{s:s, s:s}", "to", evm_address_text(&o->pay_to_address, to),
                                "validAfter", u256_text(&a->after, after));
    if (o->kind == PAY_UPTO)
        json_object_set_new(witness, "facilitator",
                            json_string(evm_address_text(&p->facilitator, facilitator)));
    return json_pack("{s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:o}", "permitted", "token",
                     evm_address_text(&o->asset_address, token), "amount",
                     u256_text(&o->amount, amount), "from", evm_address_text(&a->from, from),
                     "spender", spender_of(o), "nonce", u256_text(&n, nonce), "deadline",
                     u256_text(&a->before, before), "witness", witness);
}

enum err_kind authorization_sign(struct purchase *p, const uint8_t secret[32], int64_t now,
                                 json_t **out, struct err *err)
{
    const struct offer *o = &p->offer;
    bool transfer = o->kind == PAY_EIP3009;
    struct authorization a = {
        .after = transfer && p->version == 2 ? u256_from_u64(0) : backdated(now),
        .before = u256_from_u64((uint64_t)now + o->max_timeout_s),
    };
    uint8_t sig[EVM_SIGNATURE_LEN];
    char hex[2 * EVM_SIGNATURE_LEN + 1];
    if (RAND_bytes(a.nonce, sizeof(a.nonce)) != 1)
        return err_set(err, ERR_INTERNAL, "no randomness for a nonce");
    if (evm_secret_address(secret, &a.from, err))
        return err->kind;
    if (transfer)
        digest_transfer(o, &a);
    else if (digest_permit(p, &a, err))
        return err->kind;
    if (evm_sign(a.digest, secret, sig, err))
        return err->kind;
    text_hex(sig, sizeof(sig), hex);
    evm_address_text(&a.from, p->payer);
    char *signature CLEANUP_FREE = xasprintf("0x%s", hex);
    *out = transfer ? json_pack("{s:s, s:o}", "signature", signature, "authorization",
                                transfer_json(o, &a))
                    : json_pack("{s:s, s:o}", "signature", signature, "permit2Authorization",
                                permit_json(p, &a));
    return ERR_OK;
}
