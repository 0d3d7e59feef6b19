#include "deploy/plan.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/plan_data.h"
#include "deploy/spec.h"
#include "deploy/traefik.h"

#define FIRST_UID 210000
#define FIRST_DATA_UID 220000
#define FIRST_CLAIMS_GID 230000
#define EDGE_FIRST 16 /* addresses before it on the edge are the host's and spare */
#define VERIFY_MS 10000
#define SETTLE_MS 30000

static void hash_json(const json_t *value, char out[DIGEST_SIZE])
{
    char *text CLEANUP_FREE = json_canonical(value);
    digest_of(text, strlen(text), out);
}

static bool is_plain(const char *url)
{
    return text_starts(url, "http://");
}

static json_t *gate_route(const json_t *route)
{
    json_t *out = json_object();
    const json_t *price = json_object_get(route, "price");
    char number[24];
    const char *text = json_string_value(price);
    if (!text) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(price));
        text = number;
    }
    json_object_set(out, "path", json_object_get(route, "path"));
    if (json_object_get(route, "methods"))
        json_object_set(out, "methods", json_object_get(route, "methods"));
    if (strspn(text, "0.") == strlen(text))
        json_object_set_new(out, "free", json_true());
    else
        json_object_set_new(out, "price", json_string(text));
    if (json_object_get(route, "description"))
        json_object_set(out, "description", json_object_get(route, "description"));
    if (json_object_get(route, "mimeType"))
        json_object_set(out, "mime_type", json_object_get(route, "mimeType"));
    if (json_object_get(route, "upstreams"))
        json_object_set(out, "upstreams", json_object_get(route, "upstreams"));
    return out;
}

static json_t *gate_facilitator(const struct endpoint *e)
{
    json_t *out = json_pack("{s:s}", "url", e->facilitator);
    if (is_plain(e->facilitator))
        json_object_set_new(out, "plain_http", json_true());
    if (e->token_file)
        json_object_set_new(out, "auth",
                            json_pack("{s:s}", "bearer_file", "/run/utter-token/token"));
    return out;
}

static json_t *origin_of(const struct endpoint *e, const struct settings *settings)
{
    char *authority CLEANUP_FREE = traefik_authority(e, settings);
    return json_sprintf("%s://%s", e->tls_resolver || e->tls_cert ? "https" : "http", authority);
}

/* What the gate reads. `edge` and `handler` are its own and the handler's address, bare. */
static json_t *gate_config(const struct endpoint *e, const struct settings *settings,
                           const char *edge, const char *handler, const char *proxy)
{
    json_t *routes = json_array();
    for (size_t i = 0; i < json_array_size(e->routes); i++)
        json_array_append_new(routes, gate_route(json_array_get(e->routes, i)));
    json_t *config = json_object();
    json_object_set_new(config, "slug", json_string(e->slug.s));
    json_object_set_new(config, "origin", origin_of(e, settings));
    json_object_set_new(config, "listen", json_sprintf("%s:%d", edge, PLAN_GATE_PORT));
    json_object_set_new(config, "admin", json_string("unix:/run/utter-gate/admin.sock"));
    json_object_set_new(config, "trusted_proxies", json_pack("[s]", proxy));
    json_object_set_new(config, "handler",
                        json_pack("{s:o, s:I}", "url",
                                  json_sprintf("http://%s:%lld", handler, (long long)e->port),
                                  "timeout_s", (json_int_t)e->handler_s));
    json_object_set_new(config, "facilitator", gate_facilitator(e));
    json_object_set_new(config, "pay",
                        json_pack("[{s:s, s:s, s:s, s:s}]", "scheme", e->pay_scheme, "network",
                                  e->pay_network, "asset", e->pay_asset, "to", e->pay_to));
    json_object_set_new(config, "routes", routes);
    json_object_set_new(
        config, "ledger",
        json_pack("{s:s, s:b}", "path", "/var/lib/utter-gate/ledger.db", "create", 1));
    if (e->pay_shared)
        json_object_set_new(config, "claims", json_string(PLAN_CLAIMS_PLACE "/" PLAN_CLAIMS_FILE));
    if (e->upstreams.n)
        json_object_set_new(config, "data", plan_data_for_gate(e));
    return config;
}

static void member_fini(struct plan_member *m)
{
    free(m->image);
    free(m->netns);
    json_decref(m->spec);
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    member_fini(&plan->handler);
    member_fini(&plan->gate);
    member_fini(&plan->data);
    json_decref(plan->data_config);
    json_decref(plan->gate_config);
    json_decref(plan->route);
    free(plan->log_uri);
    free(plan->host);
    free(plan->pay);
    free(plan->claims);
    free(plan->state);
    free(plan->run);
    free(plan);
}

