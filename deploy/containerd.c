/*
 * The client itself, and containerd's small services: version, introspection, namespaces, leases.
 */
#include "deploy/containerd.h"

#include <string.h>

#include "deploy/containerd_wire.h"

enum err_kind containerd_open(const char *address, const char *ns, const char *snapshotter,
                              struct containerd **out, struct err *err)
{
    struct containerd *cd CLEANUP(containerd_freep) = xcalloc(1, sizeof(*cd));
    if (rpc_open(address, &cd->rpc, err))
        return err->kind;
    cd->address = xstrdup(address);
    cd->ns = xstrdup(ns);
    cd->snapshotter = xstrdup(snapshotter);
    *out = STEAL(cd);
    return ERR_OK;
}

void containerd_free(struct containerd *cd)
{
    if (!cd)
        return;
    rpc_free(cd->rpc);
    free(cd->address);
    free(cd->ns);
    free(cd->snapshotter);
    free(cd->lease);
    free(cd);
}

const char *containerd_address(const struct containerd *cd)
{
    return cd->address;
}

const char *containerd_namespace(const struct containerd *cd)
{
    return cd->ns;
}

struct rpc_context cd_context(const struct containerd *cd, int ms)
{
    return (struct rpc_context){ .ns = cd->ns, .lease = cd->lease, .timeout_ms = ms };
}

enum err_kind cd_call(struct containerd *cd, int ms, const char *method,
                      const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
                      ProtobufCMessage **answer, struct err *err)
{
    struct rpc_context ctx = cd_context(cd, ms);
    return rpc_call(cd->rpc, &ctx, method, request, type, answer, err);
}

struct cd_pairs cd_pairs_make(const json_t *object)
{
    struct cd_pairs pairs = { .n = 0, .list = NULL };
    if (!json_is_object(object) || json_object_size(object) == 0)
        return pairs;
    pairs.list = xcalloc(json_object_size(object), sizeof(*pairs.list));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        Utter__Cd__Pair *pair = xmalloc(sizeof(*pair));
        utter__cd__pair__init(pair);
        pair->key = cd_str(key);
        pair->value = cd_str(json_string_value(value));
        pairs.list[pairs.n++] = pair;
    }
    return pairs;
}

void cd_pairs_fini(struct cd_pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++)
        free(pairs->list[i]);
    free(pairs->list);
    *pairs = (struct cd_pairs){ 0 };
}

json_t *cd_pairs_json(size_t n, Utter__Cd__Pair *const *pairs)
{
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++)
        json_object_set_new(object, pairs[i]->key, json_string(pairs[i]->value));
    return object;
}

struct cd_mounts cd_mounts_make(const json_t *array)
{
    struct cd_mounts mounts = { .n = 0, .list = NULL };
    if (json_array_size(array) == 0)
        return mounts;
    mounts.list = xcalloc(json_array_size(array), sizeof(*mounts.list));
    size_t i;
    json_t *value;
    json_array_foreach(array, i, value)
    {
        const json_t *options = json_object_get(value, "options");
        Utter__Cd__Mount *mount = xmalloc(sizeof(*mount));
        utter__cd__mount__init(mount);
        mount->type = cd_str(json_string_value(json_object_get(value, "type")));
        mount->source = cd_str(json_string_value(json_object_get(value, "source")));
        mount->n_options = json_array_size(options);
        mount->options = xcalloc(mount->n_options + 1, sizeof(char *));
        for (size_t o = 0; o < mount->n_options; o++)
            mount->options[o] = cd_str(json_string_value(json_array_get(options, o)));
        mounts.list[mounts.n++] = mount;
    }
    return mounts;
}

void cd_mounts_fini(struct cd_mounts *mounts)
{
    for (size_t i = 0; i < mounts->n; i++) {
        free(mounts->list[i]->options);
        free(mounts->list[i]);
    }
    free(mounts->list);
    *mounts = (struct cd_mounts){ 0 };
}

json_t *cd_mounts_json(size_t n, Utter__Cd__Mount *const *mounts)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *options = json_array();
        for (size_t o = 0; o < mounts[i]->n_options; o++)
            json_array_append_new(options, json_string(mounts[i]->options[o]));
        json_array_append_new(array, json_pack("{s:s, s:s, s:o}", "type", mounts[i]->type, "source",
                                               mounts[i]->source, "options", options));
    }
    return array;
}

