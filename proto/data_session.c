#include "proto/data_session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

static const char *const op_names[] = {
    [DATA_OPEN] = "open",       [DATA_END] = "end",     [DATA_OPENED] = "opened",
    [DATA_REFUSED] = "refused", [DATA_ENDED] = "ended",
};

static void put_scope(struct buf *b, const struct data_message *m)
{
    buf_append_str(b, ",\"scope\":[");
    for (size_t i = 0; i < m->n_scope; i++)
        buf_printf(b, "%s\"%s\"", i ? "," : "", m->scope[i]);
    buf_append_str(b, "]");
}

/* `why` is our own text; quotes and controls are replaced rather than escaped. */
static void put_why(struct buf *b, const char *why)
{
    buf_append_str(b, ",\"why\":\"");
    for (; *why; why++) {
        char c = *why;
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            c = '?';
        buf_append(b, &c, 1);
    }
    buf_append_str(b, "\"");
}

size_t data_message_encode(const struct data_message *m, char *out)
{
    struct buf b;
    buf_init(&b, DATA_PACKET_MAX - 1);
    assert(data_id_valid(m->id));
    buf_printf(&b, "{\"op\":\"%s\",\"id\":\"%s\"", op_names[m->op], m->id);
    if (m->op == DATA_OPEN)
        put_scope(&b, m);
    if (m->op == DATA_OPEN || m->op == DATA_ENDED)
        buf_printf(&b, ",\"calls\":%" PRId64 ",\"bytes\":%" PRId64, m->calls, m->bytes);
    if (m->op == DATA_OPEN)
        buf_printf(&b, ",\"ms\":%" PRId64, m->ms);
    if (m->op == DATA_ENDED)
        buf_printf(&b, ",\"tainted\":%s", m->tainted ? "true" : "false");
    if (m->op == DATA_REFUSED)
        put_why(&b, m->why);
    buf_append_str(&b, "}");
    assert(!b.failed);
    size_t len = b.len;
    memcpy(out, buf_cstr(&b), len + 1);
    buf_fini(&b);
    return len;
}

static CHECKED enum err_kind read_scope(const json_t *object, struct data_message *m,
                                        struct err *err)
{
    const json_t *scope = json_object_get(object, "scope");
    size_t n = json_array_size(scope);
    if (n == 0 || n > DATA_SCOPE_MAX)
        return err_set(err, ERR_INVALID, "scope must name 1 to %d upstreams", DATA_SCOPE_MAX);
    for (m->n_scope = 0; m->n_scope < n; m->n_scope++) {
        const char *name = json_string_value(json_array_get(scope, m->n_scope));
        if (!name || !data_name_valid(name, DATA_UPSTREAM_MAX))
            return err_set(err, ERR_INVALID, "scope: bad upstream name");
        strcpy(m->scope[m->n_scope], name);
    }
    return ERR_OK;
}

static CHECKED enum err_kind read_counts(const json_t *object, struct data_message *m,
                                         struct err *err)
{
    enum err_kind kind = json_get_int(object, "calls", true, 0, INT64_C(1) << 40, &m->calls, err);
    return kind ? kind : json_get_int(object, "bytes", true, 0, INT64_C(1) << 50, &m->bytes, err);
}

static CHECKED enum err_kind read_open(const json_t *object, struct data_message *m,
                                       struct err *err)
{
    static const char *const names[] = { "op", "id", "scope", "calls", "bytes", "ms", NULL };
    enum err_kind kind = json_only_keys(object, names, "open", err);
    if (!kind)
        kind = read_scope(object, m, err);
    if (!kind)
        kind = read_counts(object, m, err);
    return kind ? kind : json_get_int(object, "ms", true, 1, DATA_OPEN_MS_MAX, &m->ms, err);
}

static CHECKED enum err_kind read_ended(const json_t *object, struct data_message *m,
                                        struct err *err)
{
    static const char *const names[] = { "op", "id", "calls", "bytes", "tainted", NULL };
    enum err_kind kind = json_only_keys(object, names, "ended", err);
    if (!kind)
        kind = read_counts(object, m, err);
    return kind ? kind : json_get_bool(object, "tainted", true, &m->tainted, err);
}

static CHECKED enum err_kind read_refused(const json_t *object, struct data_message *m,
                                          struct err *err)
{
    static const char *const names[] = { "op", "id", "why", NULL };
    const char *why = "";
    enum err_kind kind = json_only_keys(object, names, "refused", err);
    if (!kind)
        kind = json_get_string(object, "why", true, &why, err);
    (void)snprintf(m->why, sizeof(m->why), "%s", why);
    return kind;
}

static CHECKED enum err_kind read_members(const json_t *object, struct data_message *m,
                                          struct err *err)
{
    static const char *const names[] = { "op", "id", NULL };
    switch (m->op) {
    case DATA_OPEN:
        return read_open(object, m, err);
    case DATA_ENDED:
        return read_ended(object, m, err);
    case DATA_REFUSED:
        return read_refused(object, m, err);
    case DATA_END:
    case DATA_OPENED:
        break;
    }
    return json_only_keys(object, names, op_names[m->op], err);
}

static bool find_op(const char *name, enum data_op *out)
{
    for (size_t i = 0; i < ARRAY_LEN(op_names); i++) {
        if (strcmp(op_names[i], name) == 0) {
            *out = (enum data_op)i;
            return true;
        }
    }
    return false;
}

enum err_kind data_message_decode(const void *data, size_t len, struct data_message *out,
                                  struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    json_t *object CLEANUP_JSON = NULL;
    const char *op = NULL;
    const char *id = NULL;
    if (json_strict_load(data, len, DATA_PACKET_MAX, 0, &object, err) ||
        json_get_string(object, "op", true, &op, err) ||
        json_get_string(object, "id", true, &id, err))
        return err->kind;
    *out = (struct data_message){ 0 };
    if (!find_op(op, &out->op))
        return err_set(err, ERR_INVALID, "unknown op");
    if (!data_id_valid(id))
        return err_set(err, ERR_INVALID, "bad request id");
    strcpy(out->id, id);
    return read_members(object, out, err);
}
