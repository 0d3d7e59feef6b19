/* Which offer a payment is for, and the key under which the ledger knows it. Pure. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/payment_parts.h"

bool address_text_equal(const char *a, const char *b)
{
    struct evm_address x, y;
    if (evm_address_parse(a, &x) && evm_address_parse(b, &y))
        return evm_address_equal(&x, &y);
    return strcmp(a, b) == 0;
}

bool json_is_subset(const json_t *part, const json_t *whole)
{
    if (!json_is_object(part))
        return json_equal(part, whole);
    if (!json_is_object(whole))
        return false;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)part, key, value)
    {
        if (!json_is_subset(value, json_object_get(whole, key)))
            return false;
    }
    return true;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* v2: the buyer returns the requirements it chose; they have to be ours, member for member. */
static bool accepted_matches(const json_t *accepted, const struct offer *offer)
{
    static const char *const known[] = { "scheme", "network",           "amount", "asset",
                                         "payTo",  "maxTimeoutSeconds", "extra",  NULL };
    const json_t *timeout = json_object_get(accepted, "maxTimeoutSeconds");
    const json_t *extra = json_object_get(accepted, "extra");
    if (json_only_keys(accepted, known, "accepted", NULL))
        return false;
    if (extra && !json_is_object(extra) && !json_is_null(extra))
        return false;
    return strcmp(text_of(accepted, "scheme"), offer->scheme) == 0 &&
           strcmp(text_of(accepted, "network"), offer->network) == 0 &&
           strcmp(text_of(accepted, "amount"), offer->amount_text) == 0 &&
           address_text_equal(text_of(accepted, "asset"), offer->asset) &&
           address_text_equal(text_of(accepted, "payTo"), offer->pay_to) &&
           json_is_integer(timeout) && json_integer_value(timeout) == offer->max_timeout_s &&
           (!offer->extra || json_is_subset(offer->extra, extra));
}

static bool payload_members_ok(const json_t *payload, const struct offer *offer)
{
    for (size_t i = 0; offer->members && offer->members[i]; i++) {
        if (!json_object_get(payload, offer->members[i]))
            return false;
    }
    return offer->members && !json_only_keys(payload, offer->members, "payload", NULL);
}

static const struct offer *offer_v2(const struct payment *p, const struct route *route)
{
    const json_t *accepted = json_object_get(p->root, "accepted");
    for (size_t i = 0; i < route->offer_n; i++) {
        const struct offer *o = &route->offers[i];
        if (o->kind == p->kind && accepted_matches(accepted, o))
            return o;
    }
    return NULL;
}

static bool offer_is_v1(const struct payment *p, const struct offer *o)
{
    return o->v1 && o->kind == p->kind && strcmp(o->scheme, p->scheme) == 0 &&
           strcmp(o->v1_network, p->network) == 0;
}

/* A v1 payload names no asset; its signature does, through the domain. */
static bool signed_for(const struct payment *p, const struct offer *o)
{
    uint8_t digest[32];
    struct evm_address signer;
    payment_evm_digest(p, o, digest);
    return !evm_recover(digest, p->evm.signature, p->evm.signature_len, &signer, NULL) &&
           evm_address_equal(&signer, &p->evm.from);
}

static const struct offer *offer_v1(const struct payment *p, const struct route *route)
{
    const struct offer *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < route->offer_n; i++) {
        if (offer_is_v1(p, &route->offers[i])) {
            first = first ? first : &route->offers[i];
            n++;
        }
    }
    if (n <= 1 || p->kind == PAY_OPAQUE)
        return first;
    for (size_t i = 0; i < route->offer_n; i++) {
        if (offer_is_v1(p, &route->offers[i]) && signed_for(p, &route->offers[i]))
            return &route->offers[i];
    }
    return first;
}

static void sha256(const void *data, size_t len, uint8_t out[32])
{
    unsigned n = 0;
    if (!EVP_Digest(data, len, out, &n, EVP_sha256(), NULL) || n != 32)
        abort(); /* the digest is built in: only a broken library gets here */
}

static void key_finish(struct payment_key *key)
{
    sha256(key->text, strlen(key->text), key->hash);
}