/* "a.b.c.d" of a pool with its prefix length behind. */
static bool cidr(struct pool pool, uint32_t offset, unsigned bits, char out[20])
{
    char address[16];
    if (!pool_address(pool, offset, address))
        return false;
    (void)snprintf(out, 20, "%s/%u", address, bits);
    return true;
}

static enum err_kind place_numbers(struct plan *plan, const struct settings *settings,
                                   struct err *err)
{
    uint32_t block = plan->index * 8;
    uint32_t edge = EDGE_FIRST + plan->index * 2;
    plan->edge_bits = settings->edge.bits;
    plan->uid = FIRST_UID + plan->index;
    plan->data_uid = FIRST_DATA_UID + plan->index;
    (void)snprintf(plan->bridge, sizeof(plan->bridge), "ut-%u", plan->index);
    bool ok =
        plan->index <= PLAN_INDEX_MAX && cidr(settings->internal, block, 29, plan->subnet) &&
        cidr(settings->internal, block + (plan->side ? 6 : 2), 29, plan->gate.address) &&
        cidr(settings->internal, block + (plan->generation % 2 ? 4 : 5), 29,
             plan->handler.address) &&
        cidr(settings->edge, edge + plan->side, settings->edge.bits, plan->gate.edge) &&
        pool_address(settings->edge, 1, plan->edge_gateway) &&
        cidr(settings->internal, block + 3, 29, plan->data.address) &&
        cidr(settings->egress, EDGE_FIRST + plan->index, settings->egress.bits, plan->data.edge) &&
        pool_address(settings->egress, 1, plan->egress_gateway);
    if (!ok)
        return err_set(err, ERR_UNAVAILABLE,
                       "the address pools are full; widen pools in the settings");
    return ERR_OK;
}

static void place_paths(struct plan *plan, const struct settings *settings,
                        const struct plan_facts *facts)
{
    slug_handler_id(&plan->slug, plan->generation, plan->handler.id);
    slug_gate_id(&plan->slug, plan->side, plan->gate.id);
    plan->state = xasprintf("%s/%s", settings->state_dir, plan->slug.s);
    plan->run = xasprintf("%s/%s", settings->run_dir, plan->slug.s);
    plan->handler.netns = xasprintf("%s/netns/%s", settings->run_dir, plan->handler.id);
    plan->gate.netns = xasprintf("%s/netns/%s", settings->run_dir, plan->gate.id);
    plan->log_uri = xasprintf("binary://%s", facts->logger);
    if (facts->data.name) {
        slug_data_id(&plan->slug, plan->data.id);
        plan->data.netns = xasprintf("%s/netns/%s", settings->run_dir, plan->data.id);
        plan->data.runtime = PLAN_GATE_RUNTIME;
        plan->data.image = xstrdup(facts->data.name);
    }
    plan->handler.runtime = PLAN_HANDLER_RUNTIME;
    plan->gate.runtime = PLAN_GATE_RUNTIME;
    plan->handler.image = xstrdup(facts->handler.name);
    plan->gate.image = xstrdup(facts->gate.name);
}

static struct spec_place place_of(const struct plan *plan, const struct settings *settings,
                                  const struct plan_member *member)
{
    return (struct spec_place){ .id = member->id,
                                .ns = settings->ns,
                                .netns = member->netns,
                                .address = member->address,
                                .run = plan->run,
                                .state = plan->state,
                                .uid = member == &plan->data ? plan->data_uid : plan->uid,
                                .side = plan->side,
                                .data = plan_has_data(plan),
                                .claims = plan->claims,
                                .claims_gid = plan->claims_gid };
}

struct plan_ip plan_ip(const char *cidr)
{
    struct plan_ip ip;
    (void)snprintf(ip.s, sizeof(ip.s), "%.*s", (int)strcspn(cidr, "/"), cidr);
    return ip;
}

