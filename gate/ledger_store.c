#include "gate/ledger_db.h"

#include <stdio.h>
#include <string.h>

#include "gate/fault.h"
#include "gate/ledger_migrate.h"
#include "gate/ledger_schema.sql.h"

static const char *const sql_text[SQL_N] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_READ] = "BEGIN",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_META_GET] = "SELECT value FROM meta WHERE name = ?1",
    [SQL_META_SET] = "INSERT INTO meta(name, value) VALUES(?1, ?2)"
                     " ON CONFLICT(name) DO UPDATE SET value = excluded.value",
#define ROW_COLUMNS                                                                                \
    "id, state, key, fingerprint, payer, identifier, secret, runs, replays_max, replay_window_s"
    [SQL_BY_KEY] = "SELECT " ROW_COLUMNS " FROM payment WHERE key = ?1",
    [SQL_BY_IDENTIFIER] = "SELECT " ROW_COLUMNS " FROM payment WHERE payer = ?1 AND identifier = ?2"
                          " AND state NOT IN (4, 8) ORDER BY id LIMIT 1",
    [SQL_NEXT_UNKNOWN] = "SELECT " ROW_COLUMNS " FROM payment WHERE state IN (6, 9) AND id > ?1"
                         " ORDER BY id LIMIT 1",
    [SQL_RUN] =
        "INSERT INTO payment(key, state, fingerprint, payer, identifier, secret, runs, replays_max,"
        " replay_window_s, x402_version, scheme, network, network_raw, asset, pay_to, amount,"
        " nonce, method, valid_before, route, resource, created_s, changed_s, changed_ms)"
        " VALUES(?1, 3, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,"
        " ?18, ?19, ?20, ?20, ?21)"
        " ON CONFLICT(key) DO UPDATE SET state = 3, fingerprint = excluded.fingerprint,"
        " payer = excluded.payer, identifier = excluded.identifier, secret = excluded.secret,"
        " runs = runs + 1, replays_max = excluded.replays_max,"
        " replay_window_s = excluded.replay_window_s, x402_version = excluded.x402_version,"
        " scheme = excluded.scheme, network_raw = excluded.network_raw, pay_to = excluded.pay_to,"
        " amount = excluded.amount, valid_before = excluded.valid_before, route = excluded.route,"
        " resource = excluded.resource, changed_s = excluded.changed_s,"
        " changed_ms = excluded.changed_ms WHERE state = 4 RETURNING runs",
    [SQL_STATE] = "SELECT id, state, network FROM payment WHERE key = ?1",
    [SQL_STEP] =
        "UPDATE payment SET state = ?2, tx = coalesce(?3, tx), charged = coalesce(?4, charged),"
        " reason = coalesce(?5, reason), why = coalesce(?6, why),"
        " nonce_first = nonce_first OR ?7, releases = releases + ?8, changed_s = ?9,"
        " changed_ms = ?10, settled_s = CASE WHEN ?2 IN (7, 11) THEN ?9 ELSE settled_s END,"
        " settled_ms = CASE WHEN ?2 IN (7, 11) THEN ?10 ELSE settled_ms END WHERE id = ?1",
    [SQL_TX_TAKEN] = "SELECT 1 FROM payment WHERE network = ?1 AND tx = ?2 AND state = 7"
                     " AND tx <> '' AND id <> ?3",
    [SQL_SEAL] = "UPDATE payment SET state = 6, facilitator = ?2, charge = ?3, empty_tx = ?4,"
                 " unproven_release = ?5, sealed_s = ?6, changed_s = ?6, changed_ms = ?7"
                 " WHERE id = ?1",
    [SQL_SEAL_ANSWER] = "INSERT OR REPLACE INTO answer(id, bytes, status, head, body)"
                        " VALUES(?1, ?2, ?3, ?4, ?5)",
    [SQL_SEAL_SETTLE] = "INSERT OR REPLACE INTO settle(id, body) VALUES(?1, ?2)",
    [SQL_DROP_SETTLE] = "DELETE FROM settle WHERE id = ?1",
    [SQL_END_ANSWER] = "UPDATE answer SET ended_ms = ?2 WHERE id = ?1",
    [SQL_DROP_ANSWER] = "DELETE FROM answer WHERE id = ?1",
    [SQL_RELEASE_COUNT] =
        "UPDATE payment SET releases = releases + 1 WHERE key = ?1 AND state IN (7, 11)"
        " AND releases < replays_max AND ?2 - settled_ms <= replay_window_s * 1000"
        " AND EXISTS(SELECT 1 FROM answer WHERE answer.id = payment.id)",
    [SQL_RELEASE_READ] =
        "SELECT a.status, a.head, a.body, p.state FROM payment p JOIN answer a ON a.id = p.id"
        " WHERE p.key = ?1",
    [SQL_ADD_RELEASES] = "UPDATE payment SET releases = releases + ?2 WHERE key = ?1",
    [SQL_RECEIPT] =
        "SELECT network_raw, payer, coalesce(tx, ''), coalesce(charged, charge, amount),"
        " coalesce(reason, ''), x402_version FROM payment WHERE key = ?1",
    [SQL_SETTLEMENT] =
        "SELECT p.state, coalesce(p.facilitator, ''), coalesce(s.body, x''), p.network,"
        " p.network_raw, p.payer, coalesce(p.charge, p.amount), p.asset, p.pay_to, p.nonce,"
        " p.method, coalesce(p.tx, ''), p.x402_version, p.valid_before, coalesce(p.sealed_s, 0),"
        " coalesce(p.empty_tx, 0), coalesce(p.unproven_release, 0), p.nonce_first"
        " FROM payment p LEFT JOIN settle s ON s.id = p.id WHERE p.key = ?1",
    [SQL_EXPIRE_ANSWERS] = "DELETE FROM answer WHERE id IN (SELECT id FROM answer"
                           " WHERE ended_ms IS NOT NULL AND ended_ms < ?1 LIMIT ?2)",
    [SQL_EVICT_ANSWERS] =
        "DELETE FROM answer WHERE id IN (SELECT a.id FROM answer a JOIN payment p ON p.id = a.id"
        " WHERE a.ended_ms IS NOT NULL AND p.releases > 0 ORDER BY a.ended_ms LIMIT ?1)",
    [SQL_EXPIRE_ROWS] =
        "DELETE FROM payment WHERE id IN (SELECT p.id FROM payment p WHERE p.state IN (4, 7, 8)"
        " AND p.changed_ms < ?1 AND p.valid_before + 3600 < ?2"
        " AND NOT EXISTS(SELECT 1 FROM answer a WHERE a.id = p.id) ORDER BY p.changed_ms LIMIT ?3)",
    [SQL_SEALED_BYTES] = "SELECT value FROM total WHERE name = 'sealed_bytes'",
    [SQL_UNRESOLVED] = "SELECT count(*) FROM payment WHERE state IN (6, 9, 10, 11)",
    [SQL_RESTART_RUNNING] = "UPDATE payment SET state = 4, why = 'restart', changed_s = ?1,"
                            " changed_ms = ?2 WHERE state = 3",
    [SQL_RESTART_SETTLING] = "UPDATE payment SET state = 9, why = 'restart', changed_s = ?1,"
                             " changed_ms = ?2 WHERE state = 6",
};

