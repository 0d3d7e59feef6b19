/*
 * A ledger on a real file, driven call by call: each helper runs the loop until its call has
 * completed.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/own.h"
#include "base/text.h"
#include "gate/ledger.h"
#include "gate/ledger_settle.h"

struct rig {
    char dir[64];
    char path[96];
    struct loop *loop;
    struct ledger *ledger;
    struct ledger_setup setup;
    /* the last result, copied */
    bool done;
    struct ledger_found found;
    enum ledger_verdict verdict;
    struct ledger_payment *payment;
    uint32_t retry_after_s;
    char body[256];
    size_t body_len;
    uint16_t status;
    struct ledger_receipt receipt;
};

#define RIG_PAYER "0x857b06519e91e3a54538791bdbb0e22373e36b66"

static inline void rig_die(const char *what, const struct err *err)
{
    fprintf(stderr, "rig: %s: %s\n", what, err ? err->msg : "");
    abort();
}

static inline void rig_open(struct rig *rig)
{
    struct err err;
    if (ledger_open(&rig->setup, rig->loop, &rig->ledger, &err))
        rig_die("open", &err);
}

static inline void rig_init(struct rig *rig)
{
    struct err err;
    *rig = (struct rig){ 0 };
    strcpy(rig->dir, "/tmp/ut-ledger.XXXXXX");
    if (!mkdtemp(rig->dir) || loop_new(&rig->loop, &err))
        rig_die("init", NULL);
    snprintf(rig->path, sizeof(rig->path), "%s/ledger", rig->dir);
    ledger_setup_defaults(&rig->setup);
    rig->setup.path = rig->path;
    rig->setup.create = true;
    rig->setup.force_fs = true;
    rig->setup.tidy_ms = 200;
}

static inline void rig_fini(struct rig *rig)
{
    struct err err;
    ledger_free(rig->ledger);
    loop_free(rig->loop);
    (void)!fs_remove_tree(rig->dir, &err);
}

static inline void rig_reopen(struct rig *rig)
{
    ledger_free(rig->ledger);
    rig->ledger = NULL;
    rig_open(rig);
}

static inline void rig_on_found(void *arg, const struct ledger_found *found)
{
    struct rig *rig = arg;
    rig->found = *found;
    rig->done = true;
    loop_stop(rig->loop);
}

static inline void rig_on_result(void *arg, const struct ledger_result *result)
{
    struct rig *rig = arg;
    rig->verdict = result->verdict;
    rig->payment = result->payment;
    rig->retry_after_s = result->retry_after_s;
    rig->body_len = 0;
    if (result->answer) {
        rig->status = result->answer->status;
        rig->body_len = result->answer->body_len < sizeof(rig->body) ? result->answer->body_len
                                                                     : sizeof(rig->body);
        memcpy(rig->body, result->answer->body, rig->body_len);
    }
    if (result->receipt)
        rig->receipt = *result->receipt;
    rig->done = true;
    loop_stop(rig->loop);
}

static inline void rig_run(struct rig *rig)
{
    struct err err;
    while (!rig->done) {
        if (loop_run(rig->loop, &err))
            rig_die("loop", &err);
    }
    rig->done = false;
}

static inline void rig_on_pause(struct loop_timer *timer)
{
    struct rig *rig = timer->arg;
    rig->done = true;
    loop_stop(rig->loop);
}

static inline void rig_pause(struct rig *rig, uint64_t ms)
{
    struct loop_timer timer = { 0 };
    loop_after(rig->loop, &timer, ms, rig_on_pause, rig);
    rig_run(rig);
}

static inline struct ledger_claim rig_claim_of(uint8_t n, const char *payer)
{
    struct ledger_claim claim = {
        .payer = payer,
        .payer_proven = true,
        .reserve_bytes = 1024,
        .replays_max = 5,
        .replay_window_s = 600,
    };
    memset(claim.key, n, sizeof(claim.key));
    memset(claim.fingerprint, 0xf0, sizeof(claim.fingerprint));
    return claim;
}

static inline struct ledger_found rig_lookup(struct rig *rig, uint8_t n)
{
    struct ledger_call call = { 0 };
    uint8_t key[LEDGER_KEY_LEN];
    memset(key, n, sizeof(key));
    ledger_lookup(rig->ledger, key, &call, rig_on_found, rig);
    rig_run(rig);
    return rig->found;
}

static inline enum ledger_verdict rig_claim(struct rig *rig, const struct ledger_claim *claim)
{
    struct ledger_call call = { 0 };
    ledger_claim(rig->ledger, claim, &call, rig_on_result, rig);
    rig_run(rig);
    return rig->verdict;
}

static inline struct ledger_terms rig_terms(void)
{
    return (struct ledger_terms){
        .x402_version = 2,
        .scheme = "exact",
        .network = "eip155:84532",
        .network_raw = "eip155:84532",
        .asset = "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
        .pay_to = "0x209693bc6afc0c5328ba36faf03c514ef312287c",
        .amount = "10000",
        .payer = RIG_PAYER,
        .nonce = "0x01",
        .method = "eip3009",
        .valid_before = 4000000000,
        .route = "GET /weather",
        .resource = "https://example.com/weather",
    };
}

static inline enum ledger_verdict rig_run_as(struct rig *rig, struct ledger_payment *payment,
                                             const char *payer)
{
    struct ledger_call call = { 0 };
    struct ledger_terms terms = rig_terms();
    terms.payer = payer;
    ledger_run(payment, &terms, &call, rig_on_result, rig);
    rig_run(rig);
    return rig->verdict;
}

static inline enum ledger_verdict rig_seal(struct rig *rig, struct ledger_payment *payment,
                                           const char *body)
{
    struct ledger_call call = { 0 };
    struct ledger_seal seal = {
        .answer = { 200, "content-type: text/plain\r\n", 26, (const uint8_t *)body, strlen(body) },
        .facilitator = "http://127.0.0.1:1",
        .settle_body = "{\"settle\":1}",
        .settle_len = 12,
        .charge = "10000",
    };
    ledger_seal(payment, &seal, &call, rig_on_result, rig);
    rig_run(rig);
    return rig->verdict;
}

static inline enum ledger_verdict rig_step(struct rig *rig, struct ledger_payment *payment,
                                           enum payment_event event, const char *transaction)
{
    struct ledger_call call = { 0 };
    struct ledger_step step = { .event = event, .transaction = transaction };
    ledger_settle_step(payment, &step, &call, rig_on_result, rig);
    rig_run(rig);
    return rig->verdict;
}

/* Claims payment n and brings it to RUNNING, or further to SETTLING. The caller owns the reference.
 */
static inline struct ledger_payment *rig_running(struct rig *rig, const struct ledger_claim *claim)
{
    if (rig_claim(rig, claim) != LEDGER_CLAIMED)
        rig_die(ledger_verdict_name(rig->verdict), NULL);
    struct ledger_payment *payment = rig->payment;
    if (rig_run_as(rig, payment, claim->payer) != LEDGER_CLAIMED)
        rig_die(ledger_verdict_name(rig->verdict), NULL);
    return rig->payment;
}

static inline struct ledger_payment *rig_settling(struct rig *rig, const struct ledger_claim *claim,
                                                  const char *body)
{
    struct ledger_payment *payment = rig_running(rig, claim);
    if (rig_seal(rig, payment, body) != LEDGER_SEALED)
        rig_die(ledger_verdict_name(rig->verdict), NULL);
    return payment;
}