static enum err_kind make_specs(struct plan *plan, const struct endpoint *e,
                                const struct settings *settings, const struct plan_facts *facts,
                                struct err *err)
{
    struct spec_place handler = place_of(plan, settings, &plan->handler);
    struct spec_place gate = place_of(plan, settings, &plan->gate);
    if (spec_handler(e, facts->handler.config, &handler, &plan->handler.spec, err) ||
        spec_gate(e, facts->gate.config, &gate, &plan->gate.spec, err))
        return err->kind;
    if (plan_has_data(plan)) {
        struct spec_place data = place_of(plan, settings, &plan->data);
        if (spec_data(e, facts->data.config, &data, &plan->data.spec, err))
            return err->kind;
        plan->data_config = plan_data_config(e, plan);
    }
    struct plan_ip edge = plan_ip(plan->gate.edge);
    plan->gate_config =
        gate_config(e, settings, edge.s, plan_ip(plan->handler.address).s, plan->edge_gateway);
    json_t *gates CLEANUP_JSON = json_pack("[s]", edge.s);
    plan->route = traefik_route(e, settings, gates);
    return ERR_OK;
}

/* What stays when a generation follows another. */
/* `also` is what it starts with besides, or NULL. */
static void member_hash(struct plan_member *member, const char *digest, const json_t *also)
{
    json_t *spec CLEANUP_JSON = json_deep_copy(member->spec);
    json_object_del(json_object_get(spec, "linux"), "cgroupsPath");
    json_object_del(json_object_get(spec, "linux"), "namespaces");
    json_object_del(json_object_get(spec, "annotations"), "io.utter.address");
    json_t *both CLEANUP_JSON =
        json_pack("{s:O, s:s, s:s}", "spec", spec, "image", digest, "runtime", member->runtime);
    if (also)
        json_object_set(both, "also", (json_t *)(uintptr_t)also);
    hash_json(both, member->hash);
}

/* The gate as its first side: what it binds differs between the sides. */
static enum err_kind gate_hash(struct plan *plan, const struct endpoint *e,
                               const struct settings *settings, const struct plan_facts *facts,
                               struct err *err)
{
    struct plan_member first = plan->gate;
    struct spec_place place = place_of(plan, settings, &plan->gate);
    json_t *spec CLEANUP_JSON = NULL;
    place.side = 0;
    if (spec_gate(e, facts->gate.config, &place, &spec, err))
        return err->kind;
    first.spec = spec;
    member_hash(&first, facts->gate.digest, NULL);
    memcpy(plan->gate.hash, first.hash, sizeof(first.hash));
    return ERR_OK;
}

static enum err_kind make_hashes(struct plan *plan, const struct endpoint *e,
                                 const struct settings *settings, const struct plan_facts *facts,
                                 struct err *err)
{
    /* Its hosts file names the data proxy or not, and a bound file is never seen changing. */
    json_t *names CLEANUP_JSON = plan_has_data(plan) ? json_string(plan->data.address) : NULL;
    member_hash(&plan->handler, facts->handler.digest, names);
    if (plan_has_data(plan))
        member_hash(&plan->data, facts->data.digest, plan->data_config);
    if (gate_hash(plan, e, settings, facts, err))
        return err->kind;
    json_t *config CLEANUP_JSON = gate_config(e, settings, "edge", "handler", plan->edge_gateway);
    hash_json(config, plan->config_hash);
    json_t *gates CLEANUP_JSON = json_pack("[s]", "gate");
    json_t *route CLEANUP_JSON = traefik_route(e, settings, gates);
    hash_json(route, plan->route_hash);
    json_t *all CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "handler", plan->handler.hash, "gate",
                  plan->gate.hash, "config", plan->config_hash, "route", plan->route_hash, "log",
                  plan->log_uri, "data", plan->data.hash);
    hash_json(all, plan->hash);
    return ERR_OK;
}

char *plan_pay(const struct endpoint *e)
{
    char *pay = xasprintf("%s %s %s", e->pay_network, e->pay_asset, e->pay_to);
    for (char *at = pay; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return pay;
}

enum err_kind plan_make(const struct endpoint *endpoint, const struct settings *settings,
                        const struct plan_facts *facts, struct plan **out, struct err *err)
{
    struct plan *plan CLEANUP(plan_freep) = xcalloc(1, sizeof(*plan));
    plan->slug = endpoint->slug;
    plan->index = facts->index;
    plan->generation = facts->generation;
    plan->side = facts->side;
    plan->host = xstrdup(endpoint->host);
    plan->tls = endpoint->tls_resolver || endpoint->tls_cert;
    plan->port = endpoint->port;
    plan->lifetime = endpoint->lifetime;
    plan->handler_s = endpoint->handler_s;
    plan->log_max = endpoint->log_max;
    plan->pay = plan_pay(endpoint);
    if (place_numbers(plan, settings, err))
        return err->kind;
    place_paths(plan, settings, facts);
    if (endpoint->pay_shared) {
        plan->claims = xasprintf("%s/claims.d/%u", settings->state_dir, facts->claims);
        plan->claims_gid = FIRST_CLAIMS_GID + facts->claims;
    }
    if (make_specs(plan, endpoint, settings, facts, err))
        return err->kind;
    if (make_hashes(plan, endpoint, settings, facts, err))
        return err->kind;
    *out = STEAL(plan);
    return ERR_OK;
}

static json_t *member_record(const struct plan_member *m)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:O}", "id", m->id, "runtime", m->runtime,
                     "image", m->image, "netns", m->netns, "address", m->address, "edge", m->edge,
                     "hash", m->hash, "spec", m->spec);
}

