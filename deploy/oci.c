#include "deploy/oci.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

const char *oci_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
#error "unknown machine"
#endif
}

bool oci_is_index(const char *t)
{
    return strcmp(t, OCI_INDEX) == 0 ||
           strcmp(t, "application/vnd.docker.distribution.manifest.list.v2+json") == 0;
}

bool oci_is_manifest(const char *t)
{
    return strcmp(t, OCI_MANIFEST) == 0 ||
           strcmp(t, "application/vnd.docker.distribution.manifest.v2+json") == 0;
}

bool oci_is_layer(const char *t)
{
    return strcmp(t, OCI_LAYER) == 0 || strcmp(t, OCI_LAYER "+gzip") == 0 ||
           strcmp(t, OCI_LAYER "+zstd") == 0 ||
           strcmp(t, "application/vnd.docker.image.rootfs.diff.tar.gzip") == 0;
}

enum err_kind oci_descriptor(const json_t *value, struct cd_descriptor *out, struct err *err)
{
    int64_t size = 0;
    if (!json_is_object(value))
        return err_set(err, ERR_INVALID, "image: a descriptor is missing");
    if (json_get_string(value, "mediaType", true, &out->media_type, err) ||
        json_get_string(value, "digest", true, &out->digest, err) ||
        json_get_int(value, "size", true, 0, OCI_LAYER_BYTES_MAX, &size, err))
        return err_prefix(err, "image");
    if (!digest_valid(out->digest))
        return err_set(err, ERR_INVALID, "image: a digest is not sha256:<64 hex digits>");
    out->size = size;
    return ERR_OK;
}

static bool for_this_machine(const json_t *entry)
{
    const json_t *platform = json_object_get(entry, "platform");
    const char *os = json_string_value(json_object_get(platform, "os"));
    const char *arch = json_string_value(json_object_get(platform, "architecture"));
    return !platform ||
           (os && arch && strcmp(os, "linux") == 0 && strcmp(arch, oci_architecture()) == 0);
}

enum err_kind oci_choose(const json_t *index, struct cd_descriptor *out, struct err *err)
{
    const json_t *list = json_object_get(index, "manifests");
    const json_t *found = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(entry, "mediaType"));
        if (!type || !(oci_is_manifest(type) || oci_is_index(type)) || !for_this_machine(entry))
            continue;
        if (found)
            return err_set(err, ERR_INVALID,
                           "image: the index holds two images for linux/%s; name one by digest",
                           oci_architecture());
        found = entry;
    }
    if (!found)
        return err_set(err, ERR_INVALID, "image: the index holds none for linux/%s",
                       oci_architecture());
    return oci_descriptor(found, out, err);
}

enum err_kind oci_check_manifest(const json_t *manifest, const json_t *config, struct err *err)
{
    struct cd_descriptor part;
    const json_t *layers = json_object_get(manifest, "layers");
    if (oci_descriptor(json_object_get(manifest, "config"), &part, err))
        return err->kind;
    if (part.size > OCI_DOCUMENT_MAX)
        return err_set(err, ERR_INVALID, "image: its configuration is larger than 4 MiB");
    size_t n = json_array_size(layers);
    if (n == 0 || n > OCI_LAYERS_MAX)
        return err_set(err, ERR_INVALID, "image: %zu layers (1 to %d)", n, OCI_LAYERS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (oci_descriptor(json_array_get(layers, i), &part, err))
            return err->kind;
        if (!oci_is_layer(part.media_type))
            return err_set(err, ERR_UNSUPPORTED,
                           "image: layer %zu has a media type that is no layer", i);
    }
    const json_t *ids = json_at(config, "/rootfs/diff_ids");
    if (config && json_array_size(ids) != n)
        return err_set(err, ERR_INVALID, "image: %zu layers, but %zu diff ids", n,
                       json_array_size(ids));
    const char *arch = config ? json_string_value(json_object_get(config, "architecture")) : NULL;
    if (config && (!arch || strcmp(arch, oci_architecture()) != 0))
        return err_set(err, ERR_INVALID, "image: made for %s, this machine is %s",
                       arch ? arch : "no architecture", oci_architecture());
    return ERR_OK;
}

enum err_kind oci_chain_id(const json_t *config, size_t n, char out[DIGEST_SIZE], struct err *err)
{
    const json_t *ids = json_at(config, "/rootfs/diff_ids");
    if (n == 0 || n > json_array_size(ids))
        return err_set(err, ERR_INVALID, "image: its configuration has no diff id %zu", n);
    for (size_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (!digest_valid(id))
            return err_set(err, ERR_INVALID, "image: diff id %zu is no digest", i);
        if (i == 0) {
            memcpy(out, id, DIGEST_SIZE);
            continue;
        }
        char both[2 * DIGEST_SIZE];
        (void)snprintf(both, sizeof(both), "%s %s", out, id);
        digest_of(both, strlen(both), out);
    }
    return ERR_OK;
}

json_t *oci_manifest_labels(const json_t *manifest)
{
    const json_t *layers = json_object_get(manifest, "layers");
    json_t *labels = json_object();
    json_object_set(labels, "containerd.io/gc.ref.content.config",
                    json_object_get(json_object_get(manifest, "config"), "digest"));
    for (size_t i = 0; i < json_array_size(layers); i++) {
        char key[64];
        (void)snprintf(key, sizeof(key), "containerd.io/gc.ref.content.l.%zu", i);
        json_object_set(labels, key, json_object_get(json_array_get(layers, i), "digest"));
    }
    return labels;
}

json_t *oci_config_labels(const char *snapshotter, const char *chain_id)
{
    char key[120];
    (void)snprintf(key, sizeof(key), "containerd.io/gc.ref.snapshot.%s", snapshotter);
    return json_pack("{s:s}", key, chain_id);
}
