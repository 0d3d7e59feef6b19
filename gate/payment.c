#include "gate/payment.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/payment_parts.h"
#include "gate/tokens.h"

struct fault_row {
    int status;
    const char *reason;
    const char *text;
};

static const struct fault_row faults[PAYMENT_FAULT_N] = {
    [PAYMENT_OK] = { 200, "", "Paid." },
    [PAYMENT_NONE] = { 402, "Payment required", "This resource is sold per call." },
    [PAYMENT_TWO_HEADERS] = { 400, "invalid_payload",
                              "Send one payment header, PAYMENT-SIGNATURE or X-PAYMENT, once." },
    [PAYMENT_TOO_LONG] = { 400, "invalid_payload", "The payment header is longer than 16 KiB." },
    [PAYMENT_NOT_BASE64] = { 400, "invalid_payload", "The payment header is not standard base64." },
    [PAYMENT_NOT_JSON] = { 400, "invalid_payload",
                           "The payment header does not hold one strict JSON object." },
    [PAYMENT_BAD_SHAPE] = { 400, "invalid_payload",
                            "The payment lacks a member, or one has the wrong form." },
    [PAYMENT_BAD_VERSION] = { 400, "invalid_x402_version",
                              "x402Version must be 2 in PAYMENT-SIGNATURE and 1 in X-PAYMENT." },
    [PAYMENT_BAD_IDENTIFIER] = { 400, "invalid_payment_identifier",
                                 "payment-identifier takes 16 to 128 of A-Z a-z 0-9 _ -." },
    [PAYMENT_NEEDS_IDENTIFIER] = { 400, "payment_identifier_required",
                                   "This resource requires the payment-identifier extension." },
    [PAYMENT_NO_MATCH] = { 402, "invalid_payment_requirements",
                           "The payment matches none of the offers of this resource." },
    [PAYMENT_WRONG_RECIPIENT] = { 402, "invalid_exact_evm_payload_recipient_mismatch",
                                  "The payment is made out to another recipient." },
    [PAYMENT_WRONG_AMOUNT] = { 402, "invalid_exact_evm_payload_authorization_value_mismatch",
                               "The payment authorizes another amount than the price." },
    [PAYMENT_WRONG_SPENDER] = { 402, "invalid_permit2_spender",
                                "The permit names another spender than the scheme's proxy." },
    [PAYMENT_WRONG_TOKEN] = { 402, "permit2_token_mismatch",
                              "The permit is for another token than the asset." },
    [PAYMENT_WRONG_FACILITATOR] = { 402, "upto_facilitator_mismatch",
                                    "The permit names another facilitator." },
    [PAYMENT_NOT_YET_VALID] = { 402, "invalid_exact_evm_payload_authorization_valid_after",
                                "The authorization is not valid yet." },
    [PAYMENT_EXPIRED] = { 402, "invalid_exact_evm_payload_authorization_valid_before",
                          "The authorization ends before the work could be done and settled." },
    [PAYMENT_TOO_FAR] = { 402, "invalid_exact_evm_payload_authorization_valid_before",
                          "The authorization is valid for longer than this seller takes." },
    [PAYMENT_BAD_SIGNATURE] = { 402, "invalid_exact_evm_payload_signature",
                                "The signature is not that of the paying address." },
    [PAYMENT_ECHO_MISMATCH] = { 402, "extension_echo_mismatch",
                                "A declared extension came back with other content." },
};

int payment_fault_status(enum payment_fault f)
{
    assert(f < PAYMENT_FAULT_N);
    return faults[f].status;
}

const char *payment_fault_reason(enum payment_fault f)
{
    assert(f < PAYMENT_FAULT_N);
    return faults[f].reason;
}

const char *payment_fault_text(enum payment_fault f)
{
    assert(f < PAYMENT_FAULT_N);
    return faults[f].text;
}

void payment_fini(struct payment *p)
{
    if (p->json)
        OPENSSL_cleanse(p->json, p->json_len);
    free(p->json);
    if (p->evm.signature)
        OPENSSL_cleanse(p->evm.signature, p->evm.signature_len);
    free(p->evm.signature);
    json_decref(p->root);
    memset(p, 0, sizeof(*p));
}

static enum payment_fault fault_set(enum payment_fault f, struct err *why, const char *line)
{
    err_set(why, ERR_INVALID, "%s", line);
    return f;
}

static enum payment_fault decode_header(const char *value, size_t len, struct payment *out,
                                        struct err *why)
{
    if (len > PAYMENT_HEADER_MAX)
        return fault_set(PAYMENT_TOO_LONG, why, "payment header too long");
    out->json = xmalloc(len / 4 * 3 + 4);
    if (len == 0 || !text_unb64(value, len, (uint8_t *)out->json, &out->json_len))
        return fault_set(PAYMENT_NOT_BASE64, why, "payment header is not base64");
    out->json[out->json_len] = '\0';
    return PAYMENT_OK;
}

/* Counts values, each once; false beyond the limits. */
static bool within_limits(const json_t *value, unsigned depth, unsigned *nodes)
{
    if (++*nodes > PAYMENT_NODES || depth > PAYMENT_DEPTH)
        return false;
    const char *key;
    json_t *child;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)value, key, child)
    {
        if (!within_limits(child, depth + 1, nodes))
            return false;
    }
    json_array_foreach(value, i, child)
    {
        if (!within_limits(child, depth + 1, nodes))
            return false;
    }
    return true;
}

