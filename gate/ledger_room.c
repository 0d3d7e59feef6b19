#include "gate/ledger_db.h"

#include <string.h>

enum err_kind store_receipt(struct store *store, const uint8_t *key, struct ledger_receipt *out,
                            struct err *err)
{
    *out = (struct ledger_receipt){ 0 };
    sqlite3_stmt *stmt = store_stmt(store, SQL_RECEIPT, err);
    if (!stmt)
        return err->kind;
    store_bind_blob(stmt, 1, key, LEDGER_KEY_LEN);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        store_take_text(stmt, 0, out->network, sizeof(out->network));
        store_take_text(stmt, 1, out->payer, sizeof(out->payer));
        store_take_text(stmt, 2, out->transaction, sizeof(out->transaction));
        store_take_text(stmt, 3, out->amount, sizeof(out->amount));
        store_take_text(stmt, 4, out->reason, sizeof(out->reason));
        out->x402_version = (uint8_t)sqlite3_column_int(stmt, 5);
    }
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK : store_fault(store, "read receipt", err);
}

static enum err_kind read_answer(struct store *store, const uint8_t *key, struct store_release *out,
                                 struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_RELEASE_READ, err);
    if (!stmt)
        return err->kind;
    store_bind_blob(stmt, 1, key, LEDGER_KEY_LEN);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        out->status = (uint16_t)sqlite3_column_int(stmt, 0);
        store_take_blob(stmt, 1, &out->head);
        store_take_blob(stmt, 2, &out->body);
        out->state = (enum payment_state)sqlite3_column_int(stmt, 3);
    }
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW ? ERR_OK : store_fault(store, "read answer", err);
}

enum err_kind store_release(struct store *store, const uint8_t *key, struct store_now now,
                            struct store_release *out, struct err *err)
{
    store_release_fini(out);
    sqlite3_stmt *stmt = store_stmt(store, SQL_RELEASE_COUNT, err);
    if (!stmt)
        return err->kind;
    store_bind_blob(stmt, 1, key, LEDGER_KEY_LEN);
    sqlite3_bind_int64(stmt, 2, now.clock_ms);
    if (store_exec(store, stmt, "count release", err))
        return err->kind;
    out->granted = sqlite3_changes(store->db) == 1;
    if (out->granted && read_answer(store, key, out, err))
        return err->kind;
    return store_receipt(store, key, &out->receipt, err);
}

void store_release_fini(struct store_release *release)
{
    buf_fini(&release->head);
    buf_fini(&release->body);
    *release = (struct store_release){ 0 };
}

enum err_kind store_add_releases(struct store *store, const uint8_t *key, uint32_t n,
                                 struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_ADD_RELEASES, err);
    if (!stmt)
        return err->kind;
    store_bind_blob(stmt, 1, key, LEDGER_KEY_LEN);
    sqlite3_bind_int64(stmt, 2, n);
    return store_exec(store, stmt, "count releases", err);
}

static void take_settlement(sqlite3_stmt *stmt, struct store_settlement *out)
{
    out->found = true;
    out->state = (enum payment_state)sqlite3_column_int(stmt, 0);
    store_take_text(stmt, 1, out->facilitator, sizeof(out->facilitator));
    store_take_blob(stmt, 2, &out->body);
    store_take_text(stmt, 3, out->network, sizeof(out->network));
    store_take_text(stmt, 4, out->network_raw, sizeof(out->network_raw));
    store_take_text(stmt, 5, out->payer, sizeof(out->payer));
    store_take_text(stmt, 6, out->charge, sizeof(out->charge));
    store_take_text(stmt, 7, out->asset, sizeof(out->asset));
    store_take_text(stmt, 8, out->pay_to, sizeof(out->pay_to));
    store_take_text(stmt, 9, out->nonce, sizeof(out->nonce));
    store_take_text(stmt, 10, out->method, sizeof(out->method));
    store_take_text(stmt, 11, out->transaction, sizeof(out->transaction));
    out->x402_version = (uint8_t)sqlite3_column_int(stmt, 12);
    out->valid_before = sqlite3_column_int64(stmt, 13);
    out->sealed_s = sqlite3_column_int64(stmt, 14);
    out->empty_transaction = sqlite3_column_int(stmt, 15) != 0;
    out->unproven_release = sqlite3_column_int(stmt, 16) != 0;
    out->nonce_first = sqlite3_column_int(stmt, 17) != 0;
}

enum err_kind store_settlement(struct store *store, const uint8_t *key,
                               struct store_settlement *out, struct err *err)
{
    store_settlement_fini(out);
    sqlite3_stmt *stmt = store_stmt(store, SQL_SETTLEMENT, err);
    if (!stmt)
        return err->kind;
    store_bind_blob(stmt, 1, key, LEDGER_KEY_LEN);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        take_settlement(stmt, out);
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK
                                                 : store_fault(store, "read settlement", err);
}

void store_settlement_fini(struct store_settlement *settlement)
{
    buf_wipe(&settlement->body);
    *settlement = (struct store_settlement){ 0 };
}

/* ---- room ---- */

static enum err_kind count(struct store *store, enum store_sql sql, uint64_t *out, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, sql, err);
    if (!stmt)
        return err->kind;
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = (uint64_t)sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW ? ERR_OK : store_fault(store, "count", err);
}

enum err_kind store_room(struct store *store, struct store_room *out, struct err *err)
{
    if (count(store, SQL_SEALED_BYTES, &out->sealed_bytes, err))
        return err->kind;
    return count(store, SQL_UNRESOLVED, &out->unresolved, err);
}

/* Runs a DELETE with up to three integers bound and adds to the count of what went. */
static enum err_kind remove_some(struct store *store, enum store_sql sql, const int64_t values[3],
                                 uint32_t *removed, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, sql, err);
    if (!stmt)
        return err->kind;
    for (int i = 0; i < sqlite3_bind_parameter_count(stmt); i++)
        sqlite3_bind_int64(stmt, i + 1, values[i]);
    if (store_exec(store, stmt, "tidy", err))
        return err->kind;
    *removed += (uint32_t)sqlite3_changes(store->db);
    return ERR_OK;
}

enum err_kind store_tidy(struct store *store, const struct store_bounds *bounds,
                         struct store_room *out, struct err *err)
{
    *out = (struct store_room){ 0 };
    int64_t batch = bounds->batch;
    const int64_t expired[3] = { bounds->now.clock_ms - bounds->sealed_ttl_ms, batch, 0 };
    if (remove_some(store, SQL_EXPIRE_ANSWERS, expired, &out->answers_removed, err))
        return err->kind;
    const int64_t delivered[3] = { batch, 0, 0 };
    if (bounds->evict &&
        remove_some(store, SQL_EVICT_ANSWERS, delivered, &out->answers_removed, err))
        return err->kind;
    const int64_t old[3] = { bounds->now.clock_ms - bounds->retention_ms, bounds->now.wall_s,
                             batch };
    if (remove_some(store, SQL_EXPIRE_ROWS, old, &out->rows_removed, err))
        return err->kind;
    return store_room(store, out, err);
}

enum err_kind store_restart(struct store *store, struct store_now now, struct err *err)
{
    static const enum store_sql both[] = { SQL_RESTART_RUNNING, SQL_RESTART_SETTLING };
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        sqlite3_stmt *stmt = store_stmt(store, both[i], err);
        if (!stmt)
            return err->kind;
        sqlite3_bind_int64(stmt, 1, now.wall_s);
        sqlite3_bind_int64(stmt, 2, now.clock_ms);
        if (store_exec(store, stmt, "restart", err))
            return err->kind;
    }
    return ERR_OK;
}
