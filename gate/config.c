#include "gate/config.h"
#include "proto/data_token.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "gate/config_scan.h"
#include "gate/tokens.h"

static const char *const top_keys[] = {
    "slug",          "origin",  "hosts",       "listen",    "admin",        "trusted_proxies",
    "user",          "handler", "facilitator", "pay",       "routes",       "ledger",
    "claims",        "rpc",     "limits",      "deadlines", "clock_skew_s", "max_ahead_s",
    "max_timeout_s", "cors",    "data",        NULL
};
static const char *const data_keys[] = {
    "socket", "key_file", "upstreams", "calls", "bytes", NULL
};
static const char *const handler_keys[] = { "url", "host", "timeout_s", NULL };
static const char *const facilitator_keys[] = { "url",  "plain_http", "ca_file",
                                                "auth", "payload",    NULL };
static const char *const auth_keys[] = { "bearer_file", "cdp", NULL };
static const char *const cdp_keys[] = { "key_id", "key_file", NULL };
static const char *const ledger_keys[] = { "path",
                                           "create",
                                           "any_filesystem",
                                           "sealed_max_bytes",
                                           "sealed_ttl_s",
                                           "retention_s",
                                           "reconcile_s",
                                           "unproven",
                                           NULL };
static const char *const rpc_keys[] = { "network", "urls", "confirmations", NULL };
static const char *const limit_keys[] = { "request_body",
                                          "response_body",
                                          "connections",
                                          "concurrent",
                                          "per_payer",
                                          "uncharged_per_payment",
                                          "uncharged_per_payer",
                                          "contract_wallet_per_minute",
                                          "waiters",
                                          NULL };
static const char *const deadline_keys[] = { "header_ms", "body_ms",   "idle_ms",
                                             "verify_ms", "settle_ms", "settle_hold_ms",
                                             "write_ms",  "drain_ms",  NULL };
static const char *const cors_keys[] = { "origins", NULL };

static void read_origin(const struct at *top)
{
    struct gate_config *c = top->s->c;
    const char *authority = "";
    c->origin = scan_text(top, "origin", true, "https://invalid");
    if (!url_is_origin(c->origin, &authority))
        scan_fault(top->s,
                   "origin: \"%.128s\" is not http(s)://host[:port], lower case, without "
                   "path or trailing slash",
                   c->origin);
    else if (text_starts(c->origin, "http://") && !authority_is_loopback(authority))
        scan_warning(top->s, "origin: plain http; buyers' payments can be read on the way");
    const char **more = scan_list(top, "hosts", 64);
    size_t n = 0;
    while (more[n])
        n++;
    c->hosts = scan_array(top->s, n + 2, sizeof(*c->hosts));
    c->hosts[0] = authority;
    for (size_t i = 0; i < n; i++) {
        c->hosts[i + 1] = more[i];
        if (more[i][strspn(more[i], "abcdefghijklmnopqrstuvwxyz0123456789.-:[]")] != '\0')
            scan_fault(top->s, "hosts: \"%.128s\" is no lower-case host[:port]", more[i]);
    }
}

static void read_handler(const struct at *top)
{
    struct handler_config *h = &top->s->c->handler;
    struct at at = scan_member(top, "handler", handler_keys);
    if (!at.object)
        scan_fault(top->s, "handler: missing");
    else
        scan_endpoint(&at, "url", "http://", &h->at);
    h->host = scan_label(&at, "host", 255, NULL);
    if (!h->host && h->at.kind == ENDPOINT_TCP)
        h->host = scan_made(top->s, strchr(h->at.host, ':') ? "[%s]:%u" : "%s:%u", h->at.host,
                            h->at.port);
    else if (!h->host)
        h->host = "localhost";
    if (h->at.kind == ENDPOINT_TCP && h->at.port == 0)
        scan_fault(top->s, "handler.url: port 0");
    top->s->c->deadlines.handler = (uint32_t)scan_int(&at, "timeout_s", 1, 3600, 30) * 1000;
}