static enum payment_fault parse_json(struct payment *out, struct err *why)
{
    unsigned nodes = 0;
    if (json_strict_load(out->json, out->json_len, PAYMENT_HEADER_MAX, 0, &out->root, why))
        return PAYMENT_NOT_JSON;
    if (!json_is_object(out->root) || !within_limits(out->root, 1, &nodes))
        return fault_set(PAYMENT_NOT_JSON, why, "payment is no object, too deep or too large");
    return PAYMENT_OK;
}

/* scheme and network stand at the top in v1 and in `accepted` in v2. */
static enum payment_fault read_terms(struct payment *p, struct err *why)
{
    const json_t *at = p->version == 1 ? p->root : json_object_get(p->root, "accepted");
    if (!json_is_object(at))
        return fault_set(PAYMENT_BAD_SHAPE, why, "accepted is not an object");
    p->scheme = json_string_value(json_object_get(at, "scheme"));
    p->network = json_string_value(json_object_get(at, "network"));
    if (!p->scheme || !p->network || strlen(p->scheme) > 64 || strlen(p->network) >= CAIP2_MAX)
        return fault_set(PAYMENT_BAD_SHAPE, why, "scheme or network missing");
    const json_t *resource = json_object_get(p->root, "resource");
    if (p->version == 2 && resource && !json_is_object(resource) && !json_is_null(resource))
        return fault_set(PAYMENT_BAD_SHAPE, why, "resource is not an object");
    if (p->version == 1) {
        const struct network *n = network_by_v1(p->network);
        p->chain_id = n ? n->chain_id : 0;
    } else {
        p->chain_id = caip2_chain_id(p->network);
    }
    return PAYMENT_OK;
}

static enum payment_fault read_payload(struct payment *p, struct err *why)
{
    const json_t *payload = json_object_get(p->root, "payload");
    if (!json_is_object(payload))
        return fault_set(PAYMENT_BAD_SHAPE, why, "payload is not an object");
    bool exact = strcmp(p->scheme, "exact") == 0, upto = strcmp(p->scheme, "upto") == 0;
    bool transfer = json_object_get(payload, "authorization");
    bool permit = json_object_get(payload, "permit2Authorization");
    p->kind = PAY_OPAQUE;
    p->valid_before = INT64_MAX;
    if (p->chain_id == 0 || !(exact || upto))
        return PAYMENT_OK;
    if (transfer && permit)
        return fault_set(PAYMENT_BAD_SHAPE, why, "two authorizations in one payload");
    if (transfer && exact)
        p->kind = PAY_EIP3009;
    else if (permit && exact && p->version == 2)
        p->kind = PAY_PERMIT2;
    else if (permit && upto && p->version == 2)
        p->kind = PAY_UPTO;
    return p->kind == PAY_OPAQUE ? PAYMENT_OK : payment_evm_read(p, payload, why);
}

static bool identifier_valid(const char *id)
{
    size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
    return id[n] == '\0' && n >= 16 && n < PAYMENT_IDENTIFIER_MAX;
}

static enum payment_fault read_extensions(struct payment *p, struct err *why)
{
    const json_t *all = json_object_get(p->root, "extensions");
    if (!all || json_is_null(all) || p->version == 1)
        return PAYMENT_OK;
    if (!json_is_object(all))
        return fault_set(PAYMENT_BAD_SHAPE, why, "extensions is not an object");
    const json_t *ext = json_object_get(all, "payment-identifier");
    const json_t *id = json_object_get(json_object_get(ext, "info"), "id");
    if (!id || json_is_null(id))
        return PAYMENT_OK;
    if (!json_is_string(id) || !identifier_valid(json_string_value(id)))
        return fault_set(PAYMENT_BAD_IDENTIFIER, why, "payment-identifier malformed");
    memcpy(p->identifier, json_string_value(id), json_string_length(id) + 1);
    return PAYMENT_OK;
}

static enum payment_fault read_all(const char *value, size_t len, struct payment *p,
                                   struct err *why)
{
    enum payment_fault f = decode_header(value, len, p, why);
    if (!f)
        f = parse_json(p, why);
    if (f)
        return f;
    const json_t *version = json_object_get(p->root, "x402Version");
    if (!json_is_integer(version) || json_integer_value(version) != p->version)
        return fault_set(PAYMENT_BAD_VERSION, why, "x402Version is not the header's");
    f = read_terms(p, why);
    if (!f)
        f = read_payload(p, why);
    return f ? f : read_extensions(p, why);
}

enum payment_fault payment_read(const struct payment_headers *headers, struct payment *out,
                                struct err *why)
{
    struct err scratch;
    why = why ? why : &scratch;
    memset(out, 0, sizeof(*out));
    unsigned n = headers->v1_count + headers->v2_count;
    if (n == 0)
        return fault_set(PAYMENT_NONE, why, "no payment header");
    if (n > 1)
        return fault_set(PAYMENT_TWO_HEADERS, why, "more than one payment header");
    bool v2 = headers->v2_count == 1;
    out->version = v2 ? 2 : 1;
    enum payment_fault f =
        read_all(v2 ? headers->v2 : headers->v1, v2 ? headers->v2_len : headers->v1_len, out, why);
    if (f)
        payment_fini(out);
    return f;
}
