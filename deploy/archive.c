/*
 * Importing an OCI archive: a tar that holds an image layout. Read twice: documents first, then the
 * blobs that the chosen image needs, streamed into containerd, which checks each against its
 * digest.
 */
#include <archive.h>
#include <archive_entry.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/image.h"
#include "deploy/oci.h"

#define ENTRIES_MAX 4096
#define DOCUMENTS_MAX (16 * 1024 * 1024)

static void reader_freep(struct archive **a)
{
    if (*a)
        (void)archive_read_free(*a);
}

static enum err_kind open_archive(const char *path, struct archive **out, struct err *err)
{
    struct archive *a CLEANUP(reader_freep) = archive_read_new();
    (void)archive_read_support_filter_gzip(a);
    (void)archive_read_support_filter_zstd(a);
    (void)archive_read_support_format_tar(a);
    if (archive_read_open_filename(a, path, 65536) != ARCHIVE_OK)
        return err_set(err, ERR_INVALID, "%s: %s", path, archive_error_string(a));
    *out = STEAL(a);
    return ERR_OK;
}

/* The next entry's name without "./"; NULL at the end. */
static enum err_kind next_entry(struct archive *a, const char **name, struct archive_entry **entry,
                                struct err *err)
{
    int rc = archive_read_next_header(a, entry);
    *name = NULL;
    if (rc == ARCHIVE_EOF)
        return ERR_OK;
    if (rc != ARCHIVE_OK)
        return err_set(err, ERR_INVALID, "archive: %s", archive_error_string(a));
    const char *found = archive_entry_pathname(*entry);
    if (!found)
        return err_set(err, ERR_INVALID, "archive: an entry without a name");
    *name = text_starts(found, "./") ? found + 2 : found;
    return ERR_OK;
}

static enum err_kind read_text(struct archive *a, int64_t size, char **out, struct err *err)
{
    char *text CLEANUP_FREE = xmalloc((size_t)size + 1);
    if (archive_read_data(a, text, (size_t)size) != (la_ssize_t)size)
        return err_set(err, ERR_INVALID, "archive: cut short");
    text[size] = '\0';
    *out = STEAL(text);
    return ERR_OK;
}

/* index.json and every blob small enough to be a document, as name → base text (bytes kept whole).
 */
static enum err_kind read_documents(const char *path, json_t *documents, struct err *err)
{
    struct archive *a CLEANUP(reader_freep) = NULL;
    struct archive_entry *entry;
    const char *name;
    int64_t total = 0;
    if (open_archive(path, &a, err))
        return err->kind;
    for (unsigned n = 0;; n++) {
        if (next_entry(a, &name, &entry, err))
            return err->kind;
        if (!name)
            return ERR_OK;
        int64_t size = archive_entry_size(entry);
        bool wanted = strcmp(name, "index.json") == 0 || text_starts(name, "blobs/sha256/");
        if (n >= ENTRIES_MAX)
            return err_set(err, ERR_INVALID, "archive: more than %d entries", ENTRIES_MAX);
        if (!wanted || archive_entry_filetype(entry) != AE_IFREG || size > OCI_DOCUMENT_MAX ||
            total + size > DOCUMENTS_MAX)
            continue;
        char *text CLEANUP_FREE = NULL;
        if (read_text(a, size, &text, err))
            return err->kind;
        total += size;
        json_t *document = json_loadb(text, (size_t)size, 0, NULL);
        if (document)
            json_object_set_new(documents, name,
                                json_pack("{s:o, s:s}", "json", document, "text", text));
    }
}

static char *blob_name(const char *digest)
{
    return xasprintf("blobs/sha256/%s", digest + 7);
}

/* A document of the archive by digest, its bytes checked. */
static enum err_kind find_document(const json_t *documents, const struct cd_descriptor *d,
                                   const json_t **json, const char **text, struct err *err)
{
    char *name CLEANUP_FREE = blob_name(d->digest);
    char found[DIGEST_SIZE];
    const json_t *entry = json_object_get(documents, name);
    if (!entry)
        return err_set(err, ERR_INVALID, "archive: %s is missing or no document", d->digest);
    *text = json_string_value(json_object_get(entry, "text"));
    *json = json_object_get(entry, "json");
    digest_of(*text, strlen(*text), found);
    if (strcmp(found, d->digest) != 0 || (int64_t)strlen(*text) != d->size)
        return err_set(err, ERR_INVALID, "archive: %s is not what it is called", d->digest);
    return ERR_OK;
}

