/*
 * A payment header of either family through everything that reads it: base64, JSON, signed members,
 * key, terms, signature, and the body for the facilitator. First byte: 1 or 2 sends the rest as it
 * is, anything else sends it base64-encoded (odd: X-PAYMENT), so that the fuzzer gets past the
 * encoding.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "gate/config.h"
#include "gate/payment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config_text[] =
    "{\"origin\":\"https://f.example\",\"listen\":\"127.0.0.1:0\",\"admin\":\"127.0.0.1:0\","
    "\"handler\":{\"url\":\"http://127.0.0.1:9\"},\"facilitator\":{\"url\":\"https://f.example\"},"
    "\"ledger\":{\"path\":\"/l\"},\"pay\":["
    "{\"network\":\"base-sepolia\",\"asset\":\"USDC\","
    "\"to\":\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"},"
    "{\"network\":\"base-sepolia\",\"asset\":\"0x0000000000000000000000000000000000000001\","
    "\"name\":\"n\",\"version\":\"1\",\"decimals\":6,"
    "\"to\":\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"},"
    "{\"network\":\"base-sepolia\",\"asset\":\"USDC\",\"method\":\"permit2\","
    "\"to\":\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"},"
    "{\"network\":\"base-sepolia\",\"asset\":\"USDC\",\"scheme\":\"upto\","
    "\"to\":\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"},"
    "{\"network\":\"solana-devnet\",\"asset\":\"x\",\"decimals\":6,\"to\":\"y\"},"
    "{\"network\":\"near:mainnet\",\"asset\":\"x\",\"decimals\":6,\"to\":\"y\",\"members\":[\"m\"]}"
    "],"
    "\"routes\":[{\"path\":\"/a\",\"price\":\"0.01\"}]}";

static void tell(void *arg, bool warning, const char *line)
{
    (void)arg;
    if (!warning)
        fprintf(stderr, "%s\n", line);
}

static const struct route *the_route(void)
{
    static struct gate_config *c; /* made once for the run */
    if (!c && config_parse(config_text, sizeof(config_text) - 1, "fuzz", tell, NULL, &c, NULL))
        abort();
    return &c->routes.routes[0];
}

static void use(struct payment *p)
{
    const struct route *route = the_route();
    struct payment_limits limits = {
        .now = 1796076253, .skew_s = 6, .need_s = 60, .ahead_s = 3600
    };
    struct buf out;
    if (payment_bind(p, route, NULL) || payment_check(p, route, &limits, NULL))
        return;
    if (!p->offer || !p->key.text[0])
        abort(); /* a payment that passed has both */
    buf_init(&out, 1 << 20);
    payment_facilitator_body(p, p->offer, "https://f.example/a", PAYLOAD_EXACT, NULL, &out);
    payment_facilitator_body(p, p->offer, "https://f.example/a", PAYLOAD_MINIMAL, NULL, &out);
    if (out.failed)
        abort();
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > PAYMENT_HEADER_MAX)
        return 0;
    bool raw = data[0] == 1 || data[0] == 2, v1 = data[0] & 1;
    char *value = malloc(text_b64_len(size) + 1);
    size_t len = size - 1;
    if (raw) {
        memcpy(value, data + 1, len);
    } else {
        text_b64(data + 1, size - 1, value);
        len = strlen(value);
    }
    struct payment_headers h = { 0 };
    if (v1)
        h = (struct payment_headers){ .v1 = value, .v1_len = len, .v1_count = 1 };
    else
        h = (struct payment_headers){ .v2 = value, .v2_len = len, .v2_count = 1 };
    struct payment p;
    if (payment_read(&h, &p, NULL) == PAYMENT_OK) {
        use(&p);
        payment_fini(&p);
    }
    free(value);
    return 0;
}
