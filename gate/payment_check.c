/* A new payment judged on what was signed: terms, window, signature, extensions. Pure. */
#include <string.h>

#include "base/json.h"
#include "gate/eip712.h"
#include "gate/payment_parts.h"

static enum payment_fault refuse(enum payment_fault f, struct err *why)
{
    err_set(why, ERR_PRECONDITION, "%s", payment_fault_text(f));
    return f;
}

static bool proxy_is(const struct evm_address *spender, const char *proxy)
{
    struct evm_address right;
    return evm_address_parse(proxy, &right) && evm_address_equal(spender, &right);
}

static enum payment_fault check_permit(const struct payment *p, const struct offer *offer)
{
    bool upto = p->kind == PAY_UPTO;
    if (!evm_address_equal(&p->evm.token, &offer->asset_address))
        return PAYMENT_WRONG_TOKEN;
    if (!proxy_is(&p->evm.spender, upto ? PERMIT2_UPTO_PROXY : PERMIT2_EXACT_PROXY))
        return PAYMENT_WRONG_SPENDER;
    if (!upto)
        return PAYMENT_OK;
    const char *known = json_string_value(json_object_get(offer->extra, "facilitatorAddress"));
    struct evm_address right;
    if (!known || !evm_address_parse(known, &right) ||
        !evm_address_equal(&right, &p->evm.facilitator))
        return PAYMENT_WRONG_FACILITATOR;
    return PAYMENT_OK;
}

static enum payment_fault check_terms(const struct payment *p, const struct offer *offer)
{
    if (!evm_address_equal(&p->evm.to, &offer->pay_to_address))
        return PAYMENT_WRONG_RECIPIENT;
    if (u256_compare(&p->evm.value, &offer->amount) != 0)
        return PAYMENT_WRONG_AMOUNT;
    return p->kind == PAY_EIP3009 ? PAYMENT_OK : check_permit(p, offer);
}

/* Wall-clock seconds as u256, so that no window wraps. */
static enum payment_fault check_window(const struct payment *p, const struct offer *offer,
                                       const struct payment_limits *l)
{
    uint64_t now = l->now > 0 ? (uint64_t)l->now : 0;
    struct u256 latest_start = u256_from_u64(now + l->skew_s);
    struct u256 earliest_end = u256_from_u64(now + l->need_s);
    struct u256 latest_end = u256_from_u64(now + offer->max_timeout_s + l->ahead_s);
    if (u256_compare(&p->evm.valid_after, &latest_start) > 0)
        return PAYMENT_NOT_YET_VALID;
    if (u256_compare(&p->evm.valid_before, &earliest_end) < 0)
        return PAYMENT_EXPIRED;
    if (u256_compare(&p->evm.valid_before, &latest_end) > 0)
        return PAYMENT_TOO_FAR;
    return PAYMENT_OK;
}

/* 65 bytes are an account's own signature and judged here; other lengths are a contract wallet's
 * and the facilitator's to judge. */
static enum payment_fault check_signature(struct payment *p, const struct route *route,
                                          struct err *why)
{
    uint8_t digest[32];
    struct evm_address signer;
    p->proof = PAYER_CLAIMED;
    p->to_facilitator = true;
    if (p->evm.signature_len != EVM_SIGNATURE_LEN)
        return PAYMENT_OK;
    payment_evm_digest(p, p->offer, digest);
    if (evm_recover(digest, p->evm.signature, p->evm.signature_len, &signer, why))
        return PAYMENT_BAD_SIGNATURE;
    if (evm_address_equal(&signer, &p->evm.from)) {
        p->proof = PAYER_PROVEN;
        p->to_facilitator = false;
        return PAYMENT_OK;
    }
    return route->contract_wallets ? PAYMENT_OK : refuse(PAYMENT_BAD_SIGNATURE, why);
}

static enum payment_fault check_echo(const struct payment *p, const struct route *route)
{
    const json_t *sent = json_object_get(p->root, "extensions");
    const char *id;
    json_t *declared;
    json_object_foreach(route->extensions, id, declared)
    {
        const json_t *echo = json_object_get(sent, id);
        const json_t *info = json_object_get(declared, "info");
        if (echo && info && !json_is_subset(info, json_object_get(echo, "info")))
            return PAYMENT_ECHO_MISMATCH;
    }
    return PAYMENT_OK;
}

enum payment_fault payment_check(struct payment *p, const struct route *route,
                                 const struct payment_limits *limits, struct err *why)
{
    struct err scratch;
    why = why ? why : &scratch;
    if (!p->offer)
        return refuse(PAYMENT_NO_MATCH, why);
    enum payment_fault f = PAYMENT_OK;
    if (p->kind != PAY_OPAQUE) {
        f = check_terms(p, p->offer);
        if (!f)
            f = check_window(p, p->offer, limits);
        if (!f)
            f = check_signature(p, route, why);
    } else {
        p->proof = PAYER_CLAIMED;
        p->to_facilitator = true;
    }
    if (!f && p->version == 2)
        f = check_echo(p, route);
    if (!f && route->identifier_required && !p->identifier[0])
        f = PAYMENT_NEEDS_IDENTIFIER;
    return f ? refuse(f, why) : PAYMENT_OK;
}
