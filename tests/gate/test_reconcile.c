/* The settler against a facilitator that fails in every way, in all three manners of answering a
 * second settle; with and without a chain that can be asked. */
#include "tests/test.h"

#include "gate/reconcile.h"
#include "http/client.h"
#include "tests/gate/facilitator_double.h"
#include "tests/gate/ledger_rig.h"

struct bench {
    struct rig rig;
    struct fac fac;
    struct http_client *client;
    struct facilitator *facilitator;
    struct settler *settler;
    struct settler_setup setup;
    struct claims *claims;
    /* a node of a chain */
    struct http_server *node;
    struct evm_rpc *rpc;
    int node_calls;
    const char *chain; /* "moved", "cancelled", "other-value", "shallow", "garbage", "none" */
};

static void bench_facilitator(struct bench *b)
{
    char url[64];
    struct err err;
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", b->fac.port);
    struct facilitator_setup setup;
    facilitator_setup_defaults(&setup);
    setup.url = url;
    setup.settle_ms = 150;
    setup.verify_ms = 150;
    setup.breaker_failures = 2;
    setup.breaker_ms = 100;
    assert_int_equal(facilitator_new(&setup, b->rig.loop, b->client, &b->facilitator, &err),
                     ERR_OK);
}

static int set_up(void **state)
{
    struct bench *b = xcalloc(1, sizeof(*b));
    struct err err;
    rig_init(&b->rig);
    rig_open(&b->rig);
    fac_init(&b->fac, b->rig.loop);
    struct http_client_config client = { 0 };
    assert_int_equal(http_client_new(b->rig.loop, &client, &b->client, &err), ERR_OK);
    bench_facilitator(b);
    settler_setup_defaults(&b->setup);
    b->setup.ledger = b->rig.ledger;
    b->setup.facilitators = &b->facilitator;
    b->setup.facilitators_n = 1;
    b->setup.first_repeat_ms = 10;
    b->setup.last_repeat_ms = 40;
    *state = b;
    return 0;
}

static void bench_settler(struct bench *b)
{
    struct err err;
    b->setup.ledger = b->rig.ledger;
    b->setup.claims = b->claims;
    assert_int_equal(settler_new(&b->setup, b->rig.loop, &b->settler, &err), ERR_OK);
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    settler_free(b->settler);
    facilitator_free(b->facilitator);
    evm_rpc_free(b->rpc);
    http_client_free(b->client);
    http_server_free(b->node);
    fac_fini(&b->fac);
    claims_free(b->claims);
    rig_fini(&b->rig);
    free(b);
    return 0;
}

/* Seals payment n with its own settle bytes and hands it to the settler; waits `ms` for its end. */
static enum ledger_verdict sell(struct bench *b, uint8_t n, uint64_t ms, bool release)
{
    struct rig *rig = &b->rig;
    struct ledger_claim claim = rig_claim_of(n, RIG_PAYER);
    claim.fingerprint[0] = n;
    struct ledger_payment *payment = rig_running(rig, &claim);
    char settle[64];
    snprintf(settle, sizeof(settle), "{\"payment\":%d}", n);
    struct ledger_call call = { 0 };
    struct ledger_seal seal = {
        .answer = { 200, "", 0, (const uint8_t *)"answer", 6 },
        .facilitator = facilitator_url(b->facilitator),
        .settle_body = settle,
        .settle_len = strlen(settle),
        .charge = "10000",
        .unproven_release = release,
    };
    ledger_seal(payment, &seal, &call, rig_on_result, rig);
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_SEALED);
    settler_start(b->settler, payment);
    struct ledger_waiter waiter = { 0 };
    assert_true(ledger_wait(payment, &waiter, ms, rig_on_result, rig));
    ledger_payment_unref(payment);
    rig_run(rig);
    return rig->verdict;
}

static enum payment_state state_of(struct bench *b, uint8_t n)
{
    return rig_lookup(&b->rig, n).state;
}

/* One failing settle, then a facilitator in order. Each mode × each manner: one transfer at most,
 * the same bytes always, the answer where the truth can be learned, never "failed" where it moved.
 */
