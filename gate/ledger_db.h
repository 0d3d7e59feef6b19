/*
 * Inside the store: prepared statements and the mapping of SQLite's results. For ledger_store.c,
 * ledger_rows.c and ledger_room.c only.
 */
#pragma once

#include <sqlite3.h>

#include "gate/ledger_store.h"

enum store_sql {
    SQL_BEGIN,
    SQL_READ,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_META_GET,
    SQL_META_SET,
    SQL_BY_KEY,
    SQL_BY_IDENTIFIER,
    SQL_NEXT_UNKNOWN,
    SQL_RUN,
    SQL_STATE,
    SQL_STEP,
    SQL_TX_TAKEN,
    SQL_SEAL,
    SQL_SEAL_ANSWER,
    SQL_SEAL_SETTLE,
    SQL_DROP_SETTLE,
    SQL_END_ANSWER,
    SQL_DROP_ANSWER,
    SQL_RELEASE_COUNT,
    SQL_RELEASE_READ,
    SQL_ADD_RELEASES,
    SQL_RECEIPT,
    SQL_SETTLEMENT,
    SQL_EXPIRE_ANSWERS,
    SQL_EVICT_ANSWERS,
    SQL_EXPIRE_ROWS,
    SQL_SEALED_BYTES,
    SQL_UNRESOLVED,
    SQL_RESTART_RUNNING,
    SQL_RESTART_SETTLING,
    SQL_N,
};

struct store {
    sqlite3 *db;
    sqlite3_stmt *stmts[SQL_N];
};

/* A statement ready to bind (prepared once, reset), or NULL with err set. */
sqlite3_stmt *store_stmt(struct store *store, enum store_sql sql, struct err *err);
/* Maps the database's last failure; for use when a step was neither SQLITE_ROW nor SQLITE_DONE. */
enum err_kind store_fault(struct store *store, const char *what, struct err *err);
/* Runs a bound statement that returns no rows and resets it. */
CHECKED enum err_kind store_exec(struct store *store, sqlite3_stmt *stmt, const char *what,
                                 struct err *err);

void store_bind_text(sqlite3_stmt *stmt, int i, const char *s); /* NULL binds NULL; not copied */
void store_bind_blob(sqlite3_stmt *stmt, int i, const void *data, size_t len);
/* Copies a text column into a field; cut never happens for what we wrote. */
void store_take_text(sqlite3_stmt *stmt, int i, char *out, size_t size);
void store_take_blob(sqlite3_stmt *stmt, int i, struct buf *out);
