/*
 * Which addresses an upstream may have: the judge that stands between a resolved name and
 * connect().
 *
 * It is asked with the very sockaddr that is about to be connected, after resolution, so that a
 * name which answers differently the second time gains nothing. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum address_class {
    ADDRESS_PUBLIC,
    ADDRESS_PRIVATE,   /* RFC 1918, unique local, CGNAT: reachable only for an upstream declared
                          internal */
    ADDRESS_LOOPBACK,  /* likewise only when declared internal */
    ADDRESS_FORBIDDEN, /* never: link-local, metadata, multicast, broadcast, reserved, unspecified,
                          … */
};

/* IPv4-mapped, IPv4-compatible, NAT64 (64:ff9b::/96, 64:ff9b:1::/48), 6to4 and Teredo forms are
 * FORBIDDEN whatever they carry: no honest resolver needs them here. Families other than AF_INET
 * and AF_INET6 too. */
enum address_class address_classify(const struct sockaddr *address, socklen_t len);

/* May an upstream connect to it? `why` (may be NULL) names the reason when not. */
bool address_allowed(const struct sockaddr *address, socklen_t len, bool internal,
                     const char **why);

/* An IPv4 network; zeroed: none. */
struct address_net {
    uint32_t net; /* host order, already masked */
    uint32_t mask;
    bool set;
};
/* "198.18.0.4/31" or "198.18.0.4"; false for anything else. */
bool address_net_parse(const char *text, struct address_net *out);
/* The same with the prefix made at most `bits` long. */
struct address_net address_net_widen(struct address_net net, unsigned bits);
bool address_in_net(const struct sockaddr *address, socklen_t len, const struct address_net *net);

/* For a host that is an address literal ("[::1]", "127.0.0.1" and every odd spelling inet_aton
 * takes: "0x7f.1", "2130706433", "127.1"): true when `host` is no plain dotted quad or bracketed
 * IPv6, yet would be read as an address. Such hosts are refused in configuration and requests. */
bool address_is_odd_literal(const char *host);
