#include "deploy/member.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/strays.h"

enum err_kind member_look(struct containerd *cd, const struct plan *plan,
                          const struct plan_member *member, enum member_state *out, struct err *err)
{
    struct cd_container found CLEANUP(cd_container_fini) = { 0 };
    struct cd_task task;
    *out = MEMBER_ABSENT;
    enum err_kind kind = containerd_container_get(cd, member->id, &found, err);
    if (kind)
        return kind == ERR_NOT_FOUND ? ERR_OK : kind;
    const char *slug = json_string_value(json_object_get(found.labels, "utter/slug"));
    const char *hash = json_string_value(json_object_get(found.labels, "utter/hash"));
    if (!slug || strcmp(slug, plan->slug.s) != 0)
        return err_set(err, ERR_PRECONDITION,
                       "container %s exists and is not ours (no label utter/slug=%s); remove it",
                       member->id, plan->slug.s);
    *out = MEMBER_STOPPED;
    kind = containerd_task_get(cd, member->id, &task, err);
    if (kind)
        return kind == ERR_NOT_FOUND ? ERR_OK : kind;
    if (task.state == CD_TASK_RUNNING)
        *out =
            hash && strcmp(hash, member->hash) == 0 && strcmp(found.runtime, member->runtime) == 0
                ? MEMBER_RUNNING
                : MEMBER_OTHER;
    return ERR_OK;
}

static enum err_kind make(struct containerd *cd, const struct plan *plan,
                          const struct plan_member *member, const struct image *image,
                          const char *role, const json_t *spec, struct err *err)
{
    json_t *mounts CLEANUP_JSON = NULL;
    json_t *labels CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:s}", "utter/slug", plan->slug.s, "utter/role", role,
                  "utter/hash", member->hash, "traefik.enable", "false");
    json_t *snapshot_labels CLEANUP_JSON = json_pack("{s:s}", "utter/slug", plan->slug.s);
    struct cd_container container = { .id = (char *)(uintptr_t)member->id,
                                      .image = member->image,
                                      .runtime = (char *)(uintptr_t)member->runtime,
                                      .snapshot_key = (char *)(uintptr_t)member->id,
                                      .labels = labels,
                                      .spec = (json_t *)(uintptr_t)(spec ? spec : member->spec) };
    if (containerd_snapshot_prepare(cd, member->id, image->chain, snapshot_labels, &mounts, err) ||
        containerd_container_create(cd, &container, err))
        return err->kind;
    if (containerd_task_create(cd, member->id, mounts, plan->log_uri, NULL, err) ||
        containerd_task_start(cd, member->id, err))
        return err->kind;
    return ERR_OK;
}

enum err_kind member_start(struct containerd *cd, const struct plan *plan,
                           const struct plan_member *member, const char *role, const json_t *spec,
                           struct err *err)
{
    struct image *image CLEANUP(image_freep) = NULL;
    if (member_end(cd, member->id, 0, err) || image_find(cd, member->image, &image, err) ||
        image_unpack(cd, image, err))
        return err_prefix(err, "%s", member->id);
    if (make(cd, plan, member, image, role, spec, err) == ERR_OK)
        return ERR_OK;
    (void)!member_end(cd, member->id, 0, ERR_IGNORED);
    return err_prefix(err, "%s", member->id);
}

enum err_kind member_end(struct containerd *cd, const char *id, int grace_ms, struct err *err)
{
    if (containerd_task_end(cd, id, grace_ms, err) || containerd_container_remove(cd, id, err) ||
        strays_end(containerd_address(cd), containerd_namespace(cd), id, err) ||
        containerd_snapshot_remove(cd, id, err))
        return err_prefix(err, "remove %s", id);
    return ERR_OK;
}

enum err_kind member_list(struct containerd *cd, const struct slug *slug, json_t **out,
                          struct err *err)
{
    char *filter CLEANUP_FREE = xasprintf("labels.\"utter/slug\"==\"%s\"", slug->s);
    json_t *list CLEANUP_JSON = NULL;
    if (containerd_container_list(cd, filter, &list, err))
        return err->kind;
    *out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append(*out, json_object_get(json_array_get(list, i), "id"));
    return ERR_OK;
}
