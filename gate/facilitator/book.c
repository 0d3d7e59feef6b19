#include "gate/facilitator/book.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/keccak.h"

struct book {
    sqlite3 *db;
    struct u256 credit;
};

static const char schema[] =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS account(chain TEXT NOT NULL, asset TEXT NOT NULL,"
    " address TEXT NOT NULL, balance TEXT NOT NULL, PRIMARY KEY(chain, asset, address));"
    "CREATE TABLE IF NOT EXISTS transfer(nonce_key TEXT PRIMARY KEY, tx TEXT NOT NULL UNIQUE,"
    " network TEXT NOT NULL, asset TEXT NOT NULL, payer TEXT NOT NULL, pay_to TEXT NOT NULL,"
    " value TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL);";

void book_close(struct book *b)
{
    if (!b)
        return;
    (void)sqlite3_close(b->db);
    free(b);
}

static enum err_kind sql_fault(struct book *b, struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, "book: %s", sqlite3_errmsg(b->db));
}

static void statement_freep(sqlite3_stmt **s)
{
    (void)sqlite3_finalize(*s);
}
#define CLEANUP_STMT CLEANUP(statement_freep)

/* Prepares and binds texts up to a NULL. */
static enum err_kind prepare(struct book *b, sqlite3_stmt **out, struct err *err, const char *sql,
                             const char *const texts[])
{
    if (sqlite3_prepare_v2(b->db, sql, -1, out, NULL) != SQLITE_OK)
        return sql_fault(b, err);
    for (int i = 0; texts[i]; i++) {
        if (sqlite3_bind_text(*out, i + 1, texts[i], -1, SQLITE_TRANSIENT) != SQLITE_OK)
            return sql_fault(b, err);
    }
    return ERR_OK;
}

static enum err_kind run(struct book *b, const char *sql, struct err *err)
{
    return sqlite3_exec(b->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ERR_OK : sql_fault(b, err);
}

enum err_kind book_open(const char *path, const struct u256 *credit, struct book **out,
                        struct err *err)
{
    struct book *b CLEANUP(book_closep) = xcalloc(1, sizeof(*b));
    b->credit = *credit;
    if (sqlite3_open(*path ? path : ":memory:", &b->db) != SQLITE_OK)
        return sql_fault(b, err);
    (void)sqlite3_busy_timeout(b->db, 5000);
    if (run(b, schema, err))
        return err_prefix(err, "%s", *path ? path : "memory");
    *out = STEAL(b);
    return ERR_OK;
}

static const char *column(sqlite3_stmt *s, int i)
{
    const unsigned char *text = sqlite3_column_text(s, i);
    return text ? (const char *)text : "";
}

enum err_kind book_find(struct book *b, const char *key, struct book_transfer *out, struct err *err)
{
    sqlite3_stmt *s CLEANUP_STMT = NULL;
    memset(out, 0, sizeof(*out));
    if (prepare(b, &s, err, "SELECT tx, value, pay_to, at FROM transfer WHERE nonce_key = ?",
                (const char *const[]){ key, NULL }))
        return err->kind;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_DONE)
        return ERR_OK;
    if (rc != SQLITE_ROW)
        return sql_fault(b, err);
    out->found = true;
    snprintf(out->tx, sizeof(out->tx), "%s", column(s, 0));
    snprintf(out->value, sizeof(out->value), "%s", column(s, 1));
    snprintf(out->pay_to, sizeof(out->pay_to), "%s", column(s, 2));
    out->at = sqlite3_column_int64(s, 3);
    return ERR_OK;
}

static enum err_kind balance_get(struct book *b, const char *chain, const char *asset,
                                 const char *account, struct u256 *out, struct err *err)
{
    sqlite3_stmt *s CLEANUP_STMT = NULL;
    *out = b->credit;
    if (prepare(b, &s, err,
                "SELECT balance FROM account WHERE chain = ? AND asset = ? AND address = ?",
                (const char *const[]){ chain, asset, account, NULL }))
        return err->kind;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_DONE)
        return ERR_OK;
    if (rc != SQLITE_ROW)
        return sql_fault(b, err);
    return u256_parse(column(s, 0), out) ? ERR_OK : err_set(err, ERR_INTERNAL, "book: bad balance");
}

static enum err_kind balance_set(struct book *b, const char *chain, const char *asset,
                                 const char *account, const struct u256 *balance, struct err *err)
{
    sqlite3_stmt *s CLEANUP_STMT = NULL;
    char text[U256_TEXT_MAX];
    if (prepare(b, &s, err, "INSERT OR REPLACE INTO account VALUES(?, ?, ?, ?)",
                (const char *const[]){ chain, asset, account, u256_text(balance, text), NULL }))
        return err->kind;
    return sqlite3_step(s) == SQLITE_DONE ? ERR_OK : sql_fault(b, err);
}

enum err_kind book_fund(struct book *b, const char *network, const char *asset, const char *account,
                        const struct u256 *balance, struct err *err)
{
    const struct network *known = network_by_name(network);
    struct evm_address a, t;
    char chain[32], address[EVM_ADDRESS_TEXT], token[EVM_ADDRESS_TEXT];
    uint64_t id = caip2_chain_id(known ? known->caip2 : network);
    if (!id || !evm_address_parse(account, &a) || !evm_address_parse(asset, &t))
        return err_set(err, ERR_INVALID, "network, asset or account is not one");
    snprintf(chain, sizeof(chain), "%" PRIu64, id);
    return balance_set(b, chain, evm_address_lower(&t, token), evm_address_lower(&a, address),
                       balance, err);
}

