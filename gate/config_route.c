/* `routes`: what is sold where. Pure. */
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "gate/challenge.h"
#include "gate/config_scan.h"
#include "proto/data_token.h"

#define ROUTES_MAX 256
#define RESERVED_PATH "/.well-known/utter/"

static const char *const route_keys[] = { "path",       "methods",
                                          "price",      "pay",
                                          "free",       "description",
                                          "mime_type",  "service_name",
                                          "tags",       "icon_url",
                                          "timeout_s",  "payment_identifier",
                                          "extensions", "contract_wallets",
                                          "replay",     "replay_max",
                                          "replay_s",   "answer",
                                          "forward",    "upto",
                                          "upstreams",  NULL };
static const char *const answer_keys[] = { "allow_empty",  "charge",       "close_delimited",
                                           "end_marker",   "content_type", "json",
                                           "json_pointer", "no_error_key", "on_4xx",
                                           "on_5xx",       "set_cookie",   NULL };
static const char *const upto_keys[] = { "handler_charge", "min", "max", NULL };

/* Only bytes that mean themselves: a pattern never needs decoding. */
static bool path_ok(const char *path)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-._~!$&'()+,;=:@/{}*";
    size_t n = strlen(path);
    if (path[0] != '/' || n > 512 || path[strspn(path, allowed)] != '\0')
        return false;
    for (const char *p = path; *p; p++) {
        if (*p != '/')
            continue;
        size_t len = strcspn(p + 1, "/");
        const char *s = p + 1;
        bool last = s[len] == '\0';
        bool star = len == 1 && *s == '*';
        bool name = len > 2 && s[0] == '{' && s[len - 1] == '}' && strcspn(s + 1, "{}*") == len - 2;
        bool plain = strcspn(s, "{}*/") == len;
        bool dots = (len == 1 && *s == '.') || (len == 2 && s[0] == '.' && s[1] == '.');
        if ((len == 0 && !last) || dots || !(plain || name || (star && last)))
            return false;
    }
    return true;
}

static void read_path(const struct at *at, struct route *r)
{
    r->path = scan_text(at, "path", true, "/");
    r->exact = strcspn(r->path, "{*") == strlen(r->path);
    if (!path_ok(r->path))
        scan_fault(at->s,
                   "%s.path: \"%.128s\" is no canonical path (segments without %%, dots, "
                   "empty ones; \"{name}\" for one segment, a last \"*\" for the rest)",
                   at->where, r->path);
    if (text_starts(r->path, RESERVED_PATH))
        scan_fault(at->s, "%s.path: " RESERVED_PATH " is the gate's own", at->where);
}

static void read_methods(const struct at *at, struct route *r)
{
    static const char *const known[] = { "GET",    "HEAD",  "POST",    "PUT",
                                         "DELETE", "PATCH", "OPTIONS", NULL };
    static const char *const get[] = { "GET", NULL };
    r->methods = (const char *const *)scan_list(at, "methods", 16);
    if (!r->methods[0])
        r->methods = get;
    struct buf allow CLEANUP(buf_fini);
    buf_init(&allow, 256);
    for (size_t i = 0; r->methods[i]; i++) {
        size_t k = 0;
        while (known[k] && strcmp(known[k], r->methods[i]) != 0)
            k++;
        if (!known[k])
            scan_fault(at->s,
                       "%s.methods: \"%.16s\" is none of GET HEAD POST PUT DELETE PATCH "
                       "OPTIONS",
                       at->where, r->methods[i]);
        buf_printf(&allow, "%s%s", i ? ", " : "", r->methods[i]);
    }
    r->allow = xstrdup(buf_cstr(&allow));
}

