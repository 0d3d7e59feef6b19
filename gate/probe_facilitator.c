/* What the facilitator says to questions that cost nothing. */
#include "gate/probe_facilitator.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/auth.h"
#include "gate/challenge.h"
#include "gate/eip712.h"
#include "gate/evm_signature.h"
#include "gate/facilitator_client.h"
#include "gate/supported.h"
#include "http/client.h"

struct probe {
    struct loop *loop;
    struct http_client *client;
    struct auth *auth;
    struct facilitator *facilitator;
    struct facilitator_call call;
    json_t *supported;
    struct err why; /* /supported failed */
    struct verify_outcome verified;
};

static enum err_kind probe_open(struct probe *p, const struct facilitator_config *f,
                                struct err *err)
{
    struct http_client_config client = { .ca_file = f->ca_file };
    struct facilitator_setup setup;
    if (loop_new(&p->loop, err) || http_client_new(p->loop, &client, &p->client, err))
        return err->kind;
    if (f->auth != AUTH_NONE && auth_open(f, &p->auth, err))
        return err_prefix(err, "facilitator token");
    facilitator_setup_defaults(&setup);
    setup.url = f->url;
    setup.plain_ok = f->plain_http;
    setup.auth = p->auth;
    return facilitator_new(&setup, p->loop, p->client, &p->facilitator, err);
}

static void probe_close(struct probe *p)
{
    json_decref(p->supported);
    facilitator_free(p->facilitator);
    auth_close(p->auth);
    http_client_free(p->client);
    loop_free(p->loop);
}

static void on_supported(void *arg, const json_t *supported, const struct err *err)
{
    struct probe *p = arg;
    if (supported)
        p->supported = json_deep_copy(supported);
    else
        p->why = *err;
    loop_stop(p->loop);
}

static void on_verified(void *arg, const struct verify_outcome *outcome)
{
    struct probe *p = arg;
    p->verified = *outcome;
    loop_stop(p->loop);
}

/* True when every offer is taken. */
static bool print_offers(const struct probe *p, const struct gate_config *config)
{
    bool all = true;
    for (size_t i = 0; i < config->routes.n; i++) {
        const struct route *route = &config->routes.routes[i];
        for (size_t k = 0; k < route->offer_n; k++) {
            const struct offer *o = &route->offers[k];
            bool taken = supported_kind(json_object_get(p->supported, "kinds"), o) != NULL;
            (void)printf("%s: %s on %s: %s\n", route->path, o->scheme, o->network,
                         taken ? "taken" : "NOT TAKEN");
            all = all && taken;
        }
    }
    return all;
}

/* ---- a payment that nobody can honour ---- */

/* Signed by a key made for it, so rightly, and with nothing behind it. */
static enum err_kind sign(const struct offer *o, json_t **out, struct err *err)
{
    struct eip712_domain domain = { .name = o->domain_name,
                                    .version = o->domain_version,
                                    .chain_id = o->chain_id,
                                    .contract = o->asset_address };
    struct eip712_transfer t = {
        .to = o->pay_to_address,
        .value = o->amount,
        .valid_before = u256_from_u64((uint64_t)time(NULL) + o->max_timeout_s),
    };
    uint8_t secret[32], digest[32], sig[EVM_SIGNATURE_LEN];
    char hex[2 * EVM_SIGNATURE_LEN + 1], nonce[65], from[EVM_ADDRESS_TEXT], to[EVM_ADDRESS_TEXT];
    char value[U256_TEXT_MAX], before[U256_TEXT_MAX];
    if (RAND_bytes(secret, sizeof(secret)) != 1 || RAND_bytes(t.nonce, sizeof(t.nonce)) != 1)
        return err_set(err, ERR_INTERNAL, "no random bytes");
    if (evm_secret_address(secret, &t.from, err))
        return err->kind;
    eip712_transfer_digest(&domain, &t, digest);
    if (evm_sign(digest, secret, sig, err))
        return err->kind;
    text_hex(sig, sizeof(sig), hex);
    text_hex(t.nonce, sizeof(t.nonce), nonce);
    char *sig_text CLEANUP_FREE = xasprintf("0x%s", hex);
    char *nonce_text CLEANUP_FREE = xasprintf("0x%s", nonce);
    *out = json_pack("{s:s, s:{s:s, s:s, s:s, s:s, s:s, s:s}}", "signature", sig_text,
                     "authorization", "from", evm_address_text(&t.from, from), "to",
                     evm_address_text(&t.to, to), "value", u256_text(&t.value, value), "validAfter",
                     "0", "validBefore", u256_text(&t.valid_before, before), "nonce", nonce_text);
    return ERR_OK;
}

