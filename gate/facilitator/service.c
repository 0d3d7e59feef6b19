#include "gate/facilitator/service.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "gate/facilitator/script.h"
#include "http/server.h"

#define PENDING_STORE_S 300
#define HUGE_BODY (2 * 1024 * 1024)

struct service {
    struct loop *loop;
    struct book *book;
    struct service_config config;
    struct http_server *server;
    struct script script;
    uint64_t counts[SCRIPT_OP_N];
    uint64_t transfers;
};

/* One request from its head to its answer. */
struct job {
    struct service *s;
    struct http_request *request;
    enum script_op op;
    struct script_step step;
    struct loop_timer timer;
    char *body; /* owned, NUL-terminated */
    size_t len;
};

static void job_free(struct job *job)
{
    loop_cancel(&job->timer);
    free(job->body);
    free(job);
}

static void answer_raw(struct http_request *request, int status, const char *type, const char *body,
                       size_t len)
{
    const struct http_header headers[] = {
        { "Content-Type", type },
        { "Cache-Control", "no-store" },
        { "Utter-Facilitator", SERVICE_NOTE },
    };
    const struct http_header redirect[] = { { "Location", "http://127.0.0.1:9/" } };
    struct http_answer a = {
        .status = status,
        .headers = status == 307 ? redirect : headers,
        .n_headers = status == 307 ? 1 : ARRAY_LEN(headers),
        .body = body,
        .body_len = len,
    };
    http_answer(request, &a);
}

static void answer_json(struct http_request *request, int status, json_t *take_value)
{
    json_t *value CLEANUP_JSON = take_value;
    json_object_set_new(value, "simulated", json_string(SERVICE_NOTE));
    char *text CLEANUP_FREE = json_dumps(value, JSON_COMPACT);
    answer_raw(request, status, "application/json", text, strlen(text));
}

static void answer_error(struct http_request *request, int status, const char *text)
{
    answer_json(request, status, json_pack("{s:s}", "error", text));
}

/* ---- honest answers ---- */

static json_t *verify_answer(const struct judgement *j, const char *reason)
{
    json_t *v = json_pack("{s:b}", "isValid", reason == NULL);
    if (reason)
        json_object_set_new(v, "invalidReason", json_string(reason));
    if (j->payer[0])
        json_object_set_new(v, "payer", json_string(j->payer));
    return v;
}

static json_t *settle_answer(const struct judgement *j, const char *tx, const char *reason)
{
    char amount[U256_TEXT_MAX];
    json_t *v = json_pack("{s:b, s:s, s:s}", "success", reason == NULL, "transaction",
                          reason ? "" : tx, "network", j->network);
    if (reason)
        json_object_set_new(v, "errorReason", json_string(reason));
    if (j->payer[0])
        json_object_set_new(v, "payer", json_string(j->payer));
    if (!reason && j->p.kind == PAY_UPTO)
        json_object_set_new(v, "amount", json_string(u256_text(&j->charge, amount)));
    return v;
}

static int64_t wall_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

/* Whether the answer of an earlier settlement of this very authorization is given again. */
static bool given_again(const struct service *s, const struct judgement *j,
                        const struct book_transfer *earlier, int64_t now)
{
    char to[EVM_ADDRESS_TEXT], value[U256_TEXT_MAX];
    if (!earlier->found || s->config.resettle == RESETTLE_OFFICIAL ||
        strcmp(evm_address_text(&j->p.evm.to, to), earlier->pay_to) != 0 ||
        strcmp(u256_text(&j->charge, value), earlier->value) != 0)
        return false;
    return s->config.resettle == RESETTLE_IDEMPOTENT || now - earlier->at <= PENDING_STORE_S;
}

/* A signature that was good stays good: only its window may have closed since. */
static bool reason_is_window(const char *reason)
{
    return reason && (text_ends(reason, "valid_before") || text_ends(reason, "deadline_expired"));
}

static enum err_kind settle_now(struct service *s, const struct job *job, const struct judgement *j,
                                char tx[BOOK_TX_TEXT], const char **reason, struct err *err)
{
    struct book_transfer earlier = { 0 };
    int64_t now = wall_clock();
    *reason = j->reason;
    tx[0] = '\0';
    if (j->key[0] && book_find(s->book, j->key, &earlier, err))
        return err->kind;
    if ((!j->reason || reason_is_window(j->reason)) && given_again(s, j, &earlier, now)) {
        memcpy(tx, earlier.tx, BOOK_TX_TEXT);
        *reason = NULL;
        return ERR_OK;
    }
    if (j->reason)
        return ERR_OK;
    if (book_move(s->book, j, now, false, job->body, tx, reason, err))
        return err->kind;
    if (tx[0])
        s->transfers++;
    return ERR_OK;
}

