#include "deploy/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "base/fs.h"
#include "base/json.h"
#include "proto/data_token.h"

#define TOKEN_MAX 65536
#define TMPFS 0x01021994
#define FREE_MIN (1ULL << 30)

/* A directory of the given owner and mode, also when it was there. */
static enum err_kind own_dir(const char *path, uint32_t uid, mode_t mode, struct err *err)
{
    if (fs_mkdirs(path, mode, err))
        return err->kind;
    if (chmod(path, mode) || chown(path, uid, uid))
        return err_sys(err, errno, "%s", path);
    return ERR_OK;
}

static enum err_kind put(const char *path, const void *data, size_t len, uint32_t uid, mode_t mode,
                         bool durable, struct err *err)
{
    if (fs_write(path, data, len, mode, durable, err))
        return err->kind;
    if (chown(path, uid, uid))
        return err_sys(err, errno, "%s", path);
    return ERR_OK;
}

static enum err_kind put_text(const char *dir, const char *name, const char *text, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, name);
    return put(path, text, strlen(text), 0, 0444, false, err);
}

/* The host's resolvers; where its file names only a local stub, the list behind that stub. */
static char *resolvers(void)
{
    static const char *const files[] = { "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf" };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char *real CLEANUP_FREE = realpath(files[i], NULL);
        char *text CLEANUP_FREE = NULL;
        if (!real || fs_read(real, 65536, &text, NULL, ERR_IGNORED))
            continue;
        const char *at = strstr(text, "nameserver");
        if (at && !strstr(text, "nameserver 127.") && !strstr(text, "nameserver ::1"))
            return STEAL(text);
    }
    return xstrdup("# this host names no resolver that a container could reach\n");
}

static enum err_kind make_names(const struct plan *plan, struct err *err)
{
    char *own CLEANUP_FREE =
        xasprintf("127.0.0.1 localhost\n%s %s\n", plan_ip(plan->handler.address).s, plan->slug.s);
    if (plan_has_data(plan)) {
        char *more = xasprintf("%s%s data\n", own, plan_ip(plan->data.address).s);
        free(own);
        own = more;
    }
    char *dns CLEANUP_FREE = resolvers();
    if (put_text(plan->run, "hosts", own, err) ||
        put_text(plan->run, "resolv.conf", "# no resolver: this network has no way out\n", err) ||
        put_text(plan->run, "gate-hosts", "127.0.0.1 localhost\n", err) ||
        put_text(plan->run, "gate-resolv.conf", dns, err))
        return err->kind;
    return ERR_OK;
}

/* A tmpfs of one user: what is in it never reaches a disk. */
static enum err_kind make_private_dir(const struct plan *plan, const char *name, uint32_t uid,
                                      struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s", plan->run, name);
    char *options CLEANUP_FREE =
        xasprintf("size=512k,nr_inodes=64,mode=0500,uid=%u,gid=%u", uid, uid);
    struct statfs fs;
    struct stat here, parent;
    if (fs_mkdirs(path, 0500, err))
        return err->kind;
    if (statfs(path, &fs) || stat(path, &here) || stat(plan->run, &parent))
        return err_sys(err, errno, "%s", path);
    if (fs.f_type == TMPFS && here.st_dev != parent.st_dev)
        return ERR_OK;
    if (mount("utter-token", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options))
        return err_sys(err, errno, "mount %s", path);
    return ERR_OK;
}

static enum err_kind hand_over_token(const struct plan *plan, struct err *err)
{
    char *durable CLEANUP_FREE = xasprintf("%s/token", plan->state);
    char *path CLEANUP_FREE = xasprintf("%s/token/token", plan->run);
    char *token CLEANUP_FREE = NULL;
    size_t len = 0;
    enum err_kind kind = fs_read(durable, TOKEN_MAX, &token, &len, err);
    if (kind)
        return kind == ERR_NOT_FOUND ? ERR_OK : kind;
    kind = put(path, token, len, plan->uid, 0400, false, err);
    explicit_bzero(token, len);
    return kind;
}

enum err_kind files_token(const struct plan *plan, const char *source, struct err *err)
{
    char *durable CLEANUP_FREE = xasprintf("%s/token", plan->state);
    char *token CLEANUP_FREE = NULL;
    size_t len = 0;
    if (fs_read(source, TOKEN_MAX, &token, &len, err))
        return err_prefix(err, "token");
    enum err_kind kind = len == 0 ? err_set(err, ERR_INVALID, "token: %s is empty", source)
                                  : put(durable, token, len, 0, 0600, true, err);
    explicit_bzero(token, len);
    return kind ? kind : hand_over_token(plan, err);
}

