/* utter-facilitator: a local x402 facilitator over its own book, for demonstrations and tests. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "gate/facilitator/service.h"
#include "gate/keccak.h"

#define WALLETS_MAX 16

static const char usage[] =
    "usage: utter-facilitator [--listen ADDRESS:PORT] [--book FILE] [--credit ATOMIC]\n"
    "           [--resettle official|pending-store|idempotent] [--token-file FILE]\n"
    "           [--wallet ADDRESS]... [--faults]\n";

struct options {
    const char *listen;
    const char *book;
    const char *token_file;
    struct u256 credit;
    struct evm_address wallets[WALLETS_MAX];
    struct service_config service;
};

static bool take_resettle(const char *word, enum resettle *out)
{
    static const char *const words[] = { "official", "pending-store", "idempotent" };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i], word) == 0) {
            *out = (enum resettle)i;
            return true;
        }
    }
    return false;
}

static bool take_option(struct options *o, int c)
{
    struct judge_wallets *w = &o->service.wallets;
    switch (c) {
    case 'l':
        o->listen = optarg;
        return true;
    case 'b':
        o->book = optarg;
        return true;
    case 't':
        o->token_file = optarg;
        return true;
    case 'f':
        o->service.faults = true;
        return true;
    case 'c':
        return u256_parse(optarg, &o->credit);
    case 'r':
        return take_resettle(optarg, &o->service.resettle);
    case 'w':
        return w->n < WALLETS_MAX && evm_address_parse(optarg, &o->wallets[w->n++]);
    default:
        return false;
    }
}

/* False: usage was printed. */
static bool read_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        { "listen", required_argument, NULL, 'l' },
        { "book", required_argument, NULL, 'b' },
        { "credit", required_argument, NULL, 'c' },
        { "resettle", required_argument, NULL, 'r' },
        { "token-file", required_argument, NULL, 't' },
        { "wallet", required_argument, NULL, 'w' },
        { "faults", no_argument, NULL, 'f' },
        { 0 },
    };
    int c;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (!take_option(o, c)) {
            fputs(usage, stderr);
            return false;
        }
    }
    if (optind != argc)
        fputs(usage, stderr);
    return optind == argc;
}

/* No key stands behind it: the address of nobody, the same on every machine. */
static struct evm_address own_address(void)
{
    struct evm_address a;
    uint8_t hash[KECCAK_LEN];
    keccak256("utter-facilitator", 17, hash);
    memcpy(a.b, hash + 12, sizeof(a.b));
    return a;
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    (void)info;
    loop_stop(arg);
}

static enum err_kind read_token(const char *path, char **out, struct err *err)
{
    if (!path)
        return ERR_OK;
    if (fs_read(path, 8192, out, NULL, err))
        return err->kind;
    (*out)[strcspn(*out, "\r\n")] = '\0';
    return ERR_OK;
}

static enum err_kind serve(struct options *o, struct err *err)
{
    struct loop *loop CLEANUP(loop_freep) = NULL;
    struct book *book CLEANUP(book_closep) = NULL;
    struct service *service CLEANUP(service_freep) = NULL;
    char *token CLEANUP_FREE = NULL;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    if (read_token(o->token_file, &token, err) || loop_new(&loop, err) ||
        loop_signals(loop, &signals, on_signal, loop, err) ||
        book_open(o->book, &o->credit, &book, err))
        return err->kind;
    o->service.token = token;
    o->service.address = own_address();
    o->service.wallets.list = o->wallets;
    if (service_new(loop, book, &o->service, o->listen, &service, err))
        return err->kind;
    printf("Facilitator listening on port %d: %s\n", service_port(service), SERVICE_NOTE);
    (void)fflush(stdout);
    return loop_run(loop, err);
}

int main(int argc, char **argv)
{
    struct options o = { .listen = "127.0.0.1:8403", .book = "" };
    struct err err;
    o.credit = u256_from_u64(UINT64_C(1000000000));
    if (!read_options(argc, argv, &o))
        return 2;
    log_open(2, LOG_JSON, LOG_INFO);
    if (serve(&o, &err)) {
        fprintf(stderr, "utter-facilitator: %s\n", err.msg);
        return 1;
    }
    return 0;
}
