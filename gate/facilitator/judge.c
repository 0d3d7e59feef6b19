#include "gate/facilitator/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/eip712.h"
#include "gate/payment_parts.h"

#define SETTLE_MARGIN_S 6 /* a chain's block has to fit before validBefore */

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

void judgement_fini(struct judgement *j)
{
    payment_fini(&j->p);
    json_decref(j->body);
    memset(j, 0, sizeof(*j));
}

/* paymentRequirements into an offer: only what the checks need. */
static const char *read_terms(struct judgement *j)
{
    const json_t *r = json_object_get(j->body, "paymentRequirements");
    struct offer *o = &j->terms;
    if (!json_is_object(r))
        return "invalid_payment_requirements";
    o->scheme = text_of(r, "scheme");
    o->network = text_of(r, "network");
    o->asset = text_of(r, "asset");
    o->pay_to = text_of(r, "payTo");
    snprintf(j->network, sizeof(j->network), "%s", o->network);
    const struct network *v1 = network_by_v1(o->network);
    o->chain_id = j->p.version == 2 ? caip2_chain_id(o->network) : v1 ? v1->chain_id : 0;
    if (!o->chain_id)
        return "invalid_network";
    if (!evm_address_parse(o->asset, &o->asset_address) ||
        !evm_address_parse(o->pay_to, &o->pay_to_address) ||
        !u256_parse(text_of(r, j->p.version == 2 ? "amount" : "maxAmountRequired"), &o->amount))
        return "invalid_payment_requirements";
    const json_t *extra = json_object_get(r, "extra");
    o->domain_name = json_string_value(json_object_get(extra, "name"));
    o->domain_version = json_string_value(json_object_get(extra, "version"));
    return NULL;
}

/* The payload's own scheme and network, which must be those of the requirements. */
static const char *read_payload(struct judgement *j, const json_t *payload)
{
    const json_t *at = j->p.version == 2 ? json_object_get(payload, "accepted") : payload;
    const json_t *inner = json_object_get(payload, "payload");
    const char *scheme = text_of(at, "scheme");
    bool exact = strcmp(scheme, "exact") == 0, upto = strcmp(scheme, "upto") == 0;
    if (!exact && !upto)
        return "unsupported_scheme";
    if (strcmp(scheme, j->terms.scheme) != 0)
        return "invalid_scheme";
    if (strcmp(text_of(at, "network"), j->terms.network) != 0)
        return "invalid_exact_evm_network_mismatch";
    if (!json_is_object(inner))
        return "invalid_payload";
    j->p.chain_id = j->terms.chain_id;
    if (exact && json_object_get(inner, "authorization"))
        j->p.kind = PAY_EIP3009;
    else if (exact && j->p.version == 2 && json_object_get(inner, "permit2Authorization"))
        j->p.kind = PAY_PERMIT2;
    else if (upto && j->p.version == 2 && json_object_get(inner, "permit2Authorization"))
        j->p.kind = PAY_UPTO;
    else
        return "unsupported_payload_type";
    return payment_evm_read(&j->p, inner, NULL) ? "invalid_payload" : NULL;
}

static void make_key(struct judgement *j)
{
    char token[EVM_ADDRESS_TEXT], from[EVM_ADDRESS_TEXT], hex[65];
    text_hex(j->p.evm.nonce, 32, hex);
    evm_address_lower(&j->p.evm.from, from);
    evm_address_text(&j->p.evm.from, j->payer);
    if (j->p.kind == PAY_EIP3009)
        snprintf(j->key, sizeof(j->key), "%" PRIu64 "/%s/%s/%s", j->p.chain_id,
                 evm_address_lower(&j->terms.asset_address, token), from, hex);
    else
        snprintf(j->key, sizeof(j->key), "%" PRIu64 "/permit2/%s/%s", j->p.chain_id, from, hex);
}

static bool wallet_known(const struct judge_wallets *wallets, const struct evm_address *a)
{
    for (size_t i = 0; wallets && i < wallets->n; i++) {
        if (evm_address_equal(&wallets->list[i], a))
            return true;
    }
    return false;
}

