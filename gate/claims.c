#include "gate/claims.h"

#include <sqlite3.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "gate/db_thread.h"
#include "gate/ledger_file.h"

#define CLAIMS_APPLICATION_ID 0x5554434c /* "UTCL" */
#define BUSY_MS 2000                     /* another gate is writing: its commit takes one sync */
#define FORGET_BATCH 64

/* clang-format off */
#define SCHEMA \
    "CREATE TABLE IF NOT EXISTS claim(key BLOB PRIMARY KEY, holder TEXT NOT NULL, keep_until INTEGER NOT NULL) WITHOUT ROWID;" \
    "CREATE TABLE IF NOT EXISTS moved(network TEXT NOT NULL, tx TEXT NOT NULL, key BLOB NOT NULL," \
    " PRIMARY KEY(network, tx)) WITHOUT ROWID;" \
    "CREATE INDEX IF NOT EXISTS claim_old ON claim(keep_until);"
/* clang-format on */

enum claims_sql {
    CLAIMS_BEGIN,
    CLAIMS_COMMIT,
    CLAIMS_ROLLBACK,
    CLAIMS_TAKE,
    CLAIMS_RELEASE,
    CLAIMS_FORGET,
    CLAIMS_BIND,
    CLAIMS_BOUND,
    CLAIMS_SQL_N,
};

static const char *const sql_text[CLAIMS_SQL_N] = {
    [CLAIMS_BEGIN] = "BEGIN IMMEDIATE",
    [CLAIMS_COMMIT] = "COMMIT",
    [CLAIMS_ROLLBACK] = "ROLLBACK",
    [CLAIMS_TAKE] =
        "INSERT INTO claim(key, holder, keep_until) VALUES(?1, ?2, ?3)"
        " ON CONFLICT(key) DO UPDATE SET keep_until = max(keep_until, excluded.keep_until)"
        " WHERE holder = excluded.holder",
    [CLAIMS_RELEASE] = "DELETE FROM claim WHERE key = ?1 AND holder = ?2",
    [CLAIMS_FORGET] =
        "DELETE FROM claim WHERE key IN (SELECT key FROM claim WHERE keep_until < ?1 LIMIT ?2)",
    [CLAIMS_BIND] = "INSERT INTO moved(network, tx, key) VALUES(?1, ?2, ?3) ON CONFLICT DO NOTHING",
    [CLAIMS_BOUND] = "SELECT key FROM moved WHERE network = ?1 AND tx = ?2",
};

/* The connection: the thread's alone. */
struct claims_db {
    sqlite3 *db;
    sqlite3_stmt *stmts[CLAIMS_SQL_N];
    char holder[64];
};

struct claims {
    struct claims_db store;
    struct db_thread *thread;
    struct loop *loop;
    char *path;
    uint64_t inode;
    bool closing;
};

struct claims_op {
    struct db_job job;
    struct claims *claims;
    struct claims_call *call;
    claims_fn *fn;
    void *arg;
    uint8_t key[LEDGER_KEY_LEN];
    int64_t keep_until;
    char network[64];
    char transaction[161];
    bool mine;
};

static enum err_kind fault(struct claims_db *c, const char *what, struct err *err)
{
    int code = sqlite3_extended_errcode(c->db);
    bool later = (code & 0xff) == SQLITE_FULL || (code & 0xff) == SQLITE_BUSY ||
                 (code & 0xff) == SQLITE_LOCKED;
    return err_set(err, later ? ERR_UNAVAILABLE : ERR_INTERNAL, "claims: %s: %s", what,
                   sqlite3_errmsg(c->db));
}

static sqlite3_stmt *stmt_of(struct claims_db *c, enum claims_sql sql, struct err *err)
{
    sqlite3_stmt **stmt = &c->stmts[sql];
    if (*stmt) {
        sqlite3_reset(*stmt);
        sqlite3_clear_bindings(*stmt);
    } else if (sqlite3_prepare_v3(c->db, sql_text[sql], -1, SQLITE_PREPARE_PERSISTENT, stmt,
                                  NULL) != SQLITE_OK) {
        (void)fault(c, sql_text[sql], err);
        return NULL;
    }
    return *stmt;
}

