/* `pay` and `price`: the offers of a route. Pure. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/config_scan.h"
#include "gate/price.h"
#include "gate/tokens.h"

#define V1_AMOUNT_MAX 18 /* digits the official v1 client takes */

static const char *const pay_keys[] = { "scheme", "network", "asset",    "to",     "method",
                                        "name",   "version", "decimals", "symbol", "force",
                                        "extra",  "members", "price",    "amount", NULL };

/* The members of `payload` that make an opaque payment, where we know them. */
static const char *const members_transaction[] = { "transaction", NULL };
static const char *const members_erc7710[] = { "delegationManager", "permissionContext",
                                               "delegator", NULL };

static enum pay_kind kind_of(const struct at *at, const struct offer *o, const char *method)
{
    bool evm = o->chain_id != 0;
    bool exact = strcmp(o->scheme, "exact") == 0, upto = strcmp(o->scheme, "upto") == 0;
    if (evm && exact && strcmp(method, "eip3009") == 0)
        return PAY_EIP3009;
    if (evm && exact && strcmp(method, "permit2") == 0)
        return PAY_PERMIT2;
    if (evm && upto)
        return PAY_UPTO;
    if (evm && exact && strcmp(method, "erc7710") != 0)
        scan_fault(at->s, "%s.method: \"%.32s\" is not eip3009, permit2 or erc7710", at->where,
                   method);
    return PAY_OPAQUE;
}

static void read_network(const struct at *at, struct offer *o)
{
    const char *name = scan_text(at, "network", true, "");
    const struct network *known = network_by_name(name);
    o->network = known ? known->caip2 : name;
    o->v1_network = known ? known->v1 : NULL;
    o->chain_id = caip2_chain_id(o->network);
    if (!*name)
        return;
    if (!known && !caip2_valid(name))
        scan_fault(at->s, "%s.network: \"%.64s\" is neither a CAIP-2 id nor a known name",
                   at->where, name);
    else if (text_starts(o->network, "eip155:") && !o->chain_id)
        scan_fault(at->s, "%s.network: \"%.64s\" has no valid chain number", at->where, name);
}

static void read_domain(const struct at *at, const struct token *known, struct offer *o)
{
    bool force = scan_bool(at, "force", false);
    o->domain_name = scan_label(at, "name", 64, known ? known->name : NULL);
    o->domain_version = scan_label(at, "version", 16, known ? known->version : NULL);
    o->decimals = (unsigned)scan_int(at, "decimals", 0, PRICE_DECIMALS_MAX,
                                     known ? known->decimals : PRICE_DECIMALS_MAX + 1);
    o->symbol = scan_label(at, "symbol", 16, known ? known->symbol : NULL);
    if (!o->symbol)
        o->symbol = o->asset;
    if (known && !force && o->domain_name && o->domain_version &&
        (strcmp(o->domain_name, known->name) != 0 ||
         strcmp(o->domain_version, known->version) != 0 || o->decimals != known->decimals))
        scan_fault(at->s,
                   "%s: %s on %s signs as name \"%s\" version \"%s\" with %u decimals; \"force\" "
                   "overrides",
                   at->where, known->symbol, known->network, known->name, known->version,
                   known->decimals);
    if (o->kind != PAY_OPAQUE && (!o->domain_name || !o->domain_version))
        scan_fault(at->s,
                   "%s: name and version of the asset's EIP-712 domain are needed, it is no "
                   "known token",
                   at->where);
}

static void read_asset(const struct at *at, struct offer *o)
{
    const char *asset = scan_text(at, "asset", true, "");
    const struct token *known = token_by_symbol(o->network, asset);
    known = known ? known : token_by_address(o->network, asset);
    o->asset = known ? known->address : asset;
    if (*asset && o->chain_id && !known && !text_starts(asset, "0x") && o->kind != PAY_OPAQUE)
        scan_fault(at->s, "%s.asset: \"%.64s\" is no token known on %s; give its address",
                   at->where, asset, o->network);
    else if (*asset && o->kind != PAY_OPAQUE &&
             !evm_address_parse_checked(o->asset, &o->asset_address))
        scan_fault(at->s, "%s.asset: \"%.64s\" is not an address (or its EIP-55 checksum is wrong)",
                   at->where, asset);
    read_domain(at, known, o);
}

static void read_recipient(const struct at *at, struct offer *o)
{
    o->pay_to = scan_label(at, "to", 128, "");
    if (!*o->pay_to) {
        scan_fault(at->s, "%s.to: missing", at->where);
        return;
    }
    if (!o->chain_id)
        return;
    char text[EVM_ADDRESS_TEXT];
    if (!evm_address_parse_checked(o->pay_to, &o->pay_to_address) ||
        evm_address_is_zero(&o->pay_to_address))
        scan_fault(at->s, "%s.to: \"%.64s\" is not an address (or its EIP-55 checksum is wrong)",
                   at->where, o->pay_to);
    else
        o->pay_to = scan_made(at->s, "%s", evm_address_text(&o->pay_to_address, text));
}

