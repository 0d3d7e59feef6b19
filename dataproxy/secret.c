#include "dataproxy/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/scan.h"

void secret_init(struct secret *secret, const char *path)
{
    *secret = (struct secret){ .path = xstrdup(path) };
}

static void drop_value(struct secret *secret)
{
    if (secret->value)
        explicit_bzero(secret->value, secret->len);
    free(secret->value);
    secret->value = NULL;
    secret->len = 0;
}

void secret_fini(struct secret *secret)
{
    drop_value(secret);
    free(secret->path);
    *secret = (struct secret){ 0 };
}

/* Printable, one line: what can stand in a header and be found again by the scan. */
static CHECKED enum err_kind check_content(const struct secret *secret, const char *text,
                                           size_t len, struct err *err)
{
    if (len < SCAN_SECRET_MIN || len > SCAN_SECRET_MAX)
        return err_set(err, ERR_INVALID, "%s: a credential has %d to %d bytes, this one %zu",
                       secret->path, SCAN_SECRET_MIN, SCAN_SECRET_MAX, len);
    for (size_t i = 0; i < len; i++) {
        if (text[i] < 0x20 || text[i] == 0x7f)
            return err_set(err, ERR_INVALID, "%s: a credential is one line of printable ASCII",
                           secret->path);
    }
    return ERR_OK;
}

enum err_kind secret_refresh(struct secret *secret, bool *changed, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    struct stat st;
    if (changed)
        *changed = false;
    if (stat(secret->path, &st))
        return err_sys(err, errno, "%s", secret->path);
    if (!fs_kept(&st))
        return err_set(err, ERR_PRECONDITION, "%s: mode %04o lets others read it (chmod 0400)",
                       secret->path, st.st_mode & 07777);
    if (secret->value && st.st_ino == secret->inode &&
        st.st_ctim.tv_sec == secret->changed.tv_sec &&
        st.st_ctim.tv_nsec == secret->changed.tv_nsec)
        return ERR_OK;
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    if (fs_read(secret->path, SCAN_SECRET_MAX + 1, &text, &len, err))
        return err->kind;
    if (len && text[len - 1] == '\n')
        text[--len] = 0;
    if (check_content(secret, text, len, err)) {
        explicit_bzero(text, len);
        return err->kind;
    }
    drop_value(secret);
    secret->value = STEAL(text);
    secret->len = len;
    secret->changed = st.st_ctim;
    secret->inode = st.st_ino;
    if (changed)
        *changed = true;
    return ERR_OK;
}
