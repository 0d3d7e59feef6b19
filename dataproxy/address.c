#include "dataproxy/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"

/* Source: IANA IPv4 and IPv6 special-purpose address registries (RFC 6890 and its updates). */
struct range4 {
    uint32_t net;
    unsigned bits;
    enum address_class class;
};

#define IP4(a, b, c, d)                                                                            \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static const struct range4 ranges4[] = {
    { IP4(0, 0, 0, 0), 8, ADDRESS_FORBIDDEN },   /* "this network"; 0.0.0.0 reaches loopback */
    { IP4(10, 0, 0, 0), 8, ADDRESS_PRIVATE },    /* RFC 1918 */
    { IP4(100, 64, 0, 0), 10, ADDRESS_PRIVATE }, /* CGNAT */
    { IP4(127, 0, 0, 0), 8, ADDRESS_LOOPBACK },
    { IP4(169, 254, 0, 0), 16, ADDRESS_FORBIDDEN },   /* link-local, cloud metadata */
    { IP4(172, 16, 0, 0), 12, ADDRESS_PRIVATE },      /* RFC 1918 */
    { IP4(192, 0, 0, 0), 24, ADDRESS_FORBIDDEN },     /* IETF protocol assignments */
    { IP4(192, 0, 2, 0), 24, ADDRESS_FORBIDDEN },     /* documentation */
    { IP4(192, 88, 99, 0), 24, ADDRESS_FORBIDDEN },   /* 6to4 relays */
    { IP4(192, 168, 0, 0), 16, ADDRESS_PRIVATE },     /* RFC 1918 */
    { IP4(198, 18, 0, 0), 15, ADDRESS_PRIVATE },      /* benchmarking; our own slugs live there */
    { IP4(198, 51, 100, 0), 24, ADDRESS_FORBIDDEN },  /* documentation */
    { IP4(203, 0, 113, 0), 24, ADDRESS_FORBIDDEN },   /* documentation */
    { IP4(224, 0, 0, 0), 4, ADDRESS_FORBIDDEN },      /* multicast */
    { IP4(240, 0, 0, 0), 4, ADDRESS_FORBIDDEN },      /* reserved, broadcast */
    { IP4(168, 63, 129, 16), 32, ADDRESS_FORBIDDEN }, /* Azure's wire server */
};

struct range6 {
    uint8_t net[16];
    unsigned bits;
    enum address_class class;
};