static void read_amount(const struct at *at, const char *price, struct offer *o)
{
    struct err err;
    const char *atomic = scan_text(at, "amount", false, NULL);
    price = scan_text(at, "price", false, price);
    if (atomic) {
        if (!u256_parse(atomic, &o->amount) || u256_is_zero(&o->amount))
            scan_fault(at->s, "%s.amount: \"%.80s\" is not a whole number above zero", at->where,
                       atomic);
    } else if (!price) {
        scan_fault(at->s, "%s: the route has neither a price nor \"free\": true", at->where);
    } else if (o->decimals > PRICE_DECIMALS_MAX) {
        scan_fault(at->s, "%s: decimals of the asset are needed, it is no known token", at->where);
    } else if (price_to_atomic(price, o->decimals, &o->amount, &err)) {
        scan_fault(at->s, "%s: price %s", at->where, err.msg);
    }
    u256_text(&o->amount, o->amount_text);
    if (o->decimals > PRICE_DECIMALS_MAX)
        snprintf(o->price_text, sizeof(o->price_text), "%s", o->amount_text);
    else
        price_from_atomic(&o->amount, o->decimals, o->price_text);
    o->upto_max = o->amount;
}

static void read_members(const struct at *at, const char *method, struct offer *o)
{
    static const char *const transaction_chains[] = { "solana:", "aptos:", "stellar:", "hedera:",
                                                      NULL };
    if (o->kind != PAY_OPAQUE)
        return;
    if (json_object_get(at->object, "members")) {
        o->members = (const char *const *)scan_list(at, "members", 16);
        return;
    }
    if (o->chain_id && strcmp(method, "erc7710") == 0)
        o->members = members_erc7710;
    for (size_t i = 0; transaction_chains[i]; i++) {
        if (strcmp(o->scheme, "exact") == 0 && text_starts(o->network, transaction_chains[i]))
            o->members = members_transaction;
    }
    if (!o->members)
        scan_fault(at->s, "%s: %.32s on %.64s needs \"members\", the names in its payload",
                   at->where, o->scheme, o->network);
}

/* What buyers read beside the terms: the token's domain, the transfer method, the operator's own.
 */
static void make_extra(const struct at *at, const char *method, struct offer *o)
{
    const json_t *own = json_object_get(at->object, "extra");
    o->extra = json_object();
    if (o->domain_name && o->domain_version) {
        json_object_set_new(o->extra, "name", json_string(o->domain_name));
        json_object_set_new(o->extra, "version", json_string(o->domain_version));
    }
    if (o->kind == PAY_PERMIT2 || o->kind == PAY_UPTO)
        json_object_set_new(o->extra, "assetTransferMethod", json_string("permit2"));
    else if (o->kind == PAY_OPAQUE && o->chain_id && strcmp(method, "erc7710") == 0)
        json_object_set_new(o->extra, "assetTransferMethod", json_string("erc7710"));
    if (own && (!json_is_object(own) || json_object_get(own, "paymentFlow")))
        scan_fault(at->s, "%s.extra: must be an object without paymentFlow", at->where);
    else if (own)
        json_object_update(o->extra, (json_t *)(uintptr_t)own);
}

static void make_requirements(const struct at *at, const struct route *r, struct offer *o)
{
    o->v2 = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:O}", "scheme", o->scheme, "network",
                      o->network, "amount", o->amount_text, "asset", o->asset, "payTo", o->pay_to,
                      "maxTimeoutSeconds", (json_int_t)o->max_timeout_s, "extra", o->extra);
    bool v1 = o->v1_network && strcmp(o->scheme, "exact") == 0 &&
              (o->kind == PAY_EIP3009 || (o->kind == PAY_OPAQUE && !o->chain_id));
    if (v1 && strlen(o->amount_text) > V1_AMOUNT_MAX) {
        scan_warning(at->s, "%s: not offered to v1 buyers, they take at most %d digits", at->where,
                     V1_AMOUNT_MAX);
        v1 = false;
    }
    if (!v1) {
        o->v1_network = NULL;
        return;
    }
    o->v1 =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:O}", "scheme", o->scheme, "network",
                  o->v1_network, "maxAmountRequired", o->amount_text, "asset", o->asset, "payTo",
                  o->pay_to, "description", r->description, "mimeType", r->mime_type,
                  "maxTimeoutSeconds", (json_int_t)o->max_timeout_s, "extra", o->extra);
}

static void scan_offer(const struct at *at, const char *price, const struct route *r,
                       struct offer *o)
{
    o->scheme = scan_text(at, "scheme", false, "exact");
    read_network(at, o);
    const char *method =
        scan_text(at, "method", false, strcmp(o->scheme, "upto") == 0 ? "permit2" : "eip3009");
    o->kind = kind_of(at, o, method);
    read_asset(at, o);
    read_recipient(at, o);
    read_amount(at, price, o);
    read_members(at, method, o);
    make_extra(at, method, o);
    make_requirements(at, r, o);
}

void scan_offers(struct scan *s, const json_t *pay, const char *where, const char *price,
                 struct route *route, uint32_t max_timeout_s)
{
    size_t n = json_array_size(pay);
    if (!json_is_array(pay) || n == 0 || n > 16) {
        scan_fault(s, "%s: pay must be a list of 1 to 16 offers", where);
        return;
    }
    route->offers = xcalloc(n, sizeof(*route->offers));
    route->offer_n = n;
    for (size_t i = 0; i < n; i++) {
        struct at at = scan_at(s, json_array_get(pay, i), pay_keys, "%s.pay[%zu]", where, i);
        route->offers[i].max_timeout_s = max_timeout_s;
        scan_offer(&at, price, route, &route->offers[i]);
        for (size_t j = 0; j < i; j++) {
            if (route->offers[j].v2 && route->offers[i].v2 &&
                json_equal(route->offers[j].v2, route->offers[i].v2))
                scan_fault(s, "%s: the same offer as %s.pay[%zu]", at.where, where, j);
        }
    }
}