static void read_auth(const struct at *facilitator, struct facilitator_config *f)
{
    struct at at = scan_member(facilitator, "auth", auth_keys);
    struct at cdp = scan_member(&at, "cdp", cdp_keys);
    const char *file = scan_path(&at, "bearer_file", false);
    if (!at.object)
        return;
    if (!!file == !!cdp.object) {
        scan_fault(at.s, "%s: needs bearer_file or cdp, one of them", at.where);
        return;
    }
    if (file) {
        const char *slash = strrchr(file, '/');
        f->auth = AUTH_BEARER_DIR;
        f->bearer_dir = slash == file ? "/" : scan_made(at.s, "%.*s", (int)(slash - file), file);
        f->bearer_name = slash + 1;
        if (!*f->bearer_name)
            scan_fault(at.s, "%s.bearer_file: names a directory, not a file in it", at.where);
        return;
    }
    f->auth = AUTH_CDP;
    f->cdp_key_id = scan_label(&cdp, "key_id", 512, NULL);
    f->cdp_key_file = scan_path(&cdp, "key_file", true);
    if (!f->cdp_key_id)
        scan_fault(at.s, "%s.key_id: missing", cdp.where);
}

static bool url_ok(const char *url, const char **authority)
{
    char origin[300];
    const char *host = NULL;
    size_t scheme = text_starts(url, "https://") ? 8 : text_starts(url, "http://") ? 7 : 0;
    size_t n = scheme + strcspn(url + scheme, "/");
    if (!scheme || n >= sizeof(origin) || strpbrk(url, "?#@ \\") || strlen(url) > 1024)
        return false;
    snprintf(origin, sizeof(origin), "%.*s", (int)n, url);
    *authority = url + scheme;
    return url_is_origin(origin, &host);
}

static void check_url(const struct at *at, const char *key, const char *url, bool plain)
{
    const char *authority = "";
    if (!url_ok(url, &authority))
        scan_fault(at->s, "%s.%s: \"%.128s\" is no http(s) URL without user, query and fragment",
                   at->where, key, url);
    else if (text_starts(url, "http://") && !plain && !authority_is_loopback(authority))
        scan_fault(at->s,
                   "%s.%s: plain http to another host; use https, or plain_http on a private "
                   "network",
                   at->where, key);
}

static void read_facilitator(const struct at *top)
{
    static const char *const forms[] = { "exact", "minimal", NULL };
    struct facilitator_config *f = &top->s->c->facilitator;
    struct at at = scan_member(top, "facilitator", facilitator_keys);
    if (!at.object)
        scan_fault(top->s, "facilitator: missing");
    f->url = scan_text(&at, "url", at.object != NULL, "https://invalid");
    size_t n = strlen(f->url);
    while (n > 9 && f->url[n - 1] == '/')
        n--;
    f->url = scan_made(top->s, "%.*s", (int)n, f->url);
    f->plain_http = scan_bool(&at, "plain_http", false);
    check_url(&at, "url", f->url, f->plain_http);
    f->ca_file = scan_path(&at, "ca_file", false);
    f->payload = scan_word(&at, "payload", forms, 0) ? PAYLOAD_MINIMAL : PAYLOAD_EXACT;
    f->user = top->s->c->user;
    read_auth(&at, f);
}

static void read_ledger(const struct at *top)
{
    static const char *const words[] = { "hold", "release", NULL };
    struct ledger_config *l = &top->s->c->ledger;
    struct at at = scan_member(top, "ledger", ledger_keys);
    if (!at.object)
        scan_fault(top->s, "ledger: missing");
    l->path = scan_path(&at, "path", at.object != NULL);
    l->create = scan_bool(&at, "create", false);
    l->any_filesystem = scan_bool(&at, "any_filesystem", false);
    l->sealed_max_bytes =
        (uint64_t)scan_int(&at, "sealed_max_bytes", 4 << 20, INT64_C(1) << 40, 1 << 30);
    l->sealed_ttl_s = (uint32_t)scan_int(&at, "sealed_ttl_s", 60, 7 * 86400, 3600);
    l->retention_s = (uint32_t)scan_int(&at, "retention_s", 3600, 3650 * 86400, 90 * 86400);
    l->reconcile_s = (uint32_t)scan_int(&at, "reconcile_s", 60, 365 * 86400, 7 * 86400);
    l->unproven_release = scan_word(&at, "unproven", words, 0) == 1;
    top->s->c->claims = scan_path(top, "claims", false);
}

