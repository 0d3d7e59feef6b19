/* The signed members of EVM payments. Pure. */
#include <string.h>

#include "base/text.h"
#include "gate/eip712.h"
#include "gate/payment_parts.h"

/* Reads members of one object and remembers the first that is missing or malformed. */
struct reader {
    const json_t *object;
    const char *bad;
};

static const char *member(struct reader *r, const char *name)
{
    const char *s = json_string_value(json_object_get(r->object, name));
    if (!s && !r->bad)
        r->bad = name;
    return s;
}

static void read_address(struct reader *r, const char *name, struct evm_address *out)
{
    const char *s = member(r, name);
    if (s && !evm_address_parse(s, out) && !r->bad)
        r->bad = name;
}

static void read_uint(struct reader *r, const char *name, struct u256 *out)
{
    const char *s = member(r, name);
    if (s && !u256_parse(s, out) && !r->bad)
        r->bad = name;
}

static void read_nonce(struct reader *r, const char *name, uint8_t out[32])
{
    const char *s = member(r, name);
    bool ok = s && strlen(s) == 66 && text_starts(s, "0x") && text_unhex(s + 2, out, 32);
    if (s && !ok && !r->bad)
        r->bad = name;
}

static void read_signature(struct reader *r, struct evm_authorization *a)
{
    const char *s = member(r, "signature");
    if (!s)
        return;
    size_t digits = strlen(s);
    if (digits < 4 || digits % 2 || !text_starts(s, "0x")) {
        r->bad = "signature";
        return;
    }
    a->signature_len = digits / 2 - 1;
    a->signature = xmalloc(a->signature_len);
    if (!text_unhex(s + 2, a->signature, a->signature_len))
        r->bad = "signature";
}

static const char *read_transfer(const json_t *payload, struct evm_authorization *a)
{
    struct reader r = { .object = json_object_get(payload, "authorization") };
    read_address(&r, "from", &a->from);
    read_address(&r, "to", &a->to);
    read_uint(&r, "value", &a->value);
    read_uint(&r, "validAfter", &a->valid_after);
    read_uint(&r, "validBefore", &a->valid_before);
    read_nonce(&r, "nonce", a->nonce);
    return r.bad;
}

static const char *read_permit(const json_t *payload, bool upto, struct evm_authorization *a)
{
    const json_t *permit = json_object_get(payload, "permit2Authorization");
    struct u256 nonce = { 0 };
    struct reader r = { .object = permit };
    read_address(&r, "from", &a->from);
    read_address(&r, "spender", &a->spender);
    read_uint(&r, "nonce", &nonce);
    read_uint(&r, "deadline", &a->valid_before);
    r.object = json_object_get(permit, "permitted");
    read_address(&r, "token", &a->token);
    read_uint(&r, "amount", &a->value);
    r.object = json_object_get(permit, "witness");
    read_address(&r, "to", &a->to);
    read_uint(&r, "validAfter", &a->valid_after);
    if (upto)
        read_address(&r, "facilitator", &a->facilitator);
    u256_to_be(&nonce, a->nonce);
    return r.bad;
}

enum payment_fault payment_evm_read(struct payment *p, const json_t *payload, struct err *why)
{
    struct reader r = { .object = payload };
    read_signature(&r, &p->evm);
    const char *bad = p->kind == PAY_EIP3009 ? read_transfer(payload, &p->evm)
                                             : read_permit(payload, p->kind == PAY_UPTO, &p->evm);
    bad = r.bad ? r.bad : bad;
    if (bad) {
        err_set(why, ERR_INVALID, "payload member %s missing or malformed", bad);
        return PAYMENT_BAD_SHAPE;
    }
    uint64_t end = u256_to_u64_saturated(&p->evm.valid_before);
    p->valid_before = end > INT64_MAX ? INT64_MAX : (int64_t)end;
    return PAYMENT_OK;
}

static void permit_digest(const struct payment *p, uint8_t digest[32])
{
    const struct evm_authorization *a = &p->evm;
    struct eip712_permit permit = {
        .token = a->token,
        .spender = a->spender,
        .amount = a->value,
        .nonce = u256_from_be(a->nonce),
        .deadline = a->valid_before,
        .to = a->to,
        .facilitator = a->facilitator,
        .valid_after = a->valid_after,
        .upto = p->kind == PAY_UPTO,
    };
    eip712_permit_digest(p->chain_id, &permit, digest);
}

void payment_evm_digest(const struct payment *p, const struct offer *offer, uint8_t digest[32])
{
    if (p->kind != PAY_EIP3009) {
        permit_digest(p, digest);
        return;
    }
    const struct evm_authorization *a = &p->evm;
    struct eip712_domain domain = {
        .name = offer->domain_name,
        .version = offer->domain_version,
        .chain_id = offer->chain_id,
        .contract = offer->asset_address,
    };
    struct eip712_transfer transfer = {
        .from = a->from,
        .to = a->to,
        .value = a->value,
        .valid_after = a->valid_after,
        .valid_before = a->valid_before,
    };
    memcpy(transfer.nonce, a->nonce, sizeof(transfer.nonce));
    eip712_transfer_digest(&domain, &transfer, digest);
}
