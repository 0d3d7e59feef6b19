#include "gate/settle_outcome.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/own.h"
#include "base/text.h"

/*
 * Reasons that a facilitator finds before it broadcasts, and that cannot become true by a transfer
 * of this same payment: signature, recipient, amount, scheme, network, shape of the payload, too
 * little balance or allowance. What a diagnosis after a failed simulation may also say (token name
 * or version, asset without code, proxy not deployed) is left out: it follows from a state of the
 * chain that a transfer may have changed. Source of the strings: x402 specification v1, v2 and
 * SDK 2.27.
 */
const char *const settle_refusals[] = {
    "insufficient_funds",
    "invalid_exact_evm_payload_signature",
    "invalid_exact_evm_payload_recipient_mismatch",
    "invalid_exact_evm_payload_authorization_value",
    "invalid_exact_evm_payload_authorization_value_mismatch",
    "invalid_network",
    "invalid_payload",
    "invalid_payment",
    "invalid_payment_requirements",
    "invalid_scheme",
    "unsupported_scheme",
    "unsupported_payload_type",
    "invalid_x402_version",
    "invalid_exact_evm_scheme",
    "invalid_exact_evm_network_mismatch",
    "invalid_exact_evm_missing_eip712_domain",
    "invalid_exact_evm_recipient_mismatch",
    "invalid_exact_evm_signature",
    "invalid_exact_evm_failed_to_parse_signature",
    "invalid_exact_evm_authorization_value",
    "invalid_exact_evm_insufficient_balance",
    "permit2_allowance_required",
    "permit2_amount_mismatch",
    "permit2_insufficient_balance",
    "permit2_invalid_amount",
    "permit2_invalid_destination",
    "permit2_invalid_owner",
    "permit2_token_mismatch",
    "invalid_permit2_recipient_mismatch",
    "invalid_permit2_signature",
    "invalid_permit2_spender",
    "invalid_upto_evm_scheme",
    "invalid_upto_evm_network_mismatch",
    "invalid_upto_evm_payload_settlement_exceeds_amount",
    "upto_amount_exceeds_permitted",
    "upto_facilitator_mismatch",
    NULL,
};

static bool reason_refuses(const char *reason)
{
    for (const char *const *r = settle_refusals; *r; r++) {
        if (!strcmp(*r, reason))
            return true;
    }
    return false;
}

bool facilitator_reason_nonce_used(const char *reason)
{
    static const char *const parts[] = {
        "nonce",        "simulation_failed", "duplicate",
        "already_used", "already_known",     "authorization_used"
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (strcasestr(reason, parts[i]))
            return true;
    }
    return false;
}

/* Copies a string member whole if it is short enough and all its bytes are alphanumeric or in
 * `extra`; else "". False when the member is there and is no such string (null counts as absent).
 */
static bool take_word(const json_t *object, const char *key, const char *extra, char *out,
                      size_t size)
{
    out[0] = '\0';
    const json_t *member = json_object_get(object, key);
    if (!member || json_is_null(member))
        return true;
    const char *s = json_string_value(member);
    if (!s || strlen(s) >= size)
        return false;
    for (const char *p = s; *p; p++) {
        bool alnum =
            (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!alnum && !strchr(extra, *p))
            return false;
    }
    (void)snprintf(out, size, "%s", s);
    return true;
}

static bool same_account(const char *a, const char *b)
{
    bool hex = text_starts(a, "0x") && text_starts(b, "0x");
    return hex ? !strcasecmp(a, b) : !strcmp(a, b);
}

/* Canonical decimal: "0" or digits without leading zero. */
static bool is_decimal(const char *s)
{
    size_t n = strspn(s, "0123456789");
    return n > 0 && s[n] == '\0' && (s[0] != '0' || n == 1);
}

static bool decimal_above(const char *a, const char *b)
{
    size_t na = strlen(a);
    size_t nb = strlen(b);
    return na != nb ? na > nb : strcmp(a, b) > 0;
}

/* A status under which a body may speak as the facilitator's judgement. */
static bool status_business(int status)
{
    bool refused_us = status == 401 || status == 403 || status == 408 || status == 429;
    return (status >= 200 && status < 300) || (status >= 400 && status < 500 && !refused_us);
}

static bool status_operators(int status, bool judged)
{
    bool passing = status == 408 || status == 429;
    return status == 401 || status == 403 || (status >= 400 && status < 500 && !judged && !passing);
}

static const char *transport_words(enum facilitator_transport transport)
{
    switch (transport) {
    case FACILITATOR_NOT_SENT:
        return "not sent";
    case FACILITATOR_LOST:
        return "reply lost";
    case FACILITATOR_TIMED_OUT:
        return "timed out";
    case FACILITATOR_ANSWERED:
    default:
        return "answered";
    }
}

/* The body as an object with a boolean member `verdict`, or NULL. */
static json_t *read_judgement(const struct facilitator_reply *reply, const char *verdict)
{
    json_t *root CLEANUP_JSON = NULL;
    if (!reply->body ||
        json_strict_load(reply->body, reply->len, FACILITATOR_ANSWER_MAX, 0, &root, NULL))
        return NULL;
    return json_is_boolean(json_object_get(root, verdict)) ? STEAL(root) : NULL;
}

#define SET_WHY(out, ...) (void)snprintf((out)->why, sizeof((out)->why), __VA_ARGS__)

