#include "gate/route.h"

#include <string.h>

#include "base/own.h"

static bool method_in(const struct route *r, const char *method)
{
    for (size_t i = 0; r->methods[i]; i++) {
        if (strcmp(r->methods[i], method) == 0)
            return true;
    }
    return false;
}

/* Segment by segment: "{…}" takes one that is not empty, a last "*" takes what is left. */
static bool pattern_matches(const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        size_t want = strcspn(pattern, "/"), have = strcspn(path, "/");
        if (want == 1 && pattern[0] == '*' && pattern[1] == '\0')
            return true;
        if (want && pattern[0] == '{') {
            if (have == 0)
                return false;
        } else if (want != have || memcmp(pattern, path, want) != 0) {
            return false;
        }
        pattern += want;
        path += have;
    }
    return *pattern == '\0' && *path == '\0';
}

enum route_found route_find(const struct route_set *set, const char *method, const char *path,
                            const struct route **out)
{
    const struct route *other = NULL;
    for (int exact = 1; exact >= 0; exact--) {
        for (size_t i = 0; i < set->n; i++) {
            const struct route *r = &set->routes[i];
            if (r->exact != (exact == 1) ||
                !(r->exact ? strcmp(r->path, path) == 0 : pattern_matches(r->path, path)))
                continue;
            if (method_in(r, method)) {
                *out = r;
                return ROUTE_FOUND;
            }
            other = other ? other : r;
        }
        /* An exact path with other methods shadows wildcards: what it does not sell is not sold. */
        if (other)
            break;
    }
    *out = other;
    return other ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
}

void offer_learn(struct offer *offer, const json_t *kind_extra)
{
    if (!json_is_object(kind_extra))
        return;
    if (!offer->extra)
        offer->extra = json_object();
    json_object_update_missing(offer->extra, (json_t *)(uintptr_t)kind_extra);
    json_object_set(offer->v2, "extra", offer->extra);
    if (offer->v1)
        json_object_set(offer->v1, "extra", offer->extra);
}
