#include "tests/gate/crash/power_vfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

#define SECTOR 512
#define FILES_MAX 16

/* One unsynced change. */
struct change {
    struct change *next;
    bool truncate;
    sqlite3_int64 at;
    int len;
    unsigned char data[];
};

/* A file by name, shared by all connections. */
struct node {
    char name[256];
    bool on_disk; /* its directory entry is durable */
    struct change *first, **last;
};

/* A test's process is one gate: its files, and how its power fails. */
static struct node nodes[FILES_MAX];
static int n_nodes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum power_loss how;
static unsigned dice;
static unsigned slow_ms;
static sqlite3_vfs *real_vfs;

struct power_file {
    sqlite3_file base;
    struct node *node;
    sqlite3_file *real;
};

static void die(const char *what)
{
    perror(what);
    abort();
}

static void image_name(const char *name, char out[300])
{
    snprintf(out, 300, "%s.disk", name);
}

/* ---- the image ---- */

static void apply_part(int fd, const struct change *change, int from, int len)
{
    if (len > 0 && pwrite(fd, change->data + from, (size_t)len, change->at + from) != len)
        die("pwrite");
}

static void apply_torn(int fd, const struct change *change)
{
    for (int from = 0; from < change->len; from += SECTOR) {
        int len = change->len - from < SECTOR ? change->len - from : SECTOR;
        if (rand_r(&dice) % 2)
            apply_part(fd, change, from, len);
    }
}

static void apply_change(int fd, const struct change *change)
{
    if (change->truncate) {
        if (ftruncate(fd, change->at))
            die("ftruncate");
    } else {
        apply_part(fd, change, 0, change->len);
    }
}

static int open_image(const struct node *node)
{
    char image[300];
    image_name(node->name, image);
    int fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        die(image);
    return fd;
}

static void sync_node(struct node *node)
{
    int fd CLEANUP_FD = open_image(node);
    while (node->first) {
        struct change *change = node->first;
        node->first = change->next;
        apply_change(fd, change);
        free(change);
    }
    node->last = &node->first;
    node->on_disk = true;
}

static void lose_node(struct node *node)
{
    if (how == POWER_DROP || !node->first)
        return;
    if (!node->on_disk && rand_r(&dice) % 2)
        return;
    int fd CLEANUP_FD = open_image(node);
    for (struct change *change = node->first; change; change = change->next) {
        int roll = rand_r(&dice) % 3;
        if (roll == 0)
            continue;
        if (how == POWER_TEAR && roll == 1 && !change->truncate)
            apply_torn(fd, change);
        else
            apply_change(fd, change);
    }
}

void power_vfs_die(void)
{
    pthread_mutex_lock(&lock); /* for good: no other thread may sync any more */
    for (int i = 0; i < n_nodes; i++)
        lose_node(&nodes[i]);
}

static void copy_file(const char *from, const char *to)
{
    int in CLEANUP_FD = open(from, O_RDONLY | O_CLOEXEC);
    int out CLEANUP_FD = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char bytes[65536];
    ssize_t n;
    if (in < 0 || out < 0)
        die(from);
    while ((n = read(in, bytes, sizeof(bytes))) > 0) {
        if (write(out, bytes, (size_t)n) != n)
            die(to);
    }
}

static const char *const suffixes[] = { "", "-wal", "-journal" };

void power_vfs_forget(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char *image CLEANUP_FREE = xasprintf("%s%s.disk", path, suffixes[i]);
        (void)unlink(image);
    }
}

void power_vfs_restore(const char *path)
{
    char name[256];
    char image[300];
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        image_name(name, image);
        if (!access(image, F_OK))
            copy_file(image, name);
        else
            (void)unlink(name);
        (void)unlink(image);
    }
    snprintf(name, sizeof(name), "%s-shm", path);
    (void)unlink(name);
}

/* ---- changes ---- */

static void note(struct node *node, bool truncate, sqlite3_int64 at, const void *data, int len)
{
    struct change *change = xmalloc(sizeof(*change) + (size_t)len);
    *change = (struct change){ .truncate = truncate, .at = at, .len = len };
    if (len)
        memcpy(change->data, data, (size_t)len);
    *node->last = change;
    node->last = &change->next;
}

static struct node *node_of(const char *name)
{
    for (int i = 0; i < n_nodes; i++) {
        if (!strcmp(nodes[i].name, name))
            return &nodes[i];
    }
    if (n_nodes == FILES_MAX)
        die("too many files");
    struct node *node = &nodes[n_nodes++];
    snprintf(node->name, sizeof(node->name), "%s", name);
    node->last = &node->first;
    return node;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct power_file *)file)->real;
}

