#include "deploy/endpoint.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/place.h"
#include "deploy/schema.h"
#include "deploy/units.h"
#include "deploy/yaml.h"

#define DEFAULT_MEMORY (128LL << 20)
#define DEFAULT_TMP (16LL << 20)
#define DEFAULT_LOGS (16LL << 20)

/* The schema file, put here by the assembler so that the program and the file cannot differ. */
__asm__(".pushsection .rodata\n"
        "utter_endpoint_schema_begin:\n"
        ".incbin \"" UTTER_ENDPOINT_SCHEMA "\"\n"
        "utter_endpoint_schema_end:\n"
        ".popsection\n");
extern const char utter_endpoint_schema_begin[] __attribute__((visibility("hidden")));
extern const char utter_endpoint_schema_end[] __attribute__((visibility("hidden")));

const char *endpoint_schema_text(size_t *len)
{
    *len = (size_t)(utter_endpoint_schema_end - utter_endpoint_schema_begin);
    return utter_endpoint_schema_begin;
}

static enum err_kind check_form(const json_t *tree, struct err *err)
{
    size_t len;
    const char *text = endpoint_schema_text(&len);
    json_t *schema CLEANUP_JSON = json_loadb(text, len, 0, NULL);
    assert(schema);
    return schema_check(schema, tree, err);
}

static enum err_kind place_path(const struct endpoint *endpoint, const char *key, const char *path,
                                const char *allowed, char **out, struct err *err)
{
    return place_put(endpoint->directory, key, path, allowed, out, err);
}

/* An integer as it stands, a string through `unit`. */
static enum err_kind quantity(const json_t *object, const char *where, const char *key,
                              bool (*unit)(const char *, int64_t *), int64_t least, int64_t most,
                              int64_t *out, struct err *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return ERR_OK;
    bool ok = true;
    if (json_is_integer(value))
        *out = json_integer_value(value) * (unit == units_cpu_milli ? 1000 : 1);
    else
        ok = unit(json_string_value(value), out);
    if (ok && *out >= least && *out <= most)
        return ERR_OK;
    char *found CLEANUP_FREE = json_dumps(value, JSON_ENCODE_ANY);
    return err_set(err, ERR_INVALID, "%s.%s: %s is out of range", where, key, found);
}

static enum err_kind read_limits(struct endpoint *e, struct err *err)
{
    const json_t *limits = json_object_get(e->tree, "limits");
    e->memory = DEFAULT_MEMORY;
    e->tmp = DEFAULT_TMP;
    e->log_max = DEFAULT_LOGS;
    e->pids = 64;
    e->cpu_milli = 500;
    e->lifetime = 3600;
    e->handler_s = 30;
    if (quantity(limits, "limits", "memory", units_size, 32LL << 20, 1LL << 40, &e->memory, err) ||
        quantity(limits, "limits", "tmp", units_size, 4096, 1LL << 40, &e->tmp, err) ||
        quantity(limits, "limits", "cpu", units_cpu_milli, 100, 1024000, &e->cpu_milli, err) ||
        quantity(limits, "limits", "lifetime", units_seconds, 10, 86400, &e->lifetime, err) ||
        quantity(json_object_get(e->tree, "timeouts"), "timeouts", "handler", units_seconds, 1,
                 3600, &e->handler_s, err) ||
        quantity(json_object_get(e->tree, "logs"), "logs", "max", units_size, 64 << 10, 1LL << 34,
                 &e->log_max, err) ||
        json_get_int(limits ? limits : e->tree, "pids", false, 8, 4096, &e->pids, err))
        return err->kind;
    if (e->tmp > e->memory / 2)
        return err_set(err, ERR_INVALID,
                       "limits.tmp: at most half of limits.memory (tmp is memory)");
    return ERR_OK;
}

