#include "gate/ledger_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "gate/fault.h"

#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xFF534D42
#endif

static const struct {
    uint32_t magic;
    const char *name;
    const char *why;
} unfit[] = {
    { TMPFS_MAGIC, "tmpfs", "it is gone after a reboot" },
    { RAMFS_MAGIC, "ramfs", "it is gone after a reboot" },
    { OVERLAYFS_SUPER_MAGIC, "overlay", "it goes with the container; mount a volume" },
    { NFS_SUPER_MAGIC, "NFS", "its locks and syncs cannot be relied upon" },
    { CIFS_SUPER_MAGIC, "CIFS", "its locks and syncs cannot be relied upon" },
    { SMB_SUPER_MAGIC, "SMB", "its locks and syncs cannot be relied upon" },
};

static char *directory_of(const char *path)
{
    char *copy CLEANUP_FREE = xstrdup(path);
    return xstrdup(dirname(copy));
}

enum err_kind ledger_file_check_fs(const char *path, bool force, struct err *err)
{
    char *dir CLEANUP_FREE = directory_of(path);
    struct statfs fs;
    if (statfs(dir, &fs))
        return err_sys(err, errno, "ledger directory %s", dir);
    for (size_t i = 0; i < ARRAY_LEN(unfit) && !force; i++) {
        if ((uint32_t)fs.f_type == unfit[i].magic)
            return err_set(
                err, ERR_PRECONDITION,
                "ledger %s is on %s: %s (or set ledger.any_filesystem for a throw-away gate)", path,
                unfit[i].name, unfit[i].why);
    }
    return ERR_OK;
}

/* The descriptor must still be the file that the name means: a lock on a removed file locks
 * nothing. */
static bool same_file(int fd, const char *path)
{
    struct stat a;
    struct stat b;
    return !fstat(fd, &a) && !stat(path, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static enum err_kind lock_file(const char *name, const char *held, int *fd, struct err *err)
{
    int lock CLEANUP_FD = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0)
        return err_sys(err, errno, "%s", name);
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (fcntl(lock, F_OFD_SETLK, &whole)) {
        if (errno == EAGAIN || errno == EACCES)
            return err_set(err, ERR_EXISTS, "%s", held);
        return err_sys(err, errno, "lock %s", name);
    }
    if (!same_file(lock, name))
        return err_set(err, ERR_EXISTS, "%s was replaced while it was taken; try again", name);
    *fd = steal_fd(&lock);
    return ERR_OK;
}

enum err_kind ledger_file_lock(const char *path, int *fd, struct err *err)
{
    char *name CLEANUP_FREE = xasprintf("%s.lock", path);
    char *held CLEANUP_FREE = xasprintf(
        "ledger %s is held by another utter-gate (end it, or start with --standby)", path);
    return lock_file(name, held, fd, err);
}

enum err_kind ledger_file_lock_standby(const char *path, int *fd, struct err *err)
{
    char *name CLEANUP_FREE = xasprintf("%s.standby", path);
    char *held CLEANUP_FREE =
        xasprintf("another utter-gate stands by for ledger %s already (end it first)", path);
    return lock_file(name, held, fd, err);
}

bool ledger_file_inode_lasts(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) || (uint32_t)fs.f_type != V9FS_MAGIC;
}

uint64_t ledger_file_inode(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (uint64_t)st.st_ino;
}

enum err_kind ledger_file_sync_dir(const char *path, struct err *err)
{
    char *dir CLEANUP_FREE = directory_of(path);
    int fd CLEANUP_FD = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd))
        return err_sys(err, errno, "sync %s", dir);
    fault_point("dir.synced");
    return ERR_OK;
}

enum err_kind ledger_file_new_id(char out[33], struct err *err)
{
    uint8_t id[16];
    if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
        return err_sys(err, errno, "getrandom");
    text_hex(id, sizeof(id), out);
    return ERR_OK;
}

void ledger_spell_transaction(const char *s, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", s);
    for (char *p = out; text_starts(out, "0x") && *p; p++)
        *p = (char)tolower((unsigned char)*p);
}
