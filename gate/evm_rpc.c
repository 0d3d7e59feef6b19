#include "gate/evm_rpc.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "gate/evm_log.h"
#include "http/client.h"

#define ANSWER_MAX ((size_t)512 * 1024)
#define LOG_STEP 2000 /* blocks per eth_getLogs: what public nodes allow */

struct evm_rpc {
    struct evm_rpc_setup setup; /* its strings are the three below */
    char *network;
    char *url[2];
    struct loop *loop;
    struct http_client *client;
    struct inquiry *all;
};

enum inquiry_at { ASK_HEAD, ASK_LOGS, ASK_RECEIPT };

/* One question under way: to one URL after the other. */
struct inquiry {
    struct evm_rpc *rpc;
    struct inquiry *next;
    struct inquiry **link;
    struct evm_rpc_call *call;
    evm_rpc_fn *fn;
    void *arg;
    struct evm_question question; /* pointers into `texts` */
    char *texts[5];
    struct http_call *http;
    struct loop_timer timer;
    uint64_t until_ms;
    size_t at_url;
    enum inquiry_at at;
    uint64_t head, from, to; /* blocks */
    char transaction[EVM_HASH_TEXT];
    char first[EVM_HASH_TEXT]; /* what the first URL said */
    char *body;
};

void evm_rpc_setup_defaults(struct evm_rpc_setup *setup)
{
    *setup =
        (struct evm_rpc_setup){ .confirmations = 12, .deadline_ms = 10000, .span_blocks = 50000 };
}

enum err_kind evm_rpc_new(const struct evm_rpc_setup *setup, struct loop *loop,
                          struct http_client *client, struct evm_rpc **out, struct err *err)
{
    for (size_t i = 0; i < 2 && setup->url[i]; i++) {
        bool tls = text_starts(setup->url[i], "https://");
        bool local = text_starts(setup->url[i], "http://127.") ||
                     text_starts(setup->url[i], "http://localhost") ||
                     text_starts(setup->url[i], "http://[::1]");
        bool plain = text_starts(setup->url[i], "http://") && setup->plain_ok;
        if (!tls && !local && !plain)
            return err_set(err, ERR_INVALID, "rpc \"%s\": must be https (or http on loopback)",
                           setup->url[i]);
    }
    if (!setup->url[0])
        return err_set(err, ERR_INVALID, "rpc for %s has no URL", setup->network);
    struct evm_rpc *rpc = xcalloc(1, sizeof(*rpc));
    rpc->setup = *setup;
    rpc->loop = loop;
    rpc->client = client;
    rpc->setup.network = rpc->network = xstrdup(setup->network);
    for (size_t i = 0; i < 2; i++)
        rpc->setup.url[i] = rpc->url[i] = setup->url[i] ? xstrdup(setup->url[i]) : NULL;
    *out = rpc;
    return ERR_OK;
}

static void inquiry_free(struct inquiry *q)
{
    if (q->call)
        q->call->op = NULL;
    if (q->http)
        http_call_cancel(q->http);
    loop_cancel(&q->timer);
    *q->link = q->next;
    if (q->next)
        q->next->link = q->link;
    for (size_t i = 0; i < ARRAY_LEN(q->texts); i++)
        free(q->texts[i]);
    free(q->body);
    free(q);
}

void evm_rpc_free(struct evm_rpc *rpc)
{
    if (!rpc)
        return;
    while (rpc->all)
        inquiry_free(rpc->all);
    free(rpc->network);
    free(rpc->url[0]);
    free(rpc->url[1]);
    free(rpc);
}

const char *evm_rpc_network(const struct evm_rpc *rpc)
{
    return rpc->network;
}

void evm_rpc_cancel(struct evm_rpc_call *call)
{
    if (call->op)
        inquiry_free(call->op);
    call->op = NULL;
}

static void inquiry_end(struct inquiry *q, enum evm_evidence evidence)
{
    char transaction[EVM_HASH_TEXT];
    (void)snprintf(transaction, sizeof(transaction), "%s",
                   evidence == EVM_MOVED ? q->transaction : "");
    evm_rpc_fn *fn = q->fn;
    void *arg = q->arg;
    inquiry_free(q);
    fn(arg, evidence, transaction);
}

static void on_end_now(struct loop_timer *timer)
{
    inquiry_end(timer->arg, EVM_NO_ANSWER);
}

/* ---- one step: a request, then what its answer leads to ---- */

static char *request_body(const struct inquiry *q)
{
    char payer[EVM_HASH_TEXT];
    switch (q->at) {
    case ASK_LOGS:
        evm_address_topic(q->question.payer, payer);
        return xasprintf(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getLogs\",\"params\":[{\"fromBlock\":"
            "\"0x%llx\","
            "\"toBlock\":\"0x%llx\",\"address\":\"%s\",\"topics\":[\"%s\",\"%s\",\"%s\"]}]}",
            (unsigned long long)q->from, (unsigned long long)q->to, q->question.asset,
            EVM_TOPIC_AUTHORIZATION_USED, payer, q->question.nonce);
    case ASK_RECEIPT:
        return xasprintf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getTransactionReceipt\","
                         "\"params\":[\"%s\"]}",
                         q->transaction);
    case ASK_HEAD:
    default:
        return xstrdup(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_blockNumber\",\"params\":[]}");
    }
}

