#include "shim/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"

#define STATE_NAME "utter-state.json"
#define STATE_MAX (64U * 1024)
#define TASKS "/io.containerd.runtime.v2.task/"

void bundle_fini(struct bundle *bundle)
{
    free(bundle->path);
    free(bundle->rootfs);
    free(bundle->private_dir);
    free(bundle->containerd_state);
    free(bundle->containerd_root);
    *bundle = (struct bundle){ 0 };
}

/* "<prefix>/io.containerd.runtime.v2.task/<ns>/<id>" → prefix, NULL if it has another form. */
static char *prefix_of(const char *path, const char *ns, const char *id)
{
    char *tail CLEANUP_FREE = xasprintf(TASKS "%s/%s", ns, id);
    if (path[0] != '/' || !text_ends(path, tail) || strlen(path) == strlen(tail))
        return NULL;
    return xstrndup(path, strlen(path) - strlen(tail));
}

static CHECKED enum err_kind owned_by_root(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return err_sys(err, errno, "bundle %s", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != 0 || (st.st_mode & 022) != 0)
        return err_set(err, ERR_PRECONDITION, "bundle %s: not a directory that only root can write",
                       path);
    return ERR_OK;
}

enum err_kind bundle_open(const char *path, const char *ns, const char *id, struct bundle *out,
                          struct err *err)
{
    *out = (struct bundle){ 0 };
    char *state CLEANUP_FREE = prefix_of(path, ns, id);
    if (!state)
        return err_set(err, ERR_INVALID, "bundle %s: not the bundle of %s in namespace %s", path,
                       id, ns);
    enum err_kind kind = owned_by_root(path, err);
    if (kind)
        return kind;
    char *link CLEANUP_FREE = xasprintf("%s/work", path);
    char target[PATH_MAX];
    ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n < 0)
        return err_sys(err, errno, "bundle %s: link work", path);
    target[n] = '\0';
    char *root CLEANUP_FREE = prefix_of(target, ns, id);
    if (!root)
        return err_set(err, ERR_INVALID, "bundle %s: link work leads to %s", path, target);
    *out = (struct bundle){
        .path = xstrdup(path),
        .rootfs = xasprintf("%s/rootfs", path),
        .private_dir = xasprintf("%s/utter", path),
        .containerd_state = STEAL(state),
        .containerd_root = STEAL(root),
    };
    return ERR_OK;
}

enum err_kind bundle_read_spec(const char *path, char **text, size_t *len, struct err *err)
{
    char *file CLEANUP_FREE = xasprintf("%s/config.json", path);
    struct stat st;
    if (lstat(file, &st) != 0)
        return err_sys(err, errno, "%s", file);
    if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 022) != 0)
        return err_set(err, ERR_PRECONDITION, "%s: not a file that only root can write", file);
    if (st.st_size > JSON_SIZE_MAX)
        return err_set(err, ERR_INVALID, "json: the spec has %lld bytes (at most %d are read)",
                       (long long)st.st_size, JSON_SIZE_MAX);
    return fs_read(file, JSON_SIZE_MAX, text, len, err);
}

enum err_kind bundle_load_spec(const char *path, json_t **out, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    enum err_kind kind = bundle_read_spec(path, &text, &len, err);
    return kind ? kind : json_strict_load(text, len, JSON_SIZE_MAX, JSON_TAKE_UINT64_MAX, out, err);
}

static void digest(const char *address, const char *ns, const char *group, char hex[65])
{
    char *text CLEANUP_FREE = xasprintf("%s/%s/%s", address, ns, group);
    struct sha256_ctx ctx;
    uint8_t sum[SHA256_DIGEST_SIZE];
    sha256_init(&ctx);
    sha256_update(&ctx, strlen(text), (const uint8_t *)text);
    sha256_digest(&ctx, sizeof(sum), sum);
    text_hex(sum, sizeof(sum), hex);
}

char *bundle_run_dir(const char *address, const char *ns, const char *group)
{
    char hex[65];
    digest(address, ns, group, hex);
    return xasprintf(BUNDLE_RUN "/%.32s", hex);
}

char *bundle_socket(const char *dir, const char *address, const char *ns, const char *group)
{
    char hex[65];
    digest(address, ns, group, hex);
    return xasprintf("%s/%s", dir, hex);
}

static void set_string(json_t *object, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(object, key, json_string(value));
}

static void set_int(json_t *object, const char *key, int64_t value)
{
    (void)json_object_set_new(object, key, json_integer(value));
}

