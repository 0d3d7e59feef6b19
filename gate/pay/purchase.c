#include "gate/pay/purchase.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/pay/authorization.h"
#include "gate/tokens.h"

#define REQUIRED_MAX (64 * 1024)
#define VALID_MAX_S 86400 /* a seller that wants a longer authorization gets none */

void purchase_fini(struct purchase *p)
{
    if (p->header)
        OPENSSL_cleanse(p->header, strlen(p->header));
    free(p->header);
    json_decref(p->required);
    memset(p, 0, sizeof(*p));
}

const char *purchase_header_name(int version)
{
    return version == 1 ? "X-PAYMENT" : "PAYMENT-SIGNATURE";
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

static enum err_kind load_v2(const char *header, size_t len, json_t **out, struct err *err)
{
    uint8_t *text CLEANUP_FREE = xmalloc(len / 4 * 3 + 4);
    size_t n = 0;
    if (len == 0 || len > REQUIRED_MAX || !text_unb64(header, len, text, &n))
        return err_set(err, ERR_INVALID, "PAYMENT-REQUIRED is not base64");
    if (json_strict_load((const char *)text, n, REQUIRED_MAX, 0, out, err))
        return err_prefix(err, "PAYMENT-REQUIRED");
    return ERR_OK;
}

static enum err_kind load(const char *header, size_t header_len, const char *body, size_t body_len,
                          int version, struct purchase *p, struct err *err)
{
    p->version = header && version != 1 ? 2 : 1;
    if (p->version == 1 && version == 2)
        return err_set(err, ERR_INVALID, "the 402 has no PAYMENT-REQUIRED header");
    if (p->version == 2 ? load_v2(header, header_len, &p->required, err)
                        : json_strict_load(body, body_len, REQUIRED_MAX, 0, &p->required, err))
        return err->kind;
    const json_t *v = json_object_get(p->required, "x402Version");
    if (!json_is_integer(v) || json_integer_value(v) != p->version ||
        !json_is_array(json_object_get(p->required, "accepts")))
        return err_set(err, ERR_INVALID, "the 402 holds no x402 offer of version %d", p->version);
    return ERR_OK;
}

/* Permit2 and upto are of version 2. False when it is one that can be signed here. */
static bool read_kind(const struct purchase *p, struct offer *o, const char *method,
                      const json_t *extra, struct evm_address *facilitator)
{
    bool exact = strcmp(o->scheme, "exact") == 0;
    if (exact && (!*method || strcmp(method, "eip3009") == 0)) {
        o->kind = PAY_EIP3009;
        return false;
    }
    if (p->version != 2)
        return true;
    o->kind = exact ? PAY_PERMIT2 : PAY_UPTO;
    if (exact)
        return strcmp(method, "permit2") != 0;
    return strcmp(o->scheme, "upto") != 0 ||
           !evm_address_parse(text_of(extra, "facilitatorAddress"), facilitator);
}

/* Reads one accepts item; ERR_UNSUPPORTED says why it cannot be paid from here. */
static enum err_kind read_offer(const struct purchase *p, const json_t *item, struct offer *o,
                                struct evm_address *facilitator, struct err *err)
{
    const json_t *extra = json_object_get(item, "extra");
    const char *method = text_of(extra, "assetTransferMethod");
    const char *network = text_of(item, "network");
    const struct network *known =
        p->version == 1 ? network_by_v1(network) : network_by_caip2(network);
    const json_t *timeout = json_object_get(item, "maxTimeoutSeconds");
    memset(o, 0, sizeof(*o));
    o->scheme = text_of(item, "scheme");
    o->network = known ? known->caip2 : network;
    o->chain_id = known ? known->chain_id : caip2_chain_id(network);
    o->asset = text_of(item, "asset");
    o->pay_to = text_of(item, "payTo");
    o->domain_name = json_string_value(json_object_get(extra, "name"));
    o->domain_version = json_string_value(json_object_get(extra, "version"));
    if (!o->chain_id || read_kind(p, o, method, extra, facilitator))
        return err_set(err, ERR_UNSUPPORTED,
                       "only exact with EIP-3009 or Permit2, and upto, on EVM networks is paid");
    if (o->kind == PAY_EIP3009 && (!o->domain_name || !o->domain_version))
        return err_set(err, ERR_UNSUPPORTED, "the offer names no EIP-712 domain");
    if (!evm_address_parse(o->asset, &o->asset_address) ||
        !evm_address_parse(o->pay_to, &o->pay_to_address) ||
        !u256_parse(text_of(item, p->version == 1 ? "maxAmountRequired" : "amount"), &o->amount))
        return err_set(err, ERR_UNSUPPORTED, "the offer's asset, payTo or amount is malformed");
    if (!json_is_integer(timeout) || json_integer_value(timeout) < 1 ||
        json_integer_value(timeout) > VALID_MAX_S)
        return err_set(err, ERR_UNSUPPORTED, "the offer wants an authorization of over a day");
    o->max_timeout_s = (uint32_t)json_integer_value(timeout);
    return ERR_OK;
}

static enum err_kind describe(struct purchase *p, struct err *err)
{
    struct offer *o = &p->offer;
    const struct token *t = token_by_address(o->network, o->asset);
    const struct network *n = network_by_caip2(o->network);
    p->network_label = n ? n->label : o->network;
    p->token_known = t != NULL;
    p->symbol = t ? t->symbol : o->asset;
    if (t)
        price_from_atomic(&o->amount, t->decimals, p->price);
    else
        u256_text(&o->amount, p->price);
    if (t && o->kind == PAY_EIP3009 &&
        (strcmp(t->name, o->domain_name) != 0 || strcmp(t->version, o->domain_version) != 0))
        return err_set(err, ERR_UNSUPPORTED,
                       "the offer names %s's domain wrongly; a payment would be worthless",
                       t->symbol);
    return ERR_OK;
}

static bool network_wanted(const struct offer *o, const char *network)
{
    const struct network *known = network ? network_by_name(network) : NULL;
    return !network || strcmp(o->network, known ? known->caip2 : network) == 0;
}

enum err_kind purchase_read(const char *header, size_t header_len, const char *body,
                            size_t body_len, int version, const char *network, struct purchase *out,
                            struct err *err)
{
    memset(out, 0, sizeof(*out));
    json_t *item;
    size_t i;
    if (load(header, header_len, body, body_len, version, out, err))
        return err->kind;
    err_set(err, ERR_UNSUPPORTED, "the 402 offers nothing");
    json_array_foreach(json_object_get(out->required, "accepts"), i, item)
    {
        if (read_offer(out, item, &out->offer, &out->facilitator, err))
            continue;
        if (!network_wanted(&out->offer, network)) {
            err_set(err, ERR_UNSUPPORTED, "nothing is offered on %s", network);
            continue;
        }
        if (describe(out, err))
            continue;
        out->chosen = item;
        return ERR_OK;
    }
    return err->kind;
}

enum err_kind purchase_within(const struct purchase *p, const char *max, struct err *err)
{
    const struct token *t = token_by_address(p->offer.network, p->offer.asset);
    struct u256 limit;
    if (!t)
        return err_set(err, ERR_PRECONDITION, "%s is no known token: --max cannot be compared",
                       p->offer.asset);
    if (price_to_atomic(max, t->decimals, &limit, err))
        return err_prefix(err, "--max");
    if (u256_compare(&p->offer.amount, &limit) > 0)
        return err_set(err, ERR_PRECONDITION, "the price %s %s is above --max %s", p->price,
                       p->symbol, max);
    return ERR_OK;
}

void purchase_paid(const struct purchase *p, const char *amount, char out[PRICE_TEXT_MAX])
{
    struct u256 charged;
    if (p->offer.network && amount && u256_parse(amount, &charged)) {
        const struct token *t = token_by_address(p->offer.network, p->offer.asset);
        if (t)
            price_from_atomic(&charged, t->decimals, out);
        else
            u256_text(&charged, out);
        return;
    }
    (void)snprintf(out, PRICE_TEXT_MAX, "%s", p->price); /* a resumed one knows no offer */
}

static json_t *envelope(const struct purchase *p, json_t *take_payload)
{
    json_t *out = json_pack("{s:i}", "x402Version", p->version);
    if (p->version == 1) {
        json_object_set(out, "scheme", json_object_get(p->chosen, "scheme"));
        json_object_set(out, "network", json_object_get(p->chosen, "network"));
    } else {
        json_t *resource = json_object_get(p->required, "resource");
        json_t *extensions = json_object_get(p->required, "extensions");
        if (json_is_object(resource))
            json_object_set(out, "resource", resource);
        json_object_set(out, "accepted", p->chosen);
        if (json_is_object(extensions))
            json_object_set(out, "extensions", extensions);
    }
    json_object_set_new(out, "payload", take_payload);
    return out;
}

static void encode(struct purchase *p, json_t *take_envelope)
{
    json_t *value CLEANUP_JSON = take_envelope;
    char *text CLEANUP_FREE = json_dumps(value, JSON_COMPACT);
    size_t n = strlen(text);
    p->header = xmalloc(text_b64_len(n) + 1);
    text_b64(text, n, p->header);
    OPENSSL_cleanse(text, n);
}

enum err_kind purchase_sign(struct purchase *p, const uint8_t secret[32], int64_t now,
                            struct err *err)
{
    json_t *payload = NULL;
    if (authorization_sign(p, secret, now, &payload, err))
        return err->kind;
    encode(p, envelope(p, payload));
    return ERR_OK;
}
