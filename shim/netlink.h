/*
 * rtnetlink dumps: one request, every answer to a callback. Private to shim/netns*.c.
 *
 * A dump that the kernel says was interrupted by a change is an error, not half an answer.
 */
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A blocking socket of the calling thread's network namespace, the caller's. */
CHECKED enum err_kind netlink_open(int *fd, struct err *err);

struct netlink_attrs {
    const struct rtattr *of[64]; /* by type; NULL where absent */
};

/* `body` is the fixed header behind nlmsghdr (struct ifinfomsg, …), `attrs` what follows it. */
typedef enum err_kind netlink_fn(void *arg, const void *body, const struct netlink_attrs *attrs,
                                 struct err *err);

struct netlink_dump {
    uint16_t type;   /* RTM_GETLINK, … */
    uint16_t answer; /* RTM_NEWLINK, …: others are skipped */
    uint8_t family;
    size_t body_size; /* of the fixed header, in question and answer */
};

CHECKED enum err_kind netlink_dump(int fd, const struct netlink_dump *what, netlink_fn *fn,
                                   void *arg, struct err *err);

/* The id by which our namespace names another one; -1 if it has none. */
CHECKED enum err_kind netlink_nsid(int fd, int netns_fd, int *nsid, struct err *err);

/* Attribute readers: false where absent or of the wrong size. */
bool netlink_u32(const struct rtattr *attr, uint32_t *out);
bool netlink_text(const struct rtattr *attr, char *out, size_t size);
void netlink_attrs_parse(const void *data, size_t len, struct netlink_attrs *out);
