#include "deploy/settings.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

bool pool_parse(const char *text, struct pool *out)
{
    char address[16];
    size_t n = strcspn(text, "/");
    struct in_addr in;
    uint64_t bits;
    if (n >= sizeof(address) || text[n] != '/' || !text_u64(text + n + 1, &bits) || bits < 8 ||
        bits > 28)
        return false;
    memcpy(address, text, n);
    address[n] = '\0';
    if (inet_pton(AF_INET, address, &in) != 1)
        return false;
    *out = (struct pool){ .base = ntohl(in.s_addr), .bits = (unsigned)bits };
    return (out->base & ((1U << (32 - bits)) - 1)) == 0;
}

bool pool_overlaps(struct pool a, struct pool b)
{
    unsigned bits = a.bits < b.bits ? a.bits : b.bits;
    return ((a.base ^ b.base) >> (32 - bits)) == 0;
}

bool pool_address(struct pool pool, uint32_t offset, char out[16])
{
    if (offset >= 1U << (32 - pool.bits))
        return false;
    struct in_addr in = { .s_addr = htonl(pool.base + offset) };
    return inet_ntop(AF_INET, &in, out, 16) != NULL;
}

static enum err_kind get_string(const json_t *object, const char *key, char **out, struct err *err)
{
    const char *s = NULL;
    if (json_get_string(object, key, false, &s, err))
        return err->kind;
    if (!s)
        return ERR_OK;
    free(*out);
    *out = xstrdup(s);
    return ERR_OK;
}

/* A string that must be an absolute path. */
static enum err_kind get_path(const json_t *object, const char *key, char **out, struct err *err)
{
    if (get_string(object, key, out, err))
        return err->kind;
    if (*out && (*out)[0] != '/')
        return err_set(err, ERR_INVALID, "%s: must be an absolute path", key);
    return ERR_OK;
}

static enum err_kind get_pool(const json_t *object, const char *key, struct pool *out,
                              struct err *err)
{
    const char *s = NULL;
    if (json_get_string(object, key, false, &s, err))
        return err->kind;
    if (s && !pool_parse(s, out))
        return err_set(err, ERR_INVALID,
                       "pools.%s: %s is not an IPv4 network such as 198.18.0.0/16", key, s);
    return ERR_OK;
}

static enum err_kind read_containerd(struct settings *s, const json_t *tree, struct err *err)
{
    static const char *const keys[] = { "address", "namespace", "snapshotter", NULL };
    const json_t *object = json_object_get(tree, "containerd");
    if (!object)
        return ERR_OK;
    if (json_only_keys(object, keys, "containerd", err) ||
        get_path(object, "address", &s->containerd, err) ||
        get_string(object, "namespace", &s->ns, err) ||
        get_string(object, "snapshotter", &s->snapshotter, err))
        return err->kind;
    return ERR_OK;
}

static enum err_kind read_traefik(struct settings *s, const json_t *tree, struct err *err)
{
    static const char *const keys[] = { "dynamicDir", "entryPoint", "address", "port",
                                        "resolvers",  "http",       NULL };
    const json_t *object = json_object_get(tree, "traefik");
    if (!object)
        return ERR_OK;
    if (json_only_keys(object, keys, "traefik", err) ||
        get_path(object, "dynamicDir", &s->traefik_dir, err) ||
        get_string(object, "entryPoint", &s->entry_point, err) ||
        get_string(object, "address", &s->traefik_address, err) ||
        get_string(object, "http", &s->route_listen, err) ||
        json_get_int(object, "port", false, 1, 65535, &s->traefik_port, err))
        return err->kind;
    json_t *resolvers = json_object_get(object, "resolvers");
    if (resolvers && !json_is_array(resolvers))
        return err_set(err, ERR_INVALID, "traefik.resolvers: must be a list of names");
    s->resolvers = resolvers ? json_incref(resolvers) : NULL;
    return ERR_OK;
}

static enum err_kind read_pools(struct settings *s, const json_t *tree, struct err *err)
{
    static const char *const keys[] = { "internal", "edge", "egress", NULL };
    const json_t *object = json_object_get(tree, "pools");
    if (object &&
        (json_only_keys(object, keys, "pools", err) ||
         get_pool(object, "internal", &s->internal, err) ||
         get_pool(object, "edge", &s->edge, err) || get_pool(object, "egress", &s->egress, err)))
        return err->kind;
    if (pool_overlaps(s->internal, s->edge) || pool_overlaps(s->internal, s->egress) ||
        pool_overlaps(s->edge, s->egress))
        return err_set(err, ERR_INVALID, "pools: internal, edge and egress may not overlap");
    return ERR_OK;
}

static struct settings *settings_new_default(void)
{
    struct settings *s = xcalloc(1, sizeof(*s));
    s->containerd = xstrdup("/run/containerd/containerd.sock");
    s->ns = xstrdup("utter");
    s->snapshotter = xstrdup("overlayfs");
    s->gate_image = xstrdup("utter-gate:latest");
    s->data_image = xstrdup("utter-dataproxy:latest");
    s->entry_point = xstrdup("websecure");
    s->traefik_address = xstrdup("127.0.0.1");
    s->state_dir = xstrdup("/var/lib/utter");
    s->run_dir = xstrdup("/run/utter");
    s->cni_bin = xstrdup("/usr/lib/cni");
    (void)pool_parse("198.18.0.0/16", &s->internal);
    (void)pool_parse("198.19.0.0/17", &s->edge);
    (void)pool_parse("198.19.128.0/17", &s->egress);
    return s;
}

enum err_kind settings_parse(const json_t *tree, struct settings **out, struct err *err)
{
    static const char *const keys[] = { "containerd", "gateImage", "dataImage", "traefik", "pools",
                                        "stateDir",   "runDir",    "cniBin",    "logger",  NULL };
    struct settings *s CLEANUP(settings_freep) = settings_new_default();
    if (json_only_keys(tree, keys, "settings", err) || read_containerd(s, tree, err) ||
        read_traefik(s, tree, err) || read_pools(s, tree, err) ||
        get_string(tree, "gateImage", &s->gate_image, err) ||
        get_string(tree, "dataImage", &s->data_image, err) ||
        get_path(tree, "stateDir", &s->state_dir, err) ||
        get_path(tree, "runDir", &s->run_dir, err) || get_path(tree, "cniBin", &s->cni_bin, err) ||
        get_path(tree, "logger", &s->logger, err))
        return err->kind;
    *out = STEAL(s);
    return ERR_OK;
}

enum err_kind settings_load(const char *path, struct settings **out, struct err *err)
{
    json_t *tree CLEANUP_JSON = NULL;
    enum err_kind kind = json_strict_load_file(path, 64 * 1024, &tree, err);
    if (kind == ERR_NOT_FOUND && strcmp(path, SETTINGS_PATH) == 0)
        tree = json_object();
    else if (kind)
        return kind;
    if (settings_parse(tree, out, err))
        return err_prefix(err, "%s", path);
    return ERR_OK;
}

void settings_free(struct settings *s)
{
    if (!s)
        return;
    free(s->containerd);
    free(s->ns);
    free(s->snapshotter);
    free(s->gate_image);
    free(s->data_image);
    free(s->traefik_dir);
    free(s->entry_point);
    free(s->traefik_address);
    json_decref(s->resolvers);
    free(s->route_listen);
    free(s->state_dir);
    free(s->run_dir);
    free(s->cni_bin);
    free(s->logger);
    free(s);
}