static void on_answer(void *arg, const struct http_result *result);

static void ask(struct inquiry *q, enum inquiry_at at)
{
    static const struct http_header headers[] = { { "Content-Type", "application/json" },
                                                  { "Accept", "application/json" } };
    uint64_t now = loop_now_ms(q->rpc->loop);
    q->at = at;
    free(q->body);
    q->body = request_body(q);
    struct http_call_spec spec = {
        .method = "POST",
        .url = q->rpc->url[q->at_url],
        .headers = headers,
        .n_headers = ARRAY_LEN(headers),
        .body = q->body,
        .body_len = strlen(q->body),
        .deadline_ms = now < q->until_ms ? (uint32_t)(q->until_ms - now) : 1,
        .response_max = ANSWER_MAX,
        .done = on_answer,
        .arg = q,
    };
    struct err err;
    if (!http_call_start(q->rpc->client, &spec, &q->http, &err))
        return;
    log_warn("rpc_call_failed", log_str("error", err.msg));
    loop_after(q->rpc->loop, &q->timer, 0, on_end_now, q);
}

/* The window of blocks before `to`; false when the span is through. */
static bool window_before(struct inquiry *q, uint64_t to)
{
    uint64_t span = q->rpc->setup.span_blocks;
    uint64_t last = q->head > span ? q->head - span : 0;
    if (to < last)
        return false;
    q->to = to;
    q->from = to >= LOG_STEP && to - LOG_STEP + 1 > last ? to - LOG_STEP + 1 : last;
    return true;
}

static void after_head(struct inquiry *q, const json_t *result)
{
    if (!evm_quantity(result, &q->head) || !window_before(q, q->head))
        inquiry_end(q, EVM_NO_ANSWER);
    else
        ask(q, ASK_LOGS);
}

static void after_logs(struct inquiry *q, const json_t *result)
{
    if (!json_is_array(result))
        inquiry_end(q, EVM_NO_ANSWER);
    else if (evm_find_use(result, &q->question, q->transaction))
        ask(q, ASK_RECEIPT);
    else if (q->from > 0 && window_before(q, q->from - 1))
        ask(q, ASK_LOGS);
    else
        inquiry_end(q,
                    q->at_url == 0 ? EVM_NOT_SEEN : EVM_NO_ANSWER); /* the first one had seen it */
}

static void after_receipt(struct inquiry *q, const json_t *result)
{
    uint64_t block = 0;
    bool proven = evm_receipt_proves(result, q->transaction, &q->question, &block) &&
                  block <= q->head && q->head - block >= q->rpc->setup.confirmations;
    bool agreed = q->at_url == 0 || !strcmp(q->first, q->transaction);
    if (!proven || !agreed) {
        inquiry_end(q, EVM_NO_ANSWER);
    } else if (q->at_url == 0 && q->rpc->url[1]) {
        memcpy(q->first, q->transaction, sizeof(q->first));
        q->at_url = 1;
        ask(q, ASK_HEAD);
    } else {
        inquiry_end(q, EVM_MOVED);
    }
}

static void on_answer(void *arg, const struct http_result *result)
{
    struct inquiry *q = arg;
    json_t *value CLEANUP_JSON = NULL;
    struct err err = { 0 };
    q->http = NULL;
    if (result->outcome != HTTP_CALL_OK || result->status != 200 ||
        evm_result((const char *)result->body, result->body_len, &value, &err)) {
        log_warn("rpc_no_answer", log_str("network", q->rpc->network),
                 log_int("status", result->status),
                 log_str("why", result->why[0] ? result->why : err.msg));
        inquiry_end(q, EVM_NO_ANSWER);
        return;
    }
    if (q->at == ASK_HEAD)
        after_head(q, value);
    else if (q->at == ASK_LOGS)
        after_logs(q, value);
    else
        after_receipt(q, value);
}

void evm_rpc_ask(struct evm_rpc *rpc, const struct evm_question *question,
                 struct evm_rpc_call *call, evm_rpc_fn *fn, void *arg)
{
    struct inquiry *q = xcalloc(1, sizeof(*q));
    *q = (struct inquiry){
        .rpc = rpc, .call = call, .fn = fn, .arg = arg, .next = rpc->all, .link = &rpc->all
    };
    if (q->next)
        q->next->link = &q->next;
    rpc->all = q;
    call->op = q;
    const char *const given[] = { question->asset, question->payer, question->pay_to,
                                  question->nonce, question->amount };
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        q->texts[i] = xstrdup(given[i]);
    q->question =
        (struct evm_question){ q->texts[0], q->texts[1], q->texts[2], q->texts[3], q->texts[4] };
    q->until_ms = loop_now_ms(rpc->loop) + rpc->setup.deadline_ms;
    if (evm_question_valid(&q->question))
        ask(q, ASK_HEAD);
    else
        loop_after(rpc->loop, &q->timer, 0, on_end_now, q);
}