/* Why a claimed success is not one, or NULL. */
static const char *success_fault(const struct settle_asked *asked, const json_t *root,
                                 const struct settle_outcome *out, bool members_ok)
{
    const char *network = json_string_value(json_object_get(root, "network"));
    if (!members_ok)
        return "success with a malformed member";
    if (!network ||
        (strcmp(network, asked->network) && (!asked->network2 || strcmp(network, asked->network2))))
        return "success on another network";
    if (!out->transaction[0] && !asked->empty_transaction)
        return "success without transaction";
    if (out->payer[0] && asked->payer[0] && !same_account(out->payer, asked->payer))
        return "success for another payer";
    if (out->amount[0] && (!is_decimal(out->amount) || decimal_above(out->amount, asked->amount)))
        return "success with a wrong amount";
    return NULL;
}

static void read_success(const struct settle_asked *asked, const json_t *root, int status,
                         bool members_ok, struct settle_outcome *out)
{
    const char *fault = success_fault(asked, root, out, members_ok);
    if (!fault && (status < 200 || status >= 300))
        fault = "success under an error status";
    out->lied = fault != NULL;
    out->verdict = fault ? SETTLE_UNKNOWN : SETTLE_SETTLED;
    SET_WHY(out, "%s", fault ? fault : "settled");
}

static void read_failure(const struct settle_asked *asked, const json_t *root, int status,
                         bool members_ok, struct settle_outcome *out)
{
    const json_t *transaction = json_object_get(root, "transaction");
    bool empty = !transaction || json_is_null(transaction) ||
                 !strcmp(json_string_value(transaction) ?: "x", "");
    out->pending = !strcmp(out->reason, "settlement_pending");
    out->nonce_used = facilitator_reason_nonce_used(out->reason);
    if (!status_business(status))
        SET_WHY(out, "status %d", status);
    else if (!asked->first_send || !asked->delivered_once)
        SET_WHY(out, "refused, but not on a single first send");
    else if (!members_ok || !empty)
        SET_WHY(out, "refused with a transaction");
    else if (!reason_refuses(out->reason))
        SET_WHY(out, "refused with a reason that proves nothing");
    else {
        out->verdict = SETTLE_REFUSED;
        SET_WHY(out, "refused");
    }
}

void settle_outcome_read(const struct settle_asked *asked, const struct facilitator_reply *reply,
                         struct settle_outcome *out)
{
    *out = (struct settle_outcome){ .verdict = SETTLE_UNKNOWN };
    if (reply->transport != FACILITATOR_ANSWERED) {
        SET_WHY(out, "%s", transport_words(reply->transport));
        return;
    }
    json_t *root CLEANUP_JSON = read_judgement(reply, "success");
    out->operators = status_operators(reply->status, root != NULL);
    if (!root) {
        SET_WHY(out, "status %d without a judgement", reply->status);
        return;
    }
    bool ok = take_word(root, "errorReason", "_.:-", out->reason, sizeof(out->reason));
    ok &= take_word(root, "transaction", "_.:@/+=-", out->transaction, sizeof(out->transaction));
    ok &= take_word(root, "payer", "_.:@/+=-", out->payer, sizeof(out->payer));
    ok &= take_word(root, "amount", "", out->amount, sizeof(out->amount));
    if (json_is_true(json_object_get(root, "success")))
        read_success(asked, root, reply->status, ok, out);
    else
        read_failure(asked, root, reply->status, ok, out);
}

static void read_verdict(const char *payer, const json_t *root, int status,
                         struct verify_outcome *out)
{
    bool valid = json_is_true(json_object_get(root, "isValid"));
    if (valid && (status < 200 || status >= 300)) {
        SET_WHY(out, "valid under status %d", status);
    } else if (valid && out->payer[0] && payer[0] && !same_account(out->payer, payer)) {
        SET_WHY(out, "valid for another payer");
    } else if (valid) {
        out->verdict = VERIFY_VALID;
        SET_WHY(out, "valid");
    } else {
        bool allowance = !strcmp(out->reason, "permit2_allowance_required");
        out->verdict = allowance ? VERIFY_ALLOWANCE : VERIFY_INVALID;
        out->nonce_used = facilitator_reason_nonce_used(out->reason);
        SET_WHY(out, "invalid");
    }
}

void verify_outcome_read(const char *payer, const struct facilitator_reply *reply,
                         struct verify_outcome *out)
{
    *out = (struct verify_outcome){ .verdict = VERIFY_UNAVAILABLE };
    if (reply->transport != FACILITATOR_ANSWERED) {
        SET_WHY(out, "%s", transport_words(reply->transport));
        return;
    }
    json_t *root CLEANUP_JSON = read_judgement(reply, "isValid");
    if (status_operators(reply->status, root != NULL)) {
        out->verdict = VERIFY_OPERATORS;
        SET_WHY(out, "status %d: not authorised, or the request was not understood", reply->status);
        return;
    }
    if (!root || !status_business(reply->status)) {
        SET_WHY(out, "status %d without a judgement", reply->status);
        return;
    }
    (void)take_word(root, "invalidReason", "_.:-", out->reason, sizeof(out->reason));
    if (!take_word(root, "payer", "_.:@/+=-", out->payer, sizeof(out->payer))) {
        SET_WHY(out, "malformed payer");
        return;
    }
    read_verdict(payer, root, reply->status, out);
}

const char *settle_verdict_name(enum settle_verdict verdict)
{
    switch (verdict) {
    case SETTLE_SETTLED:
        return "settled";
    case SETTLE_REFUSED:
        return "refused";
    case SETTLE_UNKNOWN:
    default:
        return "unknown";
    }
}

const char *verify_verdict_name(enum verify_verdict verdict)
{
    switch (verdict) {
    case VERIFY_VALID:
        return "valid";
    case VERIFY_INVALID:
        return "invalid";
    case VERIFY_ALLOWANCE:
        return "allowance";
    case VERIFY_OPERATORS:
        return "operators";
    case VERIFY_UNAVAILABLE:
    default:
        return "unavailable";
    }
}
