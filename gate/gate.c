/* A running gate: opening, readiness, reload, drain. */
#include "gate/gate.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/text.h"
#include "gate/admin.h"
#include "gate/ledger_settle.h"
#include "gate/request.h"
#include "gate/supported.h"

#define SUPPORTED_AGAIN_MS 3000

/* ---- readiness ---- */

const char *gate_not_ready(const struct gate *gate)
{
    if (gate->draining)
        return "draining";
    if (!gate->ledger)
        return "standing by for the ledger";
    if (!ledger_healthy(gate->ledger))
        return "the ledger cannot be written";
    if (gate->unsellable || !gate->supported)
        return gate->why[0] ? gate->why : "the facilitator has not answered yet";
    if (gate->operators_fault || settler_operators_fault(gate->settler))
        return "the facilitator refuses our requests (token, schema)";
    if (facilitator_retry_after_s(gate->facilitator))
        return "the facilitator is failing";
    return "";
}

/* ---- what the facilitator supports ---- */

static void ask_supported(struct gate *gate);

static void on_ask_again(struct loop_timer *timer)
{
    ask_supported(timer->arg);
}

static void on_supported(void *arg, const json_t *supported, const struct err *err)
{
    struct gate *gate = arg;
    struct err mine = { 0 };
    if (!supported) {
        (void)snprintf(gate->why, sizeof(gate->why), "facilitator: %.200s", err->msg);
        log_warn("facilitator_unreachable", log_str("url", gate->config->facilitator.url),
                 log_str("why", err->msg));
        loop_after(gate->loop, &gate->supported_timer, SUPPORTED_AGAIN_MS, on_ask_again, gate);
        return;
    }
    gate->unsellable = supported_learn(gate->config, supported, &mine) != ERR_OK;
    gate->supported = !gate->unsellable;
    json_decref(gate->kinds);
    gate->kinds = json_deep_copy(supported);
    (void)snprintf(gate->why, sizeof(gate->why), "%.250s", mine.msg);
    if (!gate->unsellable) {
        log_info("facilitator_ready", log_str("url", gate->config->facilitator.url));
        return;
    }
    log_error("facilitator_unsupported", log_str("why", mine.msg));
    if (!gate->started) /* told apart from unreachable: this will not mend itself */
        loop_stop(gate->loop);
}

static void ask_supported(struct gate *gate)
{
    facilitator_supported(gate->facilitator, &gate->supported_call, on_supported, gate);
}

/* ---- opening ---- */

static void fill_ledger_setup(const struct gate_config *c, struct ledger_setup *out)
{
    ledger_setup_defaults(out);
    out->path = c->ledger.path;
    out->create = c->ledger.create;
    out->force_fs = c->ledger.any_filesystem;
    out->sealed_max_bytes = c->ledger.sealed_max_bytes;
    out->sealed_ttl_s = c->ledger.sealed_ttl_s;
    out->retention_s = c->ledger.retention_s;
    out->waiters_max = c->limits.waiters;
    out->payment_runs_max = c->limits.uncharged_per_payment;
    out->payer_runs_max = c->limits.uncharged_per_payer;
    out->payer_in_flight_max = c->limits.per_payer;
    out->settle_hold_s = c->ledger.reconcile_s;
}

/* All that needs the ledger. */
static enum err_kind take_ledger(struct gate *gate, struct ledger *ledger, struct err *err)
{
    struct settler_setup setup;
    gate->ledger = ledger;
    if (gate->config->claims &&
        claims_open(gate->config->claims, ledger_generation(ledger),
                    gate->config->ledger.any_filesystem, gate->loop, &gate->claims, err))
        return err->kind;
    settler_setup_defaults(&setup);
    setup.ledger = ledger;
    setup.claims = gate->claims;
    setup.facilitators = &gate->facilitator;
    setup.facilitators_n = 1;
    setup.rpcs = gate->rpcs;
    setup.rpcs_n = gate->n_rpcs;
    return settler_new(&setup, gate->loop, &gate->settler, err);
}

