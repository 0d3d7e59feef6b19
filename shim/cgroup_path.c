/* cgroupsPath to a path in the hierarchies. Pure; declared in shim/cgroup.h. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "shim/cgroup.h"

static enum err_kind bad(const char *path, const char *why, struct err *err)
{
    char safe[200];
    return err_set(err, ERR_INVALID, "cgroup path \"%s\": %s", text_safe(path, safe, sizeof(safe)),
                   why);
}

static enum err_kind parse_plain(const char *text, struct cgroup_path *out, struct err *err)
{
    size_t len = strlen(text);
    if (len < 2 || len >= sizeof(out->path))
        return bad(text, "empty or too long", err);
    for (const char *p = text; *p; p += 1 + strcspn(p + 1, "/")) {
        size_t n = strcspn(p + 1, "/");
        if (n == 0 || (n == 1 && p[1] == '.') || (n == 2 && p[1] == '.' && p[2] == '.') || n > 255)
            return bad(text, "empty, \".\", \"..\" or too long a part", err);
    }
    memcpy(out->path, text, len + 1);
    return ERR_OK;
}

/* "a-b.slice" is the directory /a.slice/a-b.slice. */
static bool expand_slice(const char *slice, char *out, size_t size)
{
    size_t stem = strlen(slice) - strlen(".slice");
    size_t used = 0;
    if (stem == 0 || slice[0] == '-' || slice[stem - 1] == '-')
        return false;
    for (size_t i = 1; i <= stem; i++) {
        if (i != stem && slice[i] != '-')
            continue;
        if (slice[i - 1] == '-')
            return false;
        int n = snprintf(out + used, size - used, "/%.*s.slice", (int)i, slice);
        if (n < 0 || (size_t)n >= size - used)
            return false;
        used += (size_t)n;
    }
    return true;
}

/* slice:prefix:name, as runc and runsc take it with a systemd cgroup driver. */
static enum err_kind parse_systemd(const char *text, struct cgroup_path *out, struct err *err)
{
    const char *first = strchr(text, ':');
    const char *second = strchr(first + 1, ':');
    char slice[256];
    char dir[400];
    if (!second || strchr(second + 1, ':') || strchr(text, '/') || !second[1])
        return bad(text, "not slice:prefix:name", err);
    (void)snprintf(slice, sizeof(slice), "%.*s", (int)(first - text), text);
    if (!slice[0])
        (void)snprintf(slice, sizeof(slice), "system.slice");
    if (!text_ends(slice, ".slice") || !expand_slice(slice, dir, sizeof(dir)))
        return bad(text, "not a slice", err);
    int prefix = (int)(second - first - 1);
    int n = snprintf(out->unit, sizeof(out->unit), "%.*s%s%s.scope", prefix, first + 1,
                     prefix ? "-" : "", second + 1);
    if (n < 0 || (size_t)n >= sizeof(out->unit))
        return bad(text, "too long", err);
    n = snprintf(out->path, sizeof(out->path), "%s/%s", dir, out->unit);
    if (n < 0 || (size_t)n >= sizeof(out->path))
        return bad(text, "too long", err);
    out->systemd = true;
    return ERR_OK;
}

enum err_kind cgroup_path_parse(const char *cgroups_path, struct cgroup_path *out, struct err *err)
{
    *out = (struct cgroup_path){ 0 };
    if (cgroups_path[0] == '/')
        return parse_plain(cgroups_path, out, err);
    if (strchr(cgroups_path, ':'))
        return parse_systemd(cgroups_path, out, err);
    return bad(cgroups_path, "neither absolute nor slice:prefix:name", err);
}