json_t *plan_record(const struct plan *plan)
{
    json_t *record = json_pack(
        "{s:i, s:s, s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:O, s:O, s:s, s:s, s:s}", "version", 1,
        "slug", plan->slug.s, "index", (int)plan->index, "generation", (int)plan->generation,
        "side", (int)plan->side, "bridge", plan->bridge, "subnet", plan->subnet, "handler",
        member_record(&plan->handler), "gate", member_record(&plan->gate), "gateConfig",
        plan->gate_config, "route", plan->route, "configHash", plan->config_hash, "routeHash",
        plan->route_hash, "hash", plan->hash);
    json_t *rest = json_pack(
        "{s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:s}", "edgeGateway",
        plan->edge_gateway, "edgeBits", (json_int_t)plan->edge_bits, "uid", (json_int_t)plan->uid,
        "log", plan->log_uri, "state", plan->state, "run", plan->run, "host", plan->host, "tls",
        plan->tls, "port", (json_int_t)plan->port, "lifetime", (json_int_t)plan->lifetime,
        "handlerSeconds", (json_int_t)plan->handler_s, "logMax", (json_int_t)plan->log_max, "pay",
        plan->pay);
    json_object_update_new(record, rest);
    json_object_set_new(record, "egressGateway", json_string(plan->egress_gateway));
    json_object_set_new(record, "dataUid", json_integer((json_int_t)plan->data_uid));
    if (plan->claims) {
        json_object_set_new(record, "claims", json_string(plan->claims));
        json_object_set_new(record, "claimsGid", json_integer((json_int_t)plan->claims_gid));
    }
    if (plan_has_data(plan)) {
        json_object_set_new(record, "data", member_record(&plan->data));
        json_object_set(record, "dataConfig", plan->data_config);
    }
    return record;
}

enum err_kind plan_advance(struct plan *plan, const struct settings *settings, struct err *err)
{
    plan->generation++;
    if (place_numbers(plan, settings, err))
        return err->kind;
    slug_handler_id(&plan->slug, plan->generation, plan->handler.id);
    free(plan->handler.netns);
    plan->handler.netns = xasprintf("%s/netns/%s", settings->run_dir, plan->handler.id);
    json_t *linux_part = json_object_get(plan->handler.spec, "linux");
    json_t *namespaces = json_object_get(linux_part, "namespaces");
    for (size_t i = 0; i < json_array_size(namespaces); i++) {
        json_t *ns = json_array_get(namespaces, i);
        const char *type = json_string_value(json_object_get(ns, "type"));
        if (type && strcmp(type, "network") == 0)
            json_object_set_new(ns, "path", json_string(plan->handler.netns));
    }
    json_object_set_new(linux_part, "cgroupsPath",
                        json_sprintf("/%s/%s", settings->ns, plan->handler.id));
    json_object_set_new(json_object_get(plan->handler.spec, "annotations"), "io.utter.address",
                        json_string(plan->handler.address));
    json_object_set_new(
        json_object_get(plan->gate_config, "handler"), "url",
        json_sprintf("http://%s:%lld", plan_ip(plan->handler.address).s, (long long)plan->port));
    return ERR_OK;
}

/* ---- and back ---- */

struct text_field {
    const char *key;
    char *fixed; /* room for it, or NULL */
    size_t size;
    char **owned;
};

static enum err_kind load_texts(const json_t *object, const struct text_field *fields, size_t n,
                                struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *s = NULL;
        if (json_get_string(object, fields[i].key, true, &s, err))
            return err->kind;
        if (fields[i].owned) {
            *fields[i].owned = xstrdup(s);
            continue;
        }
        if (strlen(s) >= fields[i].size)
            return err_set(err, ERR_INVALID, "%s is too long", fields[i].key);
        memcpy(fields[i].fixed, s, strlen(s) + 1);
    }
    return ERR_OK;
}

#define FIXED(key, field)                                                                          \
    {                                                                                              \
        key, field, sizeof(field), NULL                                                            \
    }
