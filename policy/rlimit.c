#include "policy/rlimit.h"

#include <string.h>

#include "base/json.h"
#include "policy/check.h"

bool rlimit_is_ours(const char *type)
{
    return strcmp(type, "RLIMIT_NPROC") == 0 || strcmp(type, "RLIMIT_NOFILE") == 0 ||
           strcmp(type, "RLIMIT_CORE") == 0;
}

bool rlimit_is_unlimited(const json_t *value)
{
    return json_is_real(value) && json_real_value(value) == JSON_UINT64_MAX;
}

int64_t rlimit_value(const json_t *rlimit, const char *key)
{
    return rlimit_is_unlimited(json_object_get(rlimit, key)) ? INT64_MAX
                                                             : member_int(rlimit, key, -1);
}

static json_t *rlimit_new(const char *type, int64_t soft, int64_t hard)
{
    return json_pack("{s:s, s:I, s:I}", "type", type, "soft", (json_int_t)soft, "hard",
                     (json_int_t)hard);
}

static void append_others(json_t *out, const json_t *asked)
{
    for (size_t i = 0; i < json_array_size(asked); i++) {
        json_t *rlimit = json_array_get(asked, i);
        if (!rlimit_is_ours(member_str(rlimit, "type")))
            json_array_append(out, rlimit);
    }
}

json_t *rlimits_for(const json_t *asked, enum policy_role role, const struct policy_limits *limits)
{
    json_t *out = json_array();
    json_array_append_new(out, rlimit_new("RLIMIT_NPROC", limits->pids, limits->pids));
    json_array_append_new(out, rlimit_new("RLIMIT_NOFILE", limits->nofile, limits->nofile));
    json_array_append_new(out, rlimit_new("RLIMIT_CORE", 0, 0));
    if (role == POLICY_ROLE_SINGLE)
        append_others(out, asked);
    return out;
}
