#include "deploy/upstreams.h"

#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "deploy/place.h"

void upstreams_fini(struct upstreams *upstreams)
{
    json_decref(upstreams->list);
    for (size_t i = 0; i < upstreams->n_secrets; i++)
        free(upstreams->secret[i].source);
    *upstreams = (struct upstreams){ 0 };
}

json_t *upstreams_names(const struct upstreams *upstreams)
{
    json_t *names = json_array();
    for (size_t i = 0; i < upstreams->n; i++)
        json_array_append(names, json_object_get(json_array_get(upstreams->list, i), "name"));
    return names;
}

/* The only object in "inject" that can name a file, or NULL. */
static json_t *injection(const json_t *upstream)
{
    json_t *inject = json_object_get(upstream, "inject");
    return json_object_iter_value(json_object_iter(inject));
}

/* The operator's file becomes one of the proxy's tmpfs, of the upstream's name. */
static CHECKED enum err_kind move_secret(struct upstreams *out, json_t *upstream,
                                         const char *directory, struct err *err)
{
    json_t *form = injection(upstream);
    const char *file = json_string_value(json_object_get(form, "file"));
    const char *name = json_string_value(json_object_get(upstream, "name"));
    struct upstream_secret *secret = &out->secret[out->n_secrets];
    if (!form)
        return ERR_OK;
    if (!file || !name || strlen(name) >= sizeof(secret->name))
        return err_set(err, ERR_INVALID, "\"inject\" needs a \"file\"");
    if (place_put(directory, "inject.file", file, "/etc/utter/", &secret->source, err))
        return err->kind;
    out->n_secrets++;
    memcpy(secret->name, name, strlen(name) + 1);
    json_object_set_new(form, "file", json_sprintf(UPSTREAMS_SECRETS "/%s", name));
    return ERR_OK;
}

static CHECKED enum err_kind read_one(struct upstreams *out, const json_t *object,
                                      const char *directory, struct err *err)
{
    json_t *copy CLEANUP_JSON = json_deep_copy(object);
    struct upstream parsed CLEANUP(upstream_fini) = { 0 };
    const char *name = json_string_value(json_object_get(object, "name"));
    if (!name || !data_name_valid(name, DATA_UPSTREAM_MAX))
        return err_set(err, ERR_INVALID, "\"name\" must be 1 to %d of a-z, 0-9, inner - and _",
                       DATA_UPSTREAM_MAX);
    for (size_t i = 0; i < out->n; i++) {
        const json_t *other = json_object_get(json_array_get(out->list, i), "name");
        if (strcmp(json_string_value(other), name) == 0)
            return err_set(err, ERR_INVALID, "\"%s\" is declared twice", name);
    }
    if (move_secret(out, copy, directory, err))
        return err_prefix(err, "\"%s\"", name);
    if (upstream_read(copy, &parsed, err))
        return err->kind;
    json_array_append(out->list, copy);
    out->n++;
    return ERR_OK;
}

static bool declared(const struct upstreams *upstreams, const char *name)
{
    for (size_t i = 0; i < upstreams->n; i++) {
        const json_t *known = json_object_get(json_array_get(upstreams->list, i), "name");
        if (strcmp(json_string_value(known), name) == 0)
            return true;
    }
    return false;
}

static CHECKED enum err_kind check_routes(const json_t *tree, const struct upstreams *upstreams,
                                          struct err *err)
{
    const json_t *routes = json_object_get(tree, "routes");
    for (size_t i = 0; i < json_array_size(routes); i++) {
        const json_t *names = json_object_get(json_array_get(routes, i), "upstreams");
        for (size_t k = 0; k < json_array_size(names); k++) {
            const char *name = json_string_value(json_array_get(names, k));
            if (!declared(upstreams, name))
                return err_set(err, ERR_INVALID, "routes.%zu.upstreams: \"%s\" is not declared", i,
                               name);
        }
    }
    return ERR_OK;
}

enum err_kind upstreams_read(const json_t *tree, const char *directory, struct upstreams *out,
                             struct err *err)
{
    const json_t *list = json_object_get(tree, "upstreams");
    if (list)
        out->list = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_one(out, json_array_get(list, i), directory, err))
            return err_prefix(err, "upstreams.%zu", i);
    }
    return check_routes(tree, out, err);
}