/* As an official client of version 2 would send it for this route. */
static enum err_kind make_payment(const struct gate_config *config, const struct route *route,
                                  const struct offer *o, struct payment *out, struct err *err)
{
    json_t *payload = NULL;
    struct buf resource;
    if (sign(o, &payload, err))
        return err->kind;
    buf_init(&resource, 4096);
    challenge_resource(route, config->origin, route->path, &resource);
    json_t *envelope CLEANUP_JSON =
        json_pack("{s:i, s:{s:s, s:s, s:s}, s:O, s:o}", "x402Version", 2, "resource", "url",
                  buf_cstr(&resource), "description", route->description, "mimeType",
                  route->mime_type, "accepted", o->v2, "payload", payload);
    buf_fini(&resource);
    if (route->extensions)
        json_object_set(envelope, "extensions", route->extensions);
    char *text CLEANUP_FREE = json_dumps(envelope, JSON_COMPACT);
    char *header CLEANUP_FREE = xmalloc(text_b64_len(strlen(text)) + 1);
    text_b64(text, strlen(text), header);
    struct payment_headers headers = { .v2 = header, .v2_len = strlen(header), .v2_count = 1 };
    enum payment_fault fault = payment_read(&headers, out, err);
    if (!fault)
        fault = payment_bind(out, route, err);
    return fault ? err_prefix(err, "the probe's payment for %s", route->path) : ERR_OK;
}

static bool understood(const struct verify_outcome *v)
{
    return v->verdict == VERIFY_VALID || v->verdict == VERIFY_INVALID ||
           v->verdict == VERIFY_ALLOWANCE;
}

static void print_verified(const char *form, const struct verify_outcome *v)
{
    if (v->verdict == VERIFY_VALID)
        (void)printf("verify, payload %s: understood; called valid, though nothing is behind it\n",
                     form);
    else if (understood(v))
        (void)printf("verify, payload %s: understood; refused as it must (%s)\n", form, v->reason);
    else
        (void)printf("verify, payload %s: NOT UNDERSTOOD: %s\n", form,
                     v->why[0] ? v->why : verify_verdict_name(v->verdict));
}

static enum err_kind verify_in(struct probe *p, const struct payment *payment,
                               const struct gate_config *config, enum payload_form form,
                               struct err *err)
{
    struct buf body;
    buf_init(&body, (size_t)1 << 20);
    payment_facilitator_body(payment, payment->offer, config->origin, form, NULL, &body);
    facilitator_verify(p->facilitator, buf_cstr(&body), body.len, payment->payer, &p->call,
                       on_verified, p);
    buf_fini(&body);
    return loop_run(p->loop, err);
}

static enum err_kind try_forms(struct probe *p, const struct gate_config *config,
                               const struct payment *payment, bool *fine, struct err *err)
{
    bool can[2];
    static const char *const names[] = { [PAYLOAD_EXACT] = "exact", [PAYLOAD_MINIMAL] = "minimal" };
    for (int form = PAYLOAD_EXACT; form <= PAYLOAD_MINIMAL; form++) {
        if (verify_in(p, payment, config, (enum payload_form)form, err))
            return err->kind;
        print_verified(names[form], &p->verified);
        can[form] = understood(&p->verified);
    }
    enum payload_form have = config->facilitator.payload;
    *fine = *fine && can[have];
    if (!can[have] && can[!have])
        (void)printf("set facilitator.payload to \"%s\"\n", names[!have]);
    return ERR_OK;
}

/* The first EIP-3009 offer that the facilitator takes. */
static const struct offer *find_offer(const struct probe *p, const struct gate_config *config,
                                      const struct route **route)
{
    for (size_t i = 0; i < config->routes.n; i++) {
        *route = &config->routes.routes[i];
        for (size_t k = 0; k < (*route)->offer_n; k++) {
            const struct offer *o = &(*route)->offers[k];
            if (o->kind == PAY_EIP3009 && supported_kind(json_object_get(p->supported, "kinds"), o))
                return o;
        }
    }
    return NULL;
}

static enum err_kind probe_verify(struct probe *p, const struct gate_config *config, bool *fine,
                                  struct err *err)
{
    const struct route *route = NULL;
    const struct offer *offer = find_offer(p, config, &route);
    struct payment payment = { 0 };
    if (!offer) {
        (void)printf("verify: not asked, no offer of exact by EIP-3009 is taken\n");
        return ERR_OK;
    }
    enum err_kind kind = make_payment(config, route, offer, &payment, err);
    if (!kind)
        kind = try_forms(p, config, &payment, fine, err);
    payment_fini(&payment);
    return kind;
}

static enum err_kind probe_all(struct probe *p, struct gate_config *config, bool *fine,
                               struct err *err)
{
    struct err learned = { 0 };
    if (probe_open(p, &config->facilitator, err))
        return err->kind;
    facilitator_supported(p->facilitator, &p->call, on_supported, p);
    if (loop_run(p->loop, err))
        return err->kind;
    if (!p->supported) {
        *err = p->why;
        return err->kind;
    }
    (void)printf("%s: answers /supported\n", facilitator_url(p->facilitator));
    *fine = print_offers(p, config);
    if (*fine && supported_learn(config, p->supported, &learned)) {
        (void)printf("%s\n", learned.msg);
        *fine = false;
    }
    return probe_verify(p, config, fine, err);
}

enum err_kind probe_facilitator(struct gate_config *config, bool *fine, struct err *err)
{
    struct probe p = { 0 };
    *fine = false;
    enum err_kind kind = probe_all(&p, config, fine, err);
    probe_close(&p);
    return kind;
}