static void read_resource(const struct at *at, struct route *r)
{
    r->description = scan_label(at, "description", 512, "");
    r->mime_type = scan_label(at, "mime_type", 128, "application/json");
    r->service_name = scan_label(at, "service_name", 32, NULL);
    r->icon_url = scan_label(at, "icon_url", 2048, NULL);
    if (r->icon_url && !text_starts(r->icon_url, "https://") &&
        !text_starts(r->icon_url, "http://"))
        scan_fault(at->s, "%s.icon_url: must begin with https:// or http://", at->where);
    const char **tags = scan_list(at, "tags", 5);
    for (size_t i = 0; tags[i]; i++) {
        r->tags = r->tags ? r->tags : json_array();
        json_array_append_new(r->tags, json_string(tags[i]));
        for (const char *p = tags[i]; *p; p++) {
            if (strlen(tags[i]) > 32 || *p < 0x20 || *p > 0x7e) {
                scan_fault(at->s, "%s.tags: each at most 32 printable ASCII bytes", at->where);
                break;
            }
        }
    }
}

static json_t *identifier_extension(bool required)
{
    return json_pack("{s:{s:b}, s:{s:s, s:s, s:{s:{s:s}, s:{s:s, s:i, s:i, s:s}}, s:[s]}}", "info",
                     "required", required, "schema", "$schema",
                     "https://json-schema.org/draft/2020-12/schema", "type", "object", "properties",
                     "required", "type", "boolean", "id", "type", "string", "minLength", 16,
                     "maxLength", 128, "pattern", "^[a-zA-Z0-9_-]+$", "required", "required");
}

static void read_extensions(const struct at *at, struct route *r)
{
    static const char *const words[] = { "off", "optional", "required", NULL };
    size_t identifier = scan_word(at, "payment_identifier", words, 1);
    json_t *own = json_object_get(at->object, "extensions");
    const char *id;
    json_t *value;
    r->identifier_declared = identifier > 0;
    r->identifier_required = identifier == 2;
    r->extensions = json_object();
    if (own && !json_is_object(own))
        scan_fault(at->s, "%s.extensions: must be an object", at->where);
    json_object_foreach(own, id, value)
    {
        if (strcmp(id, "payment-identifier") == 0)
            scan_fault(at->s, "%s.extensions: payment-identifier is set by \"payment_identifier\"",
                       at->where);
        else if (!json_is_object(value) || !json_is_object(json_object_get(value, "info")))
            scan_fault(at->s, "%s.extensions[\"%.64s\"]: must be an object with \"info\"",
                       at->where, id);
        json_object_set(r->extensions, id, value);
    }
    if (identifier)
        json_object_set_new(r->extensions, "payment-identifier",
                            identifier_extension(identifier == 2));
}

static void read_charges(const struct at *at, struct answer_rule *a)
{
    const json_t *list = json_object_get(at->object, "charge");
    const json_t *v;
    size_t i;
    if (list && !json_is_array(list))
        scan_fault(at->s, "%s.charge: must be a list of 202, 204, 404, \"3xx\"", at->where);
    json_array_foreach(list, i, v)
    {
        json_int_t n = json_integer_value(v);
        if (n == 202)
            a->charge_202 = true;
        else if (n == 204)
            a->charge_204 = true;
        else if (n == 404)
            a->charge_404 = true;
        else if (json_is_string(v) && strcmp(json_string_value(v), "3xx") == 0)
            a->charge_3xx = true;
        else
            scan_fault(at->s, "%s.charge: must be a list of 202, 204, 404, \"3xx\"", at->where);
    }
}

static void read_answer(const struct at *route, struct answer_rule *a)
{
    static const char *const words[] = { "replace", "pass", NULL };
    struct at at = scan_member(route, "answer", answer_keys);
    a->allow_empty = scan_bool(&at, "allow_empty", false);
    read_charges(&at, a);
    a->close_delimited = scan_bool(&at, "close_delimited", false);
    a->end_marker = scan_text(&at, "end_marker", false, NULL);
    a->content_type = scan_label(&at, "content_type", 128, NULL);
    a->json_pointer = scan_text(&at, "json_pointer", false, NULL);
    a->no_error_key = scan_bool(&at, "no_error_key", false);
    a->json = scan_bool(&at, "json", false) || a->json_pointer || a->no_error_key;
    a->on_4xx = scan_word(&at, "on_4xx", words, 1) ? ON_ERROR_PASS : ON_ERROR_REPLACE;
    a->on_5xx = scan_word(&at, "on_5xx", words, 0) ? ON_ERROR_PASS : ON_ERROR_REPLACE;
    a->set_cookie = scan_bool(&at, "set_cookie", false);
    if (a->json_pointer && a->json_pointer[0] != '/')
        scan_fault(at.s, "%s.json_pointer: must begin with \"/\"", at.where);
    if (a->close_delimited && !a->json && !a->end_marker)
        scan_fault(at.s,
                   "%s.close_delimited: needs a body rule (json or end_marker), else a broken "
                   "answer looks complete",
                   at.where);
}

