#include "deploy/claims_store.h"

#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "deploy/state.h"

enum err_kind claims_forget(const struct settings *settings, const struct plan *plan,
                            struct err *err)
{
    json_t *slugs CLEANUP_JSON = NULL;
    if (!plan->claims)
        return ERR_OK;
    if (state_slugs(settings, &slugs, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(slugs); i++) {
        json_t *record CLEANUP_JSON = NULL;
        if (state_load(settings, json_string_value(json_array_get(slugs, i)), &record, err))
            return err->kind;
        const char *claims = json_string_value(json_object_get(record, "claims"));
        if (claims && strcmp(claims, plan->claims) == 0)
            return ERR_OK;
    }
    if (fs_remove_tree(plan->claims, err))
        return err->kind;
    return state_claims_drop(settings, plan->pay, err);
}
