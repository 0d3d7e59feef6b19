#include "gate/evm_log.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/u256.h"

enum err_kind evm_result(const char *body, size_t len, json_t **out, struct err *err)
{
    json_t *root CLEANUP_JSON = NULL;
    if (json_strict_load(body, len, JSON_SIZE_MAX, 0, &root, err))
        return err->kind;
    json_t *result = json_object_get(root, "result");
    if (!result || json_object_get(root, "error"))
        return err_set(err, ERR_INVALID, "RPC answered with an error");
    *out = json_incref(result);
    return ERR_OK;
}

bool evm_quantity(const json_t *value, uint64_t *out)
{
    const char *s = json_string_value(value);
    if (!s || !text_starts(s, "0x") || !s[2] || strlen(s) > 18 || (s[2] == '0' && s[3]))
        return false;
    uint64_t n = 0;
    for (const char *p = s + 2; *p; p++) {
        if (!isxdigit((unsigned char)*p))
            return false;
        n = n << 4 | (uint64_t)(isdigit((unsigned char)*p) ? *p - '0'
                                                           : tolower((unsigned char)*p) - 'a' + 10);
    }
    *out = n;
    return true;
}

static bool is_hex(const char *s, size_t digits)
{
    return s && strlen(s) == digits + 2 && text_starts(s, "0x") &&
           strspn(s + 2, "0123456789abcdefABCDEF") == digits;
}

bool evm_question_valid(const struct evm_question *q)
{
    return is_hex(q->asset, 40) && is_hex(q->payer, 40) && is_hex(q->pay_to, 40) &&
           is_hex(q->nonce, 64);
}

void evm_address_topic(const char *address, char out[EVM_HASH_TEXT])
{
    (void)snprintf(out, EVM_HASH_TEXT, "0x%024d%s", 0, address + 2);
    for (char *p = out; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static bool member_is(const json_t *object, const char *key, const char *want)
{
    const char *have = json_string_value(json_object_get(object, key));
    return have && !strcasecmp(have, want);
}

static bool topic_is(const json_t *log, size_t i, const char *want)
{
    const char *have = json_string_value(json_array_get(json_object_get(log, "topics"), i));
    return have && !strcasecmp(have, want);
}

static bool is_removed(const json_t *log)
{
    const json_t *removed = json_object_get(log, "removed");
    return removed && !json_is_false(removed);
}

static bool is_use(const json_t *log, const struct evm_question *q)
{
    char payer[EVM_HASH_TEXT];
    evm_address_topic(q->payer, payer);
    return member_is(log, "address", q->asset) && topic_is(log, 0, EVM_TOPIC_AUTHORIZATION_USED) &&
           topic_is(log, 1, payer) && topic_is(log, 2, q->nonce) && !is_removed(log);
}

/* The value as the 32 bytes of data that the event carries. */
static bool is_transfer(const json_t *log, const struct evm_question *q)
{
    char payer[EVM_HASH_TEXT];
    char pay_to[EVM_HASH_TEXT];
    struct u256 want;
    uint8_t bytes[32];
    char data[EVM_HASH_TEXT] = "0x";
    evm_address_topic(q->payer, payer);
    evm_address_topic(q->pay_to, pay_to);
    if (!u256_parse(q->amount, &want))
        return false;
    u256_to_be(&want, bytes);
    text_hex(bytes, sizeof(bytes), data + 2);
    return member_is(log, "address", q->asset) && topic_is(log, 0, EVM_TOPIC_TRANSFER) &&
           topic_is(log, 1, payer) && topic_is(log, 2, pay_to) && member_is(log, "data", data) &&
           !is_removed(log);
}

bool evm_find_use(const json_t *logs, const struct evm_question *question,
                  char transaction[EVM_HASH_TEXT])
{
    size_t i;
    json_t *log;
    json_array_foreach(logs, i, log)
    {
        const char *hash = json_string_value(json_object_get(log, "transactionHash"));
        if (!is_use(log, question) || !is_hex(hash, 64))
            continue;
        (void)snprintf(transaction, EVM_HASH_TEXT, "%s", hash);
        return true;
    }
    return false;
}

bool evm_receipt_proves(const json_t *receipt, const char *transaction,
                        const struct evm_question *question, uint64_t *block)
{
    bool used = false;
    bool moved = false;
    size_t i;
    json_t *log;
    json_array_foreach(json_object_get(receipt, "logs"), i, log)
    {
        used |= is_use(log, question);
        moved |= is_transfer(log, question);
    }
    return member_is(receipt, "transactionHash", transaction) &&
           member_is(receipt, "status", "0x1") && used && moved &&
           evm_quantity(json_object_get(receipt, "blockNumber"), block);
}
