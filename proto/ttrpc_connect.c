#include "proto/ttrpc_connect.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/own.h"
#include "base/text.h"

enum err_kind ttrpc_socket_path(const char *address, char **out, struct err *err)
{
    const char *path = text_starts(address, "unix://") ? address + strlen("unix://") : address;
    struct sockaddr_un sun;
    if (path[0] != '/' || strlen(path) >= sizeof(sun.sun_path))
        return err_set(err, ERR_INVALID,
                       "address \"%s\": not an absolute socket path of at most %zu bytes", address,
                       sizeof(sun.sun_path) - 1);
    *out = xstrdup(path);
    return ERR_OK;
}

enum err_kind ttrpc_connect(const char *path, int flags, int *out, struct err *err)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    memcpy(sun.sun_path, path, strlen(path) + 1);
    int fd CLEANUP_FD = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)))
        return err_sys(err, errno, "connect %s", path);
    *out = steal_fd(&fd);
    return ERR_OK;
}