sqlite3 *store_db(struct store *store)
{
    return store->db;
}

enum err_kind store_fault(struct store *store, const char *what, struct err *err)
{
    int code = sqlite3_extended_errcode(store->db);
    int plain = code & 0xff;
    bool later = plain == SQLITE_FULL || plain == SQLITE_BUSY || plain == SQLITE_LOCKED ||
                 plain == SQLITE_NOMEM || code == SQLITE_IOERR_WRITE;
    return err_set(err, later ? ERR_UNAVAILABLE : ERR_INTERNAL, "ledger: %s: %s (%d)", what,
                   sqlite3_errmsg(store->db), code);
}

sqlite3_stmt *store_stmt(struct store *store, enum store_sql sql, struct err *err)
{
    sqlite3_stmt **stmt = &store->stmts[sql];
    if (*stmt) {
        sqlite3_reset(*stmt);
        sqlite3_clear_bindings(*stmt);
        return *stmt;
    }
    if (sqlite3_prepare_v3(store->db, sql_text[sql], -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL) !=
        SQLITE_OK) {
        (void)store_fault(store, sql_text[sql], err);
        return NULL;
    }
    return *stmt;
}

enum err_kind store_exec(struct store *store, sqlite3_stmt *stmt, const char *what, struct err *err)
{
    int rc = sqlite3_step(stmt);
    enum err_kind kind =
        rc == SQLITE_DONE || rc == SQLITE_ROW ? ERR_OK : store_fault(store, what, err);
    sqlite3_reset(stmt);
    return kind;
}

