#include "shim/netlink.h"

#include <errno.h>
#include <linux/net_namespace.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/own.h"

#define RECV_SIZE 65536
#define TIMEOUT_S 5

enum err_kind netlink_open(int *out, struct err *err)
{
    struct timeval timeout = { .tv_sec = TIMEOUT_S };
    struct sockaddr_nl self = { .nl_family = AF_NETLINK };
    int fd CLEANUP_FD = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof(self)) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
        return err_sys(err, errno, "netlink");
    *out = steal_fd(&fd);
    return ERR_OK;
}

static enum err_kind send_request(int fd, struct nlmsghdr *request, struct err *err)
{
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    ssize_t n = sendto(fd, request, request->nlmsg_len, MSG_NOSIGNAL, (struct sockaddr *)&kernel,
                       sizeof(kernel));
    return n < 0 ? err_sys(err, errno, "netlink: send") : ERR_OK;
}

void netlink_attrs_parse(const void *data, size_t len, struct netlink_attrs *out)
{
    *out = (struct netlink_attrs){ 0 };
    const uint8_t *p = data;
    struct rtattr head;
    while (len >= sizeof(head)) {
        memcpy(&head, p, sizeof(head));
        if (head.rta_len < sizeof(head) || head.rta_len > len)
            return;
        unsigned type = (unsigned)(head.rta_type & NLA_TYPE_MASK);
        if (type < ARRAY_LEN(out->of))
            memcpy(&out->of[type], &p, sizeof(p));
        size_t step = RTA_ALIGN(head.rta_len);
        if (step > len)
            return;
        p += step;
        len -= step;
    }
}

bool netlink_u32(const struct rtattr *attr, uint32_t *out)
{
    if (!attr || RTA_PAYLOAD(attr) != sizeof(*out))
        return false;
    memcpy(out, (const uint8_t *)attr + RTA_LENGTH(0), sizeof(*out));
    return true;
}

bool netlink_text(const struct rtattr *attr, char *out, size_t size)
{
    if (!attr)
        return false;
    size_t len = RTA_PAYLOAD(attr);
    const char *text = (const char *)attr + RTA_LENGTH(0);
    len = strnlen(text, len);
    if (len >= size)
        return false;
    memcpy(out, text, len);
    out[len] = 0;
    return true;
}

static enum err_kind take_error(const struct nlmsghdr *m, struct err *err)
{
    struct nlmsgerr e;
    if (m->nlmsg_len < NLMSG_LENGTH(sizeof(e)))
        return err_set(err, ERR_INTERNAL, "netlink: short error");
    memcpy(&e, (const uint8_t *)m + NLMSG_HDRLEN, sizeof(e));
    return e.error ? err_sys(err, -e.error, "netlink") : ERR_OK;
}

/* A dump that broke off says so in its last message. */
static enum err_kind take_done(const struct nlmsghdr *m, const uint8_t *p, struct err *err)
{
    int32_t error = 0;
    if (m->nlmsg_len >= NLMSG_LENGTH(sizeof(error)))
        memcpy(&error, p + NLMSG_HDRLEN, sizeof(error));
    return error < 0 ? err_sys(err, -error, "netlink: dump") : ERR_OK;
}

/* One datagram. *done once the dump has ended. */
static enum err_kind take_datagram(const void *data, size_t len, const struct netlink_dump *what,
                                   netlink_fn *fn, void *arg, bool *done, struct err *err)
{
    const uint8_t *p = data;
    struct nlmsghdr m;
    for (; len >= sizeof(m) && !*done;
         p += NLMSG_ALIGN(m.nlmsg_len), len -= NLMSG_ALIGN(m.nlmsg_len)) {
        memcpy(&m, p, sizeof(m));
        if (m.nlmsg_len < sizeof(m) || NLMSG_ALIGN(m.nlmsg_len) > NLMSG_ALIGN(len))
            return err_set(err, ERR_INTERNAL, "netlink: malformed answer");
        if (m.nlmsg_flags & NLM_F_DUMP_INTR)
            return err_set(err, ERR_UNAVAILABLE,
                           "netlink: the namespace changed while it was read");
        if (m.nlmsg_type == NLMSG_ERROR)
            return take_error((const struct nlmsghdr *)(const void *)p, err);
        if (m.nlmsg_type == NLMSG_DONE) {
            *done = true;
            return take_done(&m, p, err);
        }
        if (m.nlmsg_type != what->answer || m.nlmsg_len < NLMSG_LENGTH(what->body_size))
            continue;
        struct netlink_attrs attrs;
        const uint8_t *body = p + NLMSG_HDRLEN;
        size_t fixed = NLMSG_ALIGN(what->body_size);
        size_t left = m.nlmsg_len - NLMSG_HDRLEN;
        netlink_attrs_parse(body + fixed, left > fixed ? left - fixed : 0, &attrs);
        if (fn(arg, body, &attrs, err))
            return err->kind;
        if (!(m.nlmsg_flags & NLM_F_MULTI))
            *done = true;
        if (NLMSG_ALIGN(m.nlmsg_len) > len)
            return ERR_OK;
    }
    return ERR_OK;
}

static enum err_kind receive(int fd, const struct netlink_dump *what, netlink_fn *fn, void *arg,
                             struct err *err)
{
    uint8_t *data CLEANUP_FREE = xmalloc(RECV_SIZE);
    for (bool done = false; !done;) {
        ssize_t n = recv(fd, data, RECV_SIZE, MSG_TRUNC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "netlink: receive");
        if (n == 0 || n > RECV_SIZE)
            return err_set(err, ERR_INTERNAL, "netlink: answer of %zd bytes", n);
        if (take_datagram(data, (size_t)n, what, fn, arg, &done, err))
            return err->kind;
    }
    return ERR_OK;
}

enum err_kind netlink_dump(int fd, const struct netlink_dump *what, netlink_fn *fn, void *arg,
                           struct err *err)
{
    struct {
        struct nlmsghdr header;
        uint8_t body[64];
    } request = { .header = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(what->body_size),
                              .nlmsg_type = what->type,
                              .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                              .nlmsg_seq = 1 } };
    request.body[0] = what->family; /* first in each of the fixed headers */
    if (send_request(fd, &request.header, err))
        return err->kind;
    return receive(fd, what, fn, arg, err);
}

static enum err_kind take_nsid(void *arg, const void *body, const struct netlink_attrs *attrs,
                               struct err *err)
{
    (void)body;
    uint32_t id;
    if (!netlink_u32(attrs->of[NETNSA_NSID], &id))
        return err_set(err, ERR_INTERNAL, "netlink: no namespace id in the answer");
    memcpy(arg, &id, sizeof(id));
    return ERR_OK;
}

enum err_kind netlink_nsid(int fd, int netns_fd, int *nsid, struct err *err)
{
    struct {
        struct nlmsghdr header;
        struct rtgenmsg body;
        uint8_t pad[3]; /* attributes start at a multiple of 4 */
        struct rtattr attr;
        int32_t fd;
    } request = { .header = { .nlmsg_len = sizeof(request),
                              .nlmsg_type = RTM_GETNSID,
                              .nlmsg_flags = NLM_F_REQUEST,
                              .nlmsg_seq = 1 },
                  .attr = { .rta_len = RTA_LENGTH(sizeof(int32_t)), .rta_type = NETNSA_FD },
                  .fd = netns_fd };
    struct netlink_dump what = { .answer = RTM_NEWNSID, .body_size = sizeof(struct rtgenmsg) };
    *nsid = -1;
    if (send_request(fd, &request.header, err))
        return err->kind;
    return receive(fd, &what, take_nsid, nsid, err);
}