static void every_fault_then_order(void **state)
{
    struct bench *b = *state;
    bench_settler(b);
    uint8_t n = 0;
    for (int mode = 0; mode < FAC_MODE_N; mode++) {
        for (int resettle = 0; resettle < FAC_RESETTLE_N; resettle++) {
            n++;
            b->fac.mode = (enum fac_mode)mode;
            b->fac.mode_left = 1;
            b->fac.resettle = (enum fac_resettle)resettle;
            int before = b->fac.n;
            bool moves = fac_mode_moves(b->fac.mode);
            bool hidden = moves && mode != FAC_OK && resettle == FAC_OFFICIAL;
            enum ledger_verdict verdict = sell(b, n, 900, false);
            enum ledger_verdict want = mode == FAC_REFUSED ? LEDGER_FAILED
                                       : hidden            ? LEDGER_WAIT
                                                           : LEDGER_ANSWER;
            if (verdict != want)
                print_error("%s, %s: %s\n", fac_mode_names[mode], fac_resettle_names[resettle],
                            ledger_verdict_name(verdict));
            assert_int_equal(verdict, want);
            assert_int_equal(b->fac.n, before + 1); /* identical bytes */
            assert_int_equal(b->fac.payments[before].transfers, mode == FAC_REFUSED ? 0 : 1);
            assert_int_equal(state_of(b, n), mode == FAC_REFUSED ? PAYMENT_FAILED
                                             : hidden            ? PAYMENT_UNKNOWN
                                                                 : PAYMENT_SETTLED);
            if (mode == FAC_OK || mode == FAC_REFUSED)
                assert_int_equal(b->fac.payments[before].settles, 1);
        }
    }
    struct ledger_stats stats;
    ledger_stats(b->rig.ledger, &stats);
    assert_int_equal(stats.unresolved,
                     6); /* what hidden transfers there were; the count is the checker's */
}

/* A8: settlement_pending is repeated once at once, then with back-off. */
static void pending_is_repeated_at_once(void **state)
{
    struct bench *b = *state;
    b->setup.first_repeat_ms = 60000;
    b->setup.last_repeat_ms = 60000;
    bench_settler(b);
    b->fac.mode = FAC_PENDING;
    b->fac.resettle = FAC_PENDING_STORE;
    b->fac.mode_left = 1;
    assert_int_equal(sell(b, 1, 500, false), LEDGER_ANSWER);
    assert_int_equal(b->fac.payments[0].settles, 2);
    b->fac.mode_left = 99;
    assert_int_equal(sell(b, 2, 300, false), LEDGER_WAIT);
    assert_int_equal(b->fac.payments[1].settles, 2);
    assert_int_equal(state_of(b, 2), PAYMENT_UNKNOWN);
}

/* An unknown outcome is taken up after a restart, with the same bytes, and its answer released to
 * the same payment. */
static void taken_up_after_restart(void **state)
{
    struct bench *b = *state;
    bench_settler(b);
    b->fac.resettle = FAC_IDEMPOTENT;
    b->fac.mode = FAC_RESET_AFTER;
    b->fac.mode_left = 1000;
    assert_int_equal(sell(b, 1, 100, false), LEDGER_WAIT);
    settler_free(b->settler);
    b->settler = NULL;
    rig_reopen(&b->rig);
    assert_int_equal(state_of(b, 1), PAYMENT_UNKNOWN);
    b->fac.payments[0].mode_left = 0;
    bench_settler(b);
    rig_pause(&b->rig, 300);
    assert_int_equal(state_of(b, 1), PAYMENT_SETTLED);
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    claim.fingerprint[0] = 1;
    assert_int_equal(rig_claim(&b->rig, &claim), LEDGER_ANSWER);
    assert_memory_equal(b->rig.body, "answer", 6);
    assert_int_equal(fac_transfers(&b->fac), 1);
    assert_int_equal(b->fac.n, 1);
}

/* The time is over without proof: never "failed", and with `release` only if our first send did not
 * get the nonce reason. */
static void without_proof(void **state)
{
    struct bench *b = *state;
    ledger_free(b->rig.ledger);
    b->rig.setup.settle_hold_s = 0;
    rig_open(&b->rig);
    bench_settler(b);
    b->fac.mode = FAC_500_AFTER;
    b->fac.mode_left = 1;
    assert_int_equal(sell(b, 1, 200, false), LEDGER_WAIT); /* valid until 2096: goes on */
    b->fac.mode_left = 1;
    assert_int_equal(sell(b, 2, 500, true), LEDGER_ANSWER);
    assert_int_equal(state_of(b, 2), PAYMENT_CONCEDED);
    /* the nonce was used before we sent anything */
    b->fac.mode_left = 0;
    (void)fac_find(&b->fac, "{\"payment\":3}", 13);
    b->fac.payments[b->fac.n - 1].transfers = 1;
    assert_int_equal(sell(b, 3, 300, true), LEDGER_WAIT);
    assert_int_equal(state_of(b, 3), PAYMENT_UNKNOWN);
    struct ledger_stats stats;
    ledger_stats(b->rig.ledger, &stats);
    assert_int_equal(stats.unresolved, 3);
}

