#include "gate/ledger_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "gate/ledger_db.h"
#include "gate/u256.h"

#define PAGE 200 /* rows in one read transaction */

static const char *const columns[] = {
    "payment",  "state",  "created", "settled",     "network",  "asset",       "amount",
    "charged",  "payer",  "pay_to",  "route",       "resource", "transaction", "runs",
    "releases", "reason", "why",     "facilitator", "nonce",    "identifier",  "valid_before",
};

static const char rows_sql[] =
    "SELECT id, state, created_s, settled_s, network, asset, amount, coalesce(charged, charge, "
    "''), payer, pay_to,"
    " route, resource, coalesce(tx, ''), runs, releases, coalesce(reason, ''), coalesce(why, ''),"
    " coalesce(facilitator, ''), nonce, coalesce(identifier, ''), valid_before, lower(hex(key)) "
    "FROM payment"
    " WHERE id > ?1 AND created_s >= ?2 AND (?3 = 0 OR state = ?3) AND (?4 = 0 OR state IN (6, 9, "
    "10, 11))"
    " AND (?5 = '' OR substr(lower(hex(key)), 1, length(?5)) = ?5) ORDER BY id LIMIT ?6";

/* UTC, RFC 3339. "" for 0. */
static const char *time_text(int64_t s, char out[32])
{
    struct tm tm;
    time_t t = (time_t)s;
    if (s == 0 || !gmtime_r(&t, &tm))
        out[0] = '\0';
    else
        (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return out;
}

/* The value of column i (in the order of `columns`) of the current row; valid until the next step.
 */
static const char *value_of(sqlite3_stmt *stmt, size_t i, char scratch[32])
{
    if (i == 0)
        return (const char *)sqlite3_column_text(stmt, 21);
    if (i == 1)
        return payment_state_name((enum payment_state)sqlite3_column_int(stmt, 1));
    if (i == 2 || i == 3)
        return time_text(sqlite3_column_int64(stmt, (int)i), scratch);
    const char *s = (const char *)sqlite3_column_text(stmt, (int)i);
    return s ? s : "";
}

static void csv_field(FILE *out, const char *s, bool last)
{
    bool quote = strpbrk(s, ",\"\r\n") != NULL;
    if (quote)
        (void)fputc('"', out);
    for (const char *p = s; *p; p++) {
        if (*p == '"')
            (void)fputc('"', out);
        (void)fputc(*p, out);
    }
    (void)fputs(quote ? "\"" : "", out);
    (void)fputs(last ? "\r\n" : ",", out);
}

static void write_csv(sqlite3_stmt *stmt, FILE *out)
{
    char scratch[32];
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        csv_field(out, value_of(stmt, i, scratch), i + 1 == ARRAY_LEN(columns));
}

static void write_json(sqlite3_stmt *stmt, FILE *out, bool first)
{
    char scratch[32];
    json_t *row CLEANUP_JSON = json_object();
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        bool number = !strcmp(columns[i], "runs") || !strcmp(columns[i], "releases") ||
                      !strcmp(columns[i], "valid_before");
        if (number)
            json_object_set_new(row, columns[i], json_integer(sqlite3_column_int64(stmt, (int)i)));
        else
            json_object_set_new(row, columns[i], json_string(value_of(stmt, i, scratch)));
    }
    (void)fputs(first ? "[\n" : ",\n", out);
    (void)json_dumpf(row, out, JSON_COMPACT | JSON_PRESERVE_ORDER);
}

static void write_table(sqlite3_stmt *stmt, FILE *out)
{
    char scratch[32];
    char clean[5][80];
    static const size_t shown[] = { 6, 4, 10, 12, 15 };
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        (void)text_safe(value_of(stmt, shown[i], scratch), clean[i], sizeof(clean[i]));
    char key[13];
    (void)snprintf(key, sizeof(key), "%s", value_of(stmt, 0, scratch));
    char created[32];
    (void)time_text(sqlite3_column_int64(stmt, 2), created);
    (void)fprintf(out, "%-12s  %-9s  %-20s  %12s  %-14s  %-20s  %s%s%s\n", key,
                  value_of(stmt, 1, scratch), created, clean[0], clean[1], clean[2], clean[3],
                  clean[4][0] ? "  " : "", clean[4]);
}

static void write_row(const struct report *report, sqlite3_stmt *stmt, FILE *out, bool first)
{
    switch (report->form) {
    case REPORT_JSON:
        write_json(stmt, out, first);
        return;
    case REPORT_CSV:
        write_csv(stmt, out);
        return;
    case REPORT_TABLE:
    default:
        write_table(stmt, out);
        return;
    }
}