void store_bind_text(sqlite3_stmt *stmt, int i, const char *s)
{
    if (s)
        sqlite3_bind_text(stmt, i, s, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(stmt, i);
}

void store_bind_blob(sqlite3_stmt *stmt, int i, const void *data, size_t len)
{
    sqlite3_bind_blob64(stmt, i, data ? data : "", len, SQLITE_STATIC);
}

void store_take_text(sqlite3_stmt *stmt, int i, char *out, size_t size)
{
    const unsigned char *s = sqlite3_column_text(stmt, i);
    (void)snprintf(out, size, "%s", s ? (const char *)s : "");
}

void store_take_blob(sqlite3_stmt *stmt, int i, struct buf *out)
{
    const void *data = sqlite3_column_blob(stmt, i);
    size_t len = (size_t)sqlite3_column_bytes(stmt, i);
    buf_init(out, len + 1);
    if (data)
        buf_append(out, data, len);
}

static enum err_kind exec_plain(struct store *store, enum store_sql sql, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, sql, err);
    return stmt ? store_exec(store, stmt, sql_text[sql], err) : err->kind;
}

enum err_kind store_begin(void *store, struct err *err)
{
    return exec_plain(store, SQL_BEGIN, err);
}

enum err_kind store_commit(void *store, struct err *err)
{
    fault_point("commit.before");
    enum err_kind kind = exec_plain(store, SQL_COMMIT, err);
    if (!kind)
        fault_point("commit.after");
    return kind;
}

enum err_kind store_read_begin(void *store, struct err *err)
{
    return exec_plain(store, SQL_READ, err);
}

enum err_kind store_read_end(void *store, struct err *err)
{
    return exec_plain(store, SQL_COMMIT, err);
}

void store_rollback(void *arg)
{
    struct store *store = arg;
    if (!sqlite3_get_autocommit(store->db))
        (void)exec_plain(store, SQL_ROLLBACK, &(struct err){ 0 });
}

/* ---- opening ---- */

static enum err_kind run_sql(struct store *store, const char *sql, struct err *err)
{
    if (sqlite3_exec(store->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return store_fault(store, "set-up", err);
    return ERR_OK;
}

/* One integer from a query that always gives a row. */
static enum err_kind ask_int(struct store *store, const char *sql, int64_t *out, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return store_fault(store, sql, err);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? ERR_OK : store_fault(store, sql, err);
}

static enum err_kind set_up_connection(struct store *store, const struct store_open *how,
                                       struct err *err)
{
    sqlite3_busy_timeout(store->db, 5000);
    if (run_sql(store,
                "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
                "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -1024;",
                err))
        return err->kind;
    if (how->read_only)
        return run_sql(store, "PRAGMA query_only = ON;", err);
    char sql[160];
    (void)snprintf(sql, sizeof(sql),
                   "PRAGMA journal_mode = WAL; PRAGMA synchronous = %s;"
                   "PRAGMA journal_size_limit = 8388608; PRAGMA wal_autocheckpoint = 1000;",
                   how->synchronous ? how->synchronous : "FULL");
    return run_sql(store, sql, err);
}

static enum err_kind make_schema(struct store *store, struct err *err)
{
    char mark[96];
    (void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
                   STORE_APPLICATION_ID, STORE_SCHEMA);
    char *sql CLEANUP_FREE = xasprintf("BEGIN IMMEDIATE;%s%sCOMMIT;", LEDGER_SCHEMA_1, mark);
    return run_sql(store, sql, err);
}

/* From version i+1 to i+2. Version 1 is the first: there is nothing to do yet. */
static const char *const migrations[] = { NULL };

static enum err_kind check_schema(struct store *store, const struct store_open *how,
                                  struct err *err)
{
    int64_t application = 0;
    int64_t version = 0;
    int64_t tables = 0;
    if (ask_int(store, "PRAGMA application_id", &application, err) ||
        ask_int(store, "PRAGMA user_version", &version, err) ||
        ask_int(store, "SELECT count(*) FROM sqlite_schema", &tables, err))
        return err_set(err, ERR_PRECONDITION,
                       "%s is no readable ledger: %s (restore it from a copy; never start over)",
                       how->path, sqlite3_errmsg(store->db));
    if (tables == 0 && application == 0 && version == 0 && how->create)
        return make_schema(store, err);
    if (application != STORE_APPLICATION_ID)
        return err_set(
            err, ERR_PRECONDITION, "%s is not a ledger of utter-gate%s", how->path,
            tables == 0
                ? ": it is empty (truncated? restore it; a new one is made by `ledger init`)"
                : "");
    if (version > STORE_SCHEMA)
        return err_set(err, ERR_PRECONDITION,
                       "%s has ledger schema %lld, this utter-gate knows %d: use the newer one",
                       how->path, (long long)version, STORE_SCHEMA);
    if (how->read_only)
        return ERR_OK;
    return ledger_migrate(store->db, how->path, migrations, STORE_SCHEMA - 1, err);
}

/* quick_check finds a truncated or overwritten file before money depends on it. */
static enum err_kind check_pages(struct store *store, const char *path, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &stmt, NULL) != SQLITE_OK)
        return err_set(err, ERR_PRECONDITION, "%s is damaged: %s (restore it from a copy)", path,
                       sqlite3_errmsg(store->db));
    char said[128] = "no answer";
    if (sqlite3_step(stmt) == SQLITE_ROW)
        store_take_text(stmt, 0, said, sizeof(said));
    sqlite3_finalize(stmt);
    if (strcmp(said, "ok"))
        return err_set(err, ERR_PRECONDITION, "%s is damaged: %s (restore it from a copy)", path,
                       said);
    return ERR_OK;
}

