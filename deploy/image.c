/*
 * Looking images up, making them from layers, unpacking them.
 */
#include "deploy/image.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/oci.h"

void image_free(struct image *image)
{
    if (!image)
        return;
    free(image->name);
    free(image->digest);
    json_decref(image->manifest);
    json_decref(image->config);
    free(image);
}

static enum err_kind read_document(struct containerd *cd, const char *digest, json_t **out,
                                   struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len;
    if (containerd_content_read(cd, digest, OCI_DOCUMENT_MAX, &text, &len, err))
        return err->kind;
    return json_strict_load(text, len, OCI_DOCUMENT_MAX, 0, out, err);
}

/* Follows an index (of indexes, two deep) to the manifest. */
static enum err_kind read_manifest(struct containerd *cd, const char *media_type,
                                   const char *digest, json_t **out, struct err *err)
{
    char *type CLEANUP_FREE = xstrdup(media_type);
    char *at CLEANUP_FREE = xstrdup(digest);
    for (int depth = 0; depth < 3; depth++) {
        json_t *document CLEANUP_JSON = NULL;
        struct cd_descriptor next;
        if (read_document(cd, at, &document, err))
            return err->kind;
        if (oci_is_manifest(type)) {
            *out = STEAL(document);
            return ERR_OK;
        }
        if (!oci_is_index(type))
            return err_set(err, ERR_UNSUPPORTED, "image: %s is no image", type);
        if (oci_choose(document, &next, err))
            return err->kind;
        free(type);
        free(at);
        type = xstrdup(next.media_type);
        at = xstrdup(next.digest);
    }
    return err_set(err, ERR_INVALID, "image: indexes nested too deeply");
}

static enum err_kind complete(struct containerd *cd, struct image *image, struct err *err)
{
    struct cd_descriptor config;
    if (oci_check_manifest(image->manifest, NULL, err) ||
        oci_descriptor(json_object_get(image->manifest, "config"), &config, err) ||
        read_document(cd, config.digest, &image->config, err) ||
        oci_check_manifest(image->manifest, image->config, err))
        return err->kind;
    size_t n = json_array_size(json_object_get(image->manifest, "layers"));
    return oci_chain_id(image->config, n, image->chain, err);
}

enum err_kind image_find(struct containerd *cd, const char *ref, struct image **out,
                         struct err *err)
{
    struct cd_image found CLEANUP(cd_image_fini) = { 0 };
    const char *wanted = strchr(ref, '@');
    enum err_kind kind = containerd_image_get(cd, ref, &found, err);
    if (kind == ERR_NOT_FOUND && wanted) {
        char *name CLEANUP_FREE = xstrndup(ref, (size_t)(wanted - ref));
        kind = containerd_image_get(cd, name, &found, err);
    }
    if (kind == ERR_NOT_FOUND)
        return err_set(
            err, kind,
            "image %s is not in containerd: ctr -n utter image pull %s (or: utter-deploy "
            "image import ARCHIVE NAME)",
            ref, ref);
    if (kind)
        return kind;
    if (wanted && strcmp(wanted + 1, found.digest) != 0)
        return err_set(err, ERR_PRECONDITION, "image %s: containerd has it as %s", ref,
                       found.digest);
    struct image *image CLEANUP(image_freep) = xcalloc(1, sizeof(*image));
    image->name = xstrdup(found.name);
    image->digest = xstrdup(found.digest);
    if (read_manifest(cd, found.media_type, found.digest, &image->manifest, err) ||
        complete(cd, image, err))
        return err_prefix(err, "image %s", ref);
    *out = STEAL(image);
    return ERR_OK;
}

static enum err_kind unpack_layer(struct containerd *cd, const struct image *image, size_t i,
                                  const char *parent, const char *chain, struct err *err)
{
    struct cd_descriptor layer;
    bool there = false;
    if (containerd_snapshot_has(cd, chain, &there, err))
        return err->kind;
    if (there)
        return ERR_OK;
    if (oci_descriptor(json_array_get(json_object_get(image->manifest, "layers"), i), &layer, err))
        return err->kind;
    char *key CLEANUP_FREE = xasprintf("utter-unpack-%d-%s", (int)getpid(), chain);
    json_t *mounts CLEANUP_JSON = NULL;
    json_t *labels CLEANUP_JSON = json_pack("{s:s}", "containerd.io/snapshot.ref", chain);
    char *diff CLEANUP_FREE = NULL;
    if (containerd_snapshot_prepare(cd, key, parent, NULL, &mounts, err))
        return err->kind;
    enum err_kind kind = containerd_diff_apply(cd, &layer, mounts, &diff, err);
    const char *wanted =
        json_string_value(json_array_get(json_at(image->config, "/rootfs/diff_ids"), i));
    if (!kind && strcmp(diff, wanted) != 0)
        kind = err_set(err, ERR_INVALID, "layer %zu unpacks to %s, not to %s", i, diff, wanted);
    if (!kind)
        kind = containerd_snapshot_commit(cd, chain, key, labels, err);
    if (!kind)
        return ERR_OK;
    (void)!containerd_snapshot_remove(cd, key, ERR_IGNORED);
    return kind == ERR_EXISTS ? ERR_OK : kind;
}

