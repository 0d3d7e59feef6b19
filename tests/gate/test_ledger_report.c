/* What people see of a ledger: rows, totals, and the operator's resolve. */
#include "tests/test.h"

#include "base/json.h"
#include "gate/ledger_admin.h"
#include "gate/ledger_cli.h"
#include "gate/ledger_db.h"
#include "gate/ledger_report.h"
#include "tests/gate/ledger_rig.h"

static int set_up(void **state)
{
    struct rig *rig = xcalloc(1, sizeof(*rig));
    rig_init(rig);
    rig_open(rig);
    for (uint8_t n = 1; n <= 5; n++) {
        struct ledger_claim claim = rig_claim_of(n, RIG_PAYER);
        claim.fingerprint[0] = n;
        struct ledger_payment *payment = rig_settling(rig, &claim, "answer");
        char tx[8];
        snprintf(tx, sizeof(tx), "0x%02x", n);
        assert_int_equal(rig_step(rig, payment,
                                  n <= 3   ? PAYMENT_SETTLE
                                  : n == 4 ? PAYMENT_REFUSE
                                           : PAYMENT_DOUBT,
                                  n <= 3 ? tx : NULL),
                         LEDGER_DONE);
        ledger_payment_unref(payment);
    }
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    rig_fini(*state);
    free(*state);
    return 0;
}

static char *rows_of(struct rig *rig, const struct report *report, uint64_t *rows)
{
    struct store *store CLEANUP(store_closep) = NULL;
    struct store_open how = { .path = rig->path, .read_only = true };
    struct err err;
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    assert_int_equal(store_open(&how, &store, &err), ERR_OK); /* while the gate has it open */
    FILE *out CLEANUP_FILE = open_memstream(&text, &len);
    assert_int_equal(report_rows(store, report, out, rows, &err), ERR_OK);
    fflush(out);
    return xstrdup(text);
}

static void rows_as_json(void **state)
{
    uint64_t rows;
    struct report report = { .form = REPORT_JSON };
    char *text CLEANUP_FREE = rows_of(*state, &report, &rows);
    json_t *root CLEANUP_JSON = NULL;
    assert_int_equal(rows, 5);
    assert_int_equal(json_strict_load(text, strlen(text), 65536, 0, &root, NULL), ERR_OK);
    assert_int_equal(json_array_size(root), 5);
    assert_string_equal(json_string_value(json_at(root, "/0/state")), "settled");
    assert_string_equal(json_string_value(json_at(root, "/1/transaction")), "0x02");
    assert_string_equal(json_string_value(json_at(root, "/3/state")), "failed");
    assert_string_equal(json_string_value(json_at(root, "/4/payer")), RIG_PAYER);
    assert_int_equal(strlen(json_string_value(json_at(root, "/4/payment"))), 64);
}

static void rows_as_csv_and_table(void **state)
{
    uint64_t rows;
    struct report report = { .form = REPORT_CSV, .state = "unresolved" };
    char *csv CLEANUP_FREE = rows_of(*state, &report, &rows);
    assert_int_equal(rows, 1);
    assert_memory_equal(csv, "payment,state,created,", 22);
    assert_non_null(strstr(csv, "\r\n0505"));
    assert_non_null(strstr(csv, ",unknown,"));
    report = (struct report){ .form = REPORT_TABLE, .limit = 2 };
    char *table CLEANUP_FREE = rows_of(*state, &report, &rows);
    assert_int_equal(rows, 2);
    assert_non_null(strstr(table, "GET /weather"));
    report = (struct report){ .form = REPORT_TABLE, .key = "0404" };
    char *one CLEANUP_FREE = rows_of(*state, &report, &rows);
    assert_int_equal(rows, 1);
    assert_non_null(strstr(one, "failed"));
    report = (struct report){ .form = REPORT_JSON, .since_s = 5000000000 };
    char *none CLEANUP_FREE = rows_of(*state, &report, &rows);
    assert_string_equal(none, "[]\n");
}