static void read_forward(const struct at *at, struct route *r)
{
    const char **list = scan_list(at, "forward", 2);
    for (size_t i = 0; list[i]; i++) {
        if (strcmp(list[i], "authorization") == 0)
            r->forward_authorization = true;
        else if (strcmp(list[i], "cookie") == 0)
            r->forward_cookie = true;
        else
            scan_fault(at->s, "%s.forward: only \"authorization\" and \"cookie\"", at->where);
    }
}

static void read_upto(const struct at *route, struct route *r)
{
    struct at at = scan_member(route, "upto", upto_keys);
    const char *min = scan_text(&at, "min", false, NULL), *max = scan_text(&at, "max", false, NULL);
    bool any = false;
    struct err err;
    r->upto_handler_charge = scan_bool(&at, "handler_charge", false);
    for (size_t i = 0; i < r->offer_n; i++) {
        struct offer *o = &r->offers[i];
        if (o->kind != PAY_UPTO)
            continue;
        any = true;
        if (min && price_to_atomic(min, o->decimals, &o->upto_min, &err))
            scan_fault(at.s, "%s.min: %s", at.where, err.msg);
        if (max && price_to_atomic(max, o->decimals, &o->upto_max, &err))
            scan_fault(at.s, "%s.max: %s", at.where, err.msg);
        if (u256_compare(&o->upto_max, &o->amount) > 0 ||
            u256_compare(&o->upto_min, &o->upto_max) > 0)
            scan_fault(at.s, "%s: needs min <= max <= price", at.where);
    }
    if (at.object && !any)
        scan_fault(at.s, "%s: no offer of this route has the scheme upto", at.where);
}

/* The authorization has to outlive the work: handler, settlement, and time for the buyer to send.
 */
static uint32_t max_timeout(const struct at *at, const json_t *root, const struct route *r)
{
    const struct deadlines_config *d = &at->s->c->deadlines;
    uint32_t work = (r->handler_ms + d->settle + 999) / 1000;
    const struct at top = { .s = at->s, .object = root, .where = "configuration" };
    int64_t set = scan_int(&top, "max_timeout_s", 1, 86400, work + 60);
    if (set < work + 30)
        scan_fault(
            at->s,
            "%s: max_timeout_s %lld leaves less than 30 s over handler and settlement (%u s)",
            at->where, (long long)set, work);
    return (uint32_t)set;
}

static void read_sale(const struct at *at, const json_t *root, struct route *r)
{
    static const char *const words[] = { "on", "off", NULL };
    const json_t *own = json_object_get(at->object, "pay");
    r->free = scan_bool(at, "free", false);
    r->contract_wallets = scan_bool(at, "contract_wallets", false);
    r->replay = scan_word(at, "replay", words, 0) ? REPLAY_OFF : REPLAY_ON;
    r->replay_max = (uint32_t)scan_int(at, "replay_max", 1, 100, 5);
    r->replay_s = (uint32_t)scan_int(at, "replay_s", 1, 86400, 600);
    if (r->free) {
        if (own || json_object_get(at->object, "price") || json_object_get(at->object, "upto"))
            scan_fault(at->s, "%s: a free route has no price, pay or upto", at->where);
        return;
    }
    read_extensions(at, r);
    scan_offers(at->s, own ? own : json_object_get(root, "pay"), at->where,
                scan_text(at, "price", false, NULL), r, max_timeout(at, root, r));
    read_upto(at, r);
    if (r->replay == REPLAY_ON && r->replay_s > at->s->c->ledger.sealed_ttl_s)
        scan_fault(at->s, "%s.replay_s: longer than ledger.sealed_ttl_s (%u)", at->where,
                   at->s->c->ledger.sealed_ttl_s);
}

