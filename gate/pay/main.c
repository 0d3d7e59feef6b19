/* utter-pay: fetches a URL and pays for it by x402 where it is sold. */
#include <errno.h>
#include <getopt.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "gate/pay/call.h"
#include "gate/pay/key.h"
#include "gate/pay/ticket.h"

#define HEADERS_MAX 64
#define DATA_MAX (16 * 1024 * 1024)

static const char usage[] =
    "usage: utter-pay [options] URL\n"
    "       utter-pay key new|show [FILE]\n"
    "  --max PRICE          pay up to this without asking, never more\n"
    "  --yes                pay without asking\n"
    "  --key FILE           the buyer's key [~/.config/utter/pay.key]\n"
    "  --network NAME       pay on this network only\n"
    "  --v1, --v2           this protocol version only\n"
    "  -X METHOD  -H 'NAME: VALUE'  -d DATA|@FILE  -o FILE  -i\n"
    "  --cacert FILE        trust this CA too\n"
    "  --resolve HOST:PORT:ADDRESS\n"
    "  --timeout SECONDS    of one HTTP call [130]\n"
    "  --retry-for SECONDS  repeat the same payment this long [180]\n"
    "  --resume FILE        send the payment kept in FILE again, sign nothing\n";

struct options {
    struct pay_request request;
    struct http_header headers[HEADERS_MAX];
    char *data; /* owned */
    const char *output;
    bool include;
    const char *max;
    bool yes;
    const char *key;
    const char *network;
    int version;
    const char *cacert;
    const char *resolve[16];
    size_t n_resolve;
    const char *resume;
};

static void tell(const char *line)
{
    fprintf(stderr, "utter-pay: %s\n", line);
}

static int fail(int code, const char *what, const struct err *err)
{
    fprintf(stderr, "utter-pay: %s%s\n", what, err ? err->msg : "");
    return code;
}

/* ---- options ---- */

static bool take_header(struct options *o, char *text)
{
    char *colon = strchr(text, ':');
    if (!colon || o->request.n_headers == HEADERS_MAX)
        return false;
    *colon = '\0';
    char *value = colon + 1;
    value += strspn(value, " \t");
    o->headers[o->request.n_headers++] = (struct http_header){ text, value };
    return true;
}

static bool take_data(struct options *o, const char *text)
{
    struct err err;
    size_t len = strlen(text);
    free(o->data);
    o->data = NULL;
    if (text[0] == '@' && fs_read(text + 1, DATA_MAX, &o->data, &len, &err)) {
        tell(err.msg);
        return false;
    }
    if (!o->data)
        o->data = xstrdup(text);
    o->request.body = o->data;
    o->request.body_len = len;
    return true;
}

static bool take_seconds(const char *text, uint32_t *out)
{
    uint64_t s = 0;
    if (!text_u64(text, &s) || s < 1 || s > 86400)
        return false;
    *out = (uint32_t)s;
    return true;
}

static bool take_option(struct options *o, int c)
{
    uint32_t seconds;
    switch (c) {
    case 'X':
        o->request.method = optarg;
        return true;
    case 'H':
        return take_header(o, optarg);
    case 'd':
        return take_data(o, optarg);
    case 'o':
        o->output = optarg;
        return true;
    case 'i':
        o->include = true;
        return true;
    case 'm':
        o->max = optarg;
        return true;
    case 'y':
        o->yes = true;
        return true;
    case 'k':
        o->key = optarg;
        return true;
    case 'n':
        o->network = optarg;
        return true;
    case '1':
    case '2':
        o->version = c - '0';
        return true;
    case 'c':
        o->cacert = optarg;
        return true;
    case 'r':
        if (o->n_resolve == ARRAY_LEN(o->resolve))
            return false;
        o->resolve[o->n_resolve++] = optarg;
        return true;
    case 't':
        if (!take_seconds(optarg, &seconds))
            return false;
        o->request.deadline_ms = seconds * 1000;
        return true;
    case 'f':
        return take_seconds(optarg, &o->request.retry_for_s);
    case 's':
        o->resume = optarg;
        return true;
    default:
        return false;
    }
}