/* Looks like a hash of a chain and is none: it comes from the nonce alone. */
static void make_tx(const char *key, char tx[BOOK_TX_TEXT])
{
    uint8_t hash[KECCAK_LEN];
    keccak256(key, strlen(key), hash);
    tx[0] = '0';
    tx[1] = 'x';
    text_hex(hash, sizeof(hash), tx + 2);
}

static enum err_kind transfer_add(struct book *b, const struct judgement *j, int64_t now,
                                  const char *tx, const char *body, struct err *err)
{
    sqlite3_stmt *s CLEANUP_STMT = NULL;
    char value[U256_TEXT_MAX], asset[EVM_ADDRESS_TEXT], from[EVM_ADDRESS_TEXT],
        to[EVM_ADDRESS_TEXT], at[24];
    evm_address_text(&j->terms.asset_address, asset);
    evm_address_text(&j->p.evm.from, from);
    evm_address_text(&j->p.evm.to, to);
    u256_text(&j->charge, value);
    snprintf(at, sizeof(at), "%" PRId64, now);
    if (prepare(b, &s, err, "INSERT INTO transfer VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (const char *const[]){ j->key, tx, j->network, asset, from, to, value, at, body,
                                       NULL }))
        return err->kind;
    return sqlite3_step(s) == SQLITE_DONE ? ERR_OK : sql_fault(b, err);
}

static enum err_kind move_money(struct book *b, const struct judgement *j, bool dry,
                                const char **reason, struct err *err)
{
    char chain[32], asset[EVM_ADDRESS_TEXT], from[EVM_ADDRESS_TEXT], to[EVM_ADDRESS_TEXT];
    struct u256 have, left, theirs;
    snprintf(chain, sizeof(chain), "%" PRIu64, j->p.chain_id);
    evm_address_lower(&j->terms.asset_address, asset);
    evm_address_lower(&j->p.evm.from, from);
    evm_address_lower(&j->p.evm.to, to);
    if (balance_get(b, chain, asset, from, &have, err))
        return err->kind;
    if (!u256_sub(&have, &j->charge, &left)) {
        *reason = j->p.kind == PAY_EIP3009 ? "insufficient_funds" : "permit2_insufficient_balance";
        return ERR_OK;
    }
    if (dry)
        return ERR_OK;
    if (balance_set(b, chain, asset, from, &left, err) ||
        balance_get(b, chain, asset, to, &theirs, err))
        return err->kind;
    if (!u256_add(&theirs, &j->charge, &theirs))
        return err_set(err, ERR_INTERNAL, "book: balance overflow");
    return balance_set(b, chain, asset, to, &theirs, err);
}

static enum err_kind move_inside(struct book *b, const struct judgement *j, int64_t now, bool dry,
                                 const char *body, char tx[BOOK_TX_TEXT], const char **reason,
                                 struct err *err)
{
    struct book_transfer earlier;
    if (book_find(b, j->key, &earlier, err))
        return err->kind;
    if (earlier.found) {
        *reason = j->p.kind == PAY_EIP3009 ? "invalid_exact_evm_nonce_already_used"
                                           : "permit2_invalid_nonce";
        return ERR_OK;
    }
    if (move_money(b, j, dry, reason, err))
        return err->kind;
    if (*reason || dry)
        return ERR_OK;
    make_tx(j->key, tx);
    return transfer_add(b, j, now, tx, body, err);
}

enum err_kind book_move(struct book *b, const struct judgement *j, int64_t now, bool dry,
                        const char *body, char tx[BOOK_TX_TEXT], const char **reason,
                        struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    tx[0] = '\0';
    *reason = NULL;
    if (u256_is_zero(&j->charge))
        return ERR_OK;
    if (run(b, "BEGIN IMMEDIATE", err))
        return err->kind;
    enum err_kind kind = move_inside(b, j, now, dry, body, tx, reason, err);
    if (!kind && !*reason && !dry)
        return run(b, "COMMIT", err);
    struct err ignored; /* the first fault is the one to tell */
    (void)run(b, "ROLLBACK", &ignored);
    return kind;
}

enum err_kind book_dump(struct book *b, bool with_bodies, json_t **out, struct err *err)
{
    sqlite3_stmt *s CLEANUP_STMT = NULL;
    json_t *list CLEANUP_JSON = json_array();
    if (prepare(b, &s, err,
                "SELECT nonce_key, tx, network, asset, payer, pay_to, value, at, body FROM "
                "transfer ORDER BY rowid",
                (const char *const[]){ NULL }))
        return err->kind;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I}", "key", column(s, 0),
                                "tx", column(s, 1), "network", column(s, 2), "asset", column(s, 3),
                                "from", column(s, 4), "to", column(s, 5), "value", column(s, 6),
                                "at", (json_int_t)sqlite3_column_int64(s, 7));
        if (with_bodies)
            json_object_set_new(row, "body", json_string(column(s, 8)));
        json_array_append_new(list, row);
    }
    if (rc != SQLITE_DONE)
        return sql_fault(b, err);
    *out = json_pack("{s:O}", "transfers", list);
    return ERR_OK;
}
