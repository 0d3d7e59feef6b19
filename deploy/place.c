#include "deploy/place.h"

#include <stdbool.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"

static bool clean(const char *path)
{
    if (text_starts(path, "./"))
        path += 2;
    if (path[0] == '/')
        path++;
    for (;;) {
        size_t n = strcspn(path, "/");
        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        if (path[n] == '\0')
            return true;
        path += n + 1;
    }
}

enum err_kind place_put(const char *directory, const char *key, const char *path,
                        const char *allowed, char **out, struct err *err)
{
    if (!clean(path))
        return err_set(err, ERR_INVALID, "%s: %s: write the path without . and .. parts", key,
                       path);
    if (path[0] == '/') {
        if (!allowed || !text_starts(path, allowed))
            return err_set(err, ERR_INVALID,
                           "%s: %s: must lie below the endpoint file's folder%s%s", key, path,
                           allowed ? " or " : "", allowed ? allowed : "");
        *out = xstrdup(path);
        return ERR_OK;
    }
    *out = xasprintf("%s/%s", directory, text_starts(path, "./") ? path + 2 : path);
    return ERR_OK;
}
