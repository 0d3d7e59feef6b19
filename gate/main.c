/* utter-gate: sells calls of a handler it does not trust. Commands and their exit codes. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/confine.h"
#include "base/log.h"
#include "base/text.h"
#include "gate/gate.h"
#include "gate/ledger_cli.h"
#include "gate/probe_facilitator.h"

enum { EXIT_FINE = 0, EXIT_FAULT = 1, EXIT_USAGE = 2 };

static const char USAGE[] =
    "usage: utter-gate serve [--standby] FILE   run the gate\n"
    "       utter-gate check FILE               say everything that is wrong with a configuration\n"
    "       utter-gate probe ADDRESS            exit 0 when the gate behind this admin address is "
    "ready\n"
    "       utter-gate probe-facilitator FILE   ask the facilitator of a configuration what it "
    "takes\n"
    "       utter-gate ledger …                 what the ledger holds; resolve an open payment\n"
    "       utter-gate version\n"
    "FILE is one JSON file, described in utter-gate(8). ADDRESS is HOST:PORT or unix:PATH.\n";

static void print_fault(void *arg, bool warning, const char *line)
{
    (void)arg;
    (void)fprintf(stderr, "%s%s\n", warning ? "warning: " : "", line);
}

static int fail(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "utter-gate: %s%s\n", what, err->msg);
    return EXIT_FAULT;
}

/* ---- check ---- */

static int cmd_check(const char *path)
{
    struct err err = { 0 };
    struct gate_config *config CLEANUP(config_unrefp) = NULL;
    if (config_load(path, print_fault, NULL, &config, &err) ||
        config_check_files(config, print_fault, NULL, &err))
        return fail("", &err);
    (void)printf("%s: fine, %zu routes\n", path, config->routes.n);
    return EXIT_FINE;
}

/* ---- serve ---- */

struct service {
    struct gate *gate;
    const char *path;
    struct loop *loop;
    struct loop_hook log_hook;
};

static void log_fault(void *arg, bool warning, const char *line)
{
    (void)arg;
    log_write(warning ? LOG_WARN : LOG_ERROR, "config_fault",
              (const struct log_field[]){ log_str("line", line) }, 1);
}

static void reload(struct service *s)
{
    struct err err = { 0 };
    struct gate_config *config CLEANUP(config_unrefp) = NULL;
    if (config_load(s->path, log_fault, NULL, &config, &err) ||
        gate_reload(s->gate, config, &err)) {
        log_error("reload_refused", log_str("why", err.msg),
                  log_str("still", s->gate->config->sha256));
        return;
    }
    log_info("reloaded", log_str("config_sha256", config->sha256));
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    struct service *s = arg;
    if (info->ssi_signo == SIGHUP) {
        reload(s);
        return;
    }
    log_info("draining", log_int("signal", (int64_t)info->ssi_signo));
    gate_drain(s->gate);
}

static enum err_kind watch_signals(struct service *s, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    return loop_signals(s->loop, &set, on_signal, s, err);
}

/* Rights go in the order of base/confine.h. */
static enum err_kind open_and_confine(struct service *s, struct gate_config *config, bool standby,
                                      struct err *err)
{
    /* Signals are blocked before any thread is made, so that the loop gets them all. */
    if (watch_signals(s, err) || gate_new(s->loop, config, &s->gate, err) ||
        confine_drop(config->user, false, err) || gate_start(s->gate, standby, err))
        return err->kind;
    return confine_filter(confine_common, confine_common_n, err);
}

static void flush_log(struct loop_hook *hook)
{
    (void)hook;
    log_flush();
}

static int serve(struct service *s, struct gate_config *config, bool standby)
{
    struct err err = { 0 };
    if (loop_new(&s->loop, &err) || open_and_confine(s, config, standby, &err))
        return fail("", &err);
    log_info("serving", log_str("instance", s->gate->instance), log_str("version", UTTER_VERSION),
             log_str("config_sha256", config->sha256),
             log_int("port", http_server_port(s->gate->server, 0)),
             log_int("admin_port", s->gate->admin ? http_server_port(s->gate->admin, 0) : -1),
             log_bool("standby", standby));
    loop_before_wait(s->loop, &s->log_hook, flush_log, NULL);
    log_gather(true);
    enum err_kind kind = loop_run(s->loop, &err);
    log_gather(false);
    loop_unhook(&s->log_hook);
    if (kind)
        return fail("", &err);
    if (!s->gate->failed && (!s->gate->unsellable || s->gate->draining))
        return EXIT_FINE;
    (void)fprintf(stderr, "utter-gate: %s\n", s->gate->why);
    return EXIT_FAULT;
}

