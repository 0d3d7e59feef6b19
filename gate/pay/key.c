#include "gate/pay/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/own.h"
#include "base/text.h"

static void wiped_freep(char **text)
{
    if (*text)
        OPENSSL_cleanse(*text, strlen(*text));
    free(*text);
}

enum err_kind key_read(const char *path, uint8_t secret[32], struct evm_address *address,
                       struct err *err)
{
    char *text CLEANUP(wiped_freep) = NULL;
    struct stat st;
    if (fs_read(path, 256, &text, NULL, err))
        return err->kind;
    if (stat(path, &st))
        return err_sys(err, errno, "%s", path);
    if (st.st_mode & 077)
        return err_set(err, ERR_PRECONDITION, "%s can be read by others (chmod 600 %s)", path,
                       path);
    text[strcspn(text, " \r\n")] = '\0';
    const char *hex = text_starts(text, "0x") ? text + 2 : text;
    if (strlen(hex) != 64 || !text_unhex(hex, secret, 32))
        return err_set(err, ERR_INVALID, "%s does not hold 64 hex digits", path);
    return evm_secret_address(secret, address, err) ? err_prefix(err, "%s", path) : ERR_OK;
}

static enum err_kind make_parent(const char *path, struct err *err)
{
    char *dir CLEANUP_FREE = xstrdup(path);
    char *slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return ERR_OK;
    *slash = '\0';
    return fs_mkdirs(dir, 0700, err);
}

enum err_kind key_new(const char *path, struct evm_address *address, struct err *err)
{
    uint8_t secret[32];
    char text[66];
    do {
        if (RAND_bytes(secret, sizeof(secret)) != 1)
            return err_set(err, ERR_INTERNAL, "no randomness for a key");
    } while (evm_secret_address(secret, address, NULL));
    if (make_parent(path, err))
        return err->kind;
    int fd CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    text_hex(secret, sizeof(secret), text);
    text[64] = '\n';
    enum err_kind kind = fs_write_fd(fd, text, 65, err);
    OPENSSL_cleanse(secret, sizeof(secret));
    OPENSSL_cleanse(text, sizeof(text));
    if (!kind && fsync(fd))
        return err_sys(err, errno, "%s", path);
    return kind;
}

char *key_default_path(void)
{
    const char *home = getenv("HOME");
    return home && home[0] == '/' ? xasprintf("%s/.config/utter/pay.key", home) : NULL;
}