static void on_taken(void *arg, struct ledger *taken, const struct err *err)
{
    struct gate *gate = arg;
    struct err mine = { 0 };
    if (taken && take_ledger(gate, taken, &mine) == ERR_OK) {
        log_info("ledger_taken", log_str("path", gate->config->ledger.path));
        return;
    }
    log_error("ledger_not_taken", log_str("why", taken ? mine.msg : err->msg));
    gate->failed = true;
    loop_stop(gate->loop);
}

static enum err_kind open_ledger(struct gate *gate, bool standby, struct err *err)
{
    struct ledger_setup setup;
    struct ledger *ledger = NULL;
    fill_ledger_setup(gate->config, &setup);
    if (standby)
        return ledger_standby_new(&setup, gate->loop, on_taken, gate, &gate->standby, err);
    if (ledger_open(&setup, gate->loop, &ledger, err))
        return err_prefix(err, "ledger %s", setup.path);
    return take_ledger(gate, ledger, err);
}

static enum err_kind open_rpcs(struct gate *gate, struct err *err)
{
    const struct gate_config *c = gate->config;
    gate->rpcs = xcalloc(c->rpc_n + 1, sizeof(struct evm_rpc *));
    for (size_t i = 0; i < c->rpc_n; i++) {
        struct evm_rpc_setup setup;
        evm_rpc_setup_defaults(&setup);
        setup.network = c->rpc[i].network;
        setup.url[0] = c->rpc[i].urls[0];
        setup.url[1] = c->rpc[i].urls[1];
        setup.confirmations = c->rpc[i].confirmations;
        if (evm_rpc_new(&setup, gate->loop, gate->client, &gate->rpcs[i], err))
            return err_prefix(err, "rpc[%zu]", i);
        gate->n_rpcs++;
    }
    return ERR_OK;
}

static enum err_kind open_outside(struct gate *gate, struct err *err)
{
    const struct facilitator_config *f = &gate->config->facilitator;
    struct http_client_config client = { .ca_file = f->ca_file };
    struct facilitator_setup setup;
    if (http_client_new(gate->loop, &client, &gate->client, err))
        return err->kind;
    if (f->auth != AUTH_NONE && auth_open(f, &gate->auth, err))
        return err_prefix(err, "facilitator token");
    facilitator_setup_defaults(&setup);
    setup.url = f->url;
    setup.plain_ok = f->plain_http;
    setup.verify_ms = gate->config->deadlines.verify;
    setup.settle_ms = gate->config->deadlines.settle;
    setup.auth = gate->auth;
    if (facilitator_new(&setup, gate->loop, gate->client, &gate->facilitator, err))
        return err->kind;
    return open_rpcs(gate, err);
}

static void on_refused_head(void *arg, const char *peer, struct http_fault fault)
{
    struct gate *gate = arg;
    gate->metrics.refused_heads++;
    log_info("head_refused", log_str("peer", peer), log_int("status", fault.status),
             log_str("why", fault.why));
}

static struct http_server_config server_config(struct gate *gate)
{
    const struct gate_config *c = gate->config;
    return (struct http_server_config){
        .header_ms = c->deadlines.header,
        .body_ms = c->deadlines.body,
        .write_ms = c->deadlines.write,
        .idle_ms = c->deadlines.idle,
        .max_connections = c->limits.connections,
        .reuse_port = true, /* a standby listens beside the old gate */
        .on_request = request_begin,
        .on_refused = on_refused_head,
        .arg = gate,
    };
}

static enum err_kind listen_at(struct http_server *server, const struct endpoint *at,
                               struct err *err)
{
    char text[160];
    if (at->kind == ENDPOINT_UNIX)
        (void)snprintf(text, sizeof(text), "unix:%s", at->path);
    else
        (void)snprintf(text, sizeof(text), strchr(at->host, ':') ? "[%s]:%u" : "%s:%u", at->host,
                       at->port);
    return http_server_listen(server, text, err);
}

static enum err_kind open_listeners(struct gate *gate, struct err *err)
{
    struct http_server_config config = server_config(gate);
    struct http_server_config admin = {
        .on_request = admin_begin, .arg = gate, .max_connections = 64, .reuse_port = true
    };
    if (http_server_new(gate->loop, &config, &gate->server, err) ||
        listen_at(gate->server, &gate->config->listen, err))
        return err_prefix(err, "public listener");
    if (gate->config->admin.kind == ENDPOINT_NONE)
        return ERR_OK;
    if (http_server_new(gate->loop, &admin, &gate->admin, err) ||
        listen_at(gate->admin, &gate->config->admin, err))
        return err_prefix(err, "admin listener");
    return ERR_OK;
}