static enum err_kind exec(struct claims_db *c, sqlite3_stmt *stmt, struct err *err)
{
    int rc = sqlite3_step(stmt);
    enum err_kind kind = rc == SQLITE_DONE || rc == SQLITE_ROW ? ERR_OK : fault(c, "write", err);
    sqlite3_reset(stmt);
    return kind;
}

static enum err_kind plain(struct claims_db *c, enum claims_sql sql, struct err *err)
{
    sqlite3_stmt *stmt = stmt_of(c, sql, err);
    return stmt ? exec(c, stmt, err) : err->kind;
}

static enum err_kind begin(void *c, struct err *err)
{
    return plain(c, CLAIMS_BEGIN, err);
}

static enum err_kind commit(void *c, struct err *err)
{
    return plain(c, CLAIMS_COMMIT, err);
}

static void rollback(void *c)
{
    if (!sqlite3_get_autocommit(((struct claims_db *)c)->db))
        (void)plain(c, CLAIMS_ROLLBACK, &(struct err){ 0 });
}

/* ---- jobs ---- */

static enum err_kind apply_take(struct db_job *job, void *db, struct err *err)
{
    struct claims_op *op = (struct claims_op *)job;
    struct claims_db *c = db;
    sqlite3_stmt *stmt = stmt_of(c, CLAIMS_FORGET, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_int64(stmt, 1, time(NULL));
    sqlite3_bind_int(stmt, 2, FORGET_BATCH);
    if (exec(c, stmt, err))
        return err->kind;
    stmt = stmt_of(c, CLAIMS_TAKE, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_blob(stmt, 1, op->key, LEDGER_KEY_LEN, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, c->holder, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, op->keep_until);
    if (exec(c, stmt, err))
        return err->kind;
    op->mine = sqlite3_changes(c->db) == 1;
    return ERR_OK;
}

static enum err_kind apply_release(struct db_job *job, void *db, struct err *err)
{
    struct claims_op *op = (struct claims_op *)job;
    struct claims_db *c = db;
    sqlite3_stmt *stmt = stmt_of(c, CLAIMS_RELEASE, err);
    if (!stmt)
        return err->kind;
    sqlite3_bind_blob(stmt, 1, op->key, LEDGER_KEY_LEN, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, c->holder, -1, SQLITE_STATIC);
    return exec(c, stmt, err);
}

static void bind_moved(sqlite3_stmt *stmt, const struct claims_op *op)
{
    sqlite3_bind_text(stmt, 1, op->network, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, op->transaction, -1, SQLITE_STATIC);
}

static enum err_kind apply_bind(struct db_job *job, void *db, struct err *err)
{
    struct claims_op *op = (struct claims_op *)job;
    struct claims_db *c = db;
    sqlite3_stmt *stmt = stmt_of(c, CLAIMS_BIND, err);
    if (!stmt)
        return err->kind;
    bind_moved(stmt, op);
    sqlite3_bind_blob(stmt, 3, op->key, LEDGER_KEY_LEN, SQLITE_STATIC);
    if (exec(c, stmt, err))
        return err->kind;
    stmt = stmt_of(c, CLAIMS_BOUND, err);
    if (!stmt)
        return err->kind;
    bind_moved(stmt, op);
    int rc = sqlite3_step(stmt);
    op->mine = rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == LEDGER_KEY_LEN &&
               !memcmp(sqlite3_column_blob(stmt, 0), op->key, LEDGER_KEY_LEN);
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW ? ERR_OK : fault(c, "read", err);
}

static void done_op(struct db_job *job)
{
    struct claims_op *op = (struct claims_op *)job;
    if (op->call && !op->claims->closing) {
        enum claims_verdict verdict = op->mine ? CLAIMS_MINE : CLAIMS_OTHERS;
        /* A file that was taken away is not the one the other gates have. */
        if (job->failed || ledger_file_inode(op->claims->path) != op->claims->inode)
            verdict = CLAIMS_UNAVAILABLE;
        op->call->op = NULL;
        op->call = NULL;
        op->fn(op->arg, verdict);
    }
    free(op);
}

static struct claims_op *op_new(struct claims *claims, const uint8_t *key, struct claims_call *call,
                                claims_fn *fn, void *arg)
{
    struct claims_op *op = xcalloc(1, sizeof(*op));
    op->claims = claims;
    op->call = call;
    op->fn = fn;
    op->arg = arg;
    memcpy(op->key, key, LEDGER_KEY_LEN);
    if (call)
        call->op = op;
    return op;
}

static void submit(struct claims_op *op,
                   enum err_kind (*apply)(struct db_job *, void *, struct err *))
{
    op->job.apply = apply;
    op->job.done = done_op;
    db_thread_submit(op->claims->thread, &op->job);
}

void claims_take(struct claims *claims, const uint8_t key[LEDGER_KEY_LEN], int64_t keep_until,
                 struct claims_call *call, claims_fn *fn, void *arg)
{
    struct claims_op *op = op_new(claims, key, call, fn, arg);
    op->keep_until = keep_until;
    submit(op, apply_take);
}

void claims_release(struct claims *claims, const uint8_t key[LEDGER_KEY_LEN])
{
    submit(op_new(claims, key, NULL, NULL, NULL), apply_release);
}

void claims_bind(struct claims *claims, const char *network, const char *transaction,
                 const uint8_t key[LEDGER_KEY_LEN], struct claims_call *call, claims_fn *fn,
                 void *arg)
{
    struct claims_op *op = op_new(claims, key, call, fn, arg);
    (void)snprintf(op->network, sizeof(op->network), "%s", network);
    ledger_spell_transaction(transaction, op->transaction, sizeof(op->transaction));
    submit(op, apply_bind);
}

void claims_cancel(struct claims_call *call)
{
    struct claims_op *op = call->op;
    if (op)
        op->call = NULL;
    call->op = NULL;
}

/* ---- opening ---- */

static enum err_kind check_application(struct claims *claims, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t id = -1;
    if (sqlite3_prepare_v2(claims->store.db, "PRAGMA application_id", -1, &stmt, NULL) ==
            SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        id = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    if (id != 0 && id != CLAIMS_APPLICATION_ID)
        return err_set(err, ERR_PRECONDITION, "%s is not a claims store", claims->path);
    return ERR_OK;
}

static enum err_kind set_up(struct claims *claims, struct err *err)
{
    struct claims_db *c = &claims->store;
    sqlite3_busy_timeout(c->db, BUSY_MS);
    if (check_application(claims, err))
        return err->kind;
    char *sql CLEANUP_FREE = xasprintf(
        "PRAGMA trusted_schema = OFF; PRAGMA cache_size = -256; PRAGMA journal_mode = WAL;"
        "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 1048576;"
        "BEGIN IMMEDIATE; %s PRAGMA application_id = %d; COMMIT;",
        SCHEMA, CLAIMS_APPLICATION_ID);
    if (sqlite3_exec(c->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return err_set(err, ERR_PRECONDITION, "claims store %s: %s", claims->path,
                       sqlite3_errmsg(c->db));
    return ledger_file_sync_dir(claims->path, err);
}

enum err_kind claims_open(const char *path, const char *holder, bool force_fs, struct loop *loop,
                          struct claims **out, struct err *err)
{
    static const struct db_thread_ops ops = { begin, commit, rollback };
    if (ledger_file_check_fs(path, force_fs, err))
        return err->kind;
    struct claims *claims CLEANUP(claims_freep) = xcalloc(1, sizeof(*claims));
    claims->path = xstrdup(path);
    claims->loop = loop;
    (void)snprintf(claims->store.holder, sizeof(claims->store.holder), "%s", holder);
    if (sqlite3_open_v2(path, &claims->store.db,
                        (int)(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                              SQLITE_OPEN_EXRESCODE),
                        NULL) != SQLITE_OK)
        return err_set(err, ERR_PRECONDITION, "claims store %s: %s", path,
                       sqlite3_errmsg(claims->store.db));
    if (set_up(claims, err))
        return err->kind;
    claims->inode = ledger_file_inode(path);
    if (db_thread_new(loop, &claims->store, &ops, "claims", &claims->thread, err))
        return err->kind;
    *out = STEAL(claims);
    return ERR_OK;
}

void claims_free(struct claims *claims)
{
    if (!claims)
        return;
    claims->closing = true;
    db_thread_free(claims->thread);
    for (int i = 0; i < CLAIMS_SQL_N; i++)
        sqlite3_finalize(claims->store.stmts[i]);
    sqlite3_close(claims->store.db);
    free(claims->path);
    free(claims);
}