/* An operator ends it while a send is out. */
static void resolved_by_hand(void **state)
{
    struct bench *b = *state;
    bench_settler(b);
    b->fac.mode = FAC_HANG;
    b->fac.mode_left = 1000;
    assert_int_equal(sell(b, 1, 200, false), LEDGER_WAIT);
    uint8_t key[LEDGER_KEY_LEN];
    memset(key, 1, sizeof(key));
    struct ledger_call call = { 0 };
    settler_resolve(b->settler, key, "0x77", "seen", &call, rig_on_result, &b->rig);
    rig_run(&b->rig);
    assert_int_equal(b->rig.verdict, LEDGER_DONE);
    rig_pause(&b->rig, 250);
    assert_int_equal(state_of(b, 1), PAYMENT_SETTLED);
    int settles = b->fac.settles;
    rig_pause(&b->rig, 200);
    assert_int_equal(b->fac.settles, settles);
}

/* Another gate's payment has that transaction: proves nothing about ours. */
static void transaction_of_another_gate(void **state)
{
    struct bench *b = *state;
    struct err err;
    char path[128];
    snprintf(path, sizeof(path), "%s/claims", b->rig.dir);
    assert_int_equal(claims_open(path, "gate-a", true, b->rig.loop, &b->claims, &err), ERR_OK);
    struct claims *other CLEANUP(claims_freep) = NULL;
    assert_int_equal(claims_open(path, "gate-b", true, b->rig.loop, &other, &err), ERR_OK);
    bench_settler(b);
    uint8_t foreign[LEDGER_KEY_LEN] = { 9 };
    struct claims_call call = { 0 };
    claims_bind(other, "eip155:84532", "0x0001", foreign, &call, (claims_fn *)NULL, NULL);
    claims_cancel(&call);
    assert_int_equal(sell(b, 1, 200, false), LEDGER_WAIT);
    assert_int_equal(state_of(b, 1), PAYMENT_UNKNOWN);
    assert_int_equal(sell(b, 2, 500, false), LEDGER_ANSWER);
}

/* ---- verify and its breaker ---- */

static void on_verify(void *arg, const struct verify_outcome *outcome)
{
    struct bench *b = arg;
    b->rig.retry_after_s = (uint32_t)outcome->verdict;
    b->rig.done = true;
    loop_stop(b->rig.loop);
}

static enum verify_verdict verify(struct bench *b, struct facilitator *facilitator)
{
    struct facilitator_call call = { 0 };
    facilitator_verify(facilitator, "{}", 2, RIG_PAYER, &call, on_verify, b);
    rig_run(&b->rig);
    return (enum verify_verdict)b->rig.retry_after_s;
}

static void breaker_blocks_verify_only(void **state)
{
    struct bench *b = *state;
    bench_settler(b);
    assert_int_equal(verify(b, b->facilitator), VERIFY_VALID);
    http_server_stop_listening(b->fac.server);
    http_server_drain(b->fac.server);
    rig_pause(&b->rig, 20);
    assert_int_equal(verify(b, b->facilitator), VERIFY_UNAVAILABLE);
    assert_int_equal(facilitator_retry_after_s(b->facilitator), 0);
    assert_int_equal(verify(b, b->facilitator), VERIFY_UNAVAILABLE);
    assert_int_equal(facilitator_retry_after_s(b->facilitator), 1);
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", b->fac.port);
    struct err err;
    struct fac again;
    fac_init(&again, b->rig.loop);
    http_server_free(again.server);
    struct http_server_config config = { .on_request = fac_on_request, .arg = &again };
    assert_int_equal(http_server_new(b->rig.loop, &config, &again.server, &err), ERR_OK);
    http_server_free(b->fac.server);
    b->fac.server = NULL;
    assert_int_equal(http_server_listen(again.server, address, &err), ERR_OK);
    assert_int_equal(verify(b, b->facilitator), VERIFY_UNAVAILABLE); /* open: not asked */
    assert_int_equal(again.verifies, 0);
    assert_int_equal(sell(b, 1, 500, false), LEDGER_ANSWER); /* settle goes through all the same */
    rig_pause(&b->rig, 120);
    assert_int_equal(verify(b, b->facilitator), VERIFY_VALID); /* the probe */
    assert_int_equal(facilitator_retry_after_s(b->facilitator), 0);
    fac_fini(&again);
}

/* ---- the chain ---- */

