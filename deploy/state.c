#include "deploy/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/pause.h"

#define RECORD_MAX (1024 * 1024)

static enum err_kind lock(const struct settings *settings, const char *name, int wait_ms, int *out,
                          struct err *err)
{
    char *dir CLEANUP_FREE = xasprintf("%s/locks", settings->state_dir);
    char *path CLEANUP_FREE = xasprintf("%s/%s.lock", dir, name);
    if (fs_mkdirs(dir, 0700, err))
        return err->kind;
    int fd CLEANUP_FD = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    for (int waited = 0;; waited += 50) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            break;
        if (errno != EWOULDBLOCK)
            return err_sys(err, errno, "lock %s", path);
        if (waited >= wait_ms)
            return err_set(err, ERR_UNAVAILABLE, "another utter-deploy works on %s (%s)", name,
                           path);
        pause_ms(50);
    }
    *out = steal_fd(&fd);
    return ERR_OK;
}

enum err_kind state_lock_slug(const struct settings *settings, const struct slug *slug, int *fd,
                              struct err *err)
{
    char *name CLEANUP_FREE = xasprintf("slug.%s", slug->s);
    return lock(settings, name, 10000, fd, err);
}

enum err_kind state_lock_host(const struct settings *settings, int *fd, struct err *err)
{
    return lock(settings, "host", 60000, fd, err);
}

enum err_kind state_lock_named(const struct settings *settings, const char *name, int *fd,
                               struct err *err)
{
    return lock(settings, name, 0, fd, err);
}

static const char slugs_file[] = "index.json";
static const char claims_file[] = "claims.json";

static enum err_kind numbers_load(const struct settings *settings, const char *file, json_t **out,
                                  struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", settings->state_dir, file);
    enum err_kind kind = json_strict_load_file(path, RECORD_MAX, out, err);
    if (kind != ERR_NOT_FOUND)
        return kind;
    *out = json_object();
    return ERR_OK;
}

enum err_kind state_indexes(const struct settings *settings, json_t **out, struct err *err)
{
    return numbers_load(settings, slugs_file, out, err);
}

static enum err_kind numbers_save(const struct settings *settings, const char *file,
                                  const json_t *numbers, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", settings->state_dir, file);
    char *text CLEANUP_FREE = json_canonical(numbers);
    if (fs_mkdirs(settings->state_dir, 0711, err))
        return err->kind;
    return fs_write(path, text, strlen(text), 0600, true, err);
}

static bool taken(const json_t *indexes, unsigned number)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)indexes, key, value)
    {
        if (json_integer_value(value) == (json_int_t)number)
            return true;
    }
    return false;
}

static enum err_kind number_of(const struct settings *settings, const char *file, const char *key,
                               unsigned *out, struct err *err)
{
    json_t *numbers CLEANUP_JSON = NULL;
    if (numbers_load(settings, file, &numbers, err))
        return err->kind;
    const json_t *found = json_object_get(numbers, key);
    if (found) {
        *out = (unsigned)json_integer_value(found);
        return ERR_OK;
    }
    unsigned number = 1;
    while (taken(numbers, number))
        number++;
    if (number > PLAN_INDEX_MAX)
        return err_set(err, ERR_UNAVAILABLE, "this host holds %d slugs already", PLAN_INDEX_MAX);
    json_object_set_new(numbers, key, json_integer(number));
    *out = number;
    return numbers_save(settings, file, numbers, err);
}

static enum err_kind number_drop(const struct settings *settings, const char *file, const char *key,
                                 struct err *err)
{
    json_t *numbers CLEANUP_JSON = NULL;
    if (numbers_load(settings, file, &numbers, err))
        return err->kind;
    if (json_object_del(numbers, key))
        return ERR_OK;
    return numbers_save(settings, file, numbers, err);
}

enum err_kind state_index(const struct settings *settings, const struct slug *slug, unsigned *out,
                          struct err *err)
{
    return number_of(settings, slugs_file, slug->s, out, err);
}

enum err_kind state_index_drop(const struct settings *settings, const struct slug *slug,
                               struct err *err)
{
    return number_drop(settings, slugs_file, slug->s, err);
}

enum err_kind state_claims(const struct settings *settings, const char *pay, unsigned *out,
                           struct err *err)
{
    return number_of(settings, claims_file, pay, out, err);
}

enum err_kind state_claims_drop(const struct settings *settings, const char *pay, struct err *err)
{
    return number_drop(settings, claims_file, pay, err);
}

enum err_kind state_load(const struct settings *settings, const char *slug, json_t **out,
                         struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s/plan.json", settings->state_dir, slug);
    enum err_kind kind = json_strict_load_file(path, RECORD_MAX, out, err);
    if (kind == ERR_NOT_FOUND)
        return err_set(err, kind, "%s is not deployed here", slug);
    return kind;
}

enum err_kind state_save(const struct settings *settings, const char *slug, const json_t *record,
                         struct err *err)
{
    char *dir CLEANUP_FREE = xasprintf("%s/%s", settings->state_dir, slug);
    char *path CLEANUP_FREE = xasprintf("%s/plan.json", dir);
    char *text CLEANUP_FREE = json_canonical(record);
    if (fs_mkdirs(settings->state_dir, 0711, err) || fs_mkdirs(dir, 0700, err))
        return err->kind;
    return fs_write(path, text, strlen(text), 0600, true, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum err_kind state_slugs(const struct settings *settings, json_t **out, struct err *err)
{
    json_t *indexes CLEANUP_JSON = NULL;
    if (state_indexes(settings, &indexes, err))
        return err->kind;
    const char **names CLEANUP_FREE = xcalloc(json_object_size(indexes) + 1, sizeof(*names));
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(indexes, key, value)
    {
        char *path CLEANUP_FREE = xasprintf("%s/%s/plan.json", settings->state_dir, key);
        if (access(path, F_OK) == 0)
            names[n++] = key;
    }
    qsort(names, n, sizeof(*names), by_text);
    *out = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(*out, json_string(names[i]));
    return ERR_OK;
}

enum err_kind state_bridges(const struct settings *settings, json_t **out, struct err *err)
{
    json_t *slugs CLEANUP_JSON = NULL;
    json_t *list CLEANUP_JSON = json_array();
    if (state_slugs(settings, &slugs, err))
        return err->kind;
    for (size_t i = 0; i < json_array_size(slugs); i++) {
        json_t *record CLEANUP_JSON = NULL;
        if (state_load(settings, json_string_value(json_array_get(slugs, i)), &record, err))
            return err->kind;
        const char *phase = json_string_value(json_object_get(record, "phase"));
        if (phase && strcmp(phase, "down") != 0)
            json_array_append(list, json_object_get(record, "bridge"));
    }
    *out = STEAL(list);
    return ERR_OK;
}
