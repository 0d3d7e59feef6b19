#include "gate/ledger_migrate.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "gate/ledger_file.h"

static enum err_kind version_of(sqlite3 *db, int *out, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    *out = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        *out = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return *out >= 0 ? ERR_OK
                     : err_set(err, ERR_INTERNAL, "ledger version: %s", sqlite3_errmsg(db));
}

/* VACUUM INTO writes one consistent file, WAL included; it is synced with its name before a step
 * runs. */
static enum err_kind copy_ledger(sqlite3 *db, const char *path, int version, struct err *err)
{
    char *copy CLEANUP_FREE = xasprintf("%s.before-%d", path, version);
    if (!access(copy, F_OK))
        return err_set(err, ERR_EXISTS,
                       "%s exists: an earlier migration left it (move it away, then start again)",
                       copy);
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", copy);
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
    if (rc != SQLITE_OK)
        return err_set(err, ERR_UNAVAILABLE, "copy ledger to %s: %s", copy, sqlite3_errmsg(db));
    int fd CLEANUP_FD = open(copy, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd))
        return err_set(err, ERR_UNAVAILABLE, "sync %s", copy);
    return ledger_file_sync_dir(path, err);
}

enum err_kind ledger_migrate(sqlite3 *db, const char *path, const char *const steps[], int n,
                             struct err *err)
{
    int version;
    if (version_of(db, &version, err))
        return err->kind;
    if (version < 1 || version > n)
        return ERR_OK; /* none, or as new as we are */
    if (copy_ledger(db, path, n + 1, err))
        return err->kind;
    for (; version <= n; version++) {
        char *sql CLEANUP_FREE = xasprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT;",
                                           steps[version - 1], version + 1);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
            continue;
        (void)err_set(err, ERR_PRECONDITION, "migrate ledger %s to schema %d: %s", path,
                      version + 1, sqlite3_errmsg(db));
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return err->kind;
    }
    log_info("ledger_migrated", log_str("path", path), log_int("schema", version));
    return ERR_OK;
}