/* ---- misbehaviour ---- */

static void gone(struct http_request *request, void *arg)
{
    http_answer_reset(request);
    job_free(arg);
}

static void answer_cut(struct job *job, json_t *take_value)
{
    json_t *value CLEANUP_JSON = take_value;
    char *text CLEANUP_FREE = json_dumps(value, JSON_COMPACT);
    size_t len = strlen(text);
    http_answer_begin(job->request, 200, NULL, 0, (int64_t)len);
    http_answer_write(job->request, text, len / 2);
    http_answer_reset(job->request);
}

static void answer_huge(struct job *job)
{
    char *text CLEANUP_FREE = xmalloc(HUGE_BODY);
    memset(text, ' ', HUGE_BODY);
    text[0] = '{';
    text[HUGE_BODY - 1] = '}';
    answer_raw(job->request, 200, "application/json", text, HUGE_BODY);
}

static void twist(json_t *v, const struct job *job, const struct judgement *j)
{
    bool settle = job->op == SCRIPT_SETTLE;
    const char *flag = settle ? "success" : "isValid";
    char amount[U256_TEXT_MAX];
    struct u256 more = j->charge;
    enum reply reply = job->step.mode->reply;
    if (reply == REPLY_TRUTHY)
        json_object_set_new(v, flag, json_string("true"));
    else if (reply == REPLY_NO_TX)
        json_object_set_new(v, "transaction", json_string(""));
    else if (reply == REPLY_NO_NETWORK)
        json_object_del(v, "network");
    else if (reply == REPLY_WRONG_NETWORK)
        json_object_set_new(v, "network", json_string("eip155:1"));
    else if (reply == REPLY_WRONG_PAYER)
        json_object_set_new(v, "payer", json_string("0x00000000000000000000000000000000DeaDBeef"));
    else if (reply == REPLY_ZERO_PAYER)
        json_object_set_new(v, "payer", json_string("0x0000000000000000000000000000000000000000"));
    else if (reply == REPLY_WRONG_AMOUNT && u256_mul_add(&more, 10, 0))
        json_object_set_new(v, "amount", json_string(u256_text(&more, amount)));
}

static json_t *refusal(const struct job *job, const struct judgement *j)
{
    const char *reason = job->step.reason ? job->step.reason : "insufficient_funds";
    return job->op == SCRIPT_SETTLE ? settle_answer(j, "", reason) : verify_answer(j, reason);
}

static json_t *pending(const struct judgement *j, const char *tx)
{
    json_t *v = settle_answer(j, "", "settlement_pending");
    json_object_set_new(
        v, "transaction",
        json_string(tx[0] ? tx
                          : "0x00000000000000000000000000000000000000000000000000000000000000aa"));
    return v;
}

/* Ends the request, or (hang) leaves it to gone(). `take_honest` is what the truth would be. */
static void answer_as_told(struct job *job, const struct judgement *j, const char *tx,
                           json_t *take_honest)
{
    json_t *honest CLEANUP_JSON = take_honest;
    const struct script_mode *mode = job->step.mode;
    switch (mode->reply) {
    case REPLY_HANG:
        http_request_on_gone(job->request, gone, job);
        return;
    case REPLY_RESET:
        http_answer_reset(job->request);
        break;
    case REPLY_CUT:
        answer_cut(job, STEAL(honest));
        break;
    case REPLY_STATUS:
        answer_error(job->request, mode->status, "scripted fault");
        break;
    case REPLY_REFUSE:
        answer_json(job->request, mode->status, refusal(job, j));
        break;
    case REPLY_PENDING:
        answer_json(job->request, mode->status, pending(j, tx));
        break;
    case REPLY_HTML:
        answer_raw(job->request, 200, "text/html", "<html>fine</html>", 17);
        break;
    case REPLY_EMPTY:
        answer_raw(job->request, 200, "application/json", "{}", 2);
        break;
    case REPLY_REDIRECT:
        answer_raw(job->request, 307, "text/plain", "", 0);
        break;
    case REPLY_HUGE:
        answer_huge(job);
        break;
    case REPLY_HONEST:
    case REPLY_TRUTHY:
    case REPLY_NO_TX:
    case REPLY_NO_NETWORK:
    case REPLY_WRONG_NETWORK:
    case REPLY_WRONG_PAYER:
    case REPLY_ZERO_PAYER:
    case REPLY_WRONG_AMOUNT:
        twist(honest, job, j);
        answer_json(job->request, 200, STEAL(honest));
        break;
    }
    job_free(job);
}

