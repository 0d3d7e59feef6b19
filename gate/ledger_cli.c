#include "gate/ledger_cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "gate/config.h"
#include "gate/ledger_report.h"
#include "http/client.h"

#define CONFIG_DEFAULT "/etc/utter/gate.json"
#define ADMIN_MS 20000

static const char usage[] =
    "usage: utter-gate ledger list [--state STATE] [--since YYYY-MM-DD] [--limit N] [where]\n"
    "       utter-gate ledger show PAYMENT [where]\n"
    "       utter-gate ledger export [--format json|csv] [--state STATE] [--since YYYY-MM-DD] "
    "[where]\n"
    "       utter-gate ledger totals [--format table|json|csv] [where]\n"
    "       utter-gate ledger unresolved [--format table|json|csv] [where]\n"
    "       utter-gate ledger resolve PAYMENT (--settled TRANSACTION | --unpaid) --reason TEXT "
    "[where]\n"
    "       utter-gate ledger init [--adopt] [where]\n"
    "where: --config FILE (" CONFIG_DEFAULT
    "), or --ledger FILE and --admin unix:PATH|ADDRESS:PORT\n";

struct cli {
    const char *command;
    const char *payment;
    const char *config_path, *ledger, *admin;
    const char *settled, *reason;
    const char *state, *since, *limit, *format;
    bool unpaid, adopt, force;
    struct gate_config *config;
    char admin_text[160];
};

static int complain(const struct err *err)
{
    (void)fprintf(stderr, "utter-gate ledger: %s\n", err->msg);
    return 1;
}

static int wrong_usage(const char *what)
{
    (void)fprintf(stderr, "utter-gate ledger: %s\n%s", what, usage);
    return 2;
}

static void on_config_fault(void *arg, bool warning, const char *line)
{
    (void)arg;
    if (!warning)
        (void)fprintf(stderr, "%s\n", line);
}

/* The file names what the options leave out. */
static enum err_kind find_ledger(struct cli *cli, struct err *err)
{
    bool resolve = !strcmp(cli->command, "resolve");
    if (cli->ledger && (!resolve || cli->admin))
        return ERR_OK;
    if (resolve && cli->admin)
        return ERR_OK;
    const char *path = cli->config_path ? cli->config_path : CONFIG_DEFAULT;
    if (config_load(path, on_config_fault, NULL, &cli->config, err))
        return err->kind;
    if (!cli->ledger)
        cli->ledger = cli->config->ledger.path;
    cli->force |= cli->config->ledger.any_filesystem;
    const struct endpoint *at = &cli->config->admin;
    if (!cli->admin && at->kind == ENDPOINT_UNIX)
        (void)snprintf(cli->admin_text, sizeof(cli->admin_text), "unix:%s", at->path);
    else if (!cli->admin)
        (void)snprintf(cli->admin_text, sizeof(cli->admin_text),
                       strchr(at->host, ':') ? "[%s]:%u" : "%s:%u", at->host, at->port);
    if (!cli->admin)
        cli->admin = cli->admin_text;
    return ERR_OK;
}

/* ---- reading ---- */

static enum err_kind open_for_reading(const struct cli *cli, struct store **out, struct err *err)
{
    const struct store_open how = { .path = cli->ledger, .read_only = true };
    return store_open(&how, out, err);
}

static bool read_form(const struct cli *cli, enum report_form otherwise, enum report_form *out)
{
    *out = otherwise;
    if (!cli->format)
        return true;
    static const char *const names[] = {
        [REPORT_TABLE] = "table", [REPORT_JSON] = "json", [REPORT_CSV] = "csv"
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!strcmp(names[i], cli->format)) {
            *out = (enum report_form)i;
            return true;
        }
    }
    return false;
}

static bool read_since(const char *s, int64_t *out)
{
    struct tm tm = { 0 };
    *out = 0;
    if (!s)
        return true;
    const char *end = strptime(s, "%Y-%m-%d", &tm);
    if (!end || *end)
        return false;
    *out = (int64_t)timegm(&tm);
    return true;
}

