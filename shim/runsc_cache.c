#include "shim/runsc_cache.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"

#define CACHE_MAX 65536

static char *cache_file(const char *dir, const char *path)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *p = path; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 0x100000001b3;
    return xasprintf("%s/runsc-%016" PRIx64 ".json", dir, hash);
}

/* A key as text: numbers beyond int64 have no exact form in our JSON. */
static char *key_text(const struct runsc_key *key)
{
    return xasprintf("%ju.%ju.%jd.%" PRId64 ".%" PRIu64, (uintmax_t)key->dev, (uintmax_t)key->ino,
                     (intmax_t)key->size, key->ctime_ns, key->sidecars);
}

static enum err_kind take_flags(const json_t *flags, struct runsc_binary *binary)
{
    size_t n = json_array_size(flags);
    if (n < 20 || n > 1000)
        return ERR_INVALID;
    binary->flags = xcalloc(n + 1, sizeof(*binary->flags));
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(flags, i));
        /* Sorted as written: look-ups rely on it. */
        if (!name || (i && strcmp(binary->flags[i - 1], name) >= 0))
            return ERR_INVALID;
        binary->flags[binary->n_flags++] = xstrdup(name);
    }
    return ERR_OK;
}

static enum err_kind take(const json_t *j, const char *path, const struct runsc_key *key,
                          struct runsc_binary *binary, struct err *err)
{
    const char *text = NULL;
    const char *version = NULL;
    const char *spec = NULL;
    int64_t date = 0;
    char *want CLEANUP_FREE = key_text(key);
    if (json_get_string(j, "key", true, &text, err) ||
        json_get_string(j, "version", true, &version, err) ||
        json_get_string(j, "spec", true, &spec, err) ||
        json_get_int(j, "date", true, RUNSC_DATE_OLDEST, 99999999, &date, err) ||
        take_flags(json_object_get(j, "flags"), binary))
        return ERR_INVALID;
    if (strcmp(text, want) || strlen(version) >= sizeof(binary->version) ||
        strlen(spec) >= sizeof(binary->spec))
        return ERR_NOT_FOUND;
    binary->path = xstrdup(path);
    binary->key = *key;
    memcpy(binary->version, version, strlen(version) + 1);
    memcpy(binary->spec, spec, strlen(spec) + 1);
    binary->date = (int)date;
    binary->class = runsc_class_of(binary->date);
    binary->exec_filtered = binary->date >= RUNSC_DATE_EXEC;
    binary->membarrier_slow = binary->date < RUNSC_DATE_MEMBARRIER;
    return ERR_OK;
}

enum err_kind runsc_cache_load(const char *dir, const char *path, const struct runsc_key *key,
                               struct runsc_binary **out)
{
    struct err err;
    char *file CLEANUP_FREE = cache_file(dir, path);
    json_t *j CLEANUP_JSON = NULL;
    if (fs_root_only(file, &err) || json_strict_load_file(file, CACHE_MAX, &j, &err))
        return err.kind;
    struct runsc_binary *binary CLEANUP(runsc_binary_freep) = xcalloc(1, sizeof(*binary));
    enum err_kind kind = take(j, path, key, binary, &err);
    if (!kind)
        *out = STEAL(binary);
    return kind;
}

void runsc_cache_save(const char *dir, const struct runsc_binary *binary)
{
    struct err err;
    char *file CLEANUP_FREE = cache_file(dir, binary->path);
    char *key CLEANUP_FREE = key_text(&binary->key);
    json_t *flags = json_array();
    for (size_t i = 0; i < binary->n_flags; i++)
        (void)json_array_append_new(flags, json_string(binary->flags[i]));
    json_t *j CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:i, s:o}", "key", key, "version", binary->version, "spec",
                  binary->spec, "date", binary->date, "flags", flags);
    if (!j)
        return;
    char *text CLEANUP_FREE = json_canonical(j);
    if (fs_mkdirs(dir, 0700, &err) || fs_root_only(dir, &err) ||
        fs_write(file, text, strlen(text), 0600, false, &err))
        log_warn("runsc_cache", log_str("error", err.msg));
}
