#include "shim/runsc_binary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/text.h"
#include "shim/capture.h"
#include "shim/runsc_cache.h"

#define DEADLINE_MS 10000
#define OUTPUT_MAX 65536

/* Without one of these a measured hole would stay open. */
static const char *const needed_flags[] = {
    "allow-flag-override", "directfs", "host-uds",  "log",      "log-format", "network",
    "oci-seccomp",         "overlay2", "panic-log", "platform", "root",
};

static int64_t ctime_ns(const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

static uint64_t fnv(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * 0x100000001b3;
    return hash;
}

/* Of one entry of gvisor-bin/; entries are summed, so their order does not matter. */
static enum err_kind sidecar_hash(int dirfd, const char *dir, const char *name, uint64_t *sum,
                                  struct err *err)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, 0))
        return err_sys(err, errno, "%s/%s", dir, name);
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, name);
    if (fs_root_only(path, err))
        return err->kind;
    uint64_t hash = fnv(0xcbf29ce484222325, name, strlen(name) + 1);
    int64_t facts[] = { (int64_t)st.st_dev, (int64_t)st.st_ino, st.st_size, ctime_ns(&st) };
    *sum += fnv(hash, facts, sizeof(facts));
    return ERR_OK;
}

static enum err_kind sidecars_read(const char *path, uint64_t *out, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir CLEANUP_FREE = xasprintf("%.*s/gvisor-bin", (int)(slash - path), path);
    *out = 0;
    DIR *d CLEANUP_DIR = opendir(dir);
    if (!d)
        return errno == ENOENT || errno == ENOTDIR ? ERR_OK : err_sys(err, errno, "%s", dir);
    *out = 1;
    for (const struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
            sidecar_hash(dirfd(d), dir, e->d_name, out, err))
            return err->kind;
    }
    return ERR_OK;
}

/* Beside the file itself, the directory in which its name stands, which a symlink would hide. */
static enum err_kind root_only(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash || path[0] != '/')
        return err_set(err, ERR_INVALID, "%s: not an absolute path", path);
    char *dir CLEANUP_FREE = xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (fs_root_only(dir, err) || fs_root_only(path, err))
        return err->kind;
    return ERR_OK;
}

enum err_kind runsc_key_read(const char *path, struct runsc_key *out, struct err *err)
{
    struct stat st;
    if (root_only(path, err))
        return err->kind;
    if (stat(path, &st))
        return err_sys(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IXUSR))
        return err_set(err, ERR_PRECONDITION, "%s: not an executable file", path);
    *out = (struct runsc_key){
        .dev = st.st_dev, .ino = st.st_ino, .size = st.st_size, .ctime_ns = ctime_ns(&st)
    };
    char *real CLEANUP_FREE = realpath(path, NULL);
    if (!real)
        return err_sys(err, errno, "%s", path);
    return sidecars_read(real, &out->sidecars, err);
}

bool runsc_key_equal(const struct runsc_key *a, const struct runsc_key *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->ctime_ns == b->ctime_ns && a->sidecars == b->sidecars;
}

void runsc_binary_free(struct runsc_binary *binary)
{
    if (!binary)
        return;
    for (size_t i = 0; i < binary->n_flags; i++)
        free(binary->flags[i]);
    free(binary->flags);
    free(binary->path);
    free(binary);
}

/* The path to judge: as configured, or the first of the default ones that is there. */
static enum err_kind find_path(const char *configured, char **out, struct err *err)
{
    static const char *const defaults[] = { "/usr/local/bin/runsc", "/usr/bin/runsc" };
    for (size_t i = 0; i < (configured ? 1 : ARRAY_LEN(defaults)); i++) {
        const char *path = configured ? configured : defaults[i];
        struct stat st;
        if (lstat(path, &st) == 0) {
            *out = realpath(path, NULL);
            return *out ? root_only(path, err) : err_sys(err, errno, "%s", path);
        }
        if (errno != ENOENT && errno != ENOTDIR)
            return err_sys(err, errno, "%s", path);
    }
    return err_set(err, ERR_NOT_FOUND,
                   "gVisor's runsc is missing: nothing at %s (install runsc %d or newer; on Debian "
                   "12: apt-get install -t bookworm-backports runsc)",
                   configured ? configured : "/usr/local/bin/runsc or /usr/bin/runsc",
                   RUNSC_DATE_OLDEST);
}

