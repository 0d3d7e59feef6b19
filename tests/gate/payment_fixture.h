/* What the payment tests share: a configuration, the official clients' headers, edits and
 * re-signing. */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/config.h"
#include "gate/eip712.h"
#include "gate/keccak.h"
#include "gate/payment.h"
#include "gate/payment_parts.h"
#include "tests/test.h"

#define FIXTURE_PAYER "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
#define FIXTURE_TIME 1796076253 /* when the official clients signed */

static const char fixture_config[] =
    "{\"origin\":\"https://fixture.example\",\"listen\":\"127.0.0.1:0\","
    "\"admin\":\"127.0.0.1:0\",\"handler\":{\"url\":\"http://127.0.0.1:9000\"},"
    "\"facilitator\":{\"url\":\"https://f.example/x402/\"},"
    "\"ledger\":{\"path\":\"/var/lib/utter/l.db\"},\"pay\":["
    "{\"network\":\"base-sepolia\",\"asset\":\"USDC\",\"to\":"
    "\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"},"
    "{\"network\":\"base-sepolia\",\"asset\":\"USDC\",\"method\":\"permit2\",\"to\":"
    "\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"},"
    "{\"network\":\"base-sepolia\",\"asset\":\"USDC\",\"scheme\":\"upto\",\"to\":"
    "\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\",\"extra\":{\"facilitatorAddress\":"
    "\"0x1111111111111111111111111111111111111111\"}},"
    "{\"network\":\"solana-devnet\",\"asset\":\"4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU\","
    "\"decimals\":6,\"symbol\":\"USDC\",\"to\":\"2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4\"}],"
    "\"routes\":[{\"path\":\"/a\",\"price\":\"0.01\"},"
    "{\"path\":\"/wallets\",\"price\":\"0.01\",\"contract_wallets\":true},"
    "{\"path\":\"/id\",\"price\":\"0.01\",\"payment_identifier\":\"required\"},"
    "{\"path\":\"/ext\",\"price\":\"0.01\",\"extensions\":{\"bazaar\":{\"info\":{\"a\":{\"b\":1},"
    "\"l\":[1,2]}}}}]}";

static void fixture_fault(void *arg, bool warning, const char *line)
{
    (void)arg;
    if (!warning)
        print_error("config: %s\n", line);
}

static inline struct gate_config *fixture_load(void)
{
    struct gate_config *c = NULL;
    assert_int_equal(
        config_parse(fixture_config, strlen(fixture_config), "test", fixture_fault, NULL, &c, NULL),
        ERR_OK);
    return c;
}

static inline const struct route *fixture_route(const struct gate_config *c, const char *path)
{
    const struct route *r = NULL;
    assert_int_equal(route_find(&c->routes, "GET", path, &r), ROUTE_FOUND);
    return r;
}

/* The decoded JSON of an official client's header: a new reference. */
static inline json_t *fixture_payment(const char *name)
{
    json_t *file CLEANUP_JSON = NULL, *payment = NULL;
    assert_int_equal(
        json_strict_load_file(TEST_DATA "/x402/official-payments.json", 65536, &file, NULL),
        ERR_OK);
    const char *value = json_string_value(
        json_object_get(json_object_get(json_object_get(file, "payments"), name), "value"));
    assert_non_null(value);
    uint8_t text[8192];
    size_t n = 0;
    assert_true(text_unb64(value, strlen(value), text, &n));
    assert_int_equal(json_strict_load((const char *)text, n, 8192, 0, &payment, NULL), ERR_OK);
    return payment;
}

static inline char *fixture_b64(const char *text, size_t len)
{
    char *out = xmalloc(text_b64_len(len) + 1);
    text_b64(text, len, out);
    return out;
}

/* Reads raw JSON text as the header of that version. */
static inline enum payment_fault fixture_read_text(int version, const char *text, size_t len,
                                                   struct payment *p)
{
    char *b64 CLEANUP_FREE = fixture_b64(text, len);
    struct payment_headers h = { 0 };
    if (version == 1)
        h = (struct payment_headers){ .v1 = b64, .v1_len = strlen(b64), .v1_count = 1 };
    else
        h = (struct payment_headers){ .v2 = b64, .v2_len = strlen(b64), .v2_count = 1 };
    return payment_read(&h, p, NULL);
}

static inline enum payment_fault fixture_read(const json_t *payment, struct payment *p)
{
    char *text CLEANUP_FREE = json_dumps(payment, JSON_COMPACT);
    int version = (int)json_integer_value(json_object_get(payment, "x402Version"));
    return fixture_read_text(version, text, strlen(text), p);
}

static inline struct payment_limits fixture_limits(int64_t now)
{
    return (struct payment_limits){ .now = now, .skew_s = 6, .need_s = 60, .ahead_s = 3600 };
}

/* read, bind and check in one; FIXTURE_TIME. */
static inline enum payment_fault fixture_judge(const json_t *payment, const struct route *route,
                                               struct payment *p)
{
    struct payment_limits l = fixture_limits(FIXTURE_TIME);
    enum payment_fault f = fixture_read(payment, p);
    if (!f)
        f = payment_bind(p, route, NULL);
    return f ? f : payment_check(p, route, &l, NULL);
}

/* Signs the members as they stand now, with the key of the fixtures. */
static inline void fixture_sign(json_t *payment, const struct route *route)
{
    struct payment p;
    uint8_t secret[32], digest[32], sig[65];
    char hex[135] = "0x";
    assert_int_equal(fixture_read(payment, &p), PAYMENT_OK);
    assert_int_equal(payment_bind(&p, route, NULL), PAYMENT_OK);
    payment_evm_digest(&p, p.offer ? p.offer : &route->offers[0], digest);
    keccak256("cow", 3, secret);
    assert_int_equal(evm_sign(digest, secret, sig, NULL), ERR_OK);
    text_hex(sig, 65, hex + 2);
    json_object_set_new(json_object_get(payment, "payload"), "signature", json_string(hex));
    payment_fini(&p);
}

/* Sets the member at an RFC 6901 pointer (one that exists, or a new key of an existing object). */
static inline void fixture_set(json_t *root, const char *pointer, json_t *take_value)
{
    char path[256];
    snprintf(path, sizeof(path), "%s", pointer);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    json_t *at = *path ? json_at(root, path) : root;
    assert_true(json_is_object(at));
    json_object_set_new(at, slash + 1, take_value);
}
