#include "gate/ledger_db.h"

#include <string.h>

#include "gate/ledger_file.h"

static void take_key(sqlite3_stmt *stmt, int i, uint8_t *out, size_t len)
{
    const void *data = sqlite3_column_blob(stmt, i);
    if (data && (size_t)sqlite3_column_bytes(stmt, i) == len)
        memcpy(out, data, len);
}

static void take_row(sqlite3_stmt *stmt, struct store_row *out)
{
    out->found = true;
    out->id = sqlite3_column_int64(stmt, 0);
    out->state = (enum payment_state)sqlite3_column_int(stmt, 1);
    take_key(stmt, 2, out->key, sizeof(out->key));
    take_key(stmt, 3, out->fingerprint, sizeof(out->fingerprint));
    store_take_text(stmt, 4, out->payer, sizeof(out->payer));
    store_take_text(stmt, 5, out->identifier, sizeof(out->identifier));
    out->has_secret = sqlite3_column_type(stmt, 6) == SQLITE_BLOB;
    take_key(stmt, 6, out->secret, sizeof(out->secret));
    out->runs = (uint32_t)sqlite3_column_int64(stmt, 7);
    out->replays_max = (uint32_t)sqlite3_column_int64(stmt, 8);
    out->replay_window_s = (uint32_t)sqlite3_column_int64(stmt, 9);
}

/* Steps a bound statement that gives at most one row. */
static enum err_kind one_row(struct store *store, sqlite3_stmt *stmt, struct store_row *out,
                             struct err *err)
{
    *out = (struct store_row){ 0 };
    int rc = sqlite3_step(stmt);
    enum err_kind kind = ERR_OK;
    if (rc == SQLITE_ROW)
        take_row(stmt, out);
    else if (rc != SQLITE_DONE)
        kind = store_fault(store, "read payment", err);
    sqlite3_reset(stmt);
    return kind;
}

enum err_kind store_by_key(struct store *store, const uint8_t *key, struct store_row *out,
                           struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_BY_KEY, err);
    if (!stmt)
        return err->kind;
    store_bind_blob(stmt, 1, key, LEDGER_KEY_LEN);
    return one_row(store, stmt, out, err);
}

enum err_kind store_by_identifier(struct store *store, const char *payer, const char *identifier,
                                  struct store_row *out, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_BY_IDENTIFIER, err);
    if (!stmt)
        return err->kind;
    store_bind_text(stmt, 1, payer);
    store_bind_text(stmt, 2, identifier);
    return one_row(store, stmt, out, err);
}

enum err_kind store_next_unknown(struct store *store, int64_t after, struct store_row *out,
                                 struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_NEXT_UNKNOWN, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_int64(stmt, 1, after);
    return one_row(store, stmt, out, err);
}

static void bind_terms(sqlite3_stmt *stmt, const struct ledger_terms *terms)
{
    sqlite3_bind_int(stmt, 8, terms->x402_version);
    const char *const texts[] = {
        terms->scheme, terms->network, terms->network_raw, terms->asset,
        terms->pay_to, terms->amount,  terms->nonce,       terms->method
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        store_bind_text(stmt, 9 + (int)i, texts[i]);
    sqlite3_bind_int64(stmt, 17, terms->valid_before);
    store_bind_text(stmt, 18, terms->route);
    store_bind_text(stmt, 19, terms->resource);
}

enum err_kind store_run(struct store *store, const struct store_run *run, uint32_t *runs,
                        bool *taken, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_RUN, err);
    if (!stmt)
        return err->kind;
    const struct ledger_claim *claim = run->claim;
    store_bind_blob(stmt, 1, claim->key, LEDGER_KEY_LEN);
    store_bind_blob(stmt, 2, claim->fingerprint, LEDGER_FINGERPRINT_LEN);
    store_bind_text(stmt, 3, run->terms->payer);
    store_bind_text(stmt, 4, claim->identifier);
    if (claim->secret)
        store_bind_blob(stmt, 5, claim->secret, LEDGER_SECRET_LEN);
    sqlite3_bind_int64(stmt, 6, claim->replays_max);
    sqlite3_bind_int64(stmt, 7, claim->replay_window_s);
    bind_terms(stmt, run->terms);
    sqlite3_bind_int64(stmt, 20, run->now.wall_s);
    sqlite3_bind_int64(stmt, 21, run->now.clock_ms);
    int rc = sqlite3_step(stmt);
    *taken = rc == SQLITE_DONE;
    if (rc == SQLITE_ROW) {
        *runs = (uint32_t)sqlite3_column_int64(stmt, 0);
        rc = sqlite3_step(stmt);
    }
    enum err_kind kind = rc == SQLITE_DONE ? ERR_OK : store_fault(store, "write running", err);
    sqlite3_reset(stmt);
    return kind;
}

struct row_state {
    bool found;
    int64_t id;
    enum payment_state state;
    char network[64];
};

static enum err_kind read_state(struct store *store, const uint8_t *key, struct row_state *out,
                                struct err *err)
{
    *out = (struct row_state){ 0 };
    sqlite3_stmt *stmt = store_stmt(store, SQL_STATE, err);
    if (!stmt)
        return err->kind;
    store_bind_blob(stmt, 1, key, LEDGER_KEY_LEN);
    int rc = sqlite3_step(stmt);
    out->found = rc == SQLITE_ROW;
    if (out->found) {
        out->id = sqlite3_column_int64(stmt, 0);
        out->state = (enum payment_state)sqlite3_column_int(stmt, 1);
        store_take_text(stmt, 2, out->network, sizeof(out->network));
    }
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK : store_fault(store, "read state", err);
}

