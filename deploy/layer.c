#include "deploy/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"

struct layer {
    struct archive *archive;
    json_t *names; /* set of what is in it */
    int fd;        /* memfd; -1 once handed out */
    int64_t bytes;
};

static enum err_kind archive_fault(struct layer *layer, const char *name, struct err *err)
{
    const char *why = archive_error_string(layer->archive);
    return err_set(err, ERR_INTERNAL, "layer: %s: %s", name, why ? why : "cannot be written");
}

enum err_kind layer_new(struct layer **out, struct err *err)
{
    struct layer *layer CLEANUP(layer_freep) = xcalloc(1, sizeof(*layer));
    layer->names = json_object();
    layer->fd = memfd_create("utter-layer", MFD_CLOEXEC);
    if (layer->fd < 0)
        return err_sys(err, errno, "layer: memfd");
    layer->archive = archive_write_new();
    if (!layer->archive || archive_write_set_format_pax_restricted(layer->archive) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(layer->archive, 1) != ARCHIVE_OK ||
        archive_write_open_fd(layer->archive, layer->fd) != ARCHIVE_OK)
        return err_set(err, ERR_INTERNAL, "layer: libarchive cannot write");
    *out = STEAL(layer);
    return ERR_OK;
}

void layer_free(struct layer *layer)
{
    if (!layer)
        return;
    if (layer->archive)
        (void)archive_write_free(layer->archive);
    json_decref(layer->names);
    own_close_(&layer->fd);
    free(layer);
}

static void entry_freep(struct archive_entry **entry)
{
    archive_entry_free(*entry);
}

struct item {
    const char *name;
    mode_t mode; /* with type */
    time_t mtime;
    int64_t size;
    const char *target;
};

static enum err_kind put_header(struct layer *layer, const struct item *item, struct err *err)
{
    if (json_object_size(layer->names) >= LAYER_ENTRIES_MAX)
        return err_set(err, ERR_INVALID, "more than %d files", LAYER_ENTRIES_MAX);
    if (__builtin_add_overflow(layer->bytes, item->size, &layer->bytes) ||
        layer->bytes > LAYER_BYTES_MAX)
        return err_set(err, ERR_INVALID, "more than 512 MiB of files");
    json_object_set_new(layer->names, item->name, json_true());
    struct archive_entry *entry CLEANUP(entry_freep) = archive_entry_new();
    archive_entry_set_pathname(entry, item->name);
    archive_entry_set_mode(entry, item->mode);
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
    archive_entry_set_mtime(entry, item->mtime, 0);
    archive_entry_set_size(entry, item->size);
    if (item->target)
        archive_entry_set_symlink(entry, item->target);
    if (archive_write_header(layer->archive, entry) != ARCHIVE_OK)
        return archive_fault(layer, item->name, err);
    return ERR_OK;
}

enum err_kind layer_dir(struct layer *layer, const char *name, mode_t mode, struct err *err)
{
    char *slash = strrchr(name, '/');
    if (json_object_get(layer->names, name))
        return ERR_OK;
    if (slash) {
        char *parent CLEANUP_FREE = xstrndup(name, (size_t)(slash - name));
        if (layer_dir(layer, parent, 0755, err))
            return err->kind;
    }
    struct item item = { .name = name, .mode = S_IFDIR | mode };
    return put_header(layer, &item, err);
}

static enum err_kind put_parent(struct layer *layer, const char *name, struct err *err)
{
    const char *slash = strrchr(name, '/');
    if (!slash)
        return ERR_OK;
    char *parent CLEANUP_FREE = xstrndup(name, (size_t)(slash - name));
    return layer_dir(layer, parent, 0755, err);
}

enum err_kind layer_bytes(struct layer *layer, const char *name, mode_t mode, const void *data,
                          size_t len, struct err *err)
{
    struct item item = { .name = name, .mode = S_IFREG | mode, .size = (int64_t)len };
    if (json_object_get(layer->names, name))
        return ERR_OK;
    if (put_parent(layer, name, err) || put_header(layer, &item, err))
        return err->kind;
    if (len && archive_write_data(layer->archive, data, len) != (la_ssize_t)len)
        return archive_fault(layer, name, err);
    return ERR_OK;
}

enum err_kind layer_fd(struct layer *layer, const char *name, mode_t mode, time_t mtime, int fd,
                       int64_t size, struct err *err)
{
    struct item item = {
        .name = name, .mode = S_IFREG | (mode & 0755), .mtime = mtime, .size = size
    };
    if (json_object_get(layer->names, name))
        return ERR_OK;
    if (put_parent(layer, name, err) || put_header(layer, &item, err))
        return err->kind;
    char piece[65536];
    int64_t left = size;
    while (left > 0) {
        ssize_t n = read(fd, piece, left < (int64_t)sizeof(piece) ? (size_t)left : sizeof(piece));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "%s", name);
        if (n == 0)
            return err_set(err, ERR_INVALID, "%s became shorter while it was read", name);
        if (archive_write_data(layer->archive, piece, (size_t)n) != n)
            return archive_fault(layer, name, err);
        left -= n;
    }
    return ERR_OK;
}