static bool read_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        { "request", required_argument, NULL, 'X' },
        { "header", required_argument, NULL, 'H' },
        { "data", required_argument, NULL, 'd' },
        { "output", required_argument, NULL, 'o' },
        { "include", no_argument, NULL, 'i' },
        { "max", required_argument, NULL, 'm' },
        { "yes", no_argument, NULL, 'y' },
        { "key", required_argument, NULL, 'k' },
        { "network", required_argument, NULL, 'n' },
        { "v1", no_argument, NULL, '1' },
        { "v2", no_argument, NULL, '2' },
        { "cacert", required_argument, NULL, 'c' },
        { "resolve", required_argument, NULL, 'r' },
        { "timeout", required_argument, NULL, 't' },
        { "retry-for", required_argument, NULL, 'f' },
        { "resume", required_argument, NULL, 's' },
        { 0 },
    };
    int c;
    while ((c = getopt_long(argc, argv, "X:H:d:o:i", longs, NULL)) != -1) {
        if (!take_option(o, c))
            return false;
    }
    if (optind + 1 != argc)
        return false;
    o->request.url = argv[optind];
    o->request.headers = o->headers;
    if (!o->request.method)
        o->request.method = o->request.body ? "POST" : "GET";
    return true;
}

/* ---- agreeing ---- */

static const char *at_most(const struct purchase *p)
{
    return p->offer.kind == PAY_UPTO ? "at most " : "";
}

static bool confirmed(const struct purchase *p, const char *url)
{
    char answer[16] = "";
    FILE *tty CLEANUP_FILE = fopen("/dev/tty", "r+");
    if (!tty) {
        tell("no terminal to ask on: give --max or --yes");
        return false;
    }
    fprintf(tty, "Pay %s%s %s on %s to %s for %s? [y/N] ", at_most(p), p->price, p->symbol,
            p->network_label, p->offer.pay_to, url);
    (void)fflush(tty);
    return fgets(answer, sizeof(answer), tty) && (answer[0] == 'y' || answer[0] == 'Y');
}

static enum pay_exit agree(const struct options *o, const struct purchase *p)
{
    struct err err;
    fprintf(stderr, "utter-pay: price %s%s %s on %s to %s\n", at_most(p), p->price, p->symbol,
            p->network_label, p->offer.pay_to);
    if (o->max && purchase_within(p, o->max, &err))
        return (enum pay_exit)fail(PAY_NOT_AGREED, "not paid: ", &err);
    if (o->max || o->yes || confirmed(p, o->request.url))
        return PAY_DONE;
    return (enum pay_exit)fail(PAY_NOT_AGREED, "not paid", NULL);
}

/* ---- output ---- */

static void print_head(FILE *out, const struct http_result *r)
{
    fprintf(out, "HTTP/1.1 %d %s\r\n", r->status, http_reason(r->status));
    for (size_t i = 0; i < r->n_fields; i++)
        fprintf(out, "%.*s: %.*s\r\n", (int)r->fields[i].name.len, r->fields[i].name.p,
                (int)r->fields[i].value.len, r->fields[i].value.p);
    fputs("\r\n", out);
}

static int write_answer(const struct options *o, const struct http_result *r)
{
    FILE *file CLEANUP_FILE = NULL;
    FILE *out = stdout;
    if (o->output) {
        out = file = fopen(o->output, "wb");
        if (!file) {
            fprintf(stderr, "utter-pay: %s: %s\n", o->output, strerror(errno));
            return -1;
        }
    }
    if (o->include)
        print_head(out, r);
    if (r->body_len && fwrite(r->body, 1, r->body_len, out) != r->body_len)
        return -1;
    return fflush(out);
}

