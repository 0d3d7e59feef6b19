/*
 * Images out of what this machine has: a Python base, a handler's folder, one program with its
 * libraries.
 *
 * The Python base is the files of Debian's own python3 packages and the libraries they load, made
 * once per set of package versions. It holds no shell, no package manager and nothing that is
 * set-uid.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/image.h"
#include "deploy/layer.h"
#include "deploy/oci.h"
#include "deploy/proc.h"

#define LISTING_MAX (8 * 1024 * 1024)

/* Directories and files that every image of ours has: the runtime's mount points, and names. */
static enum err_kind add_skeleton(struct layer *layer, struct err *err)
{
    static const char *const dirs[] = { "dev", "proc",    "sys",     "run",
                                        "etc", "usr/bin", "usr/lib", "usr/lib64" };
    static const char *const links[][2] = {
        { "bin", "usr/bin" }, { "sbin", "usr/sbin" }, { "lib", "usr/lib" }, { "lib64", "usr/lib64" }
    };
    static const char *const files[][2] = {
        { "etc/hosts", "" },
        { "etc/resolv.conf", "" },
        { "etc/hostname", "" },
        { "etc/passwd", "root:x:0:0:root:/:/nologin\nnonroot:x:65532:65532:nonroot:/:/nologin\n" },
        { "etc/group", "root:x:0:\nnonroot:x:65532:\n" },
        { "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n" },
    };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (layer_dir(layer, dirs[i], 0755, err))
            return err->kind;
    }
    if (layer_dir(layer, "usr/sbin", 0755, err) || layer_dir(layer, "tmp", 01777, err))
        return err->kind;
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        if (layer_link(layer, links[i][0], links[i][1], err))
            return err->kind;
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (layer_bytes(layer, files[i][0], 0644, files[i][1], strlen(files[i][1]), err))
            return err->kind;
    }
    return ERR_OK;
}

/* A host file under its own name (its directory resolved, the last part not); links stay links
 * where `keep_links`, else their content is taken. What is not there is passed over: packages list
 * folders too. */
static enum err_kind add_host_file(struct layer *layer, const char *path, bool keep_links,
                                   struct err *err)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (!slash || lstat(path, &st) || S_ISDIR(st.st_mode))
        return ERR_OK;
    char *dir CLEANUP_FREE = xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
    char *real CLEANUP_FREE = realpath(dir, NULL);
    if (!real)
        return ERR_OK;
    char *name CLEANUP_FREE = xasprintf("%s/%s", real + 1, slash + 1);
    if (S_ISLNK(st.st_mode) && keep_links) {
        char target[PATH_MAX];
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n < 0)
            return err_sys(err, errno, "%s", path);
        target[n] = '\0';
        return layer_link(layer, name, target, err);
    }
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return ERR_OK;
    return layer_fd(layer, name, st.st_mode & 0111 ? 0755 : 0644, st.st_mtime, fd, st.st_size, err);
}

static bool is_elf(const char *path)
{
    unsigned char head[SELFMAG];
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && read(fd, head, sizeof(head)) == sizeof(head) &&
           memcmp(head, ELFMAG, SELFMAG) == 0;
}

/* The libraries that these programs of the host's own packages load, and the loader. */
static enum err_kind add_libraries(struct layer *layer, const json_t *programs, struct err *err)
{
    size_t n = json_array_size(programs);
    const char **argv CLEANUP_FREE = xcalloc(n + 2, sizeof(*argv));
    argv[0] = "ldd";
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = json_string_value(json_array_get(programs, i));
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, LISTING_MAX);
    struct proc proc = { .argv = argv, .timeout_ms = 30000 };
    if (proc_run(&proc, &out, err))
        return err->kind;
    char *text CLEANUP_FREE = xstrdup(buf_cstr(&out));
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *path = strchr(line, '/');
        if (line[0] != '\t')
            continue; /* "PROGRAM:" */
        if (strstr(line, "not found"))
            return err_set(err, ERR_NOT_FOUND, "a library is missing:%s", line);
        if (!path)
            continue;
        path[strcspn(path, " ")] = '\0';
        if (add_host_file(layer, path, false, err))
            return err->kind;
    }
    return ERR_OK;
}