enum err_kind layer_link(struct layer *layer, const char *name, const char *target, struct err *err)
{
    struct item item = { .name = name, .mode = S_IFLNK | 0777, .target = target };
    if (json_object_get(layer->names, name))
        return ERR_OK;
    if (put_parent(layer, name, err))
        return err->kind;
    return put_header(layer, &item, err);
}

static enum err_kind digest_fd(int fd, int64_t *size, char out[DIGEST_SIZE], struct err *err)
{
    struct digest *d CLEANUP(digest_freep) = digest_new();
    char piece[65536];
    *size = 0;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "layer: seek");
    for (;;) {
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n < 0)
            return err_sys(err, errno, "layer: read");
        if (n == 0)
            break;
        digest_add(d, piece, (size_t)n);
        *size += n;
    }
    digest_end(d, out);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "layer: seek");
    return ERR_OK;
}

enum err_kind layer_end(struct layer *layer, int *fd, int64_t *size, char digest[DIGEST_SIZE],
                        struct err *err)
{
    if (archive_write_close(layer->archive) != ARCHIVE_OK)
        return archive_fault(layer, "end", err);
    if (digest_fd(layer->fd, size, digest, err))
        return err->kind;
    *fd = steal_fd(&layer->fd);
    return ERR_OK;
}

/* ---- a folder ---- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int wanted(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
           strcmp(entry->d_name, ".git") != 0 && strcmp(entry->d_name, "__pycache__") != 0;
}

struct entries {
    struct dirent **list;
    int n;
};

static void entries_fini(struct entries *e)
{
    for (int i = 0; i < e->n; i++)
        free(e->list[i]);
    free(e->list);
}

/* Stays inside: relative, and never more ".." than the depth it stands at. */
static bool link_stays(const char *target, unsigned depth)
{
    if (target[0] == '/' || target[0] == '\0')
        return false;
    long level = (long)depth;
    for (const char *p = target;;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            level--;
        else if (n > 0 && !(n == 1 && p[0] == '.'))
            level++;
        if (level < 0)
            return false;
        if (p[n] == '\0')
            return true;
        p += n + 1;
    }
}

static enum err_kind add_link(struct layer *layer, int dir, const char *entry, const char *name,
                              unsigned depth, struct err *err)
{
    char target[1024];
    ssize_t n = readlinkat(dir, entry, target, sizeof(target) - 1);
    if (n < 0)
        return err_sys(err, errno, "%s", name);
    target[n] = '\0';
    if (!link_stays(target, depth))
        return err_set(err, ERR_INVALID, "%s: a link that leaves the folder", name);
    return layer_link(layer, name, target, err);
}

static enum err_kind add_file(struct layer *layer, int dir, const char *entry, const char *name,
                              struct err *err)
{
    struct stat st;
    int fd CLEANUP_FD = openat(dir, entry, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "%s", name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "%s: neither file, folder nor link", name);
    return layer_fd(layer, name, st.st_mode & 0111 ? 0755 : 0644, 0, fd, st.st_size, err);
}

static enum err_kind add_folder(struct layer *layer, int dir, const char *prefix, unsigned depth,
                                struct err *err)
{
    struct entries entries CLEANUP(entries_fini) = { .list = NULL, .n = 0 };
    if (depth > 32)
        return err_set(err, ERR_INVALID, "%s: nested too deeply", prefix);
    entries.n = scandirat(dir, ".", &entries.list, wanted, by_name);
    if (entries.n < 0) {
        entries.n = 0;
        return err_sys(err, errno, "%s", prefix);
    }
    if (layer_dir(layer, prefix, 0755, err))
        return err->kind;
    for (int i = 0; i < entries.n; i++) {
        const char *entry = entries.list[i]->d_name;
        char *name CLEANUP_FREE = xasprintf("%s/%s", prefix, entry);
        struct stat st;
        enum err_kind kind;
        if (fstatat(dir, entry, &st, AT_SYMLINK_NOFOLLOW))
            return err_sys(err, errno, "%s", name);
        if (S_ISDIR(st.st_mode)) {
            int sub CLEANUP_FD =
                openat(dir, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (sub < 0)
                return err_sys(err, errno, "%s", name);
            kind = add_folder(layer, sub, name, depth + 1, err);
        } else if (S_ISLNK(st.st_mode)) {
            kind = add_link(layer, dir, entry, name, depth, err);
        } else {
            kind = add_file(layer, dir, entry, name, err);
        }
        if (kind)
            return kind;
    }
    return ERR_OK;
}

enum err_kind layer_folder(struct layer *layer, const char *folder, const char *prefix,
                           struct err *err)
{
    int dir CLEANUP_FD = -1;
    if (fs_open_real(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, &dir, err))
        return err_prefix(err, "folder %s", folder);
    return add_folder(layer, dir, prefix, 0, err);
}