/* The error word of a refusal, from the 402's own document; for people. */
static void print_refusal(const struct http_result *r)
{
    const struct http_field *f = http_result_find(r, "PAYMENT-REQUIRED");
    json_t *root CLEANUP_JSON = NULL;
    uint8_t *text CLEANUP_FREE = xmalloc((f ? f->value.len : 0) / 4 * 3 + 4);
    size_t n = 0;
    char shown[200];
    if (f && text_unb64(f->value.p, f->value.len, text, &n) &&
        !json_strict_load((const char *)text, n, 65536, 0, &root, NULL)) {
        const char *word = json_string_value(json_object_get(root, "error"));
        fprintf(stderr, "utter-pay: reason: %s\n",
                text_safe(word ? word : "", shown, sizeof(shown)));
    }
}

static int print_receipt(const struct pay_call *c, const struct purchase *p)
{
    json_t *receipt CLEANUP_JSON = NULL;
    struct err err;
    if (pay_receipt(c, p, &receipt, &err))
        return fail(PAY_DONE, "warning: ", &err);
    if (!receipt) {
        tell("answered without a receipt: nothing was charged, or the seller does not say");
        return PAY_DONE;
    }
    char price[PRICE_TEXT_MAX];
    purchase_paid(p, json_string_value(json_object_get(receipt, "amount")), price);
    fprintf(stderr, "utter-pay: paid %s %s, transaction %s\n", price, p->symbol,
            json_string_value(json_object_get(receipt, "transaction")));
    return PAY_DONE;
}

/* ---- buying ---- */

static void keep_ticket(const struct pay_call *c, int version, const char *payment)
{
    struct ticket t = { version, xstrdup(c->request->url), xstrdup(c->request->method),
                        xstrdup(payment), xstrdup(c->resume) };
    char *path CLEANUP_FREE = NULL;
    struct err err;
    if (ticket_save(&t, &path, &err))
        fail(0, "the payment could not be kept: ", &err);
    else
        fprintf(stderr,
                "utter-pay: it may have been charged; fetch the answer with the same "
                "options and --resume %s\n",
                path);
    ticket_fini(&t);
}

static int finish(const struct options *o, struct pay_call *c, const struct purchase *p,
                  enum pay_exit outcome, const char *payment, const struct err *err)
{
    const struct http_result *r = &c->answer.result;
    if (outcome != PAY_DONE)
        (void)fail((int)outcome, "", err);
    if (outcome == PAY_REFUSED)
        print_refusal(r);
    if (outcome == PAY_UNKNOWN)
        keep_ticket(c, p->version, payment);
    if (outcome == PAY_DONE)
        (void)print_receipt(c, p);
    if (r->outcome == HTTP_CALL_OK && outcome != PAY_REFUSED && outcome != PAY_UNKNOWN &&
        write_answer(o, r))
        return PAY_LOCAL;
    return (int)outcome;
}

static int pay(const struct options *o, struct pay_call *c, struct purchase *p)
{
    uint8_t secret[32];
    struct evm_address address;
    struct err err;
    char *path CLEANUP_FREE = o->key ? xstrdup(o->key) : key_default_path();
    enum pay_exit agreed = agree(o, p);
    if (agreed != PAY_DONE)
        return (int)agreed;
    if (!path)
        return fail(PAY_LOCAL, "no key: HOME is not set, give --key", NULL);
    if (key_read(path, secret, &address, &err))
        return fail(PAY_LOCAL, "key (make one with \"utter-pay key new\"): ", &err);
    enum err_kind kind = purchase_sign(p, secret, time(NULL), &err);
    OPENSSL_cleanse(secret, sizeof(secret));
    if (kind)
        return fail(PAY_LOCAL, "", &err);
    enum pay_exit outcome = pay_send(c, purchase_header_name(p->version), p->header, tell, &err);
    return finish(o, c, p, outcome, p->header, &err);
}