/* ---- Python ---- */

/* "python3.11", from the name that /usr/bin/python3 leads to. */
static enum err_kind python_name(char out[32], struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlink("/usr/bin/python3", target, sizeof(target) - 1);
    if (n < 0)
        return err_set(err, ERR_NOT_FOUND,
                       "python handlers need Debian's python3 on this host: apt install python3");
    target[n] = '\0';
    const char *base = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    if (strlen(base) > 20 || !text_starts(base, "python3."))
        return err_set(err, ERR_UNSUPPORTED, "/usr/bin/python3 leads to %s", base);
    (void)snprintf(out, 32, "%s", base);
    return ERR_OK;
}

static bool python_wanted(const char *path, const char *name)
{
    static const char *const unwanted[] = { "/test/",       "/tests/",     "/idlelib/",
                                            "/lib2to3/",    "/ensurepip/", "/pydoc_data/",
                                            "/turtledemo/", "/tkinter/" };
    char *lib CLEANUP_FREE = xasprintf("/usr/lib/%s/", name);
    char *bin CLEANUP_FREE = xasprintf("/usr/bin/%s", name);
    if (strcmp(path, bin) != 0 && strcmp(path, "/usr/bin/python3") != 0 &&
        !text_starts(path, lib) && !text_starts(path, "/etc/python3"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(unwanted); i++) {
        if (strstr(path, unwanted[i]))
            return false;
    }
    return true;
}

/* The compiled form beside a source: without it every start would compile the standard library
 * again. */
static enum err_kind add_compiled(struct layer *layer, const char *path, const char *name,
                                  struct err *err)
{
    const char *slash = strrchr(path, '/');
    if (!text_ends(path, ".py"))
        return ERR_OK;
    const char *digits = name + strlen("python");
    char *file CLEANUP_FREE =
        xasprintf("%.*s/__pycache__/%.*s.cpython-%.1s%s.pyc", (int)(slash - path), path,
                  (int)strlen(slash + 1) - 3, slash + 1, digits, digits + 2);
    return add_host_file(layer, file, false, err);
}

static enum err_kind package_files(const char *name, struct buf *out, struct err *err)
{
    char *lib CLEANUP_FREE = xasprintf("lib%s-stdlib", name);
    char *lib_min CLEANUP_FREE = xasprintf("lib%s-minimal", name);
    char *min CLEANUP_FREE = xasprintf("%s-minimal", name);
    const char *argv[] = { "dpkg", "-L", "python3-minimal", min, lib_min, lib, NULL };
    struct proc proc = { .argv = argv, .timeout_ms = 30000 };
    if (proc_run(&proc, out, err))
        return err_prefix(err, "files of Debian's %s", name);
    return ERR_OK;
}

static enum err_kind build_python(struct layer *layer, const char *name, struct err *err)
{
    struct buf listing CLEANUP(buf_fini);
    buf_init(&listing, LISTING_MAX);
    json_t *programs CLEANUP_JSON = json_array();
    if (add_skeleton(layer, err) || package_files(name, &listing, err))
        return err->kind;
    char *text CLEANUP_FREE = xstrdup(buf_cstr(&listing));
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (!python_wanted(line, name))
            continue;
        if (add_host_file(layer, line, true, err) || add_compiled(layer, line, name, err))
            return err->kind;
        if (is_elf(line))
            json_array_append_new(programs, json_string(line));
    }
    if (json_array_size(programs) == 0)
        return err_set(err, ERR_NOT_FOUND, "Debian's %s has no program", name);
    return add_libraries(layer, programs, err);
}

/* A name that changes with the packages the base is made of. */
static enum err_kind python_key(const char *name, char out[13], struct err *err)
{
    char *pattern CLEANUP_FREE = xasprintf("*%s*", name);
    const char *argv[] = { "dpkg-query", "-W", pattern, "libc6", "libssl3*", "zlib1g", NULL };
    struct buf listing CLEANUP(buf_fini);
    buf_init(&listing, LISTING_MAX);
    int status;
    struct proc proc = { .argv = argv, .timeout_ms = 30000 };
    if (proc_status(&proc, &status, &listing, err))
        return err->kind;
    buf_append_str(&listing, "form 1");
    char digest[DIGEST_SIZE];
    digest_of(listing.data, listing.len, digest);
    (void)snprintf(out, 13, "%.12s", digest + 7);
    return ERR_OK;
}

