/* What the facilitator gets for /verify and /settle. Pure. */
#include <stdlib.h>

#include "base/json.h"
#include "gate/payment_parts.h"

static json_t *requirements(const struct payment *p, const struct offer *offer,
                            const char *resource, const struct u256 *charge)
{
    json_t *r = json_copy(p->version == 1 ? offer->v1 : offer->v2);
    char amount[U256_TEXT_MAX];
    if (charge)
        json_object_set_new(r, p->version == 1 ? "maxAmountRequired" : "amount",
                            json_string(u256_text(charge, amount)));
    if (p->version == 1)
        json_object_set_new(r, "resource", json_string(resource));
    return r;
}

/* `names` of `from`, those that are there. */
static json_t *pick(const json_t *from, const char *const names[])
{
    json_t *out = json_object();
    for (size_t i = 0; names[i]; i++) {
        json_t *value = json_object_get(from, names[i]);
        if (value)
            json_object_set(out, names[i], value);
    }
    return out;
}

static json_t *minimal_evm(const struct payment *p, const json_t *payload)
{
    static const char *const transfer[] = { "from",        "to",    "value", "validAfter",
                                            "validBefore", "nonce", NULL };
    static const char *const permit[] = { "from", "spender", "nonce", "deadline", NULL };
    static const char *const permitted[] = { "token", "amount", NULL };
    static const char *const witness[] = { "to", "validAfter", "facilitator", NULL };
    static const char *const signature[] = { "signature", NULL };
    json_t *out = pick(payload, signature);
    if (p->kind == PAY_EIP3009) {
        json_object_set_new(out, "authorization",
                            pick(json_object_get(payload, "authorization"), transfer));
        return out;
    }
    const json_t *from = json_object_get(payload, "permit2Authorization");
    json_t *to = pick(from, permit);
    json_object_set_new(to, "permitted", pick(json_object_get(from, "permitted"), permitted));
    json_object_set_new(to, "witness", pick(json_object_get(from, "witness"), witness));
    json_object_set_new(out, "permit2Authorization", to);
    return out;
}

static json_t *minimal(const struct payment *p, const struct offer *offer)
{
    json_t *payload = json_object_get(p->root, "payload");
    json_t *out = json_object();
    json_object_set_new(out, "x402Version", json_integer(p->version));
    if (p->version == 1) {
        json_object_set_new(out, "scheme", json_string(p->scheme));
        json_object_set_new(out, "network", json_string(p->network));
    } else {
        json_object_set(out, "accepted", offer->v2);
    }
    json_object_set_new(out, "payload",
                        p->kind == PAY_OPAQUE ? json_incref(payload) : minimal_evm(p, payload));
    return out;
}

static void append_json(struct buf *out, const json_t *value)
{
    char *text CLEANUP_FREE = json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER);
    buf_append_str(out, text);
}

void payment_facilitator_body(const struct payment *p, const struct offer *offer,
                              const char *resource, enum payload_form form,
                              const struct u256 *charge, struct buf *out)
{
    json_t *terms CLEANUP_JSON = requirements(p, offer, resource, charge);
    buf_printf(out, "{\"x402Version\":%d,\"paymentPayload\":", p->version);
    if (form == PAYLOAD_MINIMAL) {
        json_t *small CLEANUP_JSON = minimal(p, offer);
        append_json(out, small);
    } else {
        buf_append(out, p->json, p->json_len);
    }
    buf_append_str(out, ",\"paymentRequirements\":");
    append_json(out, terms);
    buf_append_str(out, "}");
}