static ssize_t read_archive(void *arg, void *out, size_t want)
{
    return archive_read_data(arg, out, want);
}

/* Second pass: the image's layers into containerd. */
static enum err_kind put_blobs(struct containerd *cd, const char *path, const json_t *manifest,
                               struct err *err)
{
    struct archive *a CLEANUP(reader_freep) = NULL;
    struct archive_entry *entry;
    const char *name;
    size_t found = 0;
    const json_t *layers = json_object_get(manifest, "layers");
    if (open_archive(path, &a, err))
        return err->kind;
    for (;;) {
        if (next_entry(a, &name, &entry, err))
            return err->kind;
        if (!name)
            break;
        for (size_t i = 0; i < json_array_size(layers); i++) {
            struct cd_descriptor layer;
            if (oci_descriptor(json_array_get(layers, i), &layer, err))
                return err->kind;
            char *blob CLEANUP_FREE = blob_name(layer.digest);
            if (strcmp(blob, name) != 0)
                continue;
            if (archive_entry_size(entry) != layer.size)
                return err_set(err, ERR_INVALID, "archive: layer %zu is %lld bytes, not %lld", i,
                               (long long)archive_entry_size(entry), (long long)layer.size);
            if (containerd_content_put_from(cd, layer.digest, layer.size, read_archive, a, NULL,
                                            err))
                return err_prefix(err, "archive: layer %zu", i);
            found++;
            break;
        }
    }
    if (found < json_array_size(layers))
        return err_set(err, ERR_INVALID, "archive: a layer is missing");
    return ERR_OK;
}

static enum err_kind choose(const json_t *documents, struct cd_descriptor *out, struct err *err)
{
    const json_t *index = json_at(documents, "/index.json/json");
    if (!index)
        return err_set(err, ERR_INVALID, "archive: no OCI image layout (index.json)");
    if (oci_choose(index, out, err))
        return err->kind;
    for (int depth = 0; oci_is_index(out->media_type); depth++) {
        const json_t *json;
        const char *text;
        if (depth == 2)
            return err_set(err, ERR_INVALID, "archive: indexes nested too deeply");
        if (find_document(documents, out, &json, &text, err) || oci_choose(json, out, err))
            return err->kind;
    }
    return ERR_OK;
}

enum err_kind image_import(struct containerd *cd, const char *archive, const char *name,
                           const char *snapshotter, struct image **out, struct err *err)
{
    json_t *documents CLEANUP_JSON = json_object();
    struct cd_descriptor target, config;
    const json_t *manifest, *config_json;
    const char *manifest_text, *config_text;
    char chain[DIGEST_SIZE];
    if (read_documents(archive, documents, err) || choose(documents, &target, err) ||
        find_document(documents, &target, &manifest, &manifest_text, err) ||
        oci_check_manifest(manifest, NULL, err) ||
        oci_descriptor(json_object_get(manifest, "config"), &config, err) ||
        find_document(documents, &config, &config_json, &config_text, err) ||
        oci_check_manifest(manifest, config_json, err) ||
        oci_chain_id(config_json, json_array_size(json_object_get(manifest, "layers")), chain, err))
        return err_prefix(err, "%s", archive);
    json_t *config_labels CLEANUP_JSON = oci_config_labels(snapshotter, chain);
    json_t *manifest_labels CLEANUP_JSON = oci_manifest_labels(manifest);
    if (put_blobs(cd, archive, manifest, err) ||
        containerd_content_put_bytes(cd, config.digest, config_text, strlen(config_text),
                                     config_labels, err) ||
        containerd_content_put_bytes(cd, target.digest, manifest_text, strlen(manifest_text),
                                     manifest_labels, err) ||
        containerd_image_put(cd, name, &target, NULL, err))
        return err_prefix(err, "%s", archive);
    return image_find(cd, name, out, err);
}