static void key_evm(struct payment *p, const struct evm_address *asset)
{
    char from[EVM_ADDRESS_TEXT], token[EVM_ADDRESS_TEXT], nonce[U256_TEXT_MAX], hex[65];
    evm_address_lower(&p->evm.from, from);
    if (p->kind == PAY_EIP3009) {
        text_hex(p->evm.nonce, 32, hex);
        snprintf(p->key.text, sizeof(p->key.text), "eip3009/%" PRIu64 "/%s/%s/0x%s", p->chain_id,
                 evm_address_lower(asset, token), from, hex);
    } else {
        struct u256 n = u256_from_be(p->evm.nonce);
        snprintf(p->key.text, sizeof(p->key.text), "permit2/%" PRIu64 "/%s/%s", p->chain_id, from,
                 u256_text(&n, nonce));
    }
    key_finish(&p->key);
    snprintf(p->payer, sizeof(p->payer), "%s", from);
}

/* Solana's shortvec: 7 bits a byte, least significant first, two bytes are more than any real
 * transaction's signatures need. */
static bool shortvec(struct in *in, size_t *out)
{
    uint8_t low = in_u8(in);
    *out = low & 0x7f;
    if (low & 0x80) {
        uint8_t high = in_u8(in);
        *out |= (size_t)high << 7;
        if (high & 0x80 || high == 0)
            return false;
    }
    return !in->failed;
}

/* The signature slots of a transaction are not signed over (the fee payer's comes empty): the
 * message alone is the payment. */
static bool solana_message_hash(const char *text, uint8_t out[32])
{
    size_t n = strlen(text), len = 0, signatures = 0;
    uint8_t *bytes CLEANUP_FREE = xmalloc(n / 4 * 3 + 4);
    if (n == 0 || n % 4 || !text_unb64(text, n, bytes, &len))
        return false;
    struct in in = in_make(bytes, len);
    if (!shortvec(&in, &signatures) || !in_bytes(&in, signatures * 64) || in_left(&in) == 0)
        return false;
    sha256(in.p, in_left(&in), out);
    return true;
}

static bool opaque_hash(const json_t *payload, const char *network, uint8_t out[32])
{
    const char *transaction = json_string_value(json_object_get(payload, "transaction"));
    if (text_starts(network, "solana:"))
        return transaction && solana_message_hash(transaction, out);
    json_t *one CLEANUP_JSON = payment_one_spelling(payload);
    if (!one)
        return false;
    char *text CLEANUP_FREE = json_canonical(one);
    sha256(text, strlen(text), out);
    return true;
}

static const struct offer *opaque_offer(const struct payment *p, const struct route *route)
{
    for (size_t i = 0; i < route->offer_n; i++) {
        const struct offer *o = &route->offers[i];
        const char *network = p->version == 1 ? o->v1_network : o->network;
        if (o->kind == PAY_OPAQUE && network && strcmp(network, p->network) == 0 &&
            strcmp(o->scheme, p->scheme) == 0)
            return o;
    }
    return NULL;
}

static enum payment_fault bind_opaque(struct payment *p, const struct route *route, struct err *why)
{
    const struct offer *like = p->offer ? p->offer : opaque_offer(p, route);
    const json_t *payload = json_object_get(p->root, "payload");
    uint8_t hash[32];
    char hex[65];
    if (!like) {
        err_set(why, ERR_INVALID, "no offer of that scheme and network");
        return PAYMENT_NO_MATCH;
    }
    if (!payload_members_ok(payload, like) || !opaque_hash(payload, like->network, hash)) {
        err_set(why, ERR_INVALID, "payload has not exactly the members of its scheme");
        return PAYMENT_BAD_SHAPE;
    }
    text_hex(hash, 32, hex);
    snprintf(p->key.text, sizeof(p->key.text), "opaque/%s/%s/%s", like->scheme, like->network, hex);
    key_finish(&p->key);
    return PAYMENT_OK;
}

enum payment_fault payment_bind(struct payment *p, const struct route *route, struct err *why)
{
    struct err scratch;
    why = why ? why : &scratch;
    struct evm_address asset;
    p->offer = p->version == 1 ? offer_v1(p, route) : offer_v2(p, route);
    if (p->kind == PAY_OPAQUE)
        return bind_opaque(p, route, why);
    if (p->offer) {
        asset = p->offer->asset_address;
    } else if (p->version == 1 ||
               !evm_address_parse(text_of(json_object_get(p->root, "accepted"), "asset"), &asset)) {
        err_set(why, ERR_INVALID, "no offer of that scheme and network, and no asset named");
        return PAYMENT_NO_MATCH;
    }
    key_evm(p, &asset);
    return PAYMENT_OK;
}