static int power_close(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    int rc = real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
    free(real);
    return rc;
}

static int power_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), data, len, at);
}

static int power_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    struct node *node = ((struct power_file *)file)->node;
    pthread_mutex_lock(&lock);
    int rc = real_of(file)->pMethods->xWrite(real_of(file), data, len, at);
    if (rc == SQLITE_OK && node)
        note(node, false, at, data, len);
    pthread_mutex_unlock(&lock);
    return rc;
}

static int power_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct node *node = ((struct power_file *)file)->node;
    pthread_mutex_lock(&lock);
    int rc = real_of(file)->pMethods->xTruncate(real_of(file), size);
    if (rc == SQLITE_OK && node)
        note(node, true, size, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

void power_vfs_slow(unsigned sync_ms)
{
    slow_ms = sync_ms;
}

static int power_sync(sqlite3_file *file, int flags)
{
    struct node *node = ((struct power_file *)file)->node;
    (void)flags;
    usleep(slow_ms * 1000);
    pthread_mutex_lock(&lock);
    if (node)
        sync_node(node);
    pthread_mutex_unlock(&lock);
    return SQLITE_OK;
}

static int power_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int power_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int power_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int power_reserved(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int power_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int power_sector(sqlite3_file *file)
{
    (void)file;
    return SECTOR;
}

/* A disk that promises nothing. */
static int power_device(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static int power_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}

static int power_shm_lock(sqlite3_file *file, int at, int n, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), at, n, flags);
}

static void power_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int power_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = power_close,
    .xRead = power_read,
    .xWrite = power_write,
    .xTruncate = power_truncate,
    .xSync = power_sync,
    .xFileSize = power_size,
    .xLock = power_lock,
    .xUnlock = power_unlock,
    .xCheckReservedLock = power_reserved,
    .xFileControl = power_control,
    .xSectorSize = power_sector,
    .xDeviceCharacteristics = power_device,
    .xShmMap = power_shm_map,
    .xShmLock = power_shm_lock,
    .xShmBarrier = power_shm_barrier,
    .xShmUnmap = power_shm_unmap,
};

/* A file that was there before this process is on the disk as it is. */
static void adopt(struct node *node, bool existed)
{
    char image[300];
    image_name(node->name, image);
    if (node->on_disk || !existed || !access(image, F_OK))
        return;
    copy_file(node->name, image);
    node->on_disk = true;
}

static int power_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                      int *out_flags)
{
    struct power_file *power = (struct power_file *)file;
    (void)vfs;
    power->real = xcalloc(1, (size_t)real_vfs->szOsFile);
    power->node = NULL;
    bool ours =
        name && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL));
    bool existed = ours && !access(name, F_OK);
    int rc = real_vfs->xOpen(real_vfs, name, power->real, flags, out_flags);
    if (rc != SQLITE_OK) {
        free(power->real);
        file->pMethods = NULL;
        return rc;
    }
    if (ours) {
        pthread_mutex_lock(&lock);
        power->node = node_of(name);
        adopt(power->node, existed);
        pthread_mutex_unlock(&lock);
    }
    file->pMethods = &methods;
    return SQLITE_OK;
}

/* A removed name comes back after a loss of power unless the directory was synced: then it is gone
 * from the image too. */
static int power_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    (void)vfs;
    int rc = real_vfs->xDelete(real_vfs, name, 0);
    char image[300];
    image_name(name, image);
    if (rc == SQLITE_OK && sync_dir)
        (void)unlink(image);
    return rc;
}

static int power_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    return real_vfs->xAccess(real_vfs, name, flags, out);
}

static int power_full(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    (void)vfs;
    return real_vfs->xFullPathname(real_vfs, name, size, out);
}

void power_vfs_register(enum power_loss loss, unsigned seed)
{
    static sqlite3_vfs vfs;
    real_vfs = sqlite3_vfs_find(NULL);
    how = loss;
    dice = seed;
    vfs = *real_vfs;
    vfs.zName = "power";
    vfs.pNext = NULL;
    vfs.szOsFile = (int)sizeof(struct power_file);
    vfs.xOpen = power_open;
    vfs.xDelete = power_delete;
    vfs.xAccess = power_access;
    vfs.xFullPathname = power_full;
    if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
        die("vfs");
}