static void totals(void **state)
{
    struct rig *rig = *state;
    struct store *store CLEANUP(store_closep) = NULL;
    struct store_open how = { .path = rig->path, .read_only = true };
    struct err err;
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    assert_int_equal(store_open(&how, &store, &err), ERR_OK);
    FILE *out CLEANUP_FILE = open_memstream(&text, &len);
    assert_int_equal(report_totals(store, REPORT_JSON, out, &err), ERR_OK);
    fflush(out);
    json_t *root CLEANUP_JSON = NULL;
    assert_int_equal(json_strict_load(text, len, 65536, 0, &root, NULL), ERR_OK);
    assert_int_equal(json_array_size(root), 1);
    assert_int_equal(json_integer_value(json_at(root, "/0/settled")), 3);
    assert_string_equal(json_string_value(json_at(root, "/0/amount")), "30000");
    assert_int_equal(json_integer_value(json_at(root, "/0/failed")), 1);
    assert_int_equal(json_integer_value(json_at(root, "/0/unresolved")), 1);
    rewind(out);
    assert_int_equal(report_totals(store, REPORT_CSV, out, &err), ERR_OK);
    fflush(out);
    assert_non_null(strstr(text, ",3,30000,1,0,1\r\n"));
}

/* Writes nothing anywhere, and looks whether the store is in a read transaction at that time. */
struct watcher {
    struct store *store;
    size_t bytes, held;
};

static ssize_t watch(void *arg, const char *data, size_t len)
{
    struct watcher *w = arg;
    (void)data;
    w->bytes += len;
    w->held += sqlite3_txn_state(store_db(w->store), NULL) != SQLITE_TXN_NONE;
    return (ssize_t)len;
}

/* A pipe that nobody empties must not hold a read transaction: the WAL would grow for as long. */
static void nothing_is_written_in_a_transaction(void **state)
{
    struct rig *rig = *state;
    struct store *store CLEANUP(store_closep) = NULL;
    struct store_open how = { .path = rig->path, .read_only = true };
    struct err err;
    uint64_t rows;
    assert_int_equal(store_open(&how, &store, &err), ERR_OK);
    struct watcher watcher = { .store = store };
    FILE *out CLEANUP_FILE = fopencookie(&watcher, "w", (cookie_io_functions_t){ .write = watch });
    assert_non_null(out);
    setbuf(out, NULL);
    for (int form = REPORT_TABLE; form <= REPORT_CSV; form++) {
        struct report report = { .form = (enum report_form)form };
        assert_int_equal(report_rows(store, &report, out, &rows, &err), ERR_OK);
        assert_int_equal(report_totals(store, (enum report_form)form, out, &err), ERR_OK);
    }
    assert_true(watcher.bytes > 500);
    assert_int_equal(watcher.held, 0);
}

static void unknown_state_is_named(void **state)
{
    struct rig *rig = *state;
    struct store *store CLEANUP(store_closep) = NULL;
    struct store_open how = { .path = rig->path, .read_only = true };
    struct report report = { .state = "paid" };
    struct err err;
    uint64_t rows;
    assert_int_equal(store_open(&how, &store, &err), ERR_OK);
    assert_int_equal(report_rows(store, &report, stdout, &rows, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "no state \"paid\""));
}

/* ---- resolve ---- */

static void on_admin(void *arg, int status, const char *text)
{
    struct rig *rig = arg;
    rig->status = (uint16_t)status;
    snprintf(rig->body, sizeof(rig->body), "%s", text);
    rig->done = true;
    loop_stop(rig->loop);
}

static int resolve(struct rig *rig, struct settler *settler, const char *body)
{
    struct ledger_admin_call call;
    ledger_admin_resolve(settler, body, strlen(body), &call, on_admin, rig);
    rig_run(rig);
    return rig->status;
}

#define KEY5 "0505050505050505050505050505050505050505050505050505050505050505"
#define KEY1 "0101010101010101010101010101010101010101010101010101010101010101"
#define KEY9 "0909090909090909090909090909090909090909090909090909090909090909"

