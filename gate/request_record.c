/* What of a request is told to the ledger and to the facilitator. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "gate/challenge.h"
#include "gate/request_parts.h"

#define HEAD_RESERVE ((uint64_t)16384)
#define PERMIT2_NAME "permit2"

static void digest_part(EVP_MD_CTX *ctx, const void *data, size_t len)
{
    uint64_t n = len; /* lengths keep parts apart */
    EVP_DigestUpdate(ctx, &n, sizeof(n));
    EVP_DigestUpdate(ctx, data, len);
}

/* What this request asks for: method, path, query, body. Not the price: a retry after a reload is
 * the same request. */
static void make_fingerprint(struct request *r)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned len = LEDGER_FINGERPRINT_LEN;
    if (!ctx || !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL))
        abort();
    digest_part(ctx, r->head->method_name.p, r->head->method_name.len);
    digest_part(ctx, r->path, strlen(r->path));
    digest_part(ctx, r->head->query.p ? "?" : "", r->head->query.p ? 1 : 0);
    digest_part(ctx, r->head->query.p ? r->head->query.p : "", r->head->query.len);
    digest_part(ctx, r->body, r->body_len);
    EVP_DigestFinal_ex(ctx, r->fingerprint, &len);
    EVP_MD_CTX_free(ctx);
}

void request_facilitator_bytes(const struct request *r, const struct u256 *charge, struct buf *out)
{
    struct buf resource;
    buf_init(&resource, HTTP_HEAD_MAX);
    challenge_resource(r->route, r->config->origin, r->path, &resource);
    payment_facilitator_body(&r->payment, r->payment.offer, buf_cstr(&resource),
                             r->config->facilitator.payload, charge, out);
    buf_fini(&resource);
}

static void write_nonce(const struct payment *p, char *out, size_t size)
{
    out[0] = '\0';
    if (p->kind == PAY_EIP3009) {
        char hex[65];
        text_hex(p->evm.nonce, sizeof(p->evm.nonce), hex);
        (void)snprintf(out, size, "0x%s", hex);
    } else if (p->kind != PAY_OPAQUE) {
        struct u256 n = u256_from_be(p->evm.nonce);
        char text[U256_TEXT_MAX];
        (void)snprintf(out, size, "%s", u256_text(&n, text));
    }
}

static const char *proof_method(const struct payment *p)
{
    switch (p->kind) {
    case PAY_EIP3009:
        return "eip3009";
    case PAY_PERMIT2:
    case PAY_UPTO:
        return PERMIT2_NAME;
    case PAY_OPAQUE:
    default:
        return "opaque";
    }
}

void request_claim(struct request *r, struct ledger_claim *out)
{
    const struct route *route = r->route;
    make_fingerprint(r);
    *out = (struct ledger_claim){
        .payer = r->payment.payer,
        .payer_proven = r->judged && r->payment.proof == PAYER_PROVEN,
        .identifier = r->payment.identifier[0] ? r->payment.identifier : NULL,
        .secret = r->has_secret ? r->secret : NULL,
        .held = r->held,
        .reserve_bytes = r->config->limits.response_body + HEAD_RESERVE,
        .replays_max = route->replay == REPLAY_OFF ? 0 : route->replay_max,
        .replay_window_s = route->replay_s,
    };
    memcpy(out->key, r->payment.key.hash, sizeof(out->key));
    memcpy(out->fingerprint, r->fingerprint, sizeof(out->fingerprint));
}

void request_terms_make(const struct request *r, struct request_terms *out)
{
    const struct payment *p = &r->payment;
    const struct offer *offer = p->offer;
    write_nonce(p, out->nonce, sizeof(out->nonce));
    buf_init(&out->resource, LEDGER_TEXT_MAX);
    challenge_resource(r->route, r->config->origin, r->path, &out->resource);
    out->terms = (struct ledger_terms){
        .x402_version = (uint8_t)p->version,
        .scheme = offer->scheme,
        .network = offer->network,
        .network_raw = p->network,
        .asset = offer->asset,
        .pay_to = offer->pay_to,
        .amount =
            p->kind == PAY_OPAQUE ? offer->amount_text : u256_text(&offer->amount, out->amount),
        .payer = r->payer,
        .nonce = out->nonce,
        .method = proof_method(p),
        .valid_before = p->valid_before == INT64_MAX ? 0 : p->valid_before,
        .route = r->route->path,
        .resource = out->resource.failed ? r->config->origin : buf_cstr(&out->resource),
    };
}

void request_terms_fini(struct request_terms *terms)
{
    buf_fini(&terms->resource);
}

void request_seal_make(struct request *r, struct request_seal *out)
{
    struct u256 charge = handler_charge(r);
    bool upto = r->payment.kind == PAY_UPTO;
    buf_init(&out->body, (size_t)1 << 20);
    buf_init(&out->lines, (size_t)4 * HTTP_HEAD_MAX);
    request_facilitator_bytes(r, upto ? &charge : NULL, &out->body);
    passage_write(&r->reply.head, &out->lines);
    out->seal = (struct ledger_seal){
        .answer = { .status = (uint16_t)r->reply.status,
                    .head = buf_cstr(&out->lines),
                    .head_len = out->lines.len,
                    .body = r->reply.body,
                    .body_len = r->reply.body_len },
        .facilitator = facilitator_url(r->gate->facilitator),
        .settle_body = buf_cstr(&out->body),
        .settle_len = out->body.len,
        .charge = upto ? u256_text(&charge, out->charge) : r->payment.offer->amount_text,
        .empty_transaction = upto && u256_is_zero(&charge),
        .unproven_release = r->config->ledger.unproven_release,
    };
}

void request_seal_fini(struct request_seal *seal)
{
    buf_wipe(&seal->body);
    buf_fini(&seal->lines);
}