static enum err_kind state_number(const char *name, int *number, bool *unresolved, struct err *err)
{
    *number = 0;
    *unresolved = name && !strcmp(name, "unresolved");
    if (!name || *unresolved)
        return ERR_OK;
    for (int s = 1; s < PAYMENT_STATE_N; s++) {
        if (payment_state_durable((enum payment_state)s) &&
            !strcmp(payment_state_name((enum payment_state)s), name)) {
            *number = s;
            return ERR_OK;
        }
    }
    return err_set(err, ERR_INVALID,
                   "no state \"%s\" (running, uncharged, settling, settled, failed, unknown, "
                   "abandoned, conceded, unresolved)",
                   name);
}

/* A page in memory until its read transaction has ended: a reader of `out` that stops reading would
 * else hold it open, and the WAL could not be emptied for as long. */
struct page {
    FILE *file;
    char *text;
    size_t len;
};

static enum err_kind page_begin(struct page *page, struct err *err)
{
    *page = (struct page){ 0 };
    page->file = open_memstream(&page->text, &page->len);
    return page->file ? ERR_OK : err_sys(err, errno, "memory for a page");
}

static void page_end(struct page *page, FILE *out)
{
    (void)fclose(page->file);
    if (out)
        (void)fwrite(page->text, 1, page->len, out);
    free(page->text);
}

/* One page; *after moves on, *n counts. The statement's reset ends the read transaction. */
static enum err_kind step_page(struct store *store, sqlite3_stmt *stmt, const struct report *report,
                               FILE *out, int64_t *after, uint64_t *rows, uint64_t *n,
                               struct err *err)
{
    int rc;
    *n = 0;
    sqlite3_bind_int64(stmt, 1, *after);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        write_row(report, stmt, out, *rows == 0);
        *after = sqlite3_column_int64(stmt, 0);
        (*rows)++;
        (*n)++;
    }
    sqlite3_reset(stmt);
    if (rc != SQLITE_DONE)
        return err_set(err, ERR_UNAVAILABLE, "ledger: %s", sqlite3_errmsg(store_db(store)));
    return ERR_OK;
}

static enum err_kind write_page(struct store *store, sqlite3_stmt *stmt,
                                const struct report *report, FILE *out, int64_t *after,
                                uint64_t *rows, uint64_t *n, struct err *err)
{
    struct page page;
    if (page_begin(&page, err))
        return err->kind;
    enum err_kind kind = step_page(store, stmt, report, page.file, after, rows, n, err);
    page_end(&page, kind ? NULL : out);
    return kind;
}

static void write_head(enum report_form form, FILE *out)
{
    if (form == REPORT_TABLE)
        (void)fprintf(out, "%-12s  %-9s  %-20s  %12s  %-14s  %-20s  %s\n", "PAYMENT", "STATE",
                      "CREATED", "AMOUNT", "NETWORK", "ROUTE", "TRANSACTION");
    for (size_t i = 0; form == REPORT_CSV && i < ARRAY_LEN(columns); i++)
        csv_field(out, columns[i], i + 1 == ARRAY_LEN(columns));
}

static void finalize_(sqlite3_stmt **stmt)
{
    sqlite3_finalize(*stmt);
}

enum err_kind report_rows(struct store *store, const struct report *report, FILE *out,
                          uint64_t *rows, struct err *err)
{
    sqlite3_stmt *stmt CLEANUP(finalize_) = NULL;
    int state;
    bool unresolved;
    *rows = 0;
    if (state_number(report->state, &state, &unresolved, err))
        return err->kind;
    if (sqlite3_prepare_v2(store_db(store), rows_sql, -1, &stmt, NULL) != SQLITE_OK)
        return err_set(err, ERR_INTERNAL, "ledger: %s", sqlite3_errmsg(store_db(store)));
    sqlite3_bind_int64(stmt, 2, report->since_s);
    sqlite3_bind_int(stmt, 3, state);
    sqlite3_bind_int(stmt, 4, unresolved);
    sqlite3_bind_text(stmt, 5, report->key ? report->key : "", -1, SQLITE_STATIC);
    write_head(report->form, out);
    int64_t after = 0;
    uint64_t n = PAGE;
    while (n == PAGE && (report->limit == 0 || *rows < report->limit)) {
        uint64_t left = report->limit ? report->limit - *rows : PAGE;
        sqlite3_bind_int64(stmt, 6, left < PAGE ? (int64_t)left : PAGE);
        if (write_page(store, stmt, report, out, &after, rows, &n, err))
            return err->kind;
    }
    if (report->form == REPORT_JSON)
        (void)fputs(*rows ? "\n]\n" : "[]\n", out);
    return ERR_OK;
}

/* ---- totals ---- */

/* Sums are beyond 64 bits for tokens with 18 decimals: added here, not in SQL. */
struct total {
    char day[11], network[64], asset[LEDGER_TEXT_MAX + 1];
    uint64_t settled, failed, uncharged, unresolved;
    struct u256 sum;
};