static json_t *layer_json(int fd, int64_t size, const char *digest)
{
    json_t *layer = json_pack("{s:I, s:s}", "size", (json_int_t)size, "digest", digest);
    if (fd >= 0)
        json_object_set_new(layer, "fd", json_integer(fd));
    return layer;
}

static enum err_kind base_make(struct containerd *cd, const char *python, const char *image_name,
                               const char *snapshotter, struct image **out, struct err *err)
{
    struct layer *layer CLEANUP(layer_freep) = NULL;
    int fd CLEANUP_FD = -1;
    int64_t size;
    char digest[DIGEST_SIZE];
    if (layer_new(&layer, err) || build_python(layer, python, err) ||
        layer_end(layer, &fd, &size, digest, err))
        return err_prefix(err, "python base");
    json_t *layers CLEANUP_JSON = json_pack("[o]", layer_json(fd, size, digest));
    json_t *args CLEANUP_JSON = json_pack("[s]", "/usr/bin/python3");
    struct image_recipe recipe = {
        .name = image_name, .layers = layers, .args = args, .dir = "/", .snapshotter = snapshotter
    };
    return image_make(cd, &recipe, out, err);
}

/* The base's layers as recipe entries; empty for a static binary. */
static enum err_kind base_layers(struct containerd *cd, enum endpoint_entry entry,
                                 const char *snapshotter, json_t *layers, struct err *err)
{
    if (entry != ENDPOINT_ENTRY_PYTHON)
        return ERR_OK;
    char python[32], key[13];
    if (python_name(python, err) || python_key(python, key, err))
        return err->kind;
    char *name CLEANUP_FREE = xasprintf("utter.local/base-%s:%s", python, key);
    struct image *base CLEANUP(image_freep) = NULL;
    enum err_kind kind = image_find(cd, name, &base, err);
    if (kind == ERR_NOT_FOUND)
        kind = base_make(cd, python, name, snapshotter, &base, err);
    if (kind)
        return kind;
    const json_t *have = json_object_get(base->manifest, "layers");
    for (size_t i = 0; i < json_array_size(have); i++) {
        const json_t *layer = json_array_get(have, i);
        json_array_append_new(layers,
                              layer_json(-1, json_integer_value(json_object_get(layer, "size")),
                                         json_string_value(json_object_get(layer, "digest"))));
    }
    return ERR_OK;
}

/* ---- a handler's folder ---- */

static bool folder_has(const struct endpoint *e, const char *file, struct stat *st)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", e->folder, file);
    return lstat(path, st) == 0 && S_ISREG(st->st_mode);
}

static enum err_kind find_entry(struct endpoint *e, struct err *err)
{
    static const char *const usual[] = { "main.py", "handler.py", "app.py", "server.py" };
    struct stat st;
    for (size_t i = 0; !e->entry_file && i < ARRAY_LEN(usual); i++) {
        if (!folder_has(e, usual[i], &st))
            continue;
        e->entry_file = xstrdup(usual[i]);
        e->entry = ENDPOINT_ENTRY_PYTHON;
    }
    if (!e->entry_file)
        return err_set(err, ERR_INVALID,
                       "handler.entry: %s has none of main.py, handler.py, app.py, server.py; name "
                       "the file to run",
                       e->folder);
    if (!folder_has(e, e->entry_file, &st))
        return err_set(err, ERR_INVALID, "handler.entry: %s/%s: no such file", e->folder,
                       e->entry_file);
    return ERR_OK;
}