static int run_rows(const struct cli *cli, struct report *report, bool must_find)
{
    struct store *store CLEANUP(store_closep) = NULL;
    struct err err;
    uint64_t rows;
    if (cli->limit && !text_u64(cli->limit, &report->limit))
        return wrong_usage("--limit wants a number");
    if (!read_since(cli->since, &report->since_s))
        return wrong_usage("--since wants YYYY-MM-DD");
    if (open_for_reading(cli, &store, &err) || report_rows(store, report, stdout, &rows, &err))
        return complain(&err);
    if (must_find && rows == 0) {
        (void)err_set(&err, ERR_NOT_FOUND, "no payment %s", report->key);
        return complain(&err);
    }
    return fflush(stdout) ? 1 : 0;
}

static int cli_list(const struct cli *cli)
{
    struct report report = { .state = cli->state };
    return read_form(cli, REPORT_TABLE, &report.form)
               ? run_rows(cli, &report, false)
               : wrong_usage("--format is table, json or csv");
}

static int cli_export(const struct cli *cli)
{
    struct report report = { .state = cli->state };
    return read_form(cli, REPORT_JSON, &report.form)
               ? run_rows(cli, &report, false)
               : wrong_usage("--format is table, json or csv");
}

static int cli_unresolved(const struct cli *cli)
{
    struct report report = { .state = "unresolved" };
    return read_form(cli, REPORT_TABLE, &report.form)
               ? run_rows(cli, &report, false)
               : wrong_usage("--format is table, json or csv");
}

static bool is_key_prefix(const char *s)
{
    size_t n = strlen(s);
    return n >= 4 && n <= (size_t)2 * LEDGER_KEY_LEN && strspn(s, "0123456789abcdef") == n;
}

static int cli_show(const struct cli *cli)
{
    struct report report = { .key = cli->payment };
    if (!cli->payment || !is_key_prefix(cli->payment))
        return wrong_usage("show wants a payment (4 to 64 hex digits, lower case)");
    return read_form(cli, REPORT_JSON, &report.form)
               ? run_rows(cli, &report, true)
               : wrong_usage("--format is table, json or csv");
}

static int cli_totals(const struct cli *cli)
{
    struct store *store CLEANUP(store_closep) = NULL;
    struct err err;
    enum report_form form;
    if (!read_form(cli, REPORT_TABLE, &form))
        return wrong_usage("--format is table, json or csv");
    if (open_for_reading(cli, &store, &err) || report_totals(store, form, stdout, &err))
        return complain(&err);
    return fflush(stdout) ? 1 : 0;
}

/* ---- changing ---- */

static int cli_init(const struct cli *cli)
{
    struct ledger_setup setup;
    struct err err;
    ledger_setup_defaults(&setup);
    setup.path = cli->ledger;
    setup.force_fs = cli->force;
    if (!cli->adopt)
        return ledger_init(&setup, &err) ? complain(&err) : 0;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    struct ledger *ledger CLEANUP(ledger_freep) = NULL;
    setup.adopt = true;
    if (loop_new(&loop, &err) || ledger_open(&setup, loop, &ledger, &err))
        return complain(&err);
    return 0;
}

static char *resolve_body(const struct cli *cli)
{
    json_t *body CLEANUP_JSON = json_object();
    json_object_set_new(body, "payment", json_string(cli->payment));
    if (cli->settled)
        json_object_set_new(body, "settled", json_string(cli->settled));
    else
        json_object_set_new(body, "unpaid", json_true());
    json_object_set_new(body, "reason", json_string(cli->reason));
    return json_canonical(body);
}

static enum err_kind ask_admin(const struct cli *cli, const char *body, struct http_stored *stored,
                               struct err *err)
{
    struct loop *loop CLEANUP(loop_freep) = NULL;
    struct http_client *client CLEANUP(http_client_freep) = NULL;
    const struct http_client_config config = { 0 };
    bool local = text_starts(cli->admin, "unix:");
    char *url CLEANUP_FREE =
        xasprintf("http://%s/ledger/resolve", local ? "localhost" : cli->admin);
    static const struct http_header header = { "Content-Type", "application/json" };
    const struct http_call_spec spec = {
        .method = "POST",
        .url = url,
        .headers = &header,
        .n_headers = 1,
        .body = body,
        .body_len = strlen(body),
        .unix_socket = local ? cli->admin + 5 : NULL,
        .deadline_ms = ADMIN_MS,
        .response_max = 65536,
    };
    if (loop_new(&loop, err) || http_client_new(loop, &config, &client, err))
        return err->kind;
    return http_call_wait(loop, client, &spec, stored, err);
}