static enum err_kind read_handler(struct endpoint *e, struct err *err)
{
    const json_t *handler = json_object_get(e->tree, "handler");
    const char *folder = json_is_string(handler)
                             ? json_string_value(handler)
                             : json_string_value(json_object_get(handler, "folder"));
    const json_t *entry = json_object_get(handler, "entry");
    const json_t *port = json_object_get(handler, "port");
    const json_t *user = json_object_get(handler, "user");
    e->port = port ? json_integer_value(port) : 8080;
    e->uid = user ? json_integer_value(user) : 65532;
    e->env = json_object_get(handler, "env");
    if (!folder) {
        e->image = xstrdup(json_string_value(json_object_get(handler, "image")));
        e->entry = ENDPOINT_ENTRY_IMAGE;
        e->argv = entry;
        return ERR_OK;
    }
    if (entry) {
        e->entry_file = xstrdup(json_string_value(entry));
        e->entry = text_ends(e->entry_file, ".py") ? ENDPOINT_ENTRY_PYTHON : ENDPOINT_ENTRY_BINARY;
    }
    return place_path(e, "handler.folder", folder, NULL, &e->folder, err);
}

static const char *string_or(const json_t *object, const char *key, const char *otherwise)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : otherwise;
}

static enum err_kind read_money(struct endpoint *e, struct err *err)
{
    const json_t *pay = json_object_get(e->tree, "pay");
    const json_t *facilitator = json_object_get(e->tree, "facilitator");
    const char *token = string_or(facilitator, "tokenFile", NULL);
    e->routes = json_object_get(e->tree, "routes");
    e->pay_to = string_or(pay, "to", "");
    e->pay_network = string_or(pay, "network", "base-sepolia");
    e->pay_asset = string_or(pay, "asset", "USDC");
    e->pay_scheme = string_or(pay, "scheme", "exact");
    e->pay_shared = json_is_true(json_object_get(pay, "shared"));
    e->facilitator = string_or(facilitator, "url", "");
    if (token && place_path(e, "facilitator.tokenFile", token, "/etc/utter/", &e->token_file, err))
        return err->kind;
    if (token && text_starts(e->facilitator, "http://"))
        return err_set(err, ERR_INVALID, "facilitator.url: a token goes over https:// only");
    return ERR_OK;
}

static enum err_kind read_host(struct endpoint *e, struct err *err)
{
    const json_t *tls = json_object_get(e->tree, "tls");
    const char *cert = string_or(tls, "certFile", NULL);
    e->host = string_or(e->tree, "host", "");
    e->tls_resolver = string_or(tls, "resolver", NULL);
    e->tls_wildcard = json_is_true(json_object_get(tls, "wildcard"));
    if (e->tls_wildcard && !strchr(strchr(e->host, '.') ? strchr(e->host, '.') + 1 : "", '.'))
        return err_set(err, ERR_INVALID, "tls.wildcard: host %s has no domain of its own", e->host);
    if (cert &&
        (place_path(e, "tls.certFile", cert, "/", &e->tls_cert, err) ||
         place_path(e, "tls.keyFile", string_or(tls, "keyFile", ""), "/", &e->tls_key, err)))
        return err->kind;
    return ERR_OK;
}

static enum err_kind read_all(struct endpoint *e, struct err *err)
{
    if (check_form(e->tree, err))
        return err->kind;
    if (slug_parse(string_or(e->tree, "slug", ""), &e->slug, err) || read_handler(e, err) ||
        read_money(e, err) || read_host(e, err) || read_limits(e, err))
        return err->kind;
    return upstreams_read(e->tree, e->directory, &e->upstreams, err);
}

enum err_kind endpoint_parse(const char *text, size_t len, const char *name, const char *directory,
                             struct endpoint **out, struct err *err)
{
    struct endpoint *e CLEANUP(endpoint_freep) = xcalloc(1, sizeof(*e));
    e->directory = xstrdup(directory);
    if (yaml_load(text, len, &e->tree, err) || read_all(e, err))
        return err_prefix(err, "%s", name);
    *out = STEAL(e);
    return ERR_OK;
}

enum err_kind endpoint_load(const char *path, struct endpoint **out, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len;
    if (fs_read(path, YAML_SIZE_MAX, &text, &len, err))
        return err->kind;
    char *real CLEANUP_FREE = realpath(path, NULL);
    if (!real)
        return err_sys(err, errno, "%s", path);
    *strrchr(real, '/') = '\0';
    return endpoint_parse(text, len, path, real, out, err);
}

void endpoint_free(struct endpoint *e)
{
    if (!e)
        return;
    json_decref(e->tree);
    upstreams_fini(&e->upstreams);
    free(e->directory);
    free(e->folder);
    free(e->image);
    free(e->entry_file);
    free(e->token_file);
    free(e->tls_cert);
    free(e->tls_key);
    free(e);
}
