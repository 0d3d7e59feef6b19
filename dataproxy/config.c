#include "dataproxy/config.h"

#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"

void config_free(struct config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < config->n_upstreams; i++)
        upstream_fini(&config->upstream[i]);
    char *owned[] = { config->listen,   config->peer,    config->admin,
                      config->session,  config->keys,    config->ledger,
                      config->resolver, config->ca_file, config->user };
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
    free(config);
}

const struct upstream *config_upstream(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->n_upstreams; i++) {
        if (strcmp(config->upstream[i].name, name) == 0)
            return &config->upstream[i];
    }
    return NULL;
}

const struct upstream *config_upstream_by_host(const struct config *config, const char *host,
                                               uint16_t port)
{
    const struct upstream *found = NULL;
    for (size_t i = 0; i < config->n_upstreams; i++) {
        const struct upstream *u = &config->upstream[i];
        /* The handler's library speaks plain http to us whatever the upstream speaks. */
        bool port_matches = port == u->port || (port == 80 && u->tls && u->port == 443);
        if (strcmp(u->host, host) != 0 || !port_matches)
            continue;
        if (found)
            return NULL;
        found = u;
    }
    return found;
}

static CHECKED enum err_kind read_strings(const json_t *tree, struct config *config,
                                          struct err *err)
{
    const struct {
        const char *key;
        char **to;
        bool required;
        bool path;
    } members[] = {
        { "listen", &config->listen, true, false },
        { "peer", &config->peer, false, false },
        { "admin", &config->admin, true, false },
        { "session", &config->session, true, true },
        { "keys", &config->keys, true, true },
        { "ledger", &config->ledger, false, true },
        { "resolver", &config->resolver, false, false },
        { "ca_file", &config->ca_file, false, true },
        { "user", &config->user, false, false },
    };
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const char *value = NULL;
        if (json_get_string(tree, members[i].key, members[i].required, &value, err))
            return err->kind;
        if (value && members[i].path && value[0] != '/')
            return err_set(err, ERR_INVALID, "\"%s\" must be an absolute path", members[i].key);
        if (value && (!*value || strlen(value) > 1024))
            return err_set(err, ERR_INVALID, "\"%s\" must be 1 to 1024 characters", members[i].key);
        if (value)
            *members[i].to = xstrdup(value);
    }
    if (strlen(config->session) > 107)
        return err_set(err, ERR_INVALID, "\"session\" must be at most 107 characters");
    return ERR_OK;
}

static CHECKED enum err_kind read_upstreams(const json_t *tree, struct config *config,
                                            struct err *err)
{
    const json_t *list = json_object_get(tree, "upstreams");
    size_t n = json_array_size(list);
    if (n == 0 || n > CONFIG_UPSTREAMS_MAX)
        return err_set(err, ERR_INVALID, "\"upstreams\" must list 1 to %d upstreams",
                       CONFIG_UPSTREAMS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct upstream *u = &config->upstream[config->n_upstreams];
        enum err_kind kind = upstream_read(json_array_get(list, i), u, err);
        if (!kind && config_upstream(config, u->name))
            kind = err_set(err, ERR_INVALID, "upstream \"%s\" is declared twice", u->name);
        config->n_upstreams++; /* so that config_free() ends a half-read one too */
        if (kind)
            return kind;
    }
    return ERR_OK;
}

static CHECKED enum err_kind read_tree(const json_t *tree, struct config *config, struct err *err)
{
    static const char *const names[] = { "slug",      "listen",    "peer",     "admin",
                                         "session",   "keys",      "ledger",   "resolver",
                                         "ca_file",   "user",      "gate_uid", "max_calls",
                                         "max_bytes", "upstreams", NULL };
    const char *slug = NULL;
    int64_t max_calls = 256;
    int64_t max_bytes = 128 << 20;
    if (json_only_keys(tree, names, "configuration", err) ||
        json_get_string(tree, "slug", true, &slug, err) || read_strings(tree, config, err) ||
        json_get_int(tree, "gate_uid", true, 0, UINT32_MAX - 1, &config->gate_uid, err) ||
        json_get_int(tree, "max_calls", false, 1, 10000, &max_calls, err) ||
        json_get_int(tree, "max_bytes", false, 1 << 20, INT64_C(1) << 36, &max_bytes, err))
        return err->kind;
    if (!data_name_valid(slug, DATA_SLUG_MAX))
        return err_set(err, ERR_INVALID, "\"slug\" must be 1 to %d of a-z, 0-9 and inner -",
                       DATA_SLUG_MAX);
    strcpy(config->slug, slug);
    config->max_calls = (size_t)max_calls;
    config->max_bytes = (size_t)max_bytes;
    if (config->peer && !address_net_parse(config->peer, &config->peer_net))
        return err_set(err, ERR_INVALID, "\"peer\" must be an IPv4 ADDRESS/BITS, as 198.18.0.4/31");
    return read_upstreams(tree, config, err);
}

enum err_kind config_parse(const char *text, size_t len, struct config **out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    json_t *tree CLEANUP_JSON = NULL;
    if (json_strict_load(text, len, JSON_SIZE_MAX, 0, &tree, err))
        return err->kind;
    if (!json_is_object(tree))
        return err_set(err, ERR_INVALID, "the configuration must be a JSON object");
    struct config *config CLEANUP(config_freep) = xcalloc(1, sizeof(*config));
    if (read_tree(tree, config, err))
        return err->kind;
    *out = STEAL(config);
    return ERR_OK;
}

enum err_kind config_load(const char *path, struct config **out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    if (fs_read(path, JSON_SIZE_MAX, &text, &len, err))
        return err->kind;
    if (config_parse(text, len, out, err))
        return err_prefix(err, "%s", path);
    return ERR_OK;
}