/* A program header of type INTERP means a loader that the image would not have. */
static enum err_kind check_static(const struct endpoint *e, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", e->folder, e->entry_file);
    Elf64_Ehdr head;
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    if (read(fd, &head, sizeof(head)) != sizeof(head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(Elf64_Phdr))
        return err_set(err, ERR_INVALID, "handler.entry: %s is neither a .py file nor a program",
                       e->entry_file);
    for (unsigned i = 0; i < head.e_phnum && i < 128; i++) {
        Elf64_Phdr part;
        if (pread(fd, &part, sizeof(part), (off_t)(head.e_phoff + i * sizeof(part))) !=
            sizeof(part))
            return err_set(err, ERR_INVALID, "handler.entry: %s is cut short", e->entry_file);
        if (part.p_type == PT_INTERP)
            return err_set(err, ERR_INVALID,
                           "handler.entry: %s is linked dynamically; link it with -static",
                           e->entry_file);
    }
    return ERR_OK;
}

static json_t *entry_args(const struct endpoint *e)
{
    char *file CLEANUP_FREE = xasprintf("/app/%s", e->entry_file);
    if (e->entry == ENDPOINT_ENTRY_PYTHON)
        return json_pack("[s, s, s, s]", "/usr/bin/python3", "-B", "-u", file);
    return json_pack("[s]", file);
}

enum err_kind image_of_folder(struct containerd *cd, struct endpoint *e, const char *snapshotter,
                              struct image **out, struct err *err)
{
    struct layer *layer CLEANUP(layer_freep) = NULL;
    int fd CLEANUP_FD = -1;
    int64_t size;
    char digest[DIGEST_SIZE];
    json_t *layers CLEANUP_JSON = json_array();
    if (find_entry(e, err) || (e->entry == ENDPOINT_ENTRY_BINARY && check_static(e, err)) ||
        base_layers(cd, e->entry, snapshotter, layers, err) || layer_new(&layer, err))
        return err->kind;
    if (e->entry == ENDPOINT_ENTRY_BINARY && add_skeleton(layer, err))
        return err->kind;
    if (layer_folder(layer, e->folder, "app", err) || layer_end(layer, &fd, &size, digest, err))
        return err_prefix(err, "handler.folder");
    json_array_append_new(layers, layer_json(fd, size, digest));
    json_t *args CLEANUP_JSON = entry_args(e);
    json_t *labels CLEANUP_JSON = json_pack("{s:s}", "utter/slug", e->slug.s);
    char *name CLEANUP_FREE = xasprintf("utter.local/%s:%.12s", e->slug.s, digest + 7);
    struct image_recipe recipe = { .name = name,
                                   .layers = layers,
                                   .args = args,
                                   .dir = "/app",
                                   .snapshotter = snapshotter,
                                   .labels = labels };
    return image_make(cd, &recipe, out, err);
}

enum err_kind image_of_program(struct containerd *cd, const char *program, const char *name,
                               const json_t *args, const char *snapshotter, struct image **out,
                               struct err *err)
{
    struct layer *layer CLEANUP(layer_freep) = NULL;
    int fd CLEANUP_FD = -1;
    int64_t size;
    char digest[DIGEST_SIZE];
    struct stat st;
    json_t *programs CLEANUP_JSON = json_pack("[s]", program);
    int from CLEANUP_FD = open(program, O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st))
        return err_sys(err, errno, "%s", program);
    char *inside CLEANUP_FREE = xasprintf("usr/bin/%s", strrchr(program, '/') + 1);
    if (layer_new(&layer, err) || add_skeleton(layer, err) ||
        layer_dir(layer, "var/lib/utter-gate", 0755, err) ||
        layer_dir(layer, "etc/utter", 0755, err) || layer_dir(layer, "run/utter-gate", 0755, err) ||
        layer_dir(layer, "run/utter-token", 0755, err) ||
        layer_fd(layer, inside, 0755, 0, from, st.st_size, err) ||
        add_libraries(layer, programs, err) ||
        add_host_file(layer, "/etc/ssl/certs/ca-certificates.crt", false, err) ||
        layer_end(layer, &fd, &size, digest, err))
        return err_prefix(err, "image of %s", program);
    json_t *layers CLEANUP_JSON = json_pack("[o]", layer_json(fd, size, digest));
    struct image_recipe recipe = {
        .name = name, .layers = layers, .args = args, .dir = "/", .snapshotter = snapshotter
    };
    return image_make(cd, &recipe, out, err);
}