#define OWNED(key, field)                                                                          \
    {                                                                                              \
        key, NULL, 0, &(field)                                                                     \
    }

static enum err_kind load_member(const json_t *record, const char *key, const char *runtime,
                                 struct plan_member *m, struct err *err)
{
    const json_t *object = json_object_get(record, key);
    const struct text_field fields[] = {
        FIXED("id", m->id),           OWNED("image", m->image), OWNED("netns", m->netns),
        FIXED("address", m->address), FIXED("edge", m->edge),   FIXED("hash", m->hash),
    };
    if (!json_is_object(object))
        return err_set(err, ERR_INVALID, "%s is missing", key);
    m->runtime = runtime;
    m->spec = json_deep_copy(json_object_get(object, "spec"));
    return load_texts(object, fields, ARRAY_LEN(fields), err);
}

static enum err_kind load_numbers(const json_t *record, struct plan *plan, struct err *err)
{
    int64_t index = 0, generation = 0, side = 0, bits = 0, uid = 0, data_uid = 0;
    bool tls = false;
    if (json_get_int(record, "index", true, 1, PLAN_INDEX_MAX, &index, err) ||
        json_get_int(record, "generation", true, 1, INT32_MAX, &generation, err) ||
        json_get_int(record, "side", true, 0, 1, &side, err) ||
        json_get_int(record, "edgeBits", true, 8, 28, &bits, err) ||
        json_get_int(record, "uid", true, 1, INT32_MAX, &uid, err) ||
        json_get_int(record, "dataUid", true, 1, INT32_MAX, &data_uid, err) ||
        json_get_int(record, "port", true, 1, 65535, &plan->port, err) ||
        json_get_int(record, "lifetime", true, 1, 86400, &plan->lifetime, err) ||
        json_get_int(record, "handlerSeconds", true, 1, 3600, &plan->handler_s, err) ||
        json_get_int(record, "logMax", true, 1, INT64_MAX, &plan->log_max, err) ||
        json_get_bool(record, "tls", true, &tls, err))
        return err->kind;
    plan->index = (unsigned)index;
    plan->generation = (unsigned)generation;
    plan->side = (unsigned)side;
    plan->edge_bits = (unsigned)bits;
    plan->uid = (uint32_t)uid;
    plan->data_uid = (uint32_t)data_uid;
    plan->tls = tls;
    return ERR_OK;
}

static enum err_kind load_all(const json_t *record, struct plan *plan, struct err *err)
{
    const char *slug = NULL;
    const struct text_field fields[] = {
        FIXED("bridge", plan->bridge),
        FIXED("subnet", plan->subnet),
        FIXED("edgeGateway", plan->edge_gateway),
        FIXED("egressGateway", plan->egress_gateway),
        FIXED("configHash", plan->config_hash),
        FIXED("routeHash", plan->route_hash),
        FIXED("hash", plan->hash),
        OWNED("log", plan->log_uri),
        OWNED("state", plan->state),
        OWNED("run", plan->run),
        OWNED("host", plan->host),
        OWNED("pay", plan->pay),
    };
    if (json_get_string(record, "slug", true, &slug, err) || slug_parse(slug, &plan->slug, err) ||
        load_numbers(record, plan, err) || load_texts(record, fields, ARRAY_LEN(fields), err) ||
        load_member(record, "handler", PLAN_HANDLER_RUNTIME, &plan->handler, err) ||
        load_member(record, "gate", PLAN_GATE_RUNTIME, &plan->gate, err))
        return err->kind;
    if (json_object_get(record, "data") &&
        load_member(record, "data", PLAN_GATE_RUNTIME, &plan->data, err))
        return err->kind;
    int64_t gid = 0;
    const char *claims = NULL;
    if (json_get_string(record, "claims", false, &claims, err) ||
        json_get_int(record, "claimsGid", claims != NULL, 1, INT32_MAX, &gid, err))
        return err->kind;
    plan->claims = claims ? xstrdup(claims) : NULL;
    plan->claims_gid = (uint32_t)gid;
    plan->data_config = json_deep_copy(json_object_get(record, "dataConfig"));
    plan->gate_config = json_deep_copy(json_object_get(record, "gateConfig"));
    plan->route = json_deep_copy(json_object_get(record, "route"));
    return ERR_OK;
}

enum err_kind plan_load(const json_t *record, struct plan **out, struct err *err)
{
    struct plan *plan CLEANUP(plan_freep) = xcalloc(1, sizeof(*plan));
    if (load_all(record, plan, err))
        return err_prefix(err, "plan.json");
    *out = STEAL(plan);
    return ERR_OK;
}
