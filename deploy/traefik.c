#include "deploy/traefik.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "deploy/plan.h"

/* What the gate may take beside the handler: verify, settle, 60 s of repeated settles, writing. */
#define VERIFY_S 10
#define SETTLE_S 30
#define SETTLE_HOLD_S 60
#define WRITE_S 30
#define SLACK_S 20
#define PRIORITY 100000 /* over any rule's own priority, which is its length */

int64_t traefik_response_seconds(const struct endpoint *endpoint)
{
    return VERIFY_S + endpoint->handler_s + SETTLE_S + SETTLE_HOLD_S + WRITE_S + SLACK_S;
}

static json_t *servers(const json_t *gates)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(gates); i++) {
        char url[64];
        (void)snprintf(url, sizeof(url), "http://%s:%d",
                       json_string_value(json_array_get(gates, i)), PLAN_GATE_PORT);
        json_array_append_new(list, json_pack("{s:s}", "url", url));
    }
    return list;
}

static json_t *tls_part(const struct endpoint *e)
{
    if (!e->tls_resolver)
        return json_object();
    if (!e->tls_wildcard)
        return json_pack("{s:s}", "certResolver", e->tls_resolver);
    char *wild CLEANUP_FREE = xasprintf("*%s", strchr(e->host, '.'));
    return json_pack("{s:s, s:[{s:s}]}", "certResolver", e->tls_resolver, "domains", "main", wild);
}

static json_t *router(const struct endpoint *e, const struct settings *settings, const char *name)
{
    char *rule CLEANUP_FREE = xasprintf("Host(`%s`)", e->host);
    json_t *r = json_pack("{s:s, s:[s], s:s, s:i}", "rule", rule, "entryPoints",
                          settings->entry_point, "service", name, "priority", PRIORITY);
    if (e->tls_resolver || e->tls_cert)
        json_object_set_new(r, "tls", tls_part(e));
    return r;
}

/* The Host that the gate calls its own: with a port where the entry point has an unusual one. */
char *traefik_authority(const struct endpoint *e, const struct settings *settings)
{
    bool tls = e->tls_resolver || e->tls_cert;
    if (!settings->traefik_port || settings->traefik_port == (tls ? 443 : 80))
        return xstrdup(e->host);
    return xasprintf("%s:%lld", e->host, (long long)settings->traefik_port);
}

static json_t *service(const struct endpoint *e, const struct settings *settings, const char *name,
                       const json_t *gates)
{
    char *host CLEANUP_FREE = traefik_authority(e, settings);
    return json_pack("{s:{s:o, s:b, s:s, s:{s:s, s:s, s:s, s:s}}}", "loadBalancer", "servers",
                     servers(gates), "passHostHeader", 1, "serversTransport", name, "healthCheck",
                     "path", "/.well-known/utter/alive", "hostname", host, "interval", "1s",
                     "timeout", "900ms");
}

json_t *traefik_route(const struct endpoint *e, const struct settings *settings,
                      const json_t *gates)
{
    char name[SLUG_MAX + 8], wait[24];
    (void)snprintf(name, sizeof(name), "utter-%s", e->slug.s);
    (void)snprintf(wait, sizeof(wait), "%llds", (long long)traefik_response_seconds(e));
    json_t *transport = json_pack("{s:{s:s, s:s, s:s}}", "forwardingTimeouts", "dialTimeout", "2s",
                                  "responseHeaderTimeout", wait, "idleConnTimeout", "30s");
    json_t *route = json_pack(
        "{s:{s:{s:o}, s:{s:o}, s:{s:o}}}", "http", "routers", name, router(e, settings, name),
        "services", name, service(e, settings, name, gates), "serversTransports", name, transport);
    if (e->tls_cert)
        json_object_set_new(route, "tls",
                            json_pack("{s:[{s:s, s:s}]}", "certificates", "certFile", e->tls_cert,
                                      "keyFile", e->tls_key));
    return route;
}

static void label(json_t *labels, const char *name, const char *key, const char *value)
{
    char *full CLEANUP_FREE = xasprintf(
        "traefik.http.%s.%s.%s", strstr(key, "loadbalancer") ? "services" : "routers", name, key);
    json_object_set_new(labels, full, json_string(value));
}

json_t *traefik_labels(const struct endpoint *e, const struct settings *settings)
{
    char name[SLUG_MAX + 8], number[16];
    (void)snprintf(name, sizeof(name), "utter-%s", e->slug.s);
    char *rule CLEANUP_FREE = xasprintf("Host(`%s`)", e->host);
    json_t *labels = json_pack("{s:s}", "traefik.enable", "true");
    label(labels, name, "rule", rule);
    label(labels, name, "entrypoints", settings->entry_point);
    (void)snprintf(number, sizeof(number), "%d", PRIORITY);
    label(labels, name, "priority", number);
    label(labels, name, "service", name);
    if (e->tls_resolver || e->tls_cert)
        label(labels, name, "tls", "true");
    if (e->tls_resolver)
        label(labels, name, "tls.certresolver", e->tls_resolver);
    (void)snprintf(number, sizeof(number), "%d", PLAN_GATE_PORT);
    label(labels, name, "loadbalancer.server.port", number);
    return labels;
}

enum err_kind traefik_publish(const char *directory, const struct slug *slug, const json_t *route,
                              struct err *err)
{
    char *text CLEANUP_FREE = json_dumps(route, JSON_INDENT(2) | JSON_SORT_KEYS);
    char *path CLEANUP_FREE = xasprintf("%s/utter-%s.yaml", directory, slug->s);
    struct stat st;
    if (stat(directory, &st))
        return err_sys(err, errno, "Traefik's directory %s", directory);
    return fs_write(path, text, strlen(text), 0644, true, err);
}

enum err_kind traefik_withdraw(const char *directory, const struct slug *slug, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/utter-%s.yaml", directory, slug->s);
    if (unlink(path) && errno != ENOENT)
        return err_sys(err, errno, "remove %s", path);
    return ERR_OK;
}
