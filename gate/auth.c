#include "gate/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/text.h"
#include "gate/cdp_jwt.h"

#define TOKEN_MAX 8192
#define OPS 3

/* One token with the identity of the file it came from. */
struct token_slot {
    char *text; /* TOKEN_MAX bytes of the locked page range; "" while there is none */
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct auth {
    enum auth_kind kind;
    int dir;                          /* -1 without a directory */
    uid_t owner;                      /* beside root: whose files are taken */
    char *name;                       /* owned */
    struct token_slot slots[OPS + 1]; /* per operation, and the one for all */
    char *memory;                     /* locked where the limit allows, wiped at close */
    struct cdp_key *cdp;
    char *key_id;
};

static const char *const op_names[OPS] = {
    [AUTH_VERIFY] = "verify", [AUTH_SETTLE] = "settle", [AUTH_SUPPORTED] = "supported"
};

void auth_close(struct auth *a)
{
    if (!a)
        return;
    if (a->memory) {
        OPENSSL_cleanse(a->memory, TOKEN_MAX * (OPS + 1));
        (void)munmap(a->memory, TOKEN_MAX * (OPS + 1));
    }
    if (a->dir >= 0)
        (void)close(a->dir);
    cdp_key_free(a->cdp);
    free(a->name);
    free(a->key_id);
    free(a);
}

static enum err_kind check_mode(const struct auth *a, const struct stat *st, const char *name,
                                struct err *err)
{
    if (!S_ISREG(st->st_mode))
        return err_set(err, ERR_PRECONDITION, "%s is not a regular file", name);
    if (st->st_uid != a->owner && st->st_uid != 0)
        return err_set(err, ERR_PRECONDITION, "%s belongs to another account", name);
    if (!fs_kept(st))
        return err_set(err, ERR_PRECONDITION,
                       "%s can be read or written by group or others (chmod 600)", name);
    return ERR_OK;
}

/* A token is one line of visible ASCII; blanks at the end are the editor's. */
static enum err_kind take_token(char *text, size_t n, const char *name, struct err *err)
{
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    text[n] = '\0';
    bool ok = n > 0;
    for (size_t i = 0; i < n; i++)
        ok = ok && text[i] > 0x20 && text[i] < 0x7f;
    if (ok)
        return ERR_OK;
    text[0] = '\0';
    return err_set(err, ERR_INVALID, "%s does not hold one token on one line", name);
}

static bool unchanged(const struct token_slot *slot, const struct stat *st)
{
    return slot->text[0] && slot->dev == st->st_dev && slot->ino == st->st_ino &&
           slot->size == st->st_size && slot->changed.tv_sec == st->st_ctim.tv_sec &&
           slot->changed.tv_nsec == st->st_ctim.tv_nsec;
}

/* Reads until end of file or `max`; -1 on a failed read. */
static ssize_t read_all(int fd, char *out, size_t max)
{
    size_t n = 0;
    while (n < max) {
        ssize_t got = read(fd, out + n, max - n);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

/* ERR_NOT_FOUND when there is no such file; the slot then holds nothing. */
static enum err_kind refresh(struct auth *a, struct token_slot *slot, const char *name,
                             struct err *err)
{
    struct stat st;
    if (fstatat(a->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && unchanged(slot, &st))
        return ERR_OK; /* also where the file can no longer be opened after the drop of rights */
    int fd CLEANUP_FD = openat(a->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st)) {
        slot->text[0] = '\0';
        return err_sys(err, errno, "token %s", name);
    }
    if (check_mode(a, &st, name, err)) {
        slot->text[0] = '\0';
        return err->kind;
    }
    ssize_t n = read_all(fd, slot->text, TOKEN_MAX);
    if (n < 0 || n >= TOKEN_MAX) {
        slot->text[0] = '\0';
        return err_set(err, ERR_INVALID, "token %s cannot be read or is longer than %d bytes", name,
                       TOKEN_MAX - 1);
    }
    slot->dev = st.st_dev;
    slot->ino = st.st_ino;
    slot->size = st.st_size;
    slot->changed = st.st_ctim;
    return take_token(slot->text, (size_t)n, name, err);
}

/* The operation's own token goes before the one for all. */
static enum err_kind find_token(struct auth *a, enum auth_op op, const char **out, struct err *err)
{
    char *own CLEANUP_FREE = xasprintf("%s.%s", a->name, op_names[op]);
    struct token_slot *slot = &a->slots[op];
    enum err_kind kind = refresh(a, slot, own, err);
    if (kind == ERR_NOT_FOUND) {
        slot = &a->slots[OPS];
        kind = refresh(a, slot, a->name, err);
    }
    *out = slot->text;
    return kind;
}

static enum err_kind open_bearer(const struct facilitator_config *f, struct auth *a,
                                 struct err *err)
{
    const char *token;
    a->name = xstrdup(f->bearer_name);
    a->dir = open(f->bearer_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->dir < 0)
        return err_sys(err, errno, "token directory %s", f->bearer_dir);
    size_t size = TOKEN_MAX * (OPS + 1);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return err_sys(err, errno, "token memory");
    a->memory = memory;
    (void)mlock(memory, size); /* best effort: RLIMIT_MEMLOCK may forbid it */
    (void)madvise(memory, size, MADV_DONTDUMP);
    for (size_t i = 0; i <= OPS; i++)
        a->slots[i].text = a->memory + i * TOKEN_MAX;
    for (size_t op = 0; op < OPS; op++) {
        if (find_token(a, (enum auth_op)op, &token, err))
            return err_prefix(err, "%s", f->bearer_dir);
    }
    return ERR_OK;
}

static enum err_kind open_cdp(const struct facilitator_config *f, struct auth *a, struct err *err)
{
    int fd CLEANUP_FD = open(f->cdp_key_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[TOKEN_MAX];
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "%s", f->cdp_key_file);
    if (check_mode(a, &st, f->cdp_key_file, err))
        return err->kind;
    ssize_t n = read_all(fd, text, sizeof(text) - 1);
    if (n < 0)
        return err_sys(err, errno, "%s", f->cdp_key_file);
    text[n] = '\0';
    a->key_id = xstrdup(f->cdp_key_id);
    enum err_kind kind = cdp_key_parse(text, &a->cdp, err);
    OPENSSL_cleanse(text, sizeof(text));
    return kind ? err_prefix(err, "%s", f->cdp_key_file) : ERR_OK;
}

enum err_kind auth_open(const struct facilitator_config *f, struct auth **out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    struct auth *a CLEANUP(auth_closep) = xcalloc(1, sizeof(*a));
    const struct passwd *account = f->user ? getpwnam(f->user) : NULL;
    a->kind = f->auth;
    a->dir = -1;
    a->owner = account ? account->pw_uid : geteuid();
    if (f->auth == AUTH_BEARER_DIR && open_bearer(f, a, err))
        return err->kind;
    if (f->auth == AUTH_CDP && open_cdp(f, a, err))
        return err->kind;
    *out = STEAL(a);
    return ERR_OK;
}

enum err_kind auth_headers(struct auth *a, enum auth_op op, const char *method, const char *host,
                           const char *path, int64_t now, struct buf *authorization,
                           struct buf *correlation, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    if (a->kind == AUTH_NONE)
        return ERR_OK;
    if (a->kind == AUTH_CDP) {
        buf_append_str(authorization, "Bearer ");
        buf_append_str(correlation, CDP_CORRELATION);
        return cdp_jwt_mint(a->cdp, a->key_id, method, host, path, now, authorization, err);
    }
    const char *token;
    if (find_token(a, op, &token, err))
        return err->kind;
    buf_append_str(authorization, "Bearer ");
    buf_append_str(authorization, token);
    return ERR_OK;
}
