/*
 * containerd's images, snapshots and diffs.
 */
#include <string.h>

#include "deploy/containerd.h"
#include "deploy/containerd_wire.h"

#define IMAGES "/containerd.services.images.v1.Images/"
#define SNAPSHOTS "/containerd.services.snapshots.v1.Snapshots/"

void cd_image_fini(struct cd_image *image)
{
    free(image->name);
    free(image->media_type);
    free(image->digest);
    json_decref(image->labels);
    *image = (struct cd_image){ 0 };
}

enum err_kind containerd_image_get(struct containerd *cd, const char *name, struct cd_image *out,
                                   struct err *err)
{
    Utter__Cd__ImageGet request = UTTER__CD__IMAGE_GET__INIT;
    request.name = cd_str(name);
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, IMAGES "Get", &request.base, &utter__cd__image_message__descriptor,
                &raw, err))
        return err->kind;
    const Utter__Cd__Image *image = ((Utter__Cd__ImageMessage *)raw)->image;
    if (!image || !image->target)
        return err_set(err, ERR_INTERNAL, "containerd: image %s has no target", name);
    *out = (struct cd_image){ .name = xstrdup(image->name),
                              .media_type = xstrdup(image->target->media_type),
                              .digest = xstrdup(image->target->digest),
                              .size = image->target->size,
                              .labels = cd_pairs_json(image->n_labels, image->labels) };
    return ERR_OK;
}

enum err_kind containerd_image_put(struct containerd *cd, const char *name,
                                   const struct cd_descriptor *target, const json_t *labels,
                                   struct err *err)
{
    struct cd_pairs pairs CLEANUP(cd_pairs_fini) = cd_pairs_make(labels);
    Utter__Cd__Descriptor descriptor = UTTER__CD__DESCRIPTOR__INIT;
    descriptor.media_type = cd_str(target->media_type);
    descriptor.digest = cd_str(target->digest);
    descriptor.size = target->size;
    Utter__Cd__Image image = UTTER__CD__IMAGE__INIT;
    image.name = cd_str(name);
    image.target = &descriptor;
    image.n_labels = pairs.n;
    image.labels = pairs.list;
    Utter__Cd__ImageMessage request = UTTER__CD__IMAGE_MESSAGE__INIT;
    request.image = &image;
    enum err_kind kind = cd_call(cd, CD_CALL_MS, IMAGES "Create", &request.base, NULL, NULL, err);
    if (kind != ERR_EXISTS)
        return kind;
    return cd_call(cd, CD_CALL_MS, IMAGES "Update", &request.base, NULL, NULL, err);
}

enum err_kind containerd_image_list(struct containerd *cd, const char *filter, json_t **out,
                                    struct err *err)
{
    Utter__Cd__ImageList request = UTTER__CD__IMAGE_LIST__INIT;
    char *filters[1] = { cd_str(filter) };
    request.n_filters = filter ? 1 : 0;
    request.filters = filters;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, IMAGES "List", &request.base, &utter__cd__image_listed__descriptor,
                &raw, err))
        return err->kind;
    const Utter__Cd__ImageListed *answer = (Utter__Cd__ImageListed *)raw;
    *out = json_array();
    for (size_t i = 0; i < answer->n_images; i++) {
        const Utter__Cd__Image *image = answer->images[i];
        json_array_append_new(*out, json_pack("{s:s, s:s, s:o}", "name", image->name, "digest",
                                              image->target ? image->target->digest : "", "labels",
                                              cd_pairs_json(image->n_labels, image->labels)));
    }
    return ERR_OK;
}

enum err_kind containerd_image_remove(struct containerd *cd, const char *name, bool sync,
                                      struct err *err)
{
    Utter__Cd__ImageDelete request = UTTER__CD__IMAGE_DELETE__INIT;
    request.name = cd_str(name);
    request.sync = sync;
    enum err_kind kind = cd_call(cd, CD_LONG_MS, IMAGES "Delete", &request.base, NULL, NULL, err);
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

/* Stat, Mounts and Remove take the same request. */
static enum err_kind snapshot_call(struct containerd *cd, const char *method, const char *key,
                                   const ProtobufCMessageDescriptor *type, ProtobufCMessage **raw,
                                   struct err *err)
{
    Utter__Cd__SnapshotKey request = UTTER__CD__SNAPSHOT_KEY__INIT;
    request.snapshotter = cd->snapshotter;
    request.key = cd_str(key);
    return cd_call(cd, CD_CALL_MS, method, &request.base, type, raw, err);
}

enum err_kind containerd_snapshot_has(struct containerd *cd, const char *key, bool *out,
                                      struct err *err)
{
    enum err_kind kind = snapshot_call(cd, SNAPSHOTS "Stat", key, NULL, NULL, err);
    *out = kind == ERR_OK;
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

static enum err_kind snapshot_make(struct containerd *cd, const char *method, const char *key,
                                   const char *parent, const json_t *labels, json_t **mounts,
                                   struct err *err)
{
    struct cd_pairs pairs CLEANUP(cd_pairs_fini) = cd_pairs_make(labels);
    Utter__Cd__SnapshotPrepare request = UTTER__CD__SNAPSHOT_PREPARE__INIT;
    request.snapshotter = cd->snapshotter;
    request.key = cd_str(key);
    request.parent = cd_str(parent);
    request.n_labels = pairs.n;
    request.labels = pairs.list;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, method, &request.base, &utter__cd__snapshot_mounts__descriptor,
                &raw, err))
        return err->kind;
    const Utter__Cd__SnapshotMounts *answer = (Utter__Cd__SnapshotMounts *)raw;
    *mounts = cd_mounts_json(answer->n_mounts, answer->mounts);
    return ERR_OK;
}