static void read_rpc(const struct at *top)
{
    struct gate_config *c = top->s->c;
    const json_t *list = json_object_get(top->object, "rpc");
    size_t n = json_array_size(list);
    if (list && (!json_is_array(list) || n > 16)) {
        scan_fault(top->s, "rpc: must be a list of at most 16 networks");
        return;
    }
    c->rpc = scan_array(top->s, n, sizeof(*c->rpc));
    c->rpc_n = n;
    for (size_t i = 0; i < n; i++) {
        struct at at = scan_at(top->s, json_array_get(list, i), rpc_keys, "rpc[%zu]", i);
        const char *name = scan_text(&at, "network", true, "");
        const struct network *known = network_by_name(name);
        c->rpc[i].network = known ? known->caip2 : name;
        if (!caip2_chain_id(c->rpc[i].network))
            scan_fault(top->s, "%s.network: \"%.64s\" is no EVM network", at.where, name);
        const char **urls = scan_list(&at, "urls", 2);
        if (!urls[0])
            scan_fault(top->s, "%s.urls: needs one or two URLs", at.where);
        for (size_t k = 0; urls[k]; k++) {
            c->rpc[i].urls[k] = urls[k];
            check_url(&at, "urls", urls[k], false);
        }
        c->rpc[i].confirmations = (uint32_t)scan_int(&at, "confirmations", 0, 10000, 12);
    }
}

static void read_limits(const struct at *top)
{
    struct limits_config *l = &top->s->c->limits;
    struct at at = scan_member(top, "limits", limit_keys);
    l->request_body = (uint32_t)scan_int(&at, "request_body", 0, 1 << 20, 1 << 20);
    l->response_body = (uint32_t)scan_int(&at, "response_body", 1, 1 << 20, 1 << 20);
    l->connections = (uint32_t)scan_int(&at, "connections", 1, 1000000, 16384);
    l->concurrent = (uint32_t)scan_int(&at, "concurrent", 1, 65536, 64);
    l->per_payer = (uint32_t)scan_int(&at, "per_payer", 1, 65536, 16);
    l->uncharged_per_payment = (uint32_t)scan_int(&at, "uncharged_per_payment", 1, 1000, 3);
    l->uncharged_per_payer = (uint32_t)scan_int(&at, "uncharged_per_payer", 1, 100000, 20);
    l->contract_wallet_per_minute =
        (uint32_t)scan_int(&at, "contract_wallet_per_minute", 1, 100000, 60);
    l->waiters = (uint32_t)scan_int(&at, "waiters", 0, 1000, 8);
}

static void read_deadlines(const struct at *top)
{
    struct deadlines_config *d = &top->s->c->deadlines;
    struct at at = scan_member(top, "deadlines", deadline_keys);
    d->header = (uint32_t)scan_int(&at, "header_ms", 100, 600000, 5000);
    d->body = (uint32_t)scan_int(&at, "body_ms", 100, 600000, 15000);
    d->idle = (uint32_t)scan_int(&at, "idle_ms", 100, 3600000, 75000);
    d->verify = (uint32_t)scan_int(&at, "verify_ms", 100, 600000, 5000);
    d->settle = (uint32_t)scan_int(&at, "settle_ms", 100, 600000, 30000);
    d->settle_hold = (uint32_t)scan_int(&at, "settle_hold_ms", 100, 600000, 60000);
    d->write = (uint32_t)scan_int(&at, "write_ms", 100, 600000, 30000);
    d->drain = (uint32_t)scan_int(&at, "drain_ms", 0, 3600000, 30000);
    top->s->c->clock_skew_s = (uint32_t)scan_int(top, "clock_skew_s", 0, 300, 6);
    top->s->c->max_ahead_s = (uint32_t)scan_int(top, "max_ahead_s", 60, 365 * 86400, 3600);
}

static void read_cors(const struct at *top)
{
    struct gate_config *c = top->s->c;
    const json_t *v = json_object_get(top->object, "cors");
    c->cors = true;
    c->cors_origins = scan_array(top->s, 1, sizeof(*c->cors_origins));
    if (!v || json_is_boolean(v)) {
        c->cors = !v || json_is_true(v);
        return;
    }
    struct at at = scan_member(top, "cors", cors_keys);
    const char *authority;
    c->cors_origins = scan_list(&at, "origins", 64);
    if (!c->cors_origins[0])
        scan_fault(top->s, "cors.origins: missing (\"cors\": true stands for any)");
    for (size_t i = 0; c->cors_origins[i]; i++) {
        if (!url_is_origin(c->cors_origins[i], &authority))
            scan_fault(top->s, "cors.origins: \"%.128s\" is no http(s)://host[:port]",
                       c->cors_origins[i]);
    }
}

