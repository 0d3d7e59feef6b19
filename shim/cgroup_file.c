#include "shim/cgroup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

static enum err_kind fail(const char *dir, const char *file, int errnum, struct err *err)
{
    if (errnum == ENOENT || errnum == ENODEV || errnum == ENOTDIR)
        return err_set(err, ERR_NOT_FOUND, "%s/%s: not there", dir, file);
    return err_sys(err, errnum, "%s/%s", dir, file);
}

enum err_kind cgroup_file_read(const char *dir, const char *file, char **out, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, file);
    char *text CLEANUP_FREE = xmalloc(CGROUP_FILE_SIZE);
    size_t len = 0;
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return fail(dir, file, errno, err);
    for (ssize_t n = 1; n != 0;) {
        n = read(fd, text + len, CGROUP_FILE_SIZE - 1 - len);
        if (n < 0 && errno != EINTR)
            return fail(dir, file, errno, err);
        len += n < 0 ? 0 : (size_t)n;
        if (len == CGROUP_FILE_SIZE - 1)
            return err_set(err, ERR_INTERNAL, "%s/%s: too long", dir, file);
    }
    while (len && text[len - 1] == '\n')
        len--;
    text[len] = 0;
    *out = STEAL(text);
    return ERR_OK;
}

enum err_kind cgroup_file_write(const char *dir, const char *file, const char *text,
                                struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, file);
    int fd CLEANUP_FD = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_TRUNC);
    if (fd < 0)
        return fail(dir, file, errno, err);
    ssize_t n = write(fd, text, strlen(text));
    if (n < 0)
        return fail(dir, file, errno, err);
    if ((size_t)n != strlen(text))
        return err_set(err, ERR_INTERNAL, "%s/%s: short write", dir, file);
    return ERR_OK;
}

/* v1 writes "no limit" as the largest page-aligned number. */
static int64_t normal(uint64_t v)
{
    return v >= INT64_MAX - 65536 ? CGROUP_UNLIMITED : (int64_t)v;
}

enum err_kind cgroup_read_number(const char *dir, const char *file, int64_t *out, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    uint64_t v;
    if (cgroup_file_read(dir, file, &text, err))
        return err->kind;
    if (strcmp(text, "max") == 0 || strcmp(text, "-1") == 0)
        *out = CGROUP_UNLIMITED;
    else if (text_u64(text, &v))
        *out = normal(v);
    else
        return err_set(err, ERR_INTERNAL, "%s/%s: not a number", dir, file);
    return ERR_OK;
}

enum err_kind cgroup_read_keyed(const char *dir, const char *file, const char *const keys[],
                                uint64_t *values, size_t n, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    if (cgroup_file_read(dir, file, &text, err))
        return err->kind;
    memset(values, 0, n * sizeof(*values));
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = 0;
        for (size_t i = 0; i < n; i++) {
            if (strcmp(line, keys[i]) == 0 && !text_u64(value, &values[i]))
                return err_set(err, ERR_INTERNAL, "%s/%s: %s is not a number", dir, file, keys[i]);
        }
    }
    return ERR_OK;
}