#define NODE_TX "0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NODE_NONCE "0x0101010101010101010101010101010101010101010101010101010101010101"
#define NODE_ASSET "0x036cbd53842c5426634e7929541ec2318f3dcf7e"
#define USED_LOG                                                                                   \
    "{\"address\":\"" NODE_ASSET "\",\"transactionHash\":\"" NODE_TX "\",\"topics\":["             \
    "\"0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5\","                      \
    "\"0x000000000000000000000000857b06519e91e3a54538791bdbb0e22373e36b66\",\"" NODE_NONCE "\"],"  \
    "\"data\":\"0x\"}"
#define MOVE_LOG(value)                                                                            \
    "{\"address\":\"" NODE_ASSET "\",\"transactionHash\":\"" NODE_TX "\",\"topics\":["             \
    "\"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef\","                      \
    "\"0x000000000000000000000000857b06519e91e3a54538791bdbb0e22373e36b66\","                      \
    "\"0x000000000000000000000000209693bc6afc0c5328ba36faf03c514ef312287c\"],"                     \
    "\"data\":\"0x00000000000000000000000000000000000000000000000000000000" value "\"}"

static void node_on_body(struct http_request *request, enum http_body result, const void *data,
                         size_t len, void *arg)
{
    struct bench *b = arg;
    char *body CLEANUP_FREE = xstrndup(data ? data : "", len);
    b->node_calls++;
    (void)result;
    const char *path_two = http_request_head(request)->path.len > 1 ? "second" : "first";
    bool none =
        !strcmp(b->chain, "none") || (!strcmp(b->chain, "disagree") && !strcmp(path_two, "second"));
    if (!strcmp(b->chain, "garbage"))
        fac_json(request, 200, "{\"result\":{\"a\":1},\"result\":2}");
    else if (strstr(body, "eth_blockNumber"))
        fac_json(request, 200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1f4\"}");
    else if (strstr(body, "eth_getLogs"))
        fac_json(request, 200,
                 none ? "{\"id\":1,\"result\":[]}" : "{\"id\":1,\"result\":[" USED_LOG "]}");
    else if (!strcmp(b->chain, "cancelled"))
        fac_json(request, 200,
                 "{\"result\":{\"status\":\"0x1\",\"transactionHash\":\"" NODE_TX
                 "\",\"blockNumber\":\"0x64\",\"logs\":[" USED_LOG "]}}");
    else if (!strcmp(b->chain, "other-value"))
        fac_json(request, 200,
                 "{\"result\":{\"status\":\"0x1\",\"transactionHash\":\"" NODE_TX
                 "\",\"blockNumber\":\"0x64\",\"logs\":[" USED_LOG "," MOVE_LOG("0000270f") "]}}");
    else if (!strcmp(b->chain, "reverted"))
        fac_json(request, 200,
                 "{\"result\":{\"status\":\"0x0\",\"transactionHash\":\"" NODE_TX
                 "\",\"blockNumber\":\"0x64\",\"logs\":[" USED_LOG "," MOVE_LOG("00002710") "]}}");
    else
        fac_json(
            request, 200,
            !strcmp(b->chain, "shallow")
                ? "{\"result\":{\"status\":\"0x1\",\"transactionHash\":\"" NODE_TX
                  "\",\"blockNumber\":\"0x1f0\",\"logs\":[" USED_LOG "," MOVE_LOG("00002710") "]}}"
                : "{\"result\":{\"status\":\"0x1\",\"transactionHash\":\"" NODE_TX
                  "\",\"blockNumber\":\"0x64\",\"logs\":[" USED_LOG "," MOVE_LOG("00002710") "]}}");
}

static void node_on_request(void *arg, struct http_request *request)
{
    http_request_read_body(request, 65536, node_on_body, arg);
}

static void bench_node(struct bench *b)
{
    struct err err;
    struct http_server_config config = { .on_request = node_on_request, .arg = b };
    assert_int_equal(http_server_new(b->rig.loop, &config, &b->node, &err), ERR_OK);
    assert_int_equal(http_server_listen(b->node, "127.0.0.1:0", &err), ERR_OK);
    char first[64];
    char second[64];
    snprintf(first, sizeof(first), "http://127.0.0.1:%d/", http_server_port(b->node, 0));
    snprintf(second, sizeof(second), "http://127.0.0.1:%d/b", http_server_port(b->node, 0));
    struct evm_rpc_setup setup;
    evm_rpc_setup_defaults(&setup);
    setup.network = "eip155:84532";
    setup.url[0] = first;
    setup.url[1] = second;
    assert_int_equal(evm_rpc_new(&setup, b->rig.loop, b->client, &b->rpc, &err), ERR_OK);
}

