#include "gate/pay/call.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"

#define ANSWER_MAX (64 * 1024 * 1024)
#define WAIT_DEFAULT_S 2
#define WAIT_MAX_S 30

static enum err_kind send_once(struct pay_call *c, const struct http_header *extra, size_t n_extra,
                               struct err *err)
{
    const struct pay_request *r = c->request;
    struct http_header *headers CLEANUP_FREE =
        xcalloc(r->n_headers + n_extra + 1, sizeof(*headers));
    if (r->n_headers)
        memcpy(headers, r->headers, r->n_headers * sizeof(*headers));
    if (n_extra)
        memcpy(headers + r->n_headers, extra, n_extra * sizeof(*headers));
    struct http_call_spec spec = {
        .method = r->method,
        .url = r->url,
        .headers = headers,
        .n_headers = r->n_headers + n_extra,
        .body = r->body,
        .body_len = r->body_len,
        .has_body = r->body != NULL,
        .deadline_ms = r->deadline_ms,
        .response_max = ANSWER_MAX,
        .flags = HTTP_CALL_FRESH,
    };
    http_stored_fini(&c->answer);
    return http_call_wait(c->loop, c->client, &spec, &c->answer, err);
}

enum err_kind pay_ask(struct pay_call *c, struct err *err)
{
    if (send_once(c, NULL, 0, err))
        return err->kind;
    const struct http_result *r = &c->answer.result;
    if (r->outcome != HTTP_CALL_OK)
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", http_call_outcome_name(r->outcome), r->why);
    return ERR_OK;
}

/* Seconds of Retry-After, 0 when absent or a date. */
static uint64_t retry_after(const struct http_result *r)
{
    const struct http_field *f = http_result_find(r, "Retry-After");
    uint64_t s = 0;
    char *text CLEANUP_FREE = f ? http_str_dup(f->value) : NULL;
    if (!text || !text_u64(text, &s))
        return 0;
    return s > WAIT_MAX_S ? WAIT_MAX_S : s;
}

/* Whether the identical payment is to be sent again: no outcome yet, or asked to wait. */
static bool again(const struct http_result *r, uint64_t *wait_s)
{
    uint64_t asked = retry_after(r);
    *wait_s = asked ? asked : WAIT_DEFAULT_S;
    if (r->outcome != HTTP_CALL_OK)
        return true;
    return (r->status == 503 || r->status == 429 || r->status == 409) && asked;
}

static uint64_t monotonic_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec;
}

static enum pay_exit judge_answer(const struct http_result *r, struct err *err)
{
    if (r->status >= 200 && r->status < 300)
        return PAY_DONE;
    if (r->status == 402 || r->status == 400 || r->status == 412) {
        err_set(err, ERR_DENIED, "the seller did not take the payment (HTTP %d)", r->status);
        return PAY_REFUSED;
    }
    if (r->status == 409 || r->status == 500 || r->status == 503) {
        err_set(err, ERR_UNAVAILABLE, "the seller does not say whether it charged (HTTP %d)",
                r->status);
        return PAY_UNKNOWN;
    }
    err_set(err, ERR_UNAVAILABLE, "HTTP %d", r->status);
    return PAY_HTTP;
}

enum pay_exit pay_send(struct pay_call *c, const char *header_name, const char *payment,
                       void (*tell)(const char *line), struct err *err)
{
    const struct http_header headers[] = { { header_name, payment },
                                           { "Utter-Resume", c->resume } };
    uint64_t end = monotonic_s() + c->request->retry_for_s, wait_s = 0;
    for (;;) {
        if (send_once(c, headers, ARRAY_LEN(headers), err))
            return PAY_LOCAL;
        const struct http_result *r = &c->answer.result;
        if (!again(r, &wait_s))
            return judge_answer(r, err);
        char why[96];
        snprintf(why, sizeof(why), "%s",
                 r->outcome == HTTP_CALL_OK ? "not settled yet"
                                            : http_call_outcome_name(r->outcome));
        if (monotonic_s() + wait_s > end) {
            err_set(err, ERR_TIMEOUT, "no outcome in %u s (%s)", c->request->retry_for_s, why);
            return PAY_UNKNOWN;
        }
        char line[200];
        snprintf(line, sizeof(line), "%s; sending the same payment again in %llu s", why,
                 (unsigned long long)wait_s);
        tell(line);
        (void)nanosleep(&(struct timespec){ .tv_sec = (time_t)wait_s }, NULL);
    }
}

static enum err_kind check_receipt(const json_t *receipt, const struct purchase *p, struct err *err)
{
    const char *tx = json_string_value(json_object_get(receipt, "transaction"));
    const char *network = json_string_value(json_object_get(receipt, "network"));
    const char *payer = json_string_value(json_object_get(receipt, "payer"));
    const char *wanted = json_string_value(json_object_get(p->chosen, "network"));
    struct evm_address a, b;
    if (!json_is_true(json_object_get(receipt, "success")) || !tx || !*tx)
        return err_set(err, ERR_INVALID, "the receipt tells of no transaction");
    if (!network || (wanted && strcmp(network, wanted) != 0))
        return err_set(err, ERR_INVALID, "the receipt names another network");
    if (payer && p->payer[0] && evm_address_parse(payer, &a) && evm_address_parse(p->payer, &b) &&
        !evm_address_equal(&a, &b))
        return err_set(err, ERR_INVALID, "the receipt names another payer");
    return ERR_OK;
}

enum err_kind pay_receipt(const struct pay_call *c, const struct purchase *p, json_t **out,
                          struct err *err)
{
    const char *name = p->version == 1 ? "X-PAYMENT-RESPONSE" : "PAYMENT-RESPONSE";
    const struct http_field *f = http_result_find(&c->answer.result, name);
    json_t *receipt CLEANUP_JSON = NULL;
    size_t n = 0;
    *out = NULL;
    if (!f)
        return ERR_OK;
    if (f->value.len > 65536)
        return err_set(err, ERR_INVALID, "receipt too long");
    uint8_t *text CLEANUP_FREE = xmalloc(f->value.len / 4 * 3 + 4);
    if (!text_unb64(f->value.p, f->value.len, text, &n) ||
        json_strict_load((const char *)text, n, 65536, 0, &receipt, NULL))
        return err_set(err, ERR_INVALID, "the receipt cannot be read");
    if (check_receipt(receipt, p, err))
        return err->kind;
    *out = STEAL(receipt);
    return ERR_OK;
}