/* ---- operations ---- */

static void log_outcome(const struct job *job, const struct judgement *j, const char *tx,
                        const char *reason)
{
    log_info(job->op == SCRIPT_SETTLE ? "settle" : "verify", log_str("payer", j->payer),
             log_str("reason", reason ? reason : ""), log_str("tx", tx),
             log_str("mode", job->step.mode->name));
}

static void operate(struct job *job)
{
    struct service *s = job->s;
    struct judgement j CLEANUP(judgement_fini);
    bool settle = job->op == SCRIPT_SETTLE;
    char tx[BOOK_TX_TEXT] = "";
    const char *reason;
    struct err err;
    enum err_kind kind = ERR_OK;
    judge(job->body, job->len, settle, wall_clock(), &s->config.address, &s->config.wallets, &j);
    reason = j.reason;
    if (settle && job->step.mode->moves)
        kind = settle_now(s, job, &j, tx, &reason, &err);
    else if (!settle && !reason)
        kind = book_move(s->book, &j, wall_clock(), true, "", tx, &reason, &err);
    if (kind) {
        log_error("book_failed", log_str("error", err.msg));
        answer_error(job->request, 503, "the book cannot be written");
        job_free(job);
        return;
    }
    log_outcome(job, &j, tx, reason);
    answer_as_told(job, &j, tx, settle ? settle_answer(&j, tx, reason) : verify_answer(&j, reason));
}

static void operate_later(struct loop_timer *timer)
{
    operate(timer->arg);
}

static void add_kind(json_t *kinds, int version, const char *scheme, const char *network,
                     const char *facilitator)
{
    json_t *kind =
        json_pack("{s:i, s:s, s:s}", "x402Version", version, "scheme", scheme, "network", network);
    if (facilitator)
        json_object_set_new(kind, "extra", json_pack("{s:s}", "facilitatorAddress", facilitator));
    json_array_append_new(kinds, kind);
}

static json_t *supported(const struct service *s)
{
    static const char *const networks[] = { "eip155:8453",  "eip155:84532", "eip155:1",
                                            "eip155:43114", "eip155:43113", "eip155:137",
                                            "eip155:80002" };
    char address[EVM_ADDRESS_TEXT];
    json_t *kinds = json_array();
    evm_address_text(&s->config.address, address);
    for (size_t i = 0; i < ARRAY_LEN(networks); i++) {
        const struct network *n = network_by_caip2(networks[i]);
        add_kind(kinds, 2, "exact", networks[i], NULL);
        add_kind(kinds, 2, "upto", networks[i], address);
        if (n && n->v1)
            add_kind(kinds, 1, "exact", n->v1, NULL);
    }
    return json_pack("{s:o, s:[], s:{s:[s]}}", "kinds", kinds, "extensions", "signers", "eip155:*",
                     address);
}

static void answer_supported(struct job *job)
{
    struct judgement nothing = { 0 };
    if (job->step.mode->reply == REPLY_HONEST) {
        answer_json(job->request, 200, supported(job->s));
        job_free(job);
        return;
    }
    answer_as_told(job, &nothing, "", json_object());
}

static void got_body(struct http_request *request, enum http_body result, const void *data,
                     size_t len, void *arg)
{
    struct job *job = arg;
    if (result != HTTP_BODY_OK) {
        answer_error(request, result == HTTP_BODY_TOO_LARGE ? 413 : 400, "body not read");
        job_free(job);
        return;
    }
    job->body = xstrndup(data ? data : "", len);
    job->len = strlen(job->body); /* a NUL ends it, and strict JSON has none */
    if (job->len != len) {
        answer_error(request, 400, "NUL in body");
        job_free(job);
    } else if (job->step.ms) {
        loop_after(job->s->loop, &job->timer, job->step.ms, operate_later, job);
    } else {
        operate(job);
    }
}

/* ---- what tests read and set ---- */

static void answer_book(struct service *s, struct http_request *request, bool bodies)
{
    json_t *dump = NULL;
    struct err err;
    if (book_dump(s->book, bodies, &dump, &err))
        answer_error(request, 503, err.msg);
    else
        answer_json(request, 200, dump);
}