static void on_evidence(void *arg, enum evm_evidence evidence, const char *transaction)
{
    struct bench *b = arg;
    b->rig.retry_after_s = (uint32_t)evidence;
    snprintf(b->rig.receipt.transaction, sizeof(b->rig.receipt.transaction), "%s", transaction);
    b->rig.done = true;
    loop_stop(b->rig.loop);
}

static enum evm_evidence ask(struct bench *b, const char *chain, const char *nonce)
{
    const struct evm_question question = { NODE_ASSET, RIG_PAYER,
                                           "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", nonce,
                                           "10000" };
    struct evm_rpc_call call = { 0 };
    b->chain = chain;
    evm_rpc_ask(b->rpc, &question, &call, on_evidence, b);
    rig_run(&b->rig);
    return (enum evm_evidence)b->rig.retry_after_s;
}

/* Only both events, the exact value, deep enough, in a transaction that did not revert, and both
 * nodes: proof. */
static void evidence(void **state)
{
    struct bench *b = *state;
    bench_node(b);
    assert_int_equal(ask(b, "moved", NODE_NONCE), EVM_MOVED);
    assert_string_equal(b->rig.receipt.transaction, NODE_TX);
    assert_int_equal(b->node_calls, 6); /* both were asked */
    assert_int_equal(ask(b, "cancelled", NODE_NONCE), EVM_NO_ANSWER);
    assert_int_equal(ask(b, "other-value", NODE_NONCE), EVM_NO_ANSWER);
    assert_int_equal(ask(b, "shallow", NODE_NONCE), EVM_NO_ANSWER);
    assert_int_equal(ask(b, "reverted", NODE_NONCE), EVM_NO_ANSWER);
    assert_int_equal(ask(b, "garbage", NODE_NONCE), EVM_NO_ANSWER);
    assert_int_equal(ask(b, "disagree", NODE_NONCE), EVM_NO_ANSWER);
    assert_int_equal(ask(b, "none", NODE_NONCE), EVM_NOT_SEEN);
    assert_int_equal(ask(b, "moved", "0x01"), EVM_NO_ANSWER); /* not a nonce: not asked */
    char other[] = NODE_NONCE;
    other[10] = '2';
    assert_int_equal(ask(b, "moved", other), EVM_NOT_SEEN); /* the log is of another nonce */
}

/* A hidden transfer comes to light by the chain, and the buyer gets the answer. */
static void settler_believes_the_chain(void **state)
{
    struct bench *b = *state;
    bench_node(b);
    b->setup.rpcs = &b->rpc;
    b->setup.rpcs_n = 1;
    b->chain = "cancelled";
    bench_settler(b);
    b->fac.mode = FAC_RESET_AFTER;
    b->fac.mode_left = 1;
    struct rig *rig = &b->rig;
    struct ledger_claim claim = rig_claim_of(1, RIG_PAYER);
    assert_int_equal(rig_claim(rig, &claim), LEDGER_CLAIMED);
    struct ledger_payment *payment = rig->payment;
    struct ledger_terms terms = rig_terms();
    terms.nonce = NODE_NONCE;
    struct ledger_call call = { 0 };
    ledger_run(payment, &terms, &call, rig_on_result, rig);
    rig_run(rig);
    struct ledger_seal seal = {
        .answer = { 200, "", 0, (const uint8_t *)"answer", 6 },
        .facilitator = facilitator_url(b->facilitator),
        .settle_body = "{}",
        .settle_len = 2,
        .charge = "10000",
    };
    ledger_seal(payment, &seal, &call, rig_on_result, rig);
    rig_run(rig);
    settler_start(b->settler, payment);
    struct ledger_waiter waiter = { 0 };
    assert_true(ledger_wait(payment, &waiter, 300, rig_on_result, rig));
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_WAIT); /* a cancel is no transfer */
    b->chain = "moved";
    assert_true(ledger_wait(payment, &waiter, 1000, rig_on_result, rig));
    rig_run(rig);
    assert_int_equal(rig->verdict, LEDGER_ANSWER);
    assert_string_equal(rig->receipt.transaction, NODE_TX);
    ledger_payment_unref(payment);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_fault_then_order),     T(pending_is_repeated_at_once),
        T(taken_up_after_restart),     T(without_proof),
        T(resolved_by_hand),           T(transaction_of_another_gate),
        T(breaker_blocks_verify_only), T(evidence),
        T(settler_believes_the_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
