#include "gate/facilitator/script.h"

#include <string.h>

#include "base/json.h"

static const struct script_mode modes[] = {
    { "ok", REPLY_HONEST, true, 200 },
    { "delay", REPLY_HONEST, true, 200 },
    { "hang", REPLY_HANG, true, 0 },
    { "hang-before", REPLY_HANG, false, 0 },
    { "reset", REPLY_RESET, true, 0 },
    { "reset-before", REPLY_RESET, false, 0 },
    { "cut", REPLY_CUT, true, 200 },
    { "500", REPLY_STATUS, false, 500 },
    { "500-after", REPLY_STATUS, true, 500 },
    { "502", REPLY_STATUS, false, 502 },
    { "400", REPLY_STATUS, false, 400 },
    { "401", REPLY_STATUS, false, 401 },
    { "403", REPLY_STATUS, false, 403 },
    { "404", REPLY_STATUS, false, 404 },
    { "408", REPLY_STATUS, false, 408 },
    { "412", REPLY_STATUS, false, 412 },
    { "422", REPLY_STATUS, false, 422 },
    { "429", REPLY_STATUS, false, 429 },
    { "refuse", REPLY_REFUSE, false, 200 },
    { "refuse-400", REPLY_REFUSE, false, 400 },
    { "refuse-500", REPLY_REFUSE, false, 500 },
    { "refuse-after", REPLY_REFUSE, true, 200 },
    { "pending", REPLY_PENDING, true, 200 },
    { "pending-500", REPLY_PENDING, true, 500 },
    { "pending-unmoved", REPLY_PENDING, false, 200 },
    { "html", REPLY_HTML, true, 200 },
    { "empty", REPLY_EMPTY, true, 200 },
    { "truthy", REPLY_TRUTHY, true, 200 },
    { "no-tx", REPLY_NO_TX, true, 200 },
    { "no-network", REPLY_NO_NETWORK, true, 200 },
    { "wrong-network", REPLY_WRONG_NETWORK, true, 200 },
    { "wrong-payer", REPLY_WRONG_PAYER, true, 200 },
    { "zero-payer", REPLY_ZERO_PAYER, true, 200 },
    { "wrong-amount", REPLY_WRONG_AMOUNT, true, 200 },
    { "redirect", REPLY_REDIRECT, false, 307 },
    { "huge", REPLY_HUGE, true, 200 },
};

static const char *const op_names[] = { "verify", "settle", "supported", NULL };

static const struct script_mode *mode_find(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(modes); i++) {
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    }
    return NULL;
}

static enum err_kind check_step(const json_t *step, struct err *err)
{
    static const char *const keys[] = { "mode", "ms", "reason", NULL };
    const char *mode = NULL, *reason = NULL;
    int64_t ms = 0;
    if (!json_is_object(step))
        return err_set(err, ERR_INVALID, "a step is an object with \"mode\"");
    if (json_only_keys(step, keys, "step", err) ||
        json_get_string(step, "mode", true, &mode, err) ||
        json_get_string(step, "reason", false, &reason, err) ||
        json_get_int(step, "ms", false, 0, 3600000, &ms, err))
        return err->kind;
    return mode_find(mode) ? ERR_OK : err_set(err, ERR_INVALID, "no mode \"%.40s\"", mode);
}

static enum err_kind check_script(const json_t *root, struct err *err)
{
    const char *key;
    json_t *value, *step;
    size_t i;
    if (!json_is_object(root))
        return err_set(err, ERR_INVALID, "a script is an object");
    if (json_only_keys(root, op_names, "script", err))
        return err->kind;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (!json_is_array(value) && check_step(value, err))
            return err->kind;
        json_array_foreach(value, i, step)
        {
            if (check_step(step, err))
                return err->kind;
        }
    }
    return ERR_OK;
}

enum err_kind script_set(struct script *s, const char *text, size_t len, struct err *err)
{
    json_t *root CLEANUP_JSON = NULL;
    if (json_strict_load(text, len, 65536, 0, &root, err) || check_script(root, err))
        return err->kind;
    script_fini(s);
    s->root = STEAL(root);
    return ERR_OK;
}

void script_fini(struct script *s)
{
    json_decref(s->root);
    memset(s, 0, sizeof(*s));
}

struct script_step script_next(struct script *s, enum script_op op)
{
    const json_t *entry = json_object_get(s->root, op_names[op]);
    if (json_is_array(entry))
        entry = json_array_get(entry, s->used[op]++);
    const json_t *ms = json_object_get(entry, "ms");
    const struct script_mode *mode = mode_find(json_string_value(json_object_get(entry, "mode")));
    return (struct script_step){
        .mode = mode ? mode : &modes[0],
        .ms = (uint32_t)json_integer_value(ms),
        .reason = json_string_value(json_object_get(entry, "reason")),
    };
}
