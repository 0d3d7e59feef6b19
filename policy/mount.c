#include "policy/mount.h"

#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "policy/check.h"

int64_t mount_size_parse(const char *text)
{
    char digits[24];
    size_t n = strspn(text, "0123456789");
    int64_t unit = 1;
    if (n == 0 || n >= sizeof(digits))
        return -1;
    switch (text[n]) {
    case 0:
        break;
    case 'k':
    case 'K':
        unit = 1024;
        break;
    case 'm':
    case 'M':
        unit = 1024 * 1024;
        break;
    case 'g':
    case 'G':
        unit = 1024 * 1024 * 1024;
        break;
    default:
        return -1;
    }
    if (text[n] && text[n + 1])
        return -1;
    memcpy(digits, text, n);
    digits[n] = 0;
    int64_t count, bytes;
    if (!text_i64(digits, &count) || __builtin_mul_overflow(count, unit, &bytes) || bytes <= 0)
        return -1;
    return bytes;
}

static void read_size(struct mount_view *mount, const char *text)
{
    int64_t bytes = mount_size_parse(text);
    mount->size = mount->size == MOUNT_SIZE_NONE && bytes > 0 ? bytes : MOUNT_SIZE_BAD;
}

static void read_option(struct mount_view *mount, const char *option)
{
    if (strcmp(option, "rro") == 0)
        mount->ro = true;
    else if (strcmp(option, "bind") == 0 || strcmp(option, "rbind") == 0)
        mount->bind = true;
    else if (strcmp(option, "ro") == 0)
        mount->ro = true;
    else if (strcmp(option, "rw") == 0)
        mount->ro = false;
    else if (strcmp(option, "noexec") == 0)
        mount->noexec = true;
    else if (strcmp(option, "nosuid") == 0)
        mount->nosuid = true;
    else if (strcmp(option, "nodev") == 0)
        mount->nodev = true;
    else if (strcmp(option, "exec") == 0)
        mount->exec = true;
    else if (strcmp(option, "suid") == 0)
        mount->suid = true;
    else if (strcmp(option, "dev") == 0)
        mount->dev = true;
    else if (text_starts(option, "size="))
        read_size(mount, option + strlen("size="));
}

void mount_view_read(const json_t *mount, struct mount_view *out)
{
    *out = (struct mount_view){
        .json = mount,
        .destination = member_str(mount, "destination"),
        .type = member_str(mount, "type"),
        .source = member_str(mount, "source"),
        .size = MOUNT_SIZE_NONE,
    };
    out->bind = strcmp(out->type, "bind") == 0;
    size_t i;
    json_t *option;
    json_array_foreach(json_object_get(mount, "options"), i, option)
    {
        const char *text = json_string_value(option);
        if (text)
            read_option(out, text);
    }
}

struct mount_view *mount_views_read(const json_t *spec, size_t *n)
{
    const json_t *mounts = json_object_get(spec, "mounts");
    *n = json_array_size(mounts);
    struct mount_view *views = xcalloc(*n ? *n : 1, sizeof(*views));
    for (size_t i = 0; i < *n; i++)
        mount_view_read(json_array_get(mounts, i), &views[i]);
    return views;
}

bool mount_has_option(const struct mount_view *mount, const char *option)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(mount->json, "options"), i, entry)
    {
        const char *text = json_string_value(entry);
        if (text && strcmp(text, option) == 0)
            return true;
    }
    return false;
}