static int resume(const struct options *o, struct pay_call *c)
{
    struct ticket t CLEANUP(ticket_fini) = { 0 };
    struct purchase nothing = { 0 };
    struct err err;
    if (ticket_load(o->resume, &t, &err))
        return fail(PAY_LOCAL, "", &err);
    if (strcmp(t.url, o->request.url) != 0 || strcmp(t.method, o->request.method) != 0)
        return fail(PAY_USAGE, "the kept payment is for another URL or method", NULL);
    snprintf(c->resume, sizeof(c->resume), "%s", t.resume);
    nothing.version = t.version;
    snprintf(nothing.price, sizeof(nothing.price), "as agreed before");
    nothing.symbol = "";
    enum pay_exit outcome = pay_send(c, purchase_header_name(t.version), t.payment, tell, &err);
    int code = finish(o, c, &nothing, outcome, t.payment, &err);
    if (code == PAY_DONE)
        (void)unlink(o->resume);
    return code;
}

static int buy(const struct options *o, struct pay_call *c)
{
    struct purchase p CLEANUP(purchase_fini) = { 0 };
    struct err err;
    if (pay_ask(c, &err))
        return fail(PAY_LOCAL, "", &err);
    const struct http_result *r = &c->answer.result;
    if (r->status != 402)
        return write_answer(o, r) ? PAY_LOCAL : r->status < 300 ? PAY_DONE : PAY_HTTP;
    const struct http_field *f = http_result_find(r, "PAYMENT-REQUIRED");
    if (purchase_read(f ? f->value.p : NULL, f ? f->value.len : 0, (const char *)r->body,
                      r->body_len, o->version, o->network, &p, &err))
        return fail(PAY_NO_OFFER, "cannot pay: ", &err);
    return pay(o, c, &p);
}

static int run(struct options *o)
{
    struct loop *loop CLEANUP(loop_freep) = NULL;
    struct http_client *client CLEANUP(http_client_freep) = NULL;
    struct http_client_config config = { .ca_file = o->cacert,
                                         .resolve = o->resolve,
                                         .n_resolve = o->n_resolve };
    struct pay_call c = { .request = &o->request };
    uint8_t random[32];
    struct err err;
    if (loop_new(&loop, &err) || http_client_new(loop, &config, &client, &err))
        return fail(PAY_LOCAL, "", &err);
    if (RAND_bytes(random, sizeof(random)) != 1)
        return fail(PAY_LOCAL, "no randomness", NULL);
    text_hex(random, sizeof(random), c.resume);
    c.loop = loop;
    c.client = client;
    int code = o->resume ? resume(o, &c) : buy(o, &c);
    http_stored_fini(&c.answer);
    return code;
}

static int key_command(int argc, char **argv)
{
    char *path CLEANUP_FREE = argc > 3 ? xstrdup(argv[3]) : key_default_path();
    char text[EVM_ADDRESS_TEXT];
    uint8_t secret[32];
    struct evm_address address;
    struct err err;
    bool make = argc > 2 && strcmp(argv[2], "new") == 0;
    bool show = argc > 2 && strcmp(argv[2], "show") == 0;
    if ((!make && !show) || argc > 4 || !path)
        return fail(PAY_USAGE, usage, NULL);
    if (make ? key_new(path, &address, &err) : key_read(path, secret, &address, &err))
        return fail(PAY_LOCAL, "", &err);
    if (show)
        OPENSSL_cleanse(secret, sizeof(secret));
    printf("%s\n", evm_address_text(&address, text));
    if (make)
        fprintf(stderr, "utter-pay: key in %s; fund this address with what it shall spend\n", path);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = { .request = { .deadline_ms = 130000, .retry_for_s = 180 } };
    if (argc > 1 && strcmp(argv[1], "key") == 0)
        return key_command(argc, argv);
    if (!read_options(argc, argv, &o)) {
        fputs(usage, stderr);
        free(o.data);
        return PAY_USAGE;
    }
    int code = run(&o);
    free(o.data);
    return code;
}