static const struct range6 ranges6[] = {
    { { 0 }, 96, ADDRESS_FORBIDDEN }, /* unspecified, IPv4-compatible; ::1 is judged before */
    { { [10] = 0xff, [11] = 0xff }, 96, ADDRESS_FORBIDDEN },  /* IPv4-mapped */
    { { 0, 0x64, 0xff, 0x9b }, 96, ADDRESS_FORBIDDEN },       /* NAT64 */
    { { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, ADDRESS_FORBIDDEN }, /* local NAT64 */
    { { 0x01 }, 64, ADDRESS_FORBIDDEN },                      /* discard-only */
    { { 0x20, 0x01, 0, 0 }, 32, ADDRESS_FORBIDDEN },          /* Teredo */
    { { 0x20, 0x01, 0, 0 }, 23, ADDRESS_FORBIDDEN },          /* IETF assignments */
    { { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDRESS_FORBIDDEN },    /* documentation */
    { { 0x20, 0x02 }, 16, ADDRESS_FORBIDDEN },                /* 6to4 */
    { { 0x3f, 0xff }, 20, ADDRESS_FORBIDDEN },                /* documentation */
    { { 0x5f, 0x00 }, 16, ADDRESS_FORBIDDEN },                /* segment routing */
    { { 0xfd, 0x00, 0x0e, 0xc2 }, 32, ADDRESS_FORBIDDEN },    /* EC2 metadata, resolver */
    { { 0xfd, 0x20, 0, 0xce }, 32, ADDRESS_FORBIDDEN },       /* GCE metadata */
    { { 0xfc }, 7, ADDRESS_PRIVATE },                         /* unique local */
    { { 0xfe, 0x80 }, 10, ADDRESS_FORBIDDEN },                /* link-local */
    { { 0xfe, 0xc0 }, 10, ADDRESS_FORBIDDEN },                /* old site-local */
    { { 0xff }, 8, ADDRESS_FORBIDDEN },                       /* multicast */
};

static enum address_class classify4(uint32_t address)
{
    for (size_t i = 0; i < ARRAY_LEN(ranges4); i++) {
        uint32_t mask = UINT32_MAX << (32 - ranges4[i].bits);
        if ((address & mask) == ranges4[i].net)
            return ranges4[i].class;
    }
    return ADDRESS_PUBLIC;
}

static bool in_range6(const uint8_t *address, const struct range6 *range)
{
    for (unsigned bit = 0; bit < range->bits; bit += 8) {
        unsigned left = range->bits - bit;
        uint8_t mask = left >= 8 ? 0xff : (uint8_t)(0xff << (8 - left));
        if ((address[bit / 8] & mask) != (range->net[bit / 8] & mask))
            return false;
    }
    return true;
}

static enum address_class classify6(const struct in6_addr *address)
{
    if (IN6_IS_ADDR_LOOPBACK(address))
        return ADDRESS_LOOPBACK;
    for (size_t i = 0; i < ARRAY_LEN(ranges6); i++) {
        if (in_range6(address->s6_addr, &ranges6[i]))
            return ranges6[i].class;
    }
    /* Only 2000::/3 is global unicast; the rest of the space is not assigned. */
    return (address->s6_addr[0] & 0xe0) == 0x20 ? ADDRESS_PUBLIC : ADDRESS_FORBIDDEN;
}

enum address_class address_classify(const struct sockaddr *address, socklen_t len)
{
    if (len >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        return classify4(ntohl(in.sin_addr.s_addr));
    }
    if (len >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof(in6));
        return in6.sin6_scope_id ? ADDRESS_FORBIDDEN : classify6(&in6.sin6_addr);
    }
    return ADDRESS_FORBIDDEN;
}

bool address_allowed(const struct sockaddr *address, socklen_t len, bool internal, const char **why)
{
    const char *reason = NULL;
    switch (address_classify(address, len)) {
    case ADDRESS_PUBLIC:
        return true;
    case ADDRESS_PRIVATE:
        reason = "private address, upstream is not declared internal";
        break;
    case ADDRESS_LOOPBACK:
        reason = "loopback address, upstream is not declared internal";
        break;
    case ADDRESS_FORBIDDEN:
        if (why)
            *why = "link-local, metadata, multicast, reserved or translated address";
        return false;
    }
    if (why && !internal)
        *why = reason;
    return internal;
}

static uint32_t mask_of(unsigned bits)
{
    return bits ? UINT32_MAX << (32 - bits) : 0;
}

bool address_net_parse(const char *text, struct address_net *out)
{
    char address[INET_ADDRSTRLEN];
    struct in_addr a;
    uint64_t bits = 32;
    size_t n = strcspn(text, "/");
    if (n >= sizeof(address) || (text[n] && (!text_u64(text + n + 1, &bits) || bits > 32)))
        return false;
    memcpy(address, text, n);
    address[n] = 0;
    if (inet_pton(AF_INET, address, &a) != 1)
        return false;
    uint32_t mask = mask_of((unsigned)bits);
    *out = (struct address_net){ .net = ntohl(a.s_addr) & mask, .mask = mask, .set = true };
    return true;
}

struct address_net address_net_widen(struct address_net net, unsigned bits)
{
    net.mask &= mask_of(bits);
    net.net &= net.mask;
    return net;
}

bool address_in_net(const struct sockaddr *address, socklen_t len, const struct address_net *net)
{
    struct sockaddr_in in;
    if (!net->set || len < sizeof(in) || address->sa_family != AF_INET)
        return false;
    memcpy(&in, address, sizeof(in));
    return (ntohl(in.sin_addr.s_addr) & net->mask) == net->net;
}

bool address_is_odd_literal(const char *host)
{
    struct in_addr v4;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return false;
    if (host[0] == '[' || strchr(host, ':')) {
        struct in6_addr v6;
        size_t n = strlen(host);
        char inner[64];
        if (host[0] != '[' || n < 4 || n > sizeof(inner) || host[n - 1] != ']')
            return true;
        memcpy(inner, host + 1, n - 2);
        inner[n - 2] = 0;
        return inet_pton(AF_INET6, inner, &v6) != 1;
    }
    return inet_aton(host, &v4) != 0;
}
