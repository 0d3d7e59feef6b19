/* Pure forms that many rules ask for: members, paths, names. */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "policy/check.h"

const char *member_str(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

const char *spec_annotation(const json_t *spec, const char *key)
{
    return json_string_value(json_object_get(json_object_get(spec, "annotations"), key));
}

int64_t member_int(const json_t *object, const char *key, int64_t absent)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : absent;
}

bool member_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static bool members_are_empty(const json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (!json_is_empty(value))
            return false;
    }
    return true;
}

bool json_is_empty(const json_t *value)
{
    if (!value || json_is_null(value) || json_is_false(value))
        return true;
    if (json_is_string(value))
        return json_string_length(value) == 0;
    if (json_is_integer(value))
        return json_integer_value(value) == 0;
    if (json_is_array(value))
        return json_array_size(value) == 0;
    return json_is_object(value) && members_are_empty(value);
}

bool list_has(char *const *list, const char *value)
{
    for (; list && *list; list++) {
        if (strcmp(*list, value) == 0)
            return true;
    }
    return false;
}

bool path_is_clean(const char *path)
{
    if (path[0] != '/' || strlen(path) >= 4096)
        return false;
    if (!path[1])
        return true;
    for (const char *part = path + 1;;) {
        size_t n = strcspn(part, "/");
        if (n == 0 || n > 255 || (n == 1 && part[0] == '.') ||
            (n == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (!part[n])
            return true;
        part += n + 1;
    }
}

bool path_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    while (n > 0 && dir[n - 1] == '/')
        n--;
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || !path[n]);
}

bool name_is_plain(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 255 || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i]))
            return false;
    }
    return true;
}

bool id_is_valid(const char *id)
{
    size_t n = strlen(id);
    if (!name_is_plain(id) || n > 76 || !isalnum((unsigned char)id[n - 1]))
        return false;
    for (size_t i = 1; i < n; i++) {
        if (!isalnum((unsigned char)id[i]) && !isalnum((unsigned char)id[i - 1]))
            return false;
    }
    return true;
}

bool hostname_is_valid(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 253)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool edge = i == 0 || i + 1 == n || name[i - 1] == '.' || name[i + 1] == '.';
        unsigned char c = (unsigned char)name[i];
        if (c == '.' ? edge && (i == 0 || i + 1 == n || name[i - 1] == '.')
                     : !isalnum(c) && c != '_' && (c != '-' || edge))
            return false;
    }
    return true;
}

bool ip_is_valid(const char *text)
{
    unsigned char address[16];
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}