static int cli_resolve(const struct cli *cli)
{
    struct err err;
    if (!cli->payment || strlen(cli->payment) != (size_t)2 * LEDGER_KEY_LEN ||
        !is_key_prefix(cli->payment))
        return wrong_usage("resolve wants a whole payment (64 hex digits, lower case)");
    if (cli->unpaid == (cli->settled != NULL) || !cli->reason)
        return wrong_usage("resolve wants --settled TRANSACTION or --unpaid, and --reason TEXT");
    char *body CLEANUP_FREE = resolve_body(cli);
    struct http_stored stored CLEANUP(http_stored_fini) = { 0 };
    if (ask_admin(cli, body, &stored, &err))
        return complain(&err);
    const struct http_result *result = &stored.result;
    if (result->outcome != HTTP_CALL_OK) {
        (void)err_set(&err, ERR_UNAVAILABLE, "the gate's admin listener %s does not answer: %s",
                      cli->admin, result->why);
        return complain(&err);
    }
    (void)fprintf(result->status == 200 ? stdout : stderr, "%.*s\n", (int)result->body_len,
                  (const char *)result->body);
    return result->status == 200 ? 0 : 1;
}

/* ---- the command line ---- */

static const struct option options[] = {
    { "config", required_argument, NULL, 'c' }, { "ledger", required_argument, NULL, 'l' },
    { "admin", required_argument, NULL, 'a' },  { "state", required_argument, NULL, 's' },
    { "since", required_argument, NULL, 'S' },  { "limit", required_argument, NULL, 'n' },
    { "format", required_argument, NULL, 'f' }, { "settled", required_argument, NULL, 't' },
    { "unpaid", no_argument, NULL, 'u' },       { "reason", required_argument, NULL, 'r' },
    { "adopt", no_argument, NULL, 'A' },        { "any-filesystem", no_argument, NULL, 'F' },
    { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
};

static bool take_option(struct cli *cli, int c)
{
    const char **const texts[] = {
        ['c'] = &cli->config_path, ['l'] = &cli->ledger,  ['a'] = &cli->admin,
        ['s'] = &cli->state,       ['S'] = &cli->since,   ['n'] = &cli->limit,
        ['f'] = &cli->format,      ['t'] = &cli->settled, ['r'] = &cli->reason,
    };
    if (c == 'u')
        cli->unpaid = true;
    else if (c == 'A')
        cli->adopt = true;
    else if (c == 'F')
        cli->force = true;
    else if (c > 0 && (size_t)c < ARRAY_LEN(texts) && texts[c])
        *texts[c] = optarg;
    else
        return false;
    return true;
}

static const struct {
    const char *name;
    int (*run)(const struct cli *cli);
    bool takes_payment;
} commands[] = {
    { "list", cli_list, false },
    { "show", cli_show, true },
    { "export", cli_export, false },
    { "totals", cli_totals, false },
    { "unresolved", cli_unresolved, false },
    { "resolve", cli_resolve, true },
    { "init", cli_init, false },
};

static int run_command(struct cli *cli, int argc, char **argv)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, cli->command) != 0)
            continue;
        if (commands[i].takes_payment && optind < argc)
            cli->payment = argv[optind++];
        if (optind < argc)
            return wrong_usage("too many arguments");
        struct err err;
        int code = find_ledger(cli, &err) ? complain(&err) : commands[i].run(cli);
        config_unref(cli->config);
        return code;
    }
    return wrong_usage("no such command");
}

int ledger_cli(int argc, char **argv)
{
    if (argc < 2)
        return wrong_usage("a command is missing");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        (void)fputs(usage, stdout);
        return 0;
    }
    struct cli cli = { .command = argv[1] };
    optind = 0; /* scans argv + 1 from its start, whatever main() scanned before */
    int c;
    while ((c = getopt_long(argc - 1, argv + 1, "c:l:h", options, NULL)) != -1) {
        if (c == 'h') {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (!take_option(&cli, c))
            return wrong_usage("see the options");
    }
    optind++; /* argv + 1 is shifted by the command's own name */
    return run_command(&cli, argc, argv);
}