enum err_kind containerd_version(struct containerd *cd, char **out, struct err *err)
{
    Utter__Cd__Empty request = UTTER__CD__EMPTY__INIT;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, 5000, "/containerd.services.version.v1.Version/Version", &request.base,
                &utter__cd__version_response__descriptor, &raw, err))
        return err->kind;
    *out = xstrdup(((Utter__Cd__VersionResponse *)raw)->version);
    return ERR_OK;
}

enum err_kind containerd_plugins(struct containerd *cd, json_t **out, struct err *err)
{
    Utter__Cd__PluginsRequest request = UTTER__CD__PLUGINS_REQUEST__INIT;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, "/containerd.services.introspection.v1.Introspection/Plugins",
                &request.base, &utter__cd__plugins_response__descriptor, &raw, err))
        return err->kind;
    const Utter__Cd__PluginsResponse *answer = (Utter__Cd__PluginsResponse *)raw;
    json_t *list = json_array();
    for (size_t i = 0; i < answer->n_plugins; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "type", answer->plugins[i]->type,
                                              "id", answer->plugins[i]->id, "ok",
                                              answer->plugins[i]->init_err == NULL));
    *out = list;
    return ERR_OK;
}

enum err_kind containerd_namespace_ensure(struct containerd *cd, struct err *err)
{
    Utter__Cd__Namespace ns = UTTER__CD__NAMESPACE__INIT;
    ns.name = cd->ns;
    Utter__Cd__NamespaceMessage request = UTTER__CD__NAMESPACE_MESSAGE__INIT;
    request.ns = &ns;
    enum err_kind kind =
        cd_call(cd, CD_CALL_MS, "/containerd.services.namespaces.v1.Namespaces/Create",
                &request.base, NULL, NULL, err);
    return kind == ERR_EXISTS ? ERR_OK : kind;
}

enum err_kind containerd_namespace_remove(struct containerd *cd, struct err *err)
{
    Utter__Cd__NamespaceRequest request = UTTER__CD__NAMESPACE_REQUEST__INIT;
    request.name = cd->ns;
    enum err_kind kind =
        cd_call(cd, CD_CALL_MS, "/containerd.services.namespaces.v1.Namespaces/Delete",
                &request.base, NULL, NULL, err);
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

static json_t *expiry_label(int seconds)
{
    char stamp[40];
    time_t at = time(NULL) + seconds;
    struct tm utc;
    gmtime_r(&at, &utc);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s}", "containerd.io/gc.expire", stamp);
}

enum err_kind containerd_lease(struct containerd *cd, const char *id, int expire_seconds,
                               struct err *err)
{
    json_t *labels CLEANUP_JSON = expiry_label(expire_seconds);
    struct cd_pairs pairs CLEANUP(cd_pairs_fini) = cd_pairs_make(labels);
    Utter__Cd__LeaseCreate request = UTTER__CD__LEASE_CREATE__INIT;
    request.id = cd_str(id);
    request.n_labels = pairs.n;
    request.labels = pairs.list;
    enum err_kind kind = cd_call(cd, CD_CALL_MS, "/containerd.services.leases.v1.Leases/Create",
                                 &request.base, NULL, NULL, err);
    if (kind && kind != ERR_EXISTS)
        return kind;
    free(cd->lease);
    cd->lease = xstrdup(id);
    return ERR_OK;
}

enum err_kind containerd_lease_drop(struct containerd *cd, const char *id, bool sync,
                                    struct err *err)
{
    Utter__Cd__LeaseDelete request = UTTER__CD__LEASE_DELETE__INIT;
    request.id = cd_str(id);
    request.sync = sync;
    if (cd->lease && strcmp(cd->lease, id) == 0) {
        free(cd->lease);
        cd->lease = NULL;
    }
    enum err_kind kind = cd_call(cd, CD_LONG_MS, "/containerd.services.leases.v1.Leases/Delete",
                                 &request.base, NULL, NULL, err);
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

enum err_kind containerd_lease_list(struct containerd *cd, json_t **out, struct err *err)
{
    Utter__Cd__LeaseList request = UTTER__CD__LEASE_LIST__INIT;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, "/containerd.services.leases.v1.Leases/List", &request.base,
                &utter__cd__lease_listed__descriptor, &raw, err))
        return err->kind;
    const Utter__Cd__LeaseListed *answer = (Utter__Cd__LeaseListed *)raw;
    *out = json_array();
    for (size_t i = 0; i < answer->n_leases; i++)
        json_array_append_new(*out, json_string(answer->leases[i]->id));
    return ERR_OK;
}