/* ---- the data proxy's ---- */

/* A pair of keys that lives as long as its tmpfs: a new one at each boot and each new slug. */
static enum err_kind make_data_keys(const struct plan *plan, struct err *err)
{
    char *private_path CLEANUP_FREE = xasprintf("%s/data-key/data.key", plan->run);
    char *public_path CLEANUP_FREE = xasprintf("%s/data-keys/data.pub", plan->run);
    char *private_pem CLEANUP_FREE = NULL;
    char *public_pem CLEANUP_FREE = NULL;
    struct data_key *key CLEANUP(data_key_freep) = NULL;
    if (access(private_path, F_OK) == 0 && access(public_path, F_OK) == 0)
        return ERR_OK;
    if (data_key_generate(&key, err) || data_key_private_pem(key, &private_pem, err) ||
        data_key_public_pem(key, &public_pem, err) ||
        put(public_path, public_pem, strlen(public_pem), 0, 0444, false, err))
        return err->kind;
    enum err_kind kind =
        put(private_path, private_pem, strlen(private_pem), plan->uid, 0400, false, err);
    explicit_bzero(private_pem, strlen(private_pem));
    return kind;
}

static enum err_kind put_data_config(const struct plan *plan, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/data/data.json", plan->state);
    char *text CLEANUP_FREE = json_dumps(plan->data_config, JSON_INDENT(2) | JSON_SORT_KEYS);
    return put(path, text, strlen(text), 0, 0444, true, err);
}

static enum err_kind files_data(const struct plan *plan, struct err *err)
{
    const struct {
        const char *base, *name;
        uint32_t uid;
        mode_t mode;
    } dirs[] = {
        { plan->state, "/data", 0, 0755 },
        { plan->state, "/egress", plan->data_uid, 0700 },
        { plan->state, "/secrets", 0, 0700 },
        { plan->run, "/data", plan->data_uid, 0755 },
        { plan->run, "/data/admin", plan->data_uid, 0700 },
        { plan->run, "/data-keys", 0, 0755 },
    };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        char *path CLEANUP_FREE = xasprintf("%s%s", dirs[i].base, dirs[i].name);
        if (own_dir(path, dirs[i].uid, dirs[i].mode, err))
            return err->kind;
    }
    if (make_private_dir(plan, "data-key", plan->uid, err) ||
        make_private_dir(plan, "secrets", plan->data_uid, err) || make_data_keys(plan, err))
        return err->kind;
    return put_data_config(plan, err);
}

static enum err_kind copy_secret(const char *from, const char *to, uint32_t uid, mode_t mode,
                                 bool durable, struct err *err)
{
    char *secret CLEANUP_FREE = NULL;
    size_t len = 0;
    if (fs_read(from, TOKEN_MAX, &secret, &len, err))
        return err->kind;
    enum err_kind kind = len == 0 ? err_set(err, ERR_INVALID, "%s is empty", from)
                                  : put(to, secret, len, uid, mode, durable, err);
    explicit_bzero(secret, len);
    return kind;
}

/* One credential: source → durable copy (root's) → the proxy's tmpfs. */
static enum err_kind hand_over_secret(const struct plan *plan, const char *name, const char *source,
                                      struct err *err)
{
    char *durable CLEANUP_FREE = xasprintf("%s/secrets/%s", plan->state, name);
    char *path CLEANUP_FREE = xasprintf("%s/secrets/%s", plan->run, name);
    if (source && copy_secret(source, durable, 0, 0600, true, err))
        return err->kind;
    return copy_secret(durable, path, plan->data_uid, 0400, false, err);
}

static const char *source_of(const struct upstreams *upstreams, const char *name)
{
    for (size_t i = 0; upstreams && i < upstreams->n_secrets; i++) {
        if (strcmp(upstreams->secret[i].name, name) == 0)
            return upstreams->secret[i].source;
    }
    return NULL;
}

enum err_kind files_secrets(const struct plan *plan, const struct upstreams *upstreams,
                            struct err *err)
{
    const json_t *list = json_object_get(plan->data_config, "upstreams");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *upstream = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(upstream, "name"));
        if (json_object_get(upstream, "inject") &&
            hand_over_secret(plan, name, source_of(upstreams, name), err))
            return err_prefix(err, "credential of upstream \"%s\"", name);
    }
    return ERR_OK;
}

