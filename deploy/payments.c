#include "deploy/payments.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"

#define BUSY_MS 2000

DEFINE_CLEANUP(sqlite3, sqlite3_close_v2, sqlite_freep)

static void statement_freep(sqlite3_stmt **s)
{
    (void)sqlite3_finalize(*s);
}

static char *ledger_path(const struct plan *plan)
{
    return xasprintf("%s/ledger/ledger.db", plan->state);
}

static enum err_kind sql_fault(sqlite3 *db, const char *path, struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, "ledger %s: %s", path, db ? sqlite3_errmsg(db) : "open");
}

/* ERR_NOT_FOUND: there is none. */
static enum err_kind open_ledger(const char *path, sqlite3 **out, struct err *err)
{
    struct stat st;
    sqlite3 *db CLEANUP(sqlite_freep) = NULL;
    if (stat(path, &st))
        return err_set(err, ERR_NOT_FOUND, "%s is not there", path);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return sql_fault(db, path, err);
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    *out = STEAL(db);
    return ERR_OK;
}

static const char *state_name(int state)
{
    static const char *const names[] = {
        "?",        "new",     "reserved", "running", "uncharged", "reserved again",
        "settling", "settled", "failed",   "unknown", "abandoned", "conceded",
    };
    return state > 0 && (size_t)state < ARRAY_LEN(names) ? names[state] : "?";
}

static const char *text_at(sqlite3_stmt *s, int column)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    return text ? (const char *)text : "";
}

static enum err_kind rows(const struct plan *plan, const char *sql, int limit, json_t **out,
                          struct err *err)
{
    char *path CLEANUP_FREE = ledger_path(plan);
    sqlite3 *db CLEANUP(sqlite_freep) = NULL;
    sqlite3_stmt *s CLEANUP(statement_freep) = NULL;
    json_t *list CLEANUP_JSON = json_array();
    enum err_kind kind = open_ledger(path, &db, err);
    if (kind && kind != ERR_NOT_FOUND)
        return kind;
    if (!kind && (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK ||
                  sqlite3_bind_int(s, 1, limit) != SQLITE_OK))
        return sql_fault(db, path, err);
    int rc = SQLITE_DONE;
    while (!kind && (rc = sqlite3_step(s)) == SQLITE_ROW)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "payment", text_at(s, 0),
                            "state", state_name(sqlite3_column_int(s, 1)), "amount", text_at(s, 2),
                            "asset", text_at(s, 3), "payer", text_at(s, 4), "created",
                            (json_int_t)sqlite3_column_int64(s, 5), "transaction", text_at(s, 6)));
    if (rc != SQLITE_DONE)
        return sql_fault(db, path, err);
    *out = STEAL(list);
    return ERR_OK;
}

#define COLUMNS                                                                                    \
    "SELECT lower(hex(p.key)), p.state, p.amount, p.asset, p.payer, p.created_s, p.tx FROM "       \
    "payment p "

enum err_kind payments_open(const struct plan *plan, json_t **out, struct err *err)
{
    return rows(plan,
                COLUMNS "WHERE p.state IN (3, 6, 9, 10, 11) OR (p.state = 7 AND p.releases = 0 AND "
                        "EXISTS (SELECT 1 FROM answer a WHERE a.id = p.id)) ORDER BY p.id LIMIT ?1",
                1000, out, err);
}

enum err_kind payments_last(const struct plan *plan, int n, json_t **out, struct err *err)
{
    return rows(plan, COLUMNS "ORDER BY p.id DESC LIMIT ?1", n, out, err);
}

enum err_kind payments_backup(const struct plan *plan, const char *to, struct err *err)
{
    char *path CLEANUP_FREE = ledger_path(plan);
    sqlite3 *from CLEANUP(sqlite_freep) = NULL;
    sqlite3 *copy CLEANUP(sqlite_freep) = NULL;
    if (open_ledger(path, &from, err))
        return err->kind;
    if (sqlite3_open_v2(to, &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        return sql_fault(copy, to, err);
    sqlite3_backup *backup = sqlite3_backup_init(copy, "main", from, "main");
    if (!backup)
        return sql_fault(copy, to, err);
    (void)sqlite3_backup_step(backup, -1);
    if (sqlite3_backup_finish(backup) != SQLITE_OK)
        return sql_fault(copy, to, err);
    return ERR_OK;
}

static enum err_kind one_number(sqlite3 *db, const char *sql, int64_t *out, struct err *err)
{
    sqlite3_stmt *s CLEANUP(statement_freep) = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
        return sql_fault(db, "copy", err);
    *out = sqlite3_column_int64(s, 0);
    return ERR_OK;
}

static enum err_kind copy_and_doubt(const char *from, const char *to, int64_t *doubtful,
                                    int64_t *newest, struct err *err)
{
    sqlite3 *source CLEANUP(sqlite_freep) = NULL;
    sqlite3 *copy CLEANUP(sqlite_freep) = NULL;
    if (open_ledger(from, &source, err))
        return err->kind;
    if (sqlite3_open_v2(to, &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        return sql_fault(copy, to, err);
    sqlite3_backup *backup = sqlite3_backup_init(copy, "main", source, "main");
    if (!backup)
        return sql_fault(copy, to, err);
    (void)sqlite3_backup_step(backup, -1);
    if (sqlite3_backup_finish(backup) != SQLITE_OK ||
        sqlite3_exec(copy, "UPDATE payment SET state = 9 WHERE state IN (3, 6)", NULL, NULL,
                     NULL) != SQLITE_OK)
        return sql_fault(copy, to, err);
    if (one_number(copy, "SELECT count(*) FROM payment WHERE state = 9", doubtful, err) ||
        one_number(copy, "SELECT coalesce(max(created_s), 0) FROM payment", newest, err))
        return err->kind;
    return ERR_OK;
}

enum err_kind payments_restore(const char *from, const char *to, uint32_t uid, int64_t *doubtful,
                               int64_t *newest, struct err *err)
{
    struct stat st;
    if (stat(to, &st) == 0)
        return err_set(err, ERR_EXISTS, "%s is there already", to);
    if (copy_and_doubt(from, to, doubtful, newest, err))
        return err->kind;
    if (chown(to, uid, uid) || chmod(to, 0644))
        return err_set(err, ERR_INTERNAL, "%s: cannot be given to the gate", to);
    return ERR_OK;
}