/* A script could print anything; runsc is an ELF program. */
static enum err_kind check_elf(const char *path, struct err *err)
{
    char magic[4] = "";
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    ssize_t n = read(fd, magic, sizeof(magic));
    if (n >= 2 && memcmp(magic, "#!", 2) == 0)
        return err_set(err, ERR_PRECONDITION, "is a script, not gVisor's runsc");
    if (n != 4 || memcmp(magic, "\177ELF", 4) != 0)
        return err_set(err, ERR_PRECONDITION, "is not an ELF program, so not gVisor's runsc");
    return ERR_OK;
}

static enum err_kind ask(const char *path, const char *word, char **text, struct err *err)
{
    const char *const argv[] = { path, word, NULL };
    struct capture what = { .argv = argv, .deadline_ms = DEADLINE_MS, .cap = OUTPUT_MAX };
    struct buf out;
    int code = 0;
    enum err_kind kind = capture_run(&what, &out, &code, err);
    *text = xstrdup(buf_cstr(&out));
    buf_fini(&out);
    if (!kind && code != 0)
        kind = err_set(err, ERR_PRECONDITION, "\"%s\" ends with status %d", word, code);
    return kind;
}

static enum err_kind probe_version(struct runsc_binary *binary, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    if (ask(binary->path, "--version", &text, err) ||
        runsc_version_parse(text, binary->version, binary->spec, &binary->date, err))
        return err->kind;
    binary->class = runsc_class_of(binary->date);
    if (binary->class == RUNSC_REFUSED)
        return err_set(err, ERR_PRECONDITION,
                       "is release %d, too old (needed: %d or newer; on Debian 12: apt-get install "
                       "-t bookworm-backports runsc)",
                       binary->date, RUNSC_DATE_OLDEST);
    binary->exec_filtered = binary->date >= RUNSC_DATE_EXEC;
    binary->membarrier_slow = binary->date < RUNSC_DATE_MEMBARRIER;
    return ERR_OK;
}

static enum err_kind probe_flags(struct runsc_binary *binary, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    if (ask(binary->path, "flags", &text, err) ||
        runsc_flags_parse(text, &binary->flags, &binary->n_flags, err))
        return err->kind;
    for (size_t i = 0; i < ARRAY_LEN(needed_flags); i++) {
        if (!runsc_has_flag(binary, needed_flags[i]))
            return err_set(err, ERR_PRECONDITION,
                           "does not know the flag --%s (install another release of gVisor)",
                           needed_flags[i]);
    }
    return ERR_OK;
}

static enum err_kind probe(const char *path, const struct runsc_key *key, struct runsc_binary **out,
                           struct err *err)
{
    struct runsc_binary *binary CLEANUP(runsc_binary_freep) = xcalloc(1, sizeof(*binary));
    binary->path = xstrdup(path);
    binary->key = *key;
    if (check_elf(path, err) || probe_version(binary, err) || probe_flags(binary, err))
        return err_prefix(err, "%s", path);
    struct runsc_key now;
    if (runsc_key_read(path, &now, err))
        return err->kind;
    if (!runsc_key_equal(key, &now))
        return err_set(err, ERR_UNAVAILABLE, "%s: changed while it was being checked", path);
    *out = STEAL(binary);
    return ERR_OK;
}

enum err_kind runsc_binary_get(const char *cache_dir, const char *configured,
                               struct runsc_binary **out, struct err *err)
{
    char *path CLEANUP_FREE = NULL;
    struct runsc_key key;
    if (find_path(configured, &path, err) || runsc_key_read(path, &key, err))
        return err->kind;
    if (cache_dir && runsc_cache_load(cache_dir, path, &key, out) == ERR_OK)
        return ERR_OK;
    if (probe(path, &key, out, err))
        return err->kind;
    if (cache_dir)
        runsc_cache_save(cache_dir, *out);
    return ERR_OK;
}

enum err_kind runsc_binary_find(const char *configured, struct runsc_binary **out, struct err *err)
{
    return runsc_binary_get(NULL, configured, out, err);
}