/* Owned by root and the group of the gates that share it. The file is made here, so that what
 * SQLite puts beside it gets its mode, and the directory's set-group-id bit its group. */
static enum err_kind make_claims(const struct plan *plan, struct err *err)
{
    char *parent CLEANUP_FREE =
        xasprintf("%.*s", (int)(strrchr(plan->claims, '/') - plan->claims), plan->claims);
    char *file CLEANUP_FREE = xasprintf("%s/" PLAN_CLAIMS_FILE, plan->claims);
    if (own_dir(parent, 0, 0711, err) || fs_mkdirs(plan->claims, 0700, err))
        return err->kind;
    if (chown(plan->claims, 0, plan->claims_gid) || chmod(plan->claims, 02770))
        return err_sys(err, errno, "%s", plan->claims);
    int fd CLEANUP_FD = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0660);
    if (fd < 0 || fchown(fd, 0, plan->claims_gid) || fchmod(fd, 0660))
        return err_sys(err, errno, "%s", file);
    return ERR_OK;
}

enum err_kind files_make(const struct plan *plan, const char *token_source, struct err *err)
{
    const struct {
        const char *base, *name;
        uint32_t uid;
        mode_t mode;
    } dirs[] = {
        { plan->state, "", 0, 0700 },
        { plan->state, plan->side ? "/gate2" : "/gate", 0, 0755 },
        { plan->state, "/ledger", plan->uid, 0700 },
        { plan->state, "/logs", 0, 0700 },
        { plan->run, "", 0, 0711 },
        { plan->run, plan->side ? "/admin2" : "/admin", plan->uid, 0700 },
    };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        char *path CLEANUP_FREE = xasprintf("%s%s", dirs[i].base, dirs[i].name);
        if (own_dir(path, dirs[i].uid, dirs[i].mode, err))
            return err->kind;
    }
    if (make_names(plan, err) || make_private_dir(plan, "token", plan->uid, err))
        return err->kind;
    if (plan_has_data(plan) && files_data(plan, err))
        return err_prefix(err, "data proxy");
    if (plan->claims && make_claims(plan, err))
        return err_prefix(err, "claims store");
    if (token_source)
        return files_token(plan, token_source, err);
    return hand_over_token(plan, err);
}

enum err_kind files_gate_config(const struct plan *plan, char hash[65], struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/gate%s/gate.json", plan->state, plan->side ? "2" : "");
    char *text CLEANUP_FREE = json_dumps(plan->gate_config, JSON_INDENT(2) | JSON_SORT_KEYS);
    char digest[DIGEST_SIZE];
    digest_of(text, strlen(text), digest);
    memcpy(hash, digest + 7, 65);
    return fs_write(path, text, strlen(text), 0444, true, err);
}

enum err_kind files_remove_run(const struct plan *plan, struct err *err)
{
    static const char *const mounts[] = { "token", "data-key", "secrets" };
    for (size_t i = 0; i < ARRAY_LEN(mounts); i++) {
        char *path CLEANUP_FREE = xasprintf("%s/%s", plan->run, mounts[i]);
        if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) && errno != EINVAL && errno != ENOENT)
            return err_sys(err, errno, "unmount %s", path);
    }
    return fs_remove_tree(plan->run, err);
}

enum err_kind files_remove_state(const struct plan *plan, struct err *err)
{
    return fs_remove_tree(plan->state, err);
}

enum err_kind files_check_space(const struct settings *settings, char **text, struct err *err)
{
    struct statvfs fs;
    if (fs_mkdirs(settings->state_dir, 0711, err))
        return err->kind;
    if (statvfs(settings->state_dir, &fs))
        return err_sys(err, errno, "%s", settings->state_dir);
    unsigned long long left = (unsigned long long)fs.f_bavail * fs.f_frsize;
    unsigned long long whole = (unsigned long long)fs.f_blocks * fs.f_frsize;
    *text =
        xasprintf("%llu MiB free of %llu MiB at %s", left >> 20, whole >> 20, settings->state_dir);
    if (left < FREE_MIN || left < whole / 10)
        return err_set(err, ERR_UNAVAILABLE, "%s: less than 1 GiB or 10 %%; make room", *text);
    return ERR_OK;
}
