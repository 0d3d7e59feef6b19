/*
 * utter-dataproxy: a handler's only way out. See utter-dataproxy(8).
 *
 * Opens everything, drops its rights, serves. SIGHUP reads the key directory anew, SIGTERM ends.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/confine.h"
#include "base/fs.h"
#include "base/log.h"
#include "dataproxy/admin.h"
#include "dataproxy/config.h"
#include "dataproxy/proxy.h"
#include "dataproxy/session.h"
#include "proto/data_token.h"

enum {
    EXIT_FAULT = 1,
    EXIT_USAGE = 2,
};

#define SLUG_BITS 29 /* a slug's network: the handler's two addresses and their neighbours */

struct house {
    struct config *config;
    struct loop *loop;
    struct resolver *resolver;
    struct http_client *client;
    struct fetcher fetcher;
    struct requests *requests;
    struct egress *egress;
    struct proxy *proxy;
    struct session_server *sessions;
    struct admin *admin;
};

static void house_fini(struct house *house)
{
    admin_free(house->admin);
    session_server_free(house->sessions);
    proxy_free(house->proxy);
    requests_free(house->requests);
    egress_free(house->egress);
    http_client_free(house->client);
    resolver_free(house->resolver);
    loop_free(house->loop);
    config_free(house->config);
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    struct house *house = arg;
    struct err err;
    if (info->ssi_signo != SIGHUP) {
        log_info("stopping", log_int("signal", info->ssi_signo));
        loop_stop(house->loop);
        return;
    }
    if (proxy_reload_keys(house->proxy, &err))
        log_error("keys_kept", log_str("why", err.msg));
    else
        log_info("keys_read", log_str("dir", house->config->keys));
}

static CHECKED enum err_kind open_outside(struct house *house, struct err *err)
{
    const struct http_client_config client = { .ca_file = house->config->ca_file };
    if (loop_new(&house->loop, err) ||
        resolver_new(house->loop, house->config->resolver, &house->resolver, err) ||
        http_client_new(house->loop, &client, &house->client, err))
        return err->kind;
    house->fetcher =
        (struct fetcher){ .resolver = house->resolver,
                          .client = house->client,
                          .own = address_net_widen(house->config->peer_net, SLUG_BITS) };
    return ERR_OK;
}

/* What needs rights: the listener's port may be a low one. */
static CHECKED enum err_kind open_listener(struct house *house, struct err *err)
{
    house->requests = requests_new();
    const struct proxy_parts parts = { .loop = house->loop,
                                       .config = house->config,
                                       .requests = house->requests,
                                       .fetcher = &house->fetcher,
                                       .egress = &house->egress };
    if (proxy_new(&parts, &house->proxy, err))
        return err->kind;
    return proxy_listen(house->proxy, err);
}

/* What the confined user must be able to open, now and again later. */
static CHECKED enum err_kind open_inside(struct house *house, struct err *err)
{
    if (egress_new(house->loop, house->config->ledger, &house->egress, err) ||
        proxy_start(house->proxy, err) ||
        session_server_new(house->loop, house->config->session, house->config->gate_uid,
                           house->requests, &house->sessions, err))
        return err->kind;
    const struct admin_parts admin = { .loop = house->loop,
                                       .proxy = house->proxy,
                                       .requests = house->requests,
                                       .sessions = house->sessions,
                                       .egress = house->egress };
    return admin_new(&admin, house->config->admin, &house->admin, err);
}

static CHECKED enum err_kind watch_signals(struct house *house, struct err *err)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    return loop_signals(house->loop, &signals, on_signal, house, err);
}

/* Rights go in the order of base/confine.h. */
static CHECKED enum err_kind open_and_confine(struct house *house, struct err *err)
{
    if (open_outside(house, err) || watch_signals(house, err) || open_listener(house, err) ||
        confine_drop(house->config->user, false, err) || open_inside(house, err))
        return err->kind;
    return confine_filter(confine_common, confine_common_n, err);
}

static CHECKED enum err_kind serve(struct house *house, struct err *err)
{
    log_info("serving", log_str("slug", house->config->slug),
             log_str("listen", house->config->listen), log_int("port", proxy_port(house->proxy)),
             log_int("upstreams", (int64_t)house->config->n_upstreams));
    return loop_run(house->loop, err);
}

static int fault(const struct err *err)
{
    (void)fprintf(stderr, "utter-dataproxy: %s\n", err->msg);
    return EXIT_FAULT;
}

static int run_serve(int argc, char **argv)
{
    (void)argc;
    struct err err = { 0 };
    struct house house CLEANUP(house_fini) = { 0 };
    log_open(1, LOG_JSON, LOG_INFO);
    (void)signal(SIGPIPE, SIG_IGN);
    confine_limits();
    if (config_load(argv[0], &house.config, &err) || open_and_confine(&house, &err) ||
        serve(&house, &err))
        return fault(&err);
    return 0;
}

static int run_check(int argc, char **argv)
{
    (void)argc;
    struct err err = { 0 };
    struct config *config CLEANUP(config_freep) = NULL;
    if (config_load(argv[0], &config, &err))
        return fault(&err);
    (void)printf("%s: fine: slug %s, %zu upstreams\n", argv[0], config->slug, config->n_upstreams);
    return 0;
}

static CHECKED enum err_kind write_key(const char *dir, const char *name, const char *pem,
                                       mode_t mode, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, name);
    return fs_write(path, pem, strlen(pem), mode, true, err);
}

static int run_keygen(int argc, char **argv)
{
    (void)argc;
    struct err err = { 0 };
    struct data_key *key CLEANUP(data_key_freep) = NULL;
    char *private_pem CLEANUP_FREE = NULL;
    char *public_pem CLEANUP_FREE = NULL;
    if (data_key_generate(&key, &err) || data_key_private_pem(key, &private_pem, &err) ||
        data_key_public_pem(key, &public_pem, &err) ||
        write_key(argv[0], "data.key", private_pem, 0400, &err) ||
        write_key(argv[1], "data.pub", public_pem, 0444, &err)) {
        if (private_pem)
            explicit_bzero(private_pem, strlen(private_pem));
        return fault(&err);
    }
    explicit_bzero(private_pem, strlen(private_pem));
    (void)printf("%s\n", data_key_id(key));
    return 0;
}

/* One row a subcommand: usage text and dispatch come from here. */
static const struct verb {
    const char *name;
    int n_args;
    const char *usage;
    const char *what;
    int (*run)(int argc, char **argv);
} verbs[] = {
    { "serve", 1, "serve CONFIG", "serve a slug's handler until SIGTERM", run_serve },
    { "check", 1, "check CONFIG", "read and check a configuration, change nothing", run_check },
    { "keygen", 2, "keygen PRIVATE_DIR PUBLIC_DIR",
      "make a new key pair: PRIVATE_DIR/data.key for the gate, PUBLIC_DIR/data.pub for the proxy",
      run_keygen },
};

static int usage(FILE *to, int status)
{
    (void)fprintf(to, "usage: utter-dataproxy COMMAND ARGUMENTS\n\n");
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        (void)fprintf(to, "  %-32s %s\n", verbs[i].usage, verbs[i].what);
    (void)fprintf(to, "  %-32s %s\n", "--version", "print the version");
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout, 0);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("utter-dataproxy %s\n", UTTER_VERSION);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0 && argc == 2 + verbs[i].n_args)
            return verbs[i].run(argc - 2, argv + 2);
    }
    return usage(stderr, EXIT_USAGE);
}
