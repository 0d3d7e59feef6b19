#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "deploy/audit_check.h"

#define POINT_MAX 1024

/* The spec's mount at that point, or NULL. */
static const json_t *planned(const struct plan_member *member, const char *point)
{
    const json_t *mounts = json_object_get(member->spec, "mounts");
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);
        const char *to = json_string_value(json_object_get(mount, "destination"));
        if (to && strcmp(to, point) == 0)
            return mount;
    }
    return NULL;
}

static bool has_option(const json_t *mount, const char *name)
{
    const json_t *options = json_object_get(mount, "options");
    for (size_t i = 0; i < json_array_size(options); i++) {
        const char *option = json_string_value(json_array_get(options, i));
        if (option && strcmp(option, name) == 0)
            return true;
    }
    return false;
}

static bool listed(const json_t *paths, const char *point)
{
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *path = json_string_value(json_array_get(paths, i));
        if (path && strcmp(path, point) == 0)
            return true;
    }
    return false;
}

/* Masked and read-only paths are mounts of the runtime's own. */
static bool runtimes_own(const struct plan_member *member, const char *point)
{
    const json_t *linux_part = json_object_get(member->spec, "linux");
    return strcmp(point, "/") == 0 || strcmp(point, "/dev/mqueue") == 0 ||
           text_starts(point, "/sys/fs/cgroup") ||
           listed(json_object_get(linux_part, "maskedPaths"), point) ||
           listed(json_object_get(linux_part, "readonlyPaths"), point);
}

void audit_mounts(struct audit *a, const struct plan_member *member, uint32_t pid)
{
    char *path CLEANUP_FREE = xasprintf("/proc/%u/mountinfo", pid);
    char line[8192], point[POINT_MAX], options[512];
    char seen[128][128];
    size_t n = 0;
    FILE *f CLEANUP_FILE = fopen(path, "re");
    audit_expect(a, f != NULL, "%s: its mounts cannot be read", member->id);
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*s %*s %*s %*s %1023s %511s", point, options) != 2)
            continue;
        const json_t *mount = planned(member, point);
        bool ro = text_starts(options, "ro") && (options[2] == ',' || options[2] == '\0');
        audit_expect(a, mount || runtimes_own(member, point), "%s: %s is mounted, unplanned",
                     member->id, point);
        audit_expect(a, strcmp(point, "/") != 0 || ro, "%s: its root is writable", member->id);
        audit_expect(a, !mount || !has_option(mount, "ro") || ro, "%s: %s is writable", member->id,
                     point);
        bool twice = false;
        for (size_t i = 0; i < n; i++)
            twice = twice || strcmp(seen[i], point) == 0;
        audit_expect(a, !twice, "%s: something is mounted over %s", member->id, point);
        if (n < 128)
            (void)snprintf(seen[n++], sizeof(seen[0]), "%.127s", point);
    }
}
