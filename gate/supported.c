/* What a facilitator says in /supported, held against what the routes sell for. */
#include "gate/supported.h"

#include <string.h>

#include "gate/challenge.h"

static bool kind_matches(const json_t *kind, const struct offer *offer)
{
    const char *scheme = json_string_value(json_object_get(kind, "scheme"));
    const char *network = json_string_value(json_object_get(kind, "network"));
    bool v1 = json_integer_value(json_object_get(kind, "x402Version")) == 1;
    const char *want = v1 ? offer->v1_network : offer->network;
    return scheme && network && want && strcmp(scheme, offer->scheme) == 0 &&
           strcmp(network, want) == 0;
}

const json_t *supported_kind(const json_t *kinds, const struct offer *offer)
{
    const json_t *found = NULL;
    size_t i;
    json_t *kind;
    json_array_foreach(kinds, i, kind)
    {
        if (!kind_matches(kind, offer))
            continue;
        if (json_integer_value(json_object_get(kind, "x402Version")) == 2)
            return kind;
        found = kind;
    }
    return found;
}

enum err_kind supported_learn(struct gate_config *config, const json_t *supported, struct err *err)
{
    const json_t *kinds = json_object_get(supported, "kinds");
    for (size_t i = 0; i < config->routes.n; i++) {
        struct route *route = &config->routes.routes[i];
        for (size_t k = 0; k < route->offer_n; k++) {
            const json_t *kind = supported_kind(kinds, &route->offers[k]);
            if (!kind)
                return err_set(err, ERR_UNSUPPORTED,
                               "the facilitator %s does not take scheme %s on %s, which route %s "
                               "sells for",
                               config->facilitator.url, route->offers[k].scheme,
                               route->offers[k].network, route->path);
            offer_learn(&route->offers[k], json_object_get(kind, "extra"));
        }
        if (route->offer_n && challenge_rebuild(route, config->origin, NULL, err))
            return err->kind;
    }
    return ERR_OK;
}
