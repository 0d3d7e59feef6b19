#include "gate/classify.h"

#include <string.h>

#include "base/json.h"

static struct classified replace(int status, const char *why)
{
    return (struct classified){ SALE_REPLACE, status, why };
}

static struct classified pass(int status, const char *why)
{
    return (struct classified){ SALE_PASS, status, why };
}

/* Calls that brought no complete answer. */
static struct classified classify_failure(const struct http_result *r)
{
    switch (r->outcome) {
    case HTTP_CALL_TIMEOUT:
        return replace(504, "handler_timeout");
    case HTTP_CALL_NO_CONNECT:
    case HTTP_CALL_DENIED:
        return replace(502, "handler_unreachable");
    case HTTP_CALL_TOO_LARGE:
        return replace(502, "handler_answer_too_large");
    case HTTP_CALL_BAD_ANSWER:
        return replace(502, "handler_answer_malformed");
    case HTTP_CALL_BROKEN:
    case HTTP_CALL_ABORTED:
    case HTTP_CALL_OK:
    default:
        return replace(502, "handler_answer_cut");
    }
}

static bool media_type_is(const struct http_result *r, const char *want)
{
    const struct http_field *f = http_result_find(r, "Content-Type");
    if (!f)
        return false;
    struct http_str type = f->value;
    const char *end = type.len ? memchr(type.p, ';', type.len) : NULL;
    if (end)
        type.len = (size_t)(end - type.p);
    while (type.len && (type.p[type.len - 1] == ' ' || type.p[type.len - 1] == '\t'))
        type.len--;
    return http_str_is_nocase(type, want);
}

/* NULL, or why the JSON body is not what the route promised. */
static const char *check_json(const struct http_result *r, const struct answer_rule *rule)
{
    json_t *root CLEANUP_JSON = NULL;
    if (json_strict_load((const char *)r->body, r->body_len, JSON_SIZE_MAX, JSON_DECODE_ANY, &root,
                         NULL))
        return "answer_is_not_json";
    if (rule->json_pointer) {
        const json_t *at = json_at(root, rule->json_pointer);
        if (!at || json_is_null(at))
            return "answer_lacks_member";
    }
    if (rule->no_error_key) {
        const json_t *error = json_object_get(root, "error");
        if (error && !json_is_null(error))
            return "answer_is_an_error";
    }
    return NULL;
}

static bool ends_with(const struct http_result *r, const char *marker)
{
    size_t n = strlen(marker);
    return r->body_len >= n && memcmp(r->body + r->body_len - n, marker, n) == 0;
}

/* NULL, or why the body cannot be sold. */
static const char *check_body(const struct http_result *r, const struct answer_rule *rule,
                              bool may_be_empty)
{
    if (r->body_len == 0 && may_be_empty)
        return NULL;
    if (r->body_len == 0)
        return "answer_is_empty";
    if (rule->content_type && !media_type_is(r, rule->content_type))
        return "answer_has_another_type";
    if (rule->end_marker && !ends_with(r, rule->end_marker))
        return "answer_lacks_its_end";
    return rule->json ? check_json(r, rule) : NULL;
}

static struct classified sell(const struct http_result *r, const struct answer_rule *rule,
                              bool may_be_empty)
{
    const char *why = check_body(r, rule, may_be_empty);
    return why ? replace(502, why) : (struct classified){ SALE_SOLD, r->status, "sold" };
}

static struct classified classify_error(const struct http_result *r, const struct answer_rule *rule)
{
    if (r->status == 402) /* a challenge of its own would take the buyer's next payment */
        return replace(502, "handler_asked_for_payment");
    if (r->status >= 500)
        return rule->on_5xx == ON_ERROR_PASS && r->body_len <= CLASSIFY_ERROR_BODY_MAX
                   ? pass(r->status, "handler_error")
                   : replace(502, "handler_error");
    if (rule->on_4xx == ON_ERROR_PASS && r->body_len <= CLASSIFY_ERROR_BODY_MAX)
        return pass(r->status, "handler_refused");
    return replace(r->status, "handler_refused");
}

struct classified classify(const struct http_result *r, const struct answer_rule *rule,
                           enum http_method method)
{
    if (r->outcome != HTTP_CALL_OK)
        return classify_failure(r);
    if (r->framing == HTTP_FRAMED_CLOSE && !rule->close_delimited)
        return replace(502, "handler_sent_neither_length_nor_chunked");
    const struct http_field *coding = http_result_find(r, "Content-Encoding");
    if (coding && !http_str_is_nocase(coding->value, "identity"))
        return replace(502, "handler_answer_encoded");
    if (r->status >= 400)
        return r->status == 404 && rule->charge_404 ? sell(r, rule, true) : classify_error(r, rule);
    if (r->status >= 300)
        return r->status != 304 && rule->charge_3xx ? sell(r, rule, true)
                                                    : pass(r->status, "redirect");
    switch (r->status) {
    case 200:
    case 201:
    case 203:
        return sell(r, rule, rule->allow_empty || method == HTTP_HEAD);
    case 202:
        return rule->charge_202 ? sell(r, rule, true) : pass(202, "accepted");
    case 204:
        return rule->charge_204 ? sell(r, rule, true) : pass(204, "no_content");
    default:
        return pass(r->status, "not_an_answer");
    }
}