/* The key is read again at each reload: it is rotated by replacing its directory. */
static enum err_kind open_data(struct gate *gate, const struct gate_config *config, struct err *err)
{
    struct data_key *key = NULL;
    if (!config->data.socket)
        return ERR_OK;
    if (data_key_load_private(config->data.key_file, &key, err))
        return err_prefix(err, "data.key_file");
    data_key_free(gate->data_key);
    gate->data_key = key;
    return gate->data ? ERR_OK
                      : data_session_new(gate->loop, config->data.socket, &gate->data, err);
}

enum err_kind gate_new(struct loop *loop, struct gate_config *config, struct gate **out,
                       struct err *err)
{
    struct gate *gate CLEANUP(gate_freep) = xcalloc(1, sizeof(*gate));
    uint8_t id[16];
    gate->loop = loop;
    gate->config = config_ref(config);
    gate->requests.prev = gate->requests.next = &gate->requests;
    if (getrandom(id, sizeof(id), 0) != sizeof(id))
        return err_set(err, ERR_INTERNAL, "no random bytes");
    text_hex(id, sizeof(id), gate->instance);
    if (open_outside(gate, err) || open_listeners(gate, err))
        return err->kind;
    *out = STEAL(gate);
    return ERR_OK;
}

enum err_kind gate_start(struct gate *gate, bool standby, struct err *err)
{
    if (open_ledger(gate, standby, err) || open_data(gate, gate->config, err))
        return err->kind;
    ask_supported(gate);
    return ERR_OK;
}

void gate_free(struct gate *gate)
{
    if (!gate)
        return;
    while (gate->requests.next && gate->requests.next != &gate->requests)
        request_abandon((struct request *)gate->requests.next);
    loop_cancel(&gate->drain_timer);
    loop_cancel(&gate->supported_timer);
    facilitator_cancel(&gate->supported_call);
    http_server_free(gate->admin);
    http_server_free(gate->server);
    gate_let_go(gate);
    for (size_t i = 0; i < gate->n_rpcs; i++)
        evm_rpc_free(gate->rpcs[i]);
    free(gate->rpcs);
    data_session_free(gate->data);
    data_key_free(gate->data_key);
    facilitator_free(gate->facilitator);
    auth_close(gate->auth);
    http_client_free(gate->client);
    for (size_t i = 0; i < gate->n_previous; i++)
        config_unref(gate->previous[i].config);
    config_unref(gate->config);
    json_decref(gate->kinds);
    free(gate);
}

/* ---- reload ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_endpoint(const struct endpoint *a, const struct endpoint *b)
{
    return a->kind == b->kind && a->port == b->port && strcmp(a->host, b->host) == 0 &&
           strcmp(a->path, b->path) == 0;
}

/* The first thing that needs a restart, or NULL. */
static const char *fixed_at_start(const struct gate_config *a, const struct gate_config *b)
{
    if (!same_endpoint(&a->listen, &b->listen))
        return "listen";
    if (!same_endpoint(&a->admin, &b->admin))
        return "admin";
    if (!same_text(a->facilitator.url, b->facilitator.url) ||
        !same_text(a->facilitator.bearer_dir, b->facilitator.bearer_dir) ||
        !same_text(a->facilitator.cdp_key_file, b->facilitator.cdp_key_file) ||
        !same_text(a->facilitator.ca_file, b->facilitator.ca_file) ||
        a->facilitator.auth != b->facilitator.auth)
        return "facilitator";
    if (!same_text(a->ledger.path, b->ledger.path) || !same_text(a->claims, b->claims))
        return "ledger or claims";
    if (!same_text(a->user, b->user) || !same_text(a->data.socket, b->data.socket))
        return "user or data";
    return NULL;
}

static uint32_t longest_validity_s(const struct gate_config *c)
{
    uint32_t longest = 60;
    for (size_t i = 0; i < c->routes.n; i++) {
        for (size_t k = 0; k < c->routes.routes[i].offer_n; k++) {
            uint32_t s = c->routes.routes[i].offers[k].max_timeout_s;
            longest = s > longest ? s : longest;
        }
    }
    return longest;
}