static void answer_stats(const struct service *s, struct http_request *request)
{
    answer_json(request, 200,
                json_pack("{s:I, s:I, s:I, s:I}", "verify", (json_int_t)s->counts[SCRIPT_VERIFY],
                          "settle", (json_int_t)s->counts[SCRIPT_SETTLE], "supported",
                          (json_int_t)s->counts[SCRIPT_SUPPORTED], "transfers",
                          (json_int_t)s->transfers));
}

static enum err_kind fund(struct service *s, const char *text, size_t len, struct err *err)
{
    json_t *root CLEANUP_JSON = NULL;
    const char *network = NULL, *asset = NULL, *account = NULL, *balance = NULL;
    struct u256 amount;
    if (json_strict_load(text, len, 4096, 0, &root, err) ||
        json_get_string(root, "network", true, &network, err) ||
        json_get_string(root, "asset", true, &asset, err) ||
        json_get_string(root, "account", true, &account, err) ||
        json_get_string(root, "balance", true, &balance, err))
        return err->kind;
    if (!u256_parse(balance, &amount))
        return err_set(err, ERR_INVALID, "balance is no whole number");
    return book_fund(s->book, network, asset, account, &amount, err);
}

static void got_setting(struct http_request *request, enum http_body result, const void *data,
                        size_t len, void *arg)
{
    struct service *s = arg;
    struct err err;
    bool script = http_str_is(http_request_head(request)->path, "/script");
    if (result != HTTP_BODY_OK)
        answer_error(request, 400, "body not read");
    else if (script ? script_set(&s->script, data ? data : "", len, &err)
                    : fund(s, data ? data : "", len, &err))
        answer_error(request, 400, err.msg);
    else
        answer_json(request, 200, json_pack("{s:b}", "ok", 1));
}

/* ---- dispatch ---- */

static bool token_ok(const struct service *s, const struct http_head *head)
{
    const struct http_field *f = http_find(head, "Authorization");
    char *want CLEANUP_FREE = s->config.token ? xasprintf("Bearer %s", s->config.token) : NULL;
    return !want ||
           (f && f->value.len == strlen(want) && text_equal_secret(f->value.p, want, f->value.len));
}

static void start_job(struct service *s, struct http_request *request, enum script_op op)
{
    s->counts[op]++;
    if (!token_ok(s, http_request_head(request))) {
        answer_error(request, 401, "bearer token missing or wrong");
        return;
    }
    struct job *job = xcalloc(1, sizeof(*job));
    *job =
        (struct job){ .s = s, .request = request, .op = op, .step = script_next(&s->script, op) };
    if (op == SCRIPT_SUPPORTED)
        answer_supported(job);
    else
        http_request_read_body(request, JUDGE_BODY_MAX, got_body, job);
}

static void on_request(void *arg, struct http_request *request)
{
    struct service *s = arg;
    const struct http_head *head = http_request_head(request);
    bool get = head->method == HTTP_GET, post = head->method == HTTP_POST;
    if (post && http_str_is(head->path, "/verify"))
        start_job(s, request, SCRIPT_VERIFY);
    else if (post && http_str_is(head->path, "/settle"))
        start_job(s, request, SCRIPT_SETTLE);
    else if (get && http_str_is(head->path, "/supported"))
        start_job(s, request, SCRIPT_SUPPORTED);
    else if (get && (http_str_is(head->path, "/") || http_str_is(head->path, "/healthz")))
        answer_json(request, 200, json_pack("{s:s}", "program", "utter-facilitator"));
    else if (get && http_str_is(head->path, "/book"))
        answer_book(s, request, http_str_is(head->query, "bodies=1"));
    else if (get && http_str_is(head->path, "/stats"))
        answer_stats(s, request);
    else if (post && s->config.faults &&
             (http_str_is(head->path, "/script") || http_str_is(head->path, "/fund")))
        http_request_read_body(request, 65536, got_setting, s);
    else
        answer_error(request, 404, "no such operation");
}

enum err_kind service_new(struct loop *loop, struct book *book, const struct service_config *config,
                          const char *listen, struct service **out, struct err *err)
{
    struct service *s CLEANUP(service_freep) = xcalloc(1, sizeof(*s));
    s->loop = loop;
    s->book = book;
    s->config = *config;
    struct http_server_config server = { .on_request = on_request, .arg = s };
    if (http_server_new(loop, &server, &s->server, err) ||
        http_server_listen(s->server, listen, err))
        return err->kind;
    *out = STEAL(s);
    return ERR_OK;
}

void service_free(struct service *s)
{
    if (!s)
        return;
    http_server_free(s->server);
    script_fini(&s->script);
    free(s);
}

int service_port(const struct service *s)
{
    return http_server_port(s->server, 0);
}