enum err_kind image_unpack(struct containerd *cd, const struct image *image, struct err *err)
{
    char parent[DIGEST_SIZE] = "", chain[DIGEST_SIZE];
    size_t n = json_array_size(json_object_get(image->manifest, "layers"));
    for (size_t i = 0; i < n; i++) {
        if (oci_chain_id(image->config, i + 1, chain, err) ||
            unpack_layer(cd, image, i, parent, chain, err))
            return err_prefix(err, "unpack %s", image->name);
        memcpy(parent, chain, sizeof(parent));
    }
    return ERR_OK;
}

/* ---- making ---- */

static json_t *make_config(const struct image_recipe *recipe)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < json_array_size(recipe->layers); i++)
        json_array_append(ids, json_object_get(json_array_get(recipe->layers, i), "digest"));
    json_t *run = json_pack("{s:O, s:s}", "Entrypoint", recipe->args, "WorkingDir", recipe->dir);
    if (recipe->env)
        json_object_set_new(run, "Env", json_deep_copy(recipe->env));
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:o}}", "architecture", oci_architecture(), "os",
                     "linux", "config", run, "rootfs", "type", "layers", "diff_ids", ids);
}

static json_t *make_manifest(const struct image_recipe *recipe, const char *config_digest,
                             size_t config_size)
{
    json_t *layers = json_array();
    for (size_t i = 0; i < json_array_size(recipe->layers); i++) {
        const json_t *layer = json_array_get(recipe->layers, i);
        json_array_append_new(layers, json_pack("{s:s, s:O, s:O}", "mediaType", OCI_LAYER, "digest",
                                                json_object_get(layer, "digest"), "size",
                                                json_object_get(layer, "size")));
    }
    return json_pack("{s:i, s:s, s:{s:s, s:s, s:I}, s:o}", "schemaVersion", 2, "mediaType",
                     OCI_MANIFEST, "config", "mediaType", OCI_CONFIG, "digest", config_digest,
                     "size", (json_int_t)config_size, "layers", layers);
}

static enum err_kind put_layers(struct containerd *cd, const json_t *layers, struct err *err)
{
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const json_t *fd = json_object_get(layer, "fd");
        if (!fd)
            continue;
        if (containerd_content_put(cd, json_string_value(json_object_get(layer, "digest")),
                                   (int)json_integer_value(fd),
                                   json_integer_value(json_object_get(layer, "size")), NULL, err))
            return err_prefix(err, "layer");
    }
    return ERR_OK;
}

enum err_kind image_make(struct containerd *cd, const struct image_recipe *recipe,
                         struct image **out, struct err *err)
{
    struct image *image CLEANUP(image_freep) = xcalloc(1, sizeof(*image));
    char config_digest[DIGEST_SIZE], digest[DIGEST_SIZE];
    image->name = xstrdup(recipe->name);
    image->config = make_config(recipe);
    if (oci_chain_id(image->config, json_array_size(recipe->layers), image->chain, err))
        return err->kind;
    char *config CLEANUP_FREE = json_canonical(image->config);
    digest_of(config, strlen(config), config_digest);
    image->manifest = make_manifest(recipe, config_digest, strlen(config));
    char *manifest CLEANUP_FREE = json_canonical(image->manifest);
    digest_of(manifest, strlen(manifest), digest);
    image->digest = xstrdup(digest);
    json_t *config_labels CLEANUP_JSON = oci_config_labels(recipe->snapshotter, image->chain);
    json_t *manifest_labels CLEANUP_JSON = oci_manifest_labels(image->manifest);
    struct cd_descriptor target = { OCI_MANIFEST, digest, (int64_t)strlen(manifest) };
    if (put_layers(cd, recipe->layers, err) ||
        containerd_content_put_bytes(cd, config_digest, config, strlen(config), config_labels,
                                     err) ||
        containerd_content_put_bytes(cd, digest, manifest, strlen(manifest), manifest_labels,
                                     err) ||
        containerd_image_put(cd, recipe->name, &target, recipe->labels, err))
        return err_prefix(err, "image %s", recipe->name);
    *out = STEAL(image);
    return ERR_OK;
}

enum err_kind image_prune(struct containerd *cd, const char *slug, const char *keep,
                          const char *keep_too, struct err *err)
{
    json_t *list CLEANUP_JSON = NULL;
    char *filter CLEANUP_FREE = xasprintf("labels.\"utter/slug\"==\"%s\"", slug);
    if (containerd_image_list(cd, filter, &list, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
        if ((keep && strcmp(name, keep) == 0) || (keep_too && strcmp(name, keep_too) == 0))
            continue;
        if (containerd_image_remove(cd, name, false, err))
            return err->kind;
    }
    return ERR_OK;
}