static void read_data(const struct at *top)
{
    struct gate_config *c = top->s->c;
    struct data_config *d = &c->data;
    struct at at = scan_member(top, "data", data_keys);
    if (!at.object)
        return;
    d->socket = scan_path(&at, "socket", true);
    d->key_file = scan_path(&at, "key_file", true);
    d->upstreams = scan_list(&at, "upstreams", DATA_SCOPE_MAX);
    d->calls = scan_int(&at, "calls", 1, 1000000, 100);
    d->bytes = scan_int(&at, "bytes", 1, INT64_C(1) << 40, INT64_C(64) << 20);
    if (!c->slug)
        scan_fault(top->s, "data: needs \"slug\", the name that tokens are made out to");
    if (!d->upstreams[0])
        scan_fault(top->s, "data.upstreams: names none");
    for (size_t i = 0; d->upstreams[i]; i++) {
        if (!data_name_valid(d->upstreams[i], DATA_UPSTREAM_MAX))
            scan_fault(top->s, "data.upstreams: \"%.64s\" is no upstream's name", d->upstreams[i]);
    }
}

static bool slug_ok(const char *s)
{
    size_t n = strlen(s);
    return n >= 1 && n <= 40 && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0' &&
           s[0] != '-' && s[n - 1] != '-';
}

static void read_top(struct scan *s, const json_t *root)
{
    struct gate_config *c = s->c;
    struct at top = scan_at(s, root, top_keys, "configuration");
    c->slug = scan_text(&top, "slug", false, NULL);
    if (c->slug && !slug_ok(c->slug))
        scan_fault(s, "slug: \"%.64s\" is not 1 to 40 of a-z 0-9 -", c->slug);
    c->user = scan_text(&top, "user", false, NULL);
    c->trusted_proxies = scan_list(&top, "trusted_proxies", 64);
    read_origin(&top);
    scan_endpoint(&top, "listen", "", &c->listen);
    scan_endpoint(&top, "admin", "", &c->admin);
    read_handler(&top);
    read_deadlines(&top);
    read_limits(&top);
    read_facilitator(&top);
    read_ledger(&top);
    read_rpc(&top);
    read_cors(&top);
    read_data(&top);
    scan_routes(s, root);
}

static void hash_text(const char *text, size_t len, char out[65])
{
    uint8_t hash[32];
    unsigned n = 0;
    if (!EVP_Digest(text, len, hash, &n, EVP_sha256(), NULL))
        abort();
    text_hex(hash, sizeof(hash), out);
}

enum err_kind config_parse(const char *text, size_t len, const char *name, config_fault_fn *fault,
                           void *arg, struct gate_config **out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    struct gate_config *c CLEANUP(config_unrefp) = xcalloc(1, sizeof(*c));
    struct scan s = { .fault = fault, .arg = arg, .c = c };
    c->refs = 1;
    if (json_strict_load(text, len, CONFIG_MAX, 0, &c->tree, err)) {
        scan_fault(&s, "%s", err->msg);
        return err_prefix(err, "%s", name);
    }
    hash_text(text, len, c->sha256);
    c->file = scan_made(&s, "%s", name);
    read_top(&s, c->tree);
    if (s.faults)
        return err_set(err, ERR_INVALID, "%s: %u fault%s", name, s.faults,
                       s.faults == 1 ? "" : "s");
    *out = STEAL(c);
    return ERR_OK;
}

enum err_kind config_load(const char *path, config_fault_fn *fault, void *arg,
                          struct gate_config **out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    if (fs_read(path, CONFIG_MAX, &text, &len, err)) {
        if (fault)
            fault(arg, false, err->msg);
        return err->kind;
    }
    return config_parse(text, len, path, fault, arg, out, err);
}

struct gate_config *config_ref(struct gate_config *c)
{
    c->refs++;
    return c;
}

void config_unref(struct gate_config *c)
{
    if (!c || --c->refs)
        return;
    for (size_t i = 0; i < c->routes.n; i++)
        route_fini(&c->routes.routes[i]);
    free(c->routes.routes);
    for (size_t i = 0; c->made && c->made[i]; i++)
        free(c->made[i]);
    free(c->made);
    json_decref(c->tree);
    free(c);
}

struct payment_limits config_payment_limits(const struct gate_config *c, const struct route *route,
                                            int64_t now)
{
    return (struct payment_limits){
        .now = now,
        .skew_s = c->clock_skew_s,
        .need_s = (route->handler_ms + c->deadlines.settle + 999) / 1000,
        .ahead_s = c->max_ahead_s,
    };
}
