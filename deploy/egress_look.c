#include "deploy/egress_look.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "deploy/rotate.h"

#define BUSY_MS 1000

DEFINE_CLEANUP(sqlite3, sqlite3_close_v2, sqlite_freep)

static void statement_freep(sqlite3_stmt **s)
{
    (void)sqlite3_finalize(*s);
}

/* Every row as an object of its column names; numbers stay numbers. */
static CHECKED enum err_kind rows(sqlite3 *db, const char *sql, int limit, json_t **out,
                                  struct err *err)
{
    sqlite3_stmt *s CLEANUP(statement_freep) = NULL;
    json_t *list CLEANUP_JSON = json_array();
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return err_set(err, ERR_UNAVAILABLE, "egress record: %s", sqlite3_errmsg(db));
    (void)sqlite3_bind_int(s, 1, limit);
    int step;
    while ((step = sqlite3_step(s)) == SQLITE_ROW) {
        json_t *row = json_object();
        for (int i = 0; i < sqlite3_column_count(s); i++) {
            bool number = sqlite3_column_type(s, i) == SQLITE_INTEGER;
            const unsigned char *text = sqlite3_column_text(s, i);
            json_object_set_new(row, sqlite3_column_name(s, i),
                                number ? json_integer(sqlite3_column_int64(s, i))
                                       : json_string(text ? (const char *)text : ""));
        }
        json_array_append_new(list, row);
    }
    if (step != SQLITE_DONE)
        return err_set(err, ERR_UNAVAILABLE, "egress record: %s", sqlite3_errmsg(db));
    *out = STEAL(list);
    return ERR_OK;
}

enum err_kind egress_look(const struct plan *plan, int limit, json_t **out, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/egress/egress.db", plan->state);
    sqlite3 *db CLEANUP(sqlite_freep) = NULL;
    json_t *upstreams CLEANUP_JSON = NULL;
    json_t *last CLEANUP_JSON = NULL;
    if (access(path, R_OK))
        return err_set(err, ERR_NOT_FOUND, "%s is not there", path);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, NULL) != SQLITE_OK)
        return err_set(err, ERR_UNAVAILABLE, "egress record %s cannot be opened", path);
    /* The file is the proxy's: nothing in its schema is run. */
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    if (rows(db,
             "SELECT upstream, count(*) AS calls, sum(bytes_up) AS bytesUp, sum(bytes_down) AS "
             "bytesDown,"
             " sum(outcome NOT IN ('ok', 'cached')) AS refused FROM egress WHERE upstream != ''"
             " GROUP BY upstream ORDER BY upstream LIMIT 16 + 0 * ?",
             0, &upstreams, err) ||
        rows(db,
             "SELECT request_id AS request, upstream, status, ms, outcome FROM egress"
             " ORDER BY seq DESC LIMIT ?",
             limit, &last, err))
        return err->kind;
    *out = json_pack("{s:O, s:O}", "upstreams", upstreams, "last", last);
    return ERR_OK;
}

json_t *egress_counted(const struct plan *plan)
{
    static const char prefix[] = "utter_dataproxy_";
    struct buf page CLEANUP(buf_fini);
    json_t *out = json_object();
    buf_init(&page, 65536);
    if (rotate_metrics(plan, &page, ERR_IGNORED))
        return out;
    char *rest = NULL;
    char *text CLEANUP_FREE = xstrdup(buf_cstr(&page));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strrchr(line, ' ');
        if (!text_starts(line, prefix) || !value)
            continue;
        *value++ = '\0';
        json_object_set_new(out, line + strlen(prefix), json_integer(strtoll(value, NULL, 10)));
    }
    return out;
}