enum err_kind bundle_state_save(const char *bundle, const struct bundle_state *state,
                                struct err *err)
{
    json_t *tree CLEANUP_JSON = json_object();
    set_int(tree, "version", BUNDLE_STATE_VERSION);
    set_int(tree, "oldest_reader", 1);
    set_string(tree, "namespace", state->ns);
    set_string(tree, "id", state->id);
    set_string(tree, "group", state->group);
    set_string(tree, "role", state->role);
    set_string(tree, "run_dir", state->run_dir);
    set_string(tree, "socket", state->socket);
    set_string(tree, "runsc", state->runsc);
    set_string(tree, "cgroup", state->cgroup);
    set_int(tree, "cgroup_keep", state->cgroup_keep);
    (void)json_object_set_new(tree, "cgroup_systemd", json_boolean(state->cgroup_systemd));
    (void)json_object_set_new(tree, "network_sandbox", json_boolean(state->network_sandbox));
    set_int(tree, "shim_pid", state->shim_pid);
    set_int(tree, "shim_ticks", state->shim_ticks);
    set_int(tree, "pid", state->pid);
    set_int(tree, "start_ticks", state->start_ticks);
    set_int(tree, "exit_code", state->exit_code);
    set_int(tree, "exited_s", state->exited_s);
    set_int(tree, "exited_ns", state->exited_ns);
    char *text CLEANUP_FREE = json_canonical(tree);
    char *path CLEANUP_FREE = xasprintf("%s/" STATE_NAME, bundle);
    return fs_write(path, text, strlen(text), 0600, false, err);
}

static CHECKED enum err_kind read_string(const json_t *tree, const char *key, char **out,
                                         struct err *err)
{
    const char *value = NULL;
    enum err_kind kind = json_get_string(tree, key, false, &value, err);
    if (!kind && value)
        *out = xstrdup(value);
    return kind;
}

static CHECKED enum err_kind read_strings(const json_t *tree, struct bundle_state *out,
                                          struct err *err)
{
    const struct {
        const char *key;
        char **slot;
    } rows[] = {
        { "namespace", &out->ns }, { "id", &out->id },           { "group", &out->group },
        { "role", &out->role },    { "run_dir", &out->run_dir }, { "socket", &out->socket },
        { "runsc", &out->runsc },  { "cgroup", &out->cgroup },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum err_kind kind = read_string(tree, rows[i].key, rows[i].slot, err);
        if (kind)
            return kind;
    }
    return ERR_OK;
}

static CHECKED enum err_kind read_numbers(const json_t *tree, struct bundle_state *out,
                                          struct err *err)
{
    const struct {
        const char *key;
        int64_t least;
        int64_t *slot;
    } rows[] = {
        { "shim_pid", 0, &out->shim_pid },       { "shim_ticks", 0, &out->shim_ticks },
        { "cgroup_keep", 0, &out->cgroup_keep }, { "pid", 0, &out->pid },
        { "start_ticks", 0, &out->start_ticks }, { "exit_code", -1, &out->exit_code },
        { "exited_s", 0, &out->exited_s },       { "exited_ns", 0, &out->exited_ns },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum err_kind kind =
            json_get_int(tree, rows[i].key, false, rows[i].least, INT64_MAX, rows[i].slot, err);
        if (kind)
            return kind;
    }
    enum err_kind kind = json_get_bool(tree, "cgroup_systemd", false, &out->cgroup_systemd, err);
    return kind ? kind : json_get_bool(tree, "network_sandbox", false, &out->network_sandbox, err);
}

enum err_kind bundle_state_load(const char *bundle, struct bundle_state *out, struct err *err)
{
    *out = (struct bundle_state){ .exit_code = -1 };
    char *path CLEANUP_FREE = xasprintf("%s/" STATE_NAME, bundle);
    json_t *tree CLEANUP_JSON = NULL;
    enum err_kind kind = json_strict_load_file(path, STATE_MAX, &tree, err);
    if (kind)
        return kind;
    int64_t oldest = 0;
    if ((kind = json_get_int(tree, "oldest_reader", true, 1, INT64_MAX, &oldest, err)))
        return kind;
    if (oldest > BUNDLE_STATE_VERSION)
        return err_set(err, ERR_INVALID, "%s: written by a newer shim", path);
    if (!(kind = read_strings(tree, out, err)))
        kind = read_numbers(tree, out, err);
    if (kind)
        bundle_state_fini(out);
    return kind;
}

void bundle_state_fini(struct bundle_state *state)
{
    free(state->ns);
    free(state->id);
    free(state->group);
    free(state->role);
    free(state->run_dir);
    free(state->socket);
    free(state->runsc);
    free(state->cgroup);
    *state = (struct bundle_state){ .exit_code = -1 };
}