enum err_kind containerd_snapshot_prepare(struct containerd *cd, const char *key,
                                          const char *parent, const json_t *labels, json_t **mounts,
                                          struct err *err)
{
    return snapshot_make(cd, SNAPSHOTS "Prepare", key, parent, labels, mounts, err);
}

enum err_kind containerd_snapshot_view(struct containerd *cd, const char *key, const char *parent,
                                       const json_t *labels, json_t **mounts, struct err *err)
{
    return snapshot_make(cd, SNAPSHOTS "View", key, parent, labels, mounts, err);
}

enum err_kind containerd_snapshot_mounts(struct containerd *cd, const char *key, json_t **mounts,
                                         struct err *err)
{
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (snapshot_call(cd, SNAPSHOTS "Mounts", key, &utter__cd__snapshot_mounts__descriptor, &raw,
                      err))
        return err->kind;
    const Utter__Cd__SnapshotMounts *answer = (Utter__Cd__SnapshotMounts *)raw;
    *mounts = cd_mounts_json(answer->n_mounts, answer->mounts);
    return ERR_OK;
}

enum err_kind containerd_snapshot_commit(struct containerd *cd, const char *name, const char *key,
                                         const json_t *labels, struct err *err)
{
    struct cd_pairs pairs CLEANUP(cd_pairs_fini) = cd_pairs_make(labels);
    Utter__Cd__SnapshotCommit request = UTTER__CD__SNAPSHOT_COMMIT__INIT;
    request.snapshotter = cd->snapshotter;
    request.name = cd_str(name);
    request.key = cd_str(key);
    request.n_labels = pairs.n;
    request.labels = pairs.list;
    return cd_call(cd, CD_CALL_MS, SNAPSHOTS "Commit", &request.base, NULL, NULL, err);
}

enum err_kind containerd_snapshot_remove(struct containerd *cd, const char *key, struct err *err)
{
    enum err_kind kind = snapshot_call(cd, SNAPSHOTS "Remove", key, NULL, NULL, err);
    return kind == ERR_NOT_FOUND ? ERR_OK : kind;
}

enum err_kind containerd_snapshot_list(struct containerd *cd, json_t **out, struct err *err)
{
    struct rpc_context ctx = cd_context(cd, CD_CALL_MS);
    struct rpc_stream *stream CLEANUP(rpc_stream_freep) = NULL;
    Utter__Cd__SnapshotList request = UTTER__CD__SNAPSHOT_LIST__INIT;
    request.snapshotter = cd->snapshotter;
    if (rpc_stream_open(cd->rpc, &ctx, SNAPSHOTS "List", &stream, err) ||
        rpc_stream_send(stream, &request.base, err) || rpc_stream_half_close(stream, err))
        return err->kind;
    json_t *list CLEANUP_JSON = json_array();
    for (;;) {
        ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
        if (rpc_stream_recv(stream, -1, &utter__cd__snapshot_listed__descriptor, &raw, err))
            return err->kind;
        if (!raw)
            break;
        const Utter__Cd__SnapshotListed *some = (Utter__Cd__SnapshotListed *)raw;
        for (size_t i = 0; i < some->n_info; i++)
            json_array_append_new(list, json_string(some->info[i]->name));
    }
    *out = STEAL(list);
    return ERR_OK;
}

enum err_kind containerd_diff_apply(struct containerd *cd, const struct cd_descriptor *layer,
                                    const json_t *mounts, char **diff_id, struct err *err)
{
    struct cd_mounts list CLEANUP(cd_mounts_fini) = cd_mounts_make(mounts);
    Utter__Cd__Descriptor descriptor = UTTER__CD__DESCRIPTOR__INIT;
    descriptor.media_type = cd_str(layer->media_type);
    descriptor.digest = cd_str(layer->digest);
    descriptor.size = layer->size;
    Utter__Cd__DiffApply request = UTTER__CD__DIFF_APPLY__INIT;
    request.diff = &descriptor;
    request.n_mounts = list.n;
    request.mounts = list.list;
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_LONG_MS, "/containerd.services.diff.v1.Diff/Apply", &request.base,
                &utter__cd__diff_applied__descriptor, &raw, err))
        return err->kind;
    const Utter__Cd__Descriptor *applied = ((Utter__Cd__DiffApplied *)raw)->applied;
    *diff_id = xstrdup(applied ? applied->digest : "");
    return ERR_OK;
}