static void total_write(const struct total *t, enum report_form form, FILE *out, bool first)
{
    char sum[U256_TEXT_MAX];
    (void)u256_text(&t->sum, sum);
    if (form == REPORT_JSON)
        (void)fprintf(out,
                      "%s{\"day\":\"%s\",\"network\":\"%s\",\"asset\":\"%s\",\"settled\":%llu,"
                      "\"amount\":\"%s\","
                      "\"failed\":%llu,\"uncharged\":%llu,\"unresolved\":%llu}",
                      first ? "[\n" : ",\n", t->day, t->network, t->asset,
                      (unsigned long long)t->settled, sum, (unsigned long long)t->failed,
                      (unsigned long long)t->uncharged, (unsigned long long)t->unresolved);
    else
        (void)fprintf(out,
                      form == REPORT_CSV
                          ? "%s,%s,%s,%llu,%s,%llu,%llu,%llu\r\n"
                          : "%-10s  %-14s  %-42s  %8llu  %16s  %8llu  %9llu  %10llu\n",
                      t->day, t->network, t->asset, (unsigned long long)t->settled, sum,
                      (unsigned long long)t->failed, (unsigned long long)t->uncharged,
                      (unsigned long long)t->unresolved);
}

static bool total_is(const struct total *t, sqlite3_stmt *stmt)
{
    return !strcmp(t->day, (const char *)sqlite3_column_text(stmt, 0)) &&
           !strcmp(t->network, (const char *)sqlite3_column_text(stmt, 1)) &&
           !strcmp(t->asset, (const char *)sqlite3_column_text(stmt, 2));
}

static void total_start(struct total *t, sqlite3_stmt *stmt)
{
    *t = (struct total){ 0 };
    store_take_text(stmt, 0, t->day, sizeof(t->day));
    store_take_text(stmt, 1, t->network, sizeof(t->network));
    store_take_text(stmt, 2, t->asset, sizeof(t->asset));
}

static void total_add(struct total *t, sqlite3_stmt *stmt)
{
    enum payment_state state = (enum payment_state)sqlite3_column_int(stmt, 3);
    struct u256 amount;
    t->settled += state == PAYMENT_SETTLED;
    t->failed += state == PAYMENT_FAILED;
    t->uncharged += state == PAYMENT_UNCHARGED;
    t->unresolved += payment_state_unresolved(state);
    if (state == PAYMENT_SETTLED && u256_parse((const char *)sqlite3_column_text(stmt, 4), &amount))
        (void)u256_add(&t->sum, &amount, &t->sum);
}

static const char totals_sql[] =
    "SELECT strftime('%Y-%m-%d', coalesce(settled_s, created_s), 'unixepoch') AS day, network,"
    " asset, state, coalesce(charged, charge, amount) FROM payment ORDER BY day, network, asset";

static enum err_kind write_totals(struct store *store, enum report_form form, FILE *out,
                                  struct err *err)
{
    sqlite3_stmt *stmt CLEANUP(finalize_) = NULL;
    struct total total = { 0 };
    bool first = true;
    if (sqlite3_prepare_v2(store_db(store), totals_sql, -1, &stmt, NULL) != SQLITE_OK)
        return err_set(err, ERR_INTERNAL, "ledger: %s", sqlite3_errmsg(store_db(store)));
    if (form == REPORT_TABLE)
        (void)fprintf(out, "%-10s  %-14s  %-42s  %8s  %16s  %8s  %9s  %10s\n", "DAY", "NETWORK",
                      "ASSET", "SETTLED", "AMOUNT", "FAILED", "UNCHARGED", "UNRESOLVED");
    if (form == REPORT_CSV)
        (void)fputs("day,network,asset,settled,amount,failed,uncharged,unresolved\r\n", out);
    int rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (!total_is(&total, stmt)) {
            if (total.day[0]) {
                total_write(&total, form, out, first);
                first = false;
            }
            total_start(&total, stmt);
        }
        total_add(&total, stmt);
    }
    if (total.day[0])
        total_write(&total, form, out, first);
    if (form == REPORT_JSON)
        (void)fputs(total.day[0] ? "\n]\n" : "[]\n", out);
    return rc == SQLITE_DONE
               ? ERR_OK
               : err_set(err, ERR_UNAVAILABLE, "ledger: %s", sqlite3_errmsg(store_db(store)));
}

enum err_kind report_totals(struct store *store, enum report_form form, FILE *out, struct err *err)
{
    struct page page;
    if (page_begin(&page, err))
        return err->kind;
    enum err_kind kind = write_totals(store, form, page.file, err);
    page_end(&page, kind ? NULL : out);
    return kind;
}