static const char *check_signature(const struct judgement *j, const struct judge_wallets *wallets)
{
    bool transfer = j->p.kind == PAY_EIP3009;
    uint8_t digest[32];
    struct evm_address signer;
    if (transfer && (!j->terms.domain_name || !j->terms.domain_version))
        return "invalid_exact_evm_missing_eip712_domain";
    if (wallet_known(wallets, &j->p.evm.from))
        return NULL;
    payment_evm_digest(&j->p, &j->terms, digest);
    if (evm_recover(digest, j->p.evm.signature, j->p.evm.signature_len, &signer, NULL) ||
        !evm_address_equal(&signer, &j->p.evm.from))
        return transfer ? "invalid_exact_evm_payload_signature" : "invalid_permit2_signature";
    return NULL;
}

static const char *check_permit(const struct judgement *j, const struct evm_address *facilitator)
{
    struct evm_address proxy;
    bool upto = j->p.kind == PAY_UPTO;
    if (!evm_address_parse(upto ? PERMIT2_UPTO_PROXY : PERMIT2_EXACT_PROXY, &proxy) ||
        !evm_address_equal(&proxy, &j->p.evm.spender))
        return "invalid_permit2_spender";
    if (!evm_address_equal(&j->p.evm.token, &j->terms.asset_address))
        return "permit2_token_mismatch";
    if (upto && !evm_address_equal(&j->p.evm.facilitator, facilitator))
        return "upto_facilitator_mismatch";
    return NULL;
}

static const char *check_amount(const struct judgement *j, bool settle)
{
    int order = u256_compare(&j->p.evm.value, &j->terms.amount);
    if (j->p.kind == PAY_EIP3009 && j->p.version == 1)
        return order < 0 ? "invalid_exact_evm_payload_authorization_value" : NULL;
    if (j->p.kind == PAY_EIP3009)
        return order ? "invalid_exact_evm_payload_authorization_value_mismatch" : NULL;
    if (j->p.kind == PAY_UPTO && settle)
        return order < 0 ? "invalid_upto_evm_payload_settlement_exceeds_amount" : NULL;
    return order ? "permit2_amount_mismatch" : NULL;
}

static const char *check_window(const struct judgement *j, int64_t now)
{
    bool transfer = j->p.kind == PAY_EIP3009;
    struct u256 start = u256_from_u64((uint64_t)now);
    struct u256 end = u256_from_u64((uint64_t)now + SETTLE_MARGIN_S);
    if (u256_compare(&j->p.evm.valid_before, &end) < 0)
        return transfer ? "invalid_exact_evm_payload_authorization_valid_before"
                        : "permit2_deadline_expired";
    if (u256_compare(&j->p.evm.valid_after, &start) > 0)
        return transfer ? "invalid_exact_evm_payload_authorization_valid_after"
                        : "permit2_not_yet_valid";
    return NULL;
}

static const char *judge_all(struct judgement *j, bool settle, int64_t now,
                             const struct evm_address *facilitator,
                             const struct judge_wallets *wallets)
{
    const json_t *payload = json_object_get(j->body, "paymentPayload");
    json_int_t version = json_integer_value(json_object_get(j->body, "x402Version"));
    if ((version != 1 && version != 2) ||
        json_integer_value(json_object_get(payload, "x402Version")) != version)
        return "invalid_x402_version";
    j->p.version = (int)version;
    const char *reason = read_terms(j);
    if (!reason)
        reason = read_payload(j, payload);
    if (reason)
        return reason;
    make_key(j);
    j->charge = j->p.kind == PAY_EIP3009 ? j->p.evm.value : j->terms.amount;
    if (j->p.kind != PAY_EIP3009)
        reason = check_permit(j, facilitator);
    if (!reason)
        reason = check_signature(j, wallets);
    if (!reason && !evm_address_equal(&j->p.evm.to, &j->terms.pay_to_address))
        reason = j->p.kind == PAY_EIP3009 ? "invalid_exact_evm_payload_recipient_mismatch"
                                          : "invalid_permit2_recipient_mismatch";
    if (!reason)
        reason = check_window(j, now);
    return reason ? reason : check_amount(j, settle);
}

void judge(const char *text, size_t len, bool settle, int64_t now,
           const struct evm_address *facilitator, const struct judge_wallets *wallets,
           struct judgement *out)
{
    memset(out, 0, sizeof(*out));
    if (json_strict_load(text, len, JUDGE_BODY_MAX, 0, &out->body, NULL))
        out->reason = "invalid_payload";
    else
        out->reason = judge_all(out, settle, now, facilitator, wallets);
}