static void operator_resolves(void **state)
{
    struct rig *rig = *state;
    struct settler_setup setup;
    struct settler *settler CLEANUP(settler_freep) = NULL;
    settler_setup_defaults(&setup);
    setup.ledger = rig->ledger;
    setup.first_repeat_ms = 60000;
    assert_int_equal(settler_new(&setup, rig->loop, &settler, NULL), ERR_OK);
    assert_int_equal(resolve(rig, settler, "{"), 400);
    assert_int_equal(resolve(rig, settler, "{\"payment\":\"05\",\"unpaid\":true,\"reason\":\"x\"}"),
                     400);
    assert_int_equal(resolve(rig, settler, "{\"payment\":\"" KEY5 "\",\"unpaid\":true}"), 400);
    assert_int_equal(resolve(rig, settler, "{\"payment\":\"" KEY5 "\",\"reason\":\"x\"}"), 400);
    assert_int_equal(
        resolve(rig, settler, "{\"payment\":\"" KEY5 "\",\"settled\":\"a b\",\"reason\":\"x\"}"),
        400);
    assert_int_equal(resolve(rig, settler,
                             "{\"payment\":\"" KEY5
                             "\",\"settled\":\"0x1\",\"reason\":\"x\",\"y\":1}"),
                     400);
    assert_int_equal(
        resolve(rig, settler, "{\"payment\":\"" KEY9 "\",\"unpaid\":true,\"reason\":\"x\"}"), 404);
    assert_int_equal(
        resolve(rig, settler, "{\"payment\":\"" KEY1 "\",\"unpaid\":true,\"reason\":\"x\"}"), 409);
    assert_int_equal(
        resolve(rig, settler, "{\"payment\":\"" KEY5 "\",\"settled\":\"0x01\",\"reason\":\"x\"}"),
        409);
    assert_int_equal(resolve(rig, settler,
                             "{\"payment\":\"" KEY5 "\",\"settled\":\"0x55\",\"reason\":\"seen\"}"),
                     200);
    struct report report = { .form = REPORT_JSON, .key = "0505" };
    uint64_t rows;
    char *text CLEANUP_FREE = rows_of(rig, &report, &rows);
    assert_non_null(strstr(text, "\"state\":\"settled\""));
    assert_non_null(strstr(text, "\"why\":\"seen\""));
}

static int cli(int argc, const char *const argv[])
{
    char *copy[12] = { 0 };
    for (int i = 0; i < argc; i++)
        copy[i] = xstrdup(argv[i]);
    int code = ledger_cli(argc, copy);
    for (int i = 0; i < argc; i++)
        free(copy[i]);
    return code;
}

static void command_line(void **state)
{
    struct rig *rig = *state;
    const char *path = rig->path;
    char fresh[128];
    snprintf(fresh, sizeof(fresh), "%s/fresh", rig->dir);
    assert_int_equal(cli(1, (const char *[]){ "ledger" }), 2);
    assert_int_equal(cli(2, (const char *[]){ "ledger", "sell" }), 2);
    assert_int_equal(cli(4, (const char *[]){ "ledger", "list", "--ledger", path }), 0);
    assert_int_equal(cli(5, (const char *[]){ "ledger", "show", "--ledger", path, "0505" }), 0);
    assert_int_equal(cli(5, (const char *[]){ "ledger", "show", "0909", "--ledger", path }), 1);
    assert_int_equal(cli(5, (const char *[]){ "ledger", "show", "zz", "--ledger", path }), 2);
    assert_int_equal(
        cli(6, (const char *[]){ "ledger", "export", "--format", "csv", "--ledger", path }), 0);
    assert_int_equal(
        cli(6, (const char *[]){ "ledger", "export", "--format", "xml", "--ledger", path }), 2);
    assert_int_equal(
        cli(6, (const char *[]){ "ledger", "list", "--since", "2026", "--ledger", path }), 2);
    assert_int_equal(cli(4, (const char *[]){ "ledger", "totals", "--ledger", path }), 0);
    assert_int_equal(cli(4, (const char *[]){ "ledger", "unresolved", "--ledger", path }), 0);
    assert_int_equal(cli(4, (const char *[]){ "ledger", "list", "--ledger", "/nonexistent/x" }), 1);
    assert_int_equal(cli(4, (const char *[]){ "ledger", "init", "--ledger", path }), 1);
    assert_int_equal(
        cli(5, (const char *[]){ "ledger", "init", "--any-filesystem", "--ledger", fresh }), 0);
    assert_int_equal(cli(4, (const char *[]){ "ledger", "list", "--ledger", fresh }), 0);
    assert_int_equal(cli(8, (const char *[]){ "ledger", "resolve", KEY5, "--unpaid", "--admin",
                                              "unix:/nonexistent", "--ledger", path }),
                     2);
    assert_int_equal(cli(9, (const char *[]){ "ledger", "resolve", KEY5, "--unpaid", "--reason",
                                              "x", "--admin", "unix:/nonexistent/s", "--unpaid" }),
                     1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(rows_as_json),
        T(rows_as_csv_and_table),
        T(totals),
        T(unknown_state_is_named),
        T(operator_resolves),
        T(command_line),
        T(nothing_is_written_in_a_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
