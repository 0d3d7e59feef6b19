#include "gate/ledger_admin.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#define BODY_MAX 4096

static void on_resolved(void *arg, const struct ledger_result *result)
{
    struct ledger_admin_call *admin = arg;
    if (result->verdict == LEDGER_DONE)
        admin->fn(admin->arg, 200, "{\"resolved\":true}");
    else if (result->verdict == LEDGER_NEW)
        admin->fn(admin->arg, 404, "{\"error\":\"no such payment\"}");
    else if (result->verdict == LEDGER_MISMATCH)
        admin->fn(admin->arg, 409,
                  "{\"error\":\"its state cannot be resolved, or the transaction is another "
                  "payment's\"}");
    else
        admin->fn(admin->arg, 503, "{\"error\":\"not written\"}");
}

struct resolution {
    uint8_t key[LEDGER_KEY_LEN];
    const char *transaction; /* NULL: unpaid */
    const char *reason;
};

static bool is_word(const char *s, size_t max)
{
    size_t n = strlen(s);
    return n > 0 && n <= max &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@/+=-") == n;
}

static enum err_kind read_body(const json_t *root, struct resolution *out, struct err *err)
{
    static const char *const keys[] = { "payment", "settled", "unpaid", "reason", NULL };
    const char *payment = NULL;
    bool unpaid = false;
    if (json_only_keys(root, keys, "resolve", err) ||
        json_get_string(root, "payment", true, &payment, err) ||
        json_get_string(root, "settled", false, &out->transaction, err) ||
        json_get_bool(root, "unpaid", false, &unpaid, err) ||
        json_get_string(root, "reason", true, &out->reason, err))
        return err->kind;
    if (strlen(payment) != (size_t)2 * LEDGER_KEY_LEN ||
        !text_unhex(payment, out->key, LEDGER_KEY_LEN))
        return err_set(err, ERR_INVALID, "payment: not 64 hex digits");
    if (unpaid == (out->transaction != NULL))
        return err_set(err, ERR_INVALID, "one of settled and unpaid");
    if (out->transaction && !is_word(out->transaction, 160))
        return err_set(err, ERR_INVALID, "settled: not a transaction");
    if (!out->reason[0] || strlen(out->reason) > LEDGER_TEXT_MAX)
        return err_set(err, ERR_INVALID, "reason: 1 to %d bytes", LEDGER_TEXT_MAX);
    return ERR_OK;
}

void ledger_admin_resolve(struct settler *settler, const char *body, size_t len,
                          struct ledger_admin_call *admin, ledger_admin_fn *fn, void *arg)
{
    json_t *root CLEANUP_JSON = NULL;
    struct resolution resolution = { 0 };
    struct err err;
    *admin = (struct ledger_admin_call){ .fn = fn, .arg = arg };
    if (json_strict_load(body, len, BODY_MAX, 0, &root, &err) ||
        read_body(root, &resolution, &err)) {
        char clean[400];
        char text[512];
        (void)snprintf(text, sizeof(text), "{\"error\":\"%s\"}",
                       text_safe(err.msg, clean, sizeof(clean)));
        for (char *p = strchr(text, '\\'); p; p = strchr(p, '\\'))
            *p = '/'; /* escapes of a log are not those of JSON */
        fn(arg, 400, text);
        return;
    }
    log_warn("ledger_resolve", log_str("settled", resolution.transaction),
             log_str("reason", resolution.reason));
    settler_resolve(settler, resolution.key, resolution.transaction, resolution.reason,
                    &admin->call, on_resolved, admin);
}