/* Memory that a burst took stays for the next one up to a bound, instead of going back to the
 * kernel and coming again page by page with each call. */
static void keep_memory(void)
{
    (void)mallopt(M_TRIM_THRESHOLD, 4 << 20);
    (void)mallopt(M_TOP_PAD, 256 << 10);
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
}

static int cmd_serve(const char *path, bool standby)
{
    struct err err = { 0 };
    struct gate_config *config CLEANUP(config_unrefp) = NULL;
    if (config_load(path, print_fault, NULL, &config, &err) ||
        config_check_files(config, print_fault, NULL, &err))
        return fail("", &err);
    keep_memory();
    log_open(STDERR_FILENO, LOG_JSON, LOG_INFO);
    confine_limits();
    struct service s = { .path = path };
    int code = serve(&s, config, standby);
    gate_free(s.gate);
    loop_free(s.loop);
    return code;
}

/* ---- probe ---- */

static int cmd_probe(const char *address)
{
    struct err err = { 0 };
    struct loop *loop CLEANUP(loop_freep) = NULL;
    struct http_client *client CLEANUP(http_client_freep) = NULL;
    struct http_stored store = { 0 };
    bool is_unix = text_starts(address, "unix:");
    char *url CLEANUP_FREE =
        is_unix ? xstrdup("http://localhost/readyz") : xasprintf("http://%s/readyz", address);
    struct http_call_spec spec = { .method = "GET",
                                   .url = url,
                                   .unix_socket = is_unix ? address + 5 : NULL,
                                   .deadline_ms = 3000,
                                   .response_max = 4096,
                                   .flags = HTTP_CALL_STRICT };
    if (loop_new(&loop, &err) ||
        http_client_new(loop, &(struct http_client_config){ 0 }, &client, &err) ||
        http_call_wait(loop, client, &spec, &store, &err))
        return fail("", &err);
    bool ready = store.result.outcome == HTTP_CALL_OK && store.result.status == 200;
    if (!ready && store.result.outcome != HTTP_CALL_OK)
        (void)fprintf(stderr, "utter-gate: %s: %s\n", address, store.result.why);
    else
        (void)printf("%.*s\n", (int)store.result.body_len, (const char *)store.result.body);
    http_stored_fini(&store);
    return ready ? EXIT_FINE : EXIT_FAULT;
}

static int cmd_probe_facilitator(const char *path)
{
    struct err err = { 0 };
    bool fine = false;
    struct gate_config *config CLEANUP(config_unrefp) = NULL;
    if (config_load(path, print_fault, NULL, &config, &err) ||
        probe_facilitator(config, &fine, &err))
        return fail("", &err);
    return fine ? EXIT_FINE : EXIT_FAULT;
}

int main(int argc, char **argv)
{
    bool standby = false;
    const char *command = argc > 1 ? argv[1] : "";
    int first = 2;
    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        if (strcmp(argv[first], "--standby") == 0 && strcmp(command, "serve") == 0)
            standby = true;
        else
            break;
    }
    const char *operand = first == argc - 1 ? argv[first] : NULL;
    if (strcmp(command, "serve") == 0 && operand)
        return cmd_serve(operand, standby);
    if (strcmp(command, "check") == 0 && operand)
        return cmd_check(operand);
    if (strcmp(command, "probe") == 0 && operand)
        return cmd_probe(operand);
    if (strcmp(command, "probe-facilitator") == 0 && operand)
        return cmd_probe_facilitator(operand);
    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) {
        (void)printf("utter-gate %s\n", UTTER_VERSION);
        return EXIT_FINE;
    }
    if (strcmp(command, "ledger") == 0)
        return ledger_cli(argc - 1, argv + 1);
    bool asked = strcmp(command, "--help") == 0 || strcmp(command, "help") == 0;
    (void)fputs(USAGE, asked ? stdout : stderr);
    return asked ? EXIT_FINE : EXIT_USAGE;
}
