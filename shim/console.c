#include "shim/console.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

struct console {
    struct loop *loop;
    char *path;
    int listener;
    int conn;
    struct loop_watch listen_watch;
    struct loop_watch conn_watch;
    console_fn *fn;
    void *arg;
};

static void close_all(struct console *console)
{
    loop_unwatch(&console->listen_watch);
    loop_unwatch(&console->conn_watch);
    if (console->listener >= 0)
        (void)close(steal_fd(&console->listener));
    if (console->conn >= 0)
        (void)close(steal_fd(&console->conn));
    (void)unlink(console->path);
}

void console_free(struct console *console)
{
    if (!console)
        return;
    close_all(console);
    free(console->path);
    free(console);
}

const char *console_path(const struct console *console)
{
    return console->path;
}

/* The first descriptor of the message; further ones are closed. */
static int take_fd(struct msghdr *msg)
{
    int taken = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (taken < 0)
                taken = fd;
            else
                (void)close(fd);
        }
    }
    return taken;
}

static void on_conn(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct console *console = watch->arg;
    char data[256];
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = { .iov_base = data, .iov_len = sizeof(data) };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof(control.bytes) };
    ssize_t n = recvmsg(console->conn, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int master = n > 0 ? take_fd(&msg) : -1;
    close_all(console);
    if (master >= 0 && !isatty(master)) {
        log_warn("console_not_a_terminal", log_str("path", console->path));
        (void)close(steal_fd(&master));
    }
    if (master >= 0)
        console->fn(console->arg, master);
}

static void on_listener(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct console *console = watch->arg;
    int fd = accept4(console->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (console->conn >= 0) {
        (void)close(fd);
        return;
    }
    console->conn = fd;
    struct err err;
    if (loop_watch(console->loop, &console->conn_watch, fd, EPOLLIN, on_conn, console, &err))
        log_warn("console", log_str("why", err.msg));
}

enum err_kind console_new(struct loop *loop, const char *path, console_fn *fn, void *arg,
                          struct console **out, struct err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address.sun_path))
        return err_set(err, ERR_INTERNAL, "console socket path too long: %s", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    struct console *console CLEANUP(console_freep) = xcalloc(1, sizeof(*console));
    *console = (struct console){
        .loop = loop, .path = xstrdup(path), .listener = -1, .conn = -1, .fn = fn, .arg = arg
    };
    (void)unlink(path);
    console->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (console->listener < 0)
        return err_sys(err, errno, "console socket");
    if (bind(console->listener, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(console->listener, 1) != 0)
        return err_sys(err, errno, "console socket %s", path);
    enum err_kind kind = loop_watch(loop, &console->listen_watch, console->listener, EPOLLIN,
                                    on_listener, console, err);
    if (!kind)
        *out = STEAL(console);
    return kind;
}
