/* Time of one mint and one check of a data token; prints two numbers in microseconds (medians of 21
 * rounds). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dataproxy/memo.h"
#include "proto/data_token_priv.h"
#include <openssl/evp.h>

#define ROUNDS 21
#define CALLS 200

static double now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What no implementation on this library can be faster than: one verification of a good signature,
 * everything set up before. */
struct alone {
    EVP_MD_CTX *ready;
    EVP_MD_CTX *ctx;
    uint8_t signature[64];
    uint8_t text[300];
};

static void alone_init(struct alone *alone, const struct data_key *key)
{
    EVP_MD_CTX *sign = EVP_MD_CTX_new();
    size_t len = sizeof(alone->signature);
    *alone = (struct alone){ .ready = EVP_MD_CTX_new(), .ctx = EVP_MD_CTX_new() };
    if (EVP_DigestSignInit(sign, NULL, NULL, NULL, key->pkey) != 1 ||
        EVP_DigestSign(sign, alone->signature, &len, alone->text, sizeof(alone->text)) != 1 ||
        EVP_DigestVerifyInit(alone->ready, NULL, NULL, NULL, key->pkey) != 1)
        exit(1);
    EVP_MD_CTX_free(sign);
}

static void verify_alone(const struct alone *alone)
{
    if (EVP_MD_CTX_copy_ex(alone->ctx, alone->ready) != 1 ||
        EVP_DigestVerify(alone->ctx, alone->signature, sizeof(alone->signature), alone->text,
                         sizeof(alone->text)) != 1)
        exit(1);
}

int main(void)
{
    struct data_keys keys CLEANUP(data_keys_fini) = { .n = 1 };
    struct data_token token = { .slug = "weather",
                                .request_id = "r-1",
                                .issued_at = 1,
                                .expires_at = 60,
                                .calls = 10,
                                .bytes = 1 << 20,
                                .n_scope = 2,
                                .scope = { "api", "model" } };
    struct data_token out;
    double mint[ROUNDS];
    double check[ROUNDS];
    double again[ROUNDS];
    double verify[ROUNDS];
    static struct memo memo;
    struct alone alone;
    if (data_key_generate(&keys.key[0], NULL))
        return 1;
    alone_init(&alone, keys.key[0]);
    for (int round = 0; round < ROUNDS; round++) {
        char *text[CALLS];
        double began = now_us();
        for (int i = 0; i < CALLS; i++) {
            if (data_token_mint(keys.key[0], &token, &text[i], NULL))
                return 1;
        }
        mint[round] = (now_us() - began) / CALLS;
        began = now_us();
        for (int i = 0; i < CALLS; i++) {
            if (data_token_check(&keys, text[i], strlen(text[i]), "weather", 2, &out, NULL))
                return 1;
        }
        check[round] = (now_us() - began) / CALLS;
        began = now_us();
        for (int i = 0; i < CALLS; i++) {
            if (memo_check(&memo, &keys, text[0], strlen(text[0]), "weather", 2, &out, NULL))
                return 1;
        }
        again[round] = (now_us() - began) / CALLS;
        began = now_us();
        for (int i = 0; i < CALLS; i++)
            verify_alone(&alone);
        verify[round] = (now_us() - began) / CALLS;
        for (int i = 0; i < CALLS; i++)
            free(text[i]);
    }
    qsort(mint, ROUNDS, sizeof(*mint), compare);
    qsort(check, ROUNDS, sizeof(*check), compare);
    qsort(again, ROUNDS, sizeof(*again), compare);
    qsort(verify, ROUNDS, sizeof(*verify), compare);
    (void)printf("%.2f %.2f %.2f %.2f\n", mint[ROUNDS / 2], check[ROUNDS / 2], again[ROUNDS / 2],
                 verify[ROUNDS / 2]);
    return 0;
}