static void keep_previous(struct gate *gate, struct gate_config *old)
{
    uint64_t now = loop_now_ms(gate->loop);
    size_t kept = 0;
    for (size_t i = 0; i < gate->n_previous; i++) {
        bool over =
            gate->previous[i].until_ms < now || (gate->n_previous == GATE_PREVIOUS_MAX && i == 0);
        if (over)
            config_unref(gate->previous[i].config);
        else
            gate->previous[kept++] = gate->previous[i];
    }
    gate->n_previous = kept;
    gate->previous[gate->n_previous++] = (struct gate_terms){
        .config = old,
        .until_ms = now + (uint64_t)longest_validity_s(old) * 1000,
    };
}

enum err_kind gate_reload(struct gate *gate, struct gate_config *config, struct err *err)
{
    const char *fixed = fixed_at_start(gate->config, config);
    if (fixed)
        return err_set(err, ERR_PRECONDITION,
                       "%s changed: that needs a restart (utter-gate serve "
                       "--standby takes over without a gap)",
                       fixed);
    if (gate->kinds && supported_learn(config, gate->kinds, err))
        return err->kind;
    if (open_data(gate, config, err))
        return err->kind;
    keep_previous(gate, gate->config);
    gate->config = config_ref(config);
    struct http_server_config server = server_config(gate);
    http_server_reconfigure(gate->server, &server);
    return ERR_OK;
}

/* ---- whose request ---- */

static bool parse_address(const char *text, struct in6_addr *out)
{
    struct in_addr v4;
    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    memset(out, 0, sizeof(*out));
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &v4, 4);
    return true;
}

/* "192.0.2.0/24", "2001:db8::1": IPv4 is compared in its mapped form. */
static bool in_range(const struct in6_addr *address, const char *range)
{
    char text[64];
    struct in6_addr base;
    uint64_t bits = 128;
    const char *slash = strchr(range, '/');
    size_t n = slash ? (size_t)(slash - range) : strlen(range);
    if (n >= sizeof(text))
        return false;
    memcpy(text, range, n);
    text[n] = '\0';
    if (!parse_address(text, &base) || (slash && !text_u64(slash + 1, &bits)))
        return false;
    if (slash && !strchr(text, ':'))
        bits += 96;
    if (bits > 128)
        return false;
    for (size_t i = 0; i < bits; i++) {
        if ((address->s6_addr[i / 8] ^ base.s6_addr[i / 8]) & (0x80 >> (i % 8)))
            return false;
    }
    return true;
}

static bool is_trusted(const struct gate_config *c, const char *address)
{
    struct in6_addr a;
    if (!c->trusted_proxies || !parse_address(address, &a))
        return false;
    for (const char **range = c->trusted_proxies; *range; range++) {
        if (in_range(&a, *range))
            return true;
    }
    return false;
}

/* The last entry of an X-Forwarded-For value, and the value without it. */
static bool last_entry(struct http_str *list, char out[HTTP_ADDRESS_MAX])
{
    size_t at = list->len;
    while (at && list->p[at - 1] != ',')
        at--;
    struct http_str item = { list->p + at, list->len - at };
    while (item.len && item.p[0] == ' ') {
        item.p++;
        item.len--;
    }
    list->len = at ? at - 1 : 0;
    if (item.len == 0 || item.len >= HTTP_ADDRESS_MAX)
        return false;
    memcpy(out, item.p, item.len);
    out[item.len] = '\0';
    struct in6_addr check;
    return parse_address(out, &check);
}

void gate_client_address(const struct gate *gate, const struct http_request *http,
                         char out[HTTP_ADDRESS_MAX])
{
    http_request_peer_address(http, out);
    const struct http_field *f = http_find(http_request_head(http), "X-Forwarded-For");
    if (!f || !is_trusted(gate->config, out))
        return;
    struct http_str list = f->value;
    char entry[HTTP_ADDRESS_MAX];
    while (list.len && last_entry(&list, entry)) {
        memcpy(out, entry, sizeof(entry));
        if (!is_trusted(gate->config, entry))
            return;
    }
}