enum err_kind store_open(const struct store_open *how, struct store **out, struct err *err)
{
    struct store *store CLEANUP(store_closep) = xcalloc(1, sizeof(*store));
    int flags = (int)(SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE);
    flags |= how->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    flags |= how->create ? SQLITE_OPEN_CREATE : 0;
    if (sqlite3_open_v2(how->path, &store->db, flags, how->vfs) != SQLITE_OK)
        return err_set(err, ERR_PRECONDITION, "cannot open ledger %s: %s", how->path,
                       sqlite3_errmsg(store->db));
    if (set_up_connection(store, how, err))
        return err_set(err, ERR_PRECONDITION, "%s is no usable ledger: %s", how->path,
                       sqlite3_errmsg(store->db));
    if (check_schema(store, how, err) || (!how->read_only && check_pages(store, how->path, err)))
        return err->kind;
    *out = STEAL(store);
    return ERR_OK;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    for (int i = 0; i < SQL_N; i++)
        sqlite3_finalize(store->stmts[i]);
    sqlite3_close(store->db);
    free(store);
}

/* ---- meta ---- */

static sqlite3_stmt *meta_row(struct store *store, const char *name, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_META_GET, err);
    if (!stmt)
        return NULL;
    store_bind_text(stmt, 1, name);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return stmt;
    if (rc == SQLITE_DONE)
        (void)err_set(err, ERR_NOT_FOUND, "ledger: no %s", name);
    else
        (void)store_fault(store, name, err);
    sqlite3_reset(stmt);
    return NULL;
}

enum err_kind store_get_int(struct store *store, const char *name, int64_t *out, struct err *err)
{
    sqlite3_stmt *stmt = meta_row(store, name, err);
    if (!stmt)
        return err->kind;
    *out = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return ERR_OK;
}

enum err_kind store_get_text(struct store *store, const char *name, char *out, size_t size,
                             struct err *err)
{
    sqlite3_stmt *stmt = meta_row(store, name, err);
    if (!stmt)
        return err->kind;
    store_take_text(stmt, 0, out, size);
    sqlite3_reset(stmt);
    return ERR_OK;
}

enum err_kind store_set_int(struct store *store, const char *name, int64_t value, struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_META_SET, err);
    if (!stmt)
        return err->kind;
    store_bind_text(stmt, 1, name);
    sqlite3_bind_int64(stmt, 2, value);
    return store_exec(store, stmt, name, err);
}

enum err_kind store_set_text(struct store *store, const char *name, const char *value,
                             struct err *err)
{
    sqlite3_stmt *stmt = store_stmt(store, SQL_META_SET, err);
    if (!stmt)
        return err->kind;
    store_bind_text(stmt, 1, name);
    store_bind_text(stmt, 2, value);
    return store_exec(store, stmt, name, err);
}