static bool among(const char **names, const char *name)
{
    size_t i = 0;
    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    return names[i] != NULL;
}

/* Which of the configuration's upstreams this route's handler may reach: all of them unless it says
 * less. */
static void read_upstreams(const struct at *at, struct route *r)
{
    const struct data_config *d = &at->s->c->data;
    if (!json_object_get(at->object, "upstreams")) {
        r->upstreams = d->upstreams;
        return;
    }
    r->upstreams = scan_list(at, "upstreams", DATA_SCOPE_MAX);
    for (size_t i = 0; r->upstreams[i]; i++) {
        if (!d->upstreams || !among(d->upstreams, r->upstreams[i]))
            scan_fault(at->s, "%s.upstreams: \"%.64s\" is not in data.upstreams", at->where,
                       r->upstreams[i]);
    }
}

static void make_challenge(const struct at *at, struct route *r)
{
    size_t header = 0;
    struct err err;
    if (r->free || at->s->faults)
        return;
    if (challenge_rebuild(r, at->s->c->origin, &header, &err))
        scan_fault(at->s, "%s: %s", at->where, err.msg);
    else if (header > CHALLENGE_HEADER_WARN)
        scan_warning(at->s,
                     "%s: the challenge header is %zu bytes; some intermediaries drop headers "
                     "above %d",
                     at->where, header, CHALLENGE_HEADER_WARN);
}

static bool routes_clash(const struct route *a, const struct route *b)
{
    if (strcmp(a->path, b->path) != 0)
        return false;
    for (size_t i = 0; a->methods[i]; i++) {
        for (size_t j = 0; b->methods[j]; j++) {
            if (strcmp(a->methods[i], b->methods[j]) == 0)
                return true;
        }
    }
    return false;
}

static void scan_route(struct scan *s, const json_t *root, const json_t *object, size_t index)
{
    struct route_set *set = &s->c->routes;
    struct route *r = &set->routes[index];
    struct at at = scan_at(s, object, route_keys, "routes[%zu]", index);
    r->index = index;
    read_path(&at, r);
    read_methods(&at, r);
    read_resource(&at, r);
    r->handler_ms =
        (uint32_t)scan_int(&at, "timeout_s", 1, 3600, s->c->deadlines.handler / 1000) * 1000;
    read_answer(&at, &r->answer);
    read_forward(&at, r);
    read_upstreams(&at, r);
    read_sale(&at, root, r);
    make_challenge(&at, r);
    for (size_t i = 0; i < index; i++) {
        if (routes_clash(&set->routes[i], r))
            scan_fault(s, "%s: the same path and method as routes[%zu]", at.where, i);
    }
}

void scan_routes(struct scan *s, const json_t *root)
{
    const json_t *list = json_object_get(root, "routes");
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || n > ROUTES_MAX) {
        scan_fault(s, "routes: must be a list of 1 to %d routes", ROUTES_MAX);
        return;
    }
    s->c->routes.routes = xcalloc(n, sizeof(*s->c->routes.routes));
    s->c->routes.n = n;
    for (size_t i = 0; i < n; i++)
        scan_route(s, root, json_array_get(list, i), i);
}

void route_fini(struct route *r)
{
    for (size_t i = 0; i < r->offer_n; i++) {
        json_decref(r->offers[i].extra);
        json_decref(r->offers[i].v2);
        json_decref(r->offers[i].v1);
    }
    free(r->offers);
    free(r->allow);
    json_decref(r->tags);
    json_decref(r->extensions);
    challenge_cache_free(r->challenge);
}
