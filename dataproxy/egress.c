#include "dataproxy/egress.h"

#include <sqlite3.h>
#include <string.h>
#include <time.h>

#include "base/log.h"

#define FLUSH_MS 250
#define QUEUE_MAX 4096
#define TRIM_EVERY 1000

struct row {
    struct egress_record record;
    int64_t at_ms;
};

struct egress {
    struct loop *loop;
    sqlite3 *db; /* NULL: nothing is kept */
    sqlite3_stmt *insert;
    struct loop_timer timer;
    struct row *queue;
    size_t n;
    uint64_t lost;
    uint64_t written;
};

static const char schema[] =
    "PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS egress ("
    " seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, request_id TEXT NOT NULL, upstream TEXT NOT "
    "NULL,"
    " method TEXT NOT NULL, status INTEGER NOT NULL, upstream_status INTEGER NOT NULL,"
    " bytes_up INTEGER NOT NULL, bytes_down INTEGER NOT NULL, ms INTEGER NOT NULL, outcome TEXT "
    "NOT NULL);"
    "CREATE INDEX IF NOT EXISTS egress_request ON egress (request_id);"
    "PRAGMA user_version=1;";

enum err_kind egress_new(struct loop *loop, const char *path, struct egress **out, struct err *err)
{
    struct egress *egress CLEANUP(egress_freep) = xcalloc(1, sizeof(*egress));
    egress->loop = loop;
    if (path) {
        if (sqlite3_open_v2(path, &egress->db,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                            NULL) ||
            sqlite3_busy_timeout(egress->db, 50) ||
            sqlite3_exec(egress->db, schema, NULL, NULL, NULL) ||
            sqlite3_prepare_v2(egress->db,
                               "INSERT INTO egress (at_ms, request_id, upstream, method, status,"
                               " upstream_status, bytes_up, bytes_down, ms, outcome)"
                               " VALUES (?,?,?,?,?,?,?,?,?,?)",
                               -1, &egress->insert, NULL))
            return err_set(err, ERR_INTERNAL, "egress record %s: %s", path,
                           sqlite3_errmsg(egress->db));
        egress->queue = xcalloc(QUEUE_MAX, sizeof(*egress->queue));
    }
    *out = STEAL(egress);
    return ERR_OK;
}

static bool insert(struct egress *egress, const struct row *row)
{
    const struct egress_record *r = &row->record;
    sqlite3_stmt *s = egress->insert;
    sqlite3_bind_int64(s, 1, row->at_ms);
    sqlite3_bind_text(s, 2, r->request_id, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, r->upstream, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 4, r->method, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 5, r->status);
    sqlite3_bind_int(s, 6, r->upstream_status);
    sqlite3_bind_int64(s, 7, (sqlite3_int64)r->bytes_up);
    sqlite3_bind_int64(s, 8, (sqlite3_int64)r->bytes_down);
    sqlite3_bind_int64(s, 9, (sqlite3_int64)r->ms);
    sqlite3_bind_text(s, 10, r->outcome, -1, SQLITE_STATIC);
    bool done = sqlite3_step(s) == SQLITE_DONE;
    sqlite3_reset(s);
    return done;
}

static bool trim(struct egress *egress)
{
    char sql[128];
    (void)sqlite3_snprintf(sizeof(sql), sql,
                           "DELETE FROM egress WHERE seq <= (SELECT max(seq) FROM egress) - %d",
                           EGRESS_ROWS_MAX);
    return sqlite3_exec(egress->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void flush(struct egress *egress)
{
    if (!egress->n)
        return;
    bool fine = sqlite3_exec(egress->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK;
    for (size_t i = 0; fine && i < egress->n; i++)
        fine = insert(egress, &egress->queue[i]);
    uint64_t before = egress->written / TRIM_EVERY;
    egress->written += egress->n;
    if (fine && egress->written / TRIM_EVERY != before)
        fine = trim(egress);
    fine = sqlite3_exec(egress->db, fine ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK &&
           fine;
    if (!fine) {
        egress->lost += egress->n;
        log_error("egress_lost", log_int("rows", (int64_t)egress->n),
                  log_str("why", sqlite3_errmsg(egress->db)));
    }
    egress->n = 0;
}

static void on_timer(struct loop_timer *timer)
{
    flush(timer->arg);
}

void egress_add(struct egress *egress, const struct egress_record *record)
{
    if (!egress->db)
        return;
    if (egress->n == QUEUE_MAX)
        flush(egress);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    egress->queue[egress->n++] =
        (struct row){ .record = *record,
                      .at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 };
    if (egress->n == 1)
        loop_after(egress->loop, &egress->timer, FLUSH_MS, on_timer, egress);
}

void egress_free(struct egress *egress)
{
    if (!egress)
        return;
    loop_cancel(&egress->timer);
    if (egress->insert)
        flush(egress);
    sqlite3_finalize(egress->insert);
    sqlite3_close(egress->db);
    free(egress->queue);
    free(egress);
}

uint64_t egress_lost(const struct egress *egress)
{
    return egress->lost;
}
