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
        xasprintf("127.0.0.1 localhost\n%.*s %s\n", (int)strcspn(plan->handler.address, "/"),
                  plan->handler.address, plan->slug.s);
    char *dns CLEANUP_FREE = resolvers();
    if (put_text(plan->run, "hosts", own, err) ||
        put_text(plan->run, "resolv.conf", "# no resolver: this network has no way out\n", err) ||
        put_text(plan->run, "gate-hosts", "127.0.0.1 localhost\n", err) ||
        put_text(plan->run, "gate-resolv.conf", dns, err))
        return err->kind;
    return ERR_OK;
}

/* A tmpfs of the gate's user: what is in it never reaches a disk. */
static enum err_kind make_token_dir(const struct plan *plan, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/token", plan->run);
    char *options CLEANUP_FREE =
        xasprintf("size=256k,nr_inodes=16,mode=0500,uid=%u,gid=%u", plan->uid, plan->uid);
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
    if (make_names(plan, err) || make_token_dir(plan, err))
        return err->kind;
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
    char *token CLEANUP_FREE = xasprintf("%s/token", plan->run);
    if (umount2(token, MNT_DETACH | UMOUNT_NOFOLLOW) && errno != EINVAL && errno != ENOENT)
        return err_sys(err, errno, "unmount %s", token);
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
