/* dataproxy/address: every special range at its first and last address, and the addresses just
 * outside. */
#include "dataproxy/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/own.h"
#include "tests/test.h"

static enum address_class class_of(const char *text)
{
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
    struct sockaddr_in in = { .sin_family = AF_INET };
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return address_classify((struct sockaddr *)&in, sizeof(in));
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return address_classify((struct sockaddr *)&in6, sizeof(in6));
}

static void expect(enum address_class class, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (class_of(texts[i]) != class)
            fail_msg("%s is class %d, expected %d", texts[i], (int)class_of(texts[i]), (int)class);
    }
}

#define EXPECT(class, ...)                                                                         \
    do {                                                                                           \
        static const char *const texts[] = { __VA_ARGS__ };                                        \
        expect(class, texts, ARRAY_LEN(texts));                                                    \
    } while (0)

static void test_v4(void **state)
{
    (void)state;
    EXPECT(ADDRESS_PUBLIC, "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255",
           "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
           "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
           "198.20.0.0", "223.255.255.255");
    EXPECT(ADDRESS_PRIVATE, "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
           "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255", "198.18.0.0",
           "198.19.255.255");
    EXPECT(ADDRESS_LOOPBACK, "127.0.0.1", "127.255.255.255");
    EXPECT(ADDRESS_FORBIDDEN, "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.0", "192.0.0.1",
           "192.0.2.1", "192.88.99.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
           "239.255.255.255", "240.0.0.0", "255.255.255.255", "168.63.129.16");
}

static void test_v6(void **state)
{
    (void)state;
    EXPECT(ADDRESS_PUBLIC, "2606:4700::1111", "2a00::1", "2001:200::1", "2003::1");
    EXPECT(ADDRESS_LOOPBACK, "::1");
    EXPECT(ADDRESS_PRIVATE, "fc00::1", "fd12:3456::1");
    EXPECT(ADDRESS_FORBIDDEN, "::", "::2", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8",
           "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1",
           "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1", "fe80::1", "febf::1", "fec0::1",
           "ff02::1", "fd00:ec2::254", "fd20:ce::254", "4000::1");
}

static void test_scope_and_family(void **state)
{
    (void)state;
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_scope_id = 2 };
    assert_int_equal(inet_pton(AF_INET6, "2606:4700::1111", &in6.sin6_addr), 1);
    assert_int_equal(address_classify((struct sockaddr *)&in6, sizeof(in6)), ADDRESS_FORBIDDEN);
    struct sockaddr unix_address = { .sa_family = AF_UNIX };
    assert_int_equal(address_classify(&unix_address, sizeof(unix_address)), ADDRESS_FORBIDDEN);
    struct sockaddr_in in = { .sin_family = AF_INET };
    assert_int_equal(address_classify((struct sockaddr *)&in, 4), ADDRESS_FORBIDDEN);
}

static void test_internal(void **state)
{
    (void)state;
    struct sockaddr_in in = { .sin_family = AF_INET };
    const char *why = NULL;
    inet_pton(AF_INET, "10.1.2.3", &in.sin_addr);
    assert_true(address_allowed((struct sockaddr *)&in, sizeof(in), true, &why));
    assert_false(address_allowed((struct sockaddr *)&in, sizeof(in), false, &why));
    assert_non_null(strstr(why, "private"));
    inet_pton(AF_INET, "169.254.169.254", &in.sin_addr);
    assert_false(address_allowed((struct sockaddr *)&in, sizeof(in), true, &why));
}

static bool in_net(const char *net, const char *address)
{
    struct address_net parsed = { 0 };
    struct sockaddr_in in = { .sin_family = AF_INET };
    assert_true(address_net_parse(net, &parsed));
    assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
    return address_in_net((const struct sockaddr *)&in, sizeof(in), &parsed);
}

static void test_nets(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "/",
                                       "198.18.0.4/33",
                                       "198.18.0/8",
                                       "1.2.3.4/",
                                       "::1/64",
                                       "198.18.0.4/31 ",
                                       "1.2.3.4/-1",
                                       "111.111.111.1111/8" };
    struct address_net net = { 0 };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (address_net_parse(bad[i], &net))
            fail_msg("%s", bad[i]);
    }
    assert_true(in_net("198.18.0.4/31", "198.18.0.5"));
    assert_false(in_net("198.18.0.4/31", "198.18.0.6") || in_net("198.18.0.4/31", "198.18.0.3"));
    assert_true(in_net("198.18.0.4", "198.18.0.4") && in_net("1.1.1.1/0", "9.9.9.9"));
    assert_true(address_net_parse("198.18.0.12/31", &net));
    net = address_net_widen(net, 29);
    assert_int_equal(net.net, 0xc6120008);
    assert_int_equal(net.mask, 0xfffffff8);
    const struct sockaddr_in in = { .sin_family = AF_INET };
    assert_false(
        address_in_net((const struct sockaddr *)&in, sizeof(in), &(struct address_net){ 0 }));
}

static void test_odd_literals(void **state)
{
    (void)state;
    static const char *const odd[] = { "0x7f.1",     "2130706433",     "127.1",       "0177.0.0.1",
                                       "0x7f000001", "127.0.0.01",     "1",           "::1",
                                       "[::1",       "[fe80::1%eth0]", "[127.0.0.1]", "[]" };
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        if (!address_is_odd_literal(odd[i]))
            fail_msg("%s", odd[i]);
    }
    assert_false(address_is_odd_literal("127.0.0.1"));
    assert_false(address_is_odd_literal("[::1]"));
    assert_false(address_is_odd_literal("example.org"));
    assert_false(address_is_odd_literal("1.example"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v4),
        cmocka_unit_test(test_v6),
        cmocka_unit_test(test_scope_and_family),
        cmocka_unit_test(test_internal),
        cmocka_unit_test(test_nets),
        cmocka_unit_test(test_odd_literals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