static enum err_kind transaction_taken(struct store *store, const struct row_state *row,
                                       const char *transaction, bool *taken, struct err *err)
{
    *taken = false;
    if (!transaction[0])
        return ERR_OK;
    sqlite3_stmt *stmt = store_stmt(store, SQL_TX_TAKEN, err);
    if (!stmt)
        return err->kind;
    store_bind_text(stmt, 1, row->network);
    store_bind_text(stmt, 2, transaction);
    sqlite3_bind_int64(stmt, 3, row->id);
    int rc = sqlite3_step(stmt);
    *taken = rc == SQLITE_ROW;
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK
                                                 : store_fault(store, "read transactions", err);
}

static enum err_kind run_by_id(struct store *store, enum store_sql sql, int64_t id, int64_t value,
                               struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, sql, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_int64(stmt, 1, id);
    if (sqlite3_bind_parameter_count(stmt) > 1)
        sqlite3_bind_int64(stmt, 2, value);
    return store_exec(store, stmt, "change payment", err);
}

/* What belongs to the new state: an ended payment needs no settle bytes, an unpaid one no answer,
 * and an answer's time to live starts when it may be released. */
static enum err_kind follow_state(struct store *store, int64_t id, enum payment_state state,
                                  int64_t clock_ms, struct err *err)
{
    bool paid = state == PAYMENT_SETTLED || state == PAYMENT_CONCEDED;
    if (paid && run_by_id(store, SQL_END_ANSWER, id, clock_ms, err))
        return err->kind;
    if ((state == PAYMENT_SETTLED || state == PAYMENT_FAILED) &&
        run_by_id(store, SQL_DROP_SETTLE, id, 0, err))
        return err->kind;
    if (state == PAYMENT_FAILED && run_by_id(store, SQL_DROP_ANSWER, id, 0, err))
        return err->kind;
    return ERR_OK;
}

static enum err_kind write_step(struct store *store, const struct store_step *step, int64_t id,
                                enum payment_state state, const char *transaction, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_STEP, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_int64(stmt, 1, id);
    sqlite3_bind_int(stmt, 2, (int)state);
    store_bind_text(stmt, 3, transaction);
    store_bind_text(stmt, 4, step->charged);
    store_bind_text(stmt, 5, step->reason);
    store_bind_text(stmt, 6, step->why);
    sqlite3_bind_int(stmt, 7, step->nonce_first);
    sqlite3_bind_int64(stmt, 8, step->releases);
    sqlite3_bind_int64(stmt, 9, step->now.wall_s);
    sqlite3_bind_int64(stmt, 10, step->now.clock_ms);
    return store_exec(store, stmt, "change state", err);
}

enum err_kind store_step(struct store *store, const struct store_step *step, bool *refused,
                         struct err *err)
{
    *refused = true;
    struct row_state row;
    if (read_state(store, step->key, &row, err))
        return err->kind;
    enum payment_state state = row.state;
    if (!row.found || payment_step(&state, step->event, NULL))
        return ERR_OK;
    char transaction[161] = "";
    if (step->transaction)
        ledger_spell_transaction(step->transaction, transaction, sizeof(transaction));
    bool taken = false;
    if (state == PAYMENT_SETTLED && transaction_taken(store, &row, transaction, &taken, err))
        return err->kind;
    if (taken)
        return ERR_OK;
    *refused = false;
    if (write_step(store, step, row.id, state, step->transaction ? transaction : NULL, err))
        return err->kind;
    return follow_state(store, row.id, state, step->now.clock_ms, err);
}

static enum err_kind seal_bytes(struct store *store, const struct store_seal *seal, int64_t id,
                                struct err *err)
{
    const struct ledger_answer *answer = &seal->seal->answer;
    sqlite3_stmt *stmt = store_stmt(store, SQL_SEAL_ANSWER, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_int64(stmt, 1, id);
    sqlite3_bind_int64(stmt, 2, (int64_t)(answer->head_len + answer->body_len));
    sqlite3_bind_int(stmt, 3, answer->status);
    store_bind_blob(stmt, 4, answer->head, answer->head_len);
    store_bind_blob(stmt, 5, answer->body, answer->body_len);
    if (store_exec(store, stmt, "seal answer", err))
        return err->kind;
    stmt = store_stmt(store, SQL_SEAL_SETTLE, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_int64(stmt, 1, id);
    store_bind_blob(stmt, 2, seal->seal->settle_body, seal->seal->settle_len);
    return store_exec(store, stmt, "seal settle", err);
}

enum err_kind store_seal(struct store *store, const struct store_seal *seal, bool *refused,
                         struct err *err)
{
    *refused = true;
    struct row_state row;
    if (read_state(store, seal->key, &row, err))
        return err->kind;
    enum payment_state state = row.state;
    if (!row.found || payment_step(&state, PAYMENT_SEAL, NULL))
        return ERR_OK;
    *refused = false;
    sqlite3_stmt *stmt = store_stmt(store, SQL_SEAL, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_int64(stmt, 1, row.id);
    store_bind_text(stmt, 2, seal->seal->facilitator);
    store_bind_text(stmt, 3, seal->seal->charge);
    sqlite3_bind_int(stmt, 4, seal->seal->empty_transaction);
    sqlite3_bind_int(stmt, 5, seal->seal->unproven_release);
    sqlite3_bind_int64(stmt, 6, seal->now.wall_s);
    sqlite3_bind_int64(stmt, 7, seal->now.clock_ms);
    if (store_exec(store, stmt, "seal", err))
        return err->kind;
    return seal_bytes(store, seal, row.id, err);
}
