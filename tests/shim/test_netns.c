/* shim/netns on real namespaces made with ip(8); the judge alone on made-up views. */
#include "shim/netns.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "tests/test.h"

static char ns[32];     /* name of the namespace under test */
static char bridge[16]; /* in our namespace */
static char outer[16];  /* the far end of the namespace's eth0 */

/* Runs a command line with these names filled in: $N namespace, $B bridge, $V far end. */
static int run(const char *command)
{
    char text[2048];
    snprintf(text, sizeof(text), "N=%s B=%s V=%s; { %s; } >/dev/null 2>&1", ns, bridge, outer,
             command);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-ec", text, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    (void)waitpid(child, &status, 0);
    return status;
}

static int setup(void **state)
{
    static int serial;
    (void)state;
    int n = (int)getpid() % 100000;
    serial++;
    snprintf(ns, sizeof(ns), "utp-%d-%d", n, serial);
    snprintf(bridge, sizeof(bridge), "utpb%d.%d", n, serial);
    snprintf(outer, sizeof(outer), "utpv%d.%d", n, serial);
    return run("ip netns add $N");
}

static int teardown(void **state)
{
    (void)state;
    (void)run("ip netns del ${N}x || :; ip link del ${B}d || :; ip link del ${V}p || :; "
              "ip link del ${V}m || :; ip link del $V || :; ip link del $B || :; ip netns del $N");
    return 0;
}

/* What utter-deploy and an internal CNI network make: a veth pair on a bridge without an address.
 */
static void internal(void)
{
    assert_int_equal(
        run("ip link add $B type bridge; "
            "ip link add $V type veth peer name eth0 netns $N; ip link set $V master $B; "
            "sysctl -qw net.ipv6.conf.$B.disable_ipv6=1 || echo 1 > "
            "/proc/sys/net/ipv6/conf/$B/disable_ipv6; "
            "ip link set $B up; ip link set $V up; ip -n $N addr add 198.18.77.2/24 dev eth0; "
            "ip -n $N link set lo up; ip -n $N link set eth0 up"),
        0);
}

static int open_ns(void)
{
    char path[64];
    int fd = -1;
    struct err err;
    snprintf(path, sizeof(path), "/run/netns/%s", ns);
    assert_int_equal(netns_open(path, &fd, &err), 0);
    return fd;
}

static struct netns_want want_internal(void)
{
    return (struct netns_want){ .mode = NETNS_INTERNAL,
                                .address = "198.18.77.2/24",
                                .address_required = true,
                                .max_ports = 4,
                                .ipv6_closed = true };
}

/* The verdict must be a refusal that says `why`, or none for NULL. */
static void judge(const struct netns_want *want, const char *why)
{
    int fd CLEANUP_FD = open_ns();
    struct err err = { 0 };
    enum err_kind kind = netns_check(fd, want, &err);
    if (kind != (why ? ERR_PRECONDITION : ERR_OK) || (why && !strstr(err.msg, why)))
        fail_msg("wanted \"%s\", got %d \"%s\"", why ? why : "", (int)kind, err.msg);
    assert_null(strchr(err.msg, '\n'));
}

static void close6(void)
{
    int fd CLEANUP_FD = open_ns();
    struct err err = { 0 };
    if (netns_close_ipv6(fd, &err))
        fail_msg("%s", err.msg);
}

static void test_internal_is_accepted(void **state)
{
    (void)state;
    internal();
    struct netns_want want = want_internal();
    struct stat before;
    struct stat after;
    assert_int_equal(stat("/proc/self/ns/net", &before), 0);
    want.ipv6_closed = false;
    judge(&want, NULL);
    close6();
    want.ipv6_closed = true;
    judge(&want, NULL);
    assert_int_equal(stat("/proc/self/ns/net", &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* we are back */
    want.address = NULL;
    judge(&want, NULL);
    want.address = "198.18.77.3/24";
    judge(&want, "address is 198.18.77.2/24, not 198.18.77.3/24");
    want = want_internal();
    want.mode = NETNS_NONE;
    judge(&want, "link eth0 is there, but the container asked for no network");
}

static void test_ipv6_is_closed(void **state)
{
    (void)state;
    internal();
    struct netns_want want = want_internal();
    (void)run("sleep 0.1");
    judge(&want, "IPv6 address fe80::");
    close6();
    judge(&want, NULL);
    (void)run("ip -n $N link set eth0 down; ip -n $N link set eth0 up; sleep 0.1");
    judge(&want, NULL); /* it stays closed */
    want.ipv6_closed = false;
    assert_int_equal(run("ip netns exec $N sh -c 'echo 0 > "
                         "/proc/sys/net/ipv6/conf/eth0/disable_ipv6'; "
                         "ip -n $N addr add fd00::2/64 dev eth0 nodad"),
                     0);
    judge(&want, "IPv6 address fd00::2/64 is there");
}

static void test_loopback_alone(void **state)
{
    (void)state;
    struct netns_want want = want_internal();
    judge(&want, "only loopback is there, but a network was asked for");
    judge(&want, "address 198.18.77.2/24 is not there");
    want = (struct netns_want){ .mode = NETNS_NONE, .ipv6_closed = true };
    judge(&want, NULL);
    assert_int_equal(run("ip -n $N link set lo up"), 0);
    judge(&want, "IPv6 address ::1/128");
    close6();
    judge(&want, NULL);
    assert_int_equal(run("ip -n $N addr add 10.0.0.1/32 dev lo"), 0);
    judge(&want, "address 10.0.0.1/32 is on lo");
}

static void test_routes(void **state)
{
    (void)state;
    internal();
    close6();
    struct netns_want want = want_internal();
    assert_int_equal(run("ip -n $N route add default via 198.18.77.1"), 0);
    judge(&want, "there is a default route (use an internal network)");
    struct netns_want cluster = { .mode = NETNS_CLUSTER, .max_ports = 4 };
    judge(&cluster, NULL);
    assert_int_equal(run("ip -n $N route del default; ip -n $N route add 10.0.0.0/8 dev eth0"), 0);
    judge(&want, "there is a route to 10.0.0.0/8 beyond the link's own network");
    assert_int_equal(run("ip -n $N route del 10.0.0.0/8; "
                         "ip -n $N route add 10.0.0.0/8 via 198.18.77.1"),
                     0);
    judge(&want, "there is a route to 10.0.0.0/8 by a gateway");
    /* Another table counts too. */
    assert_int_equal(run("ip -n $N route del 10.0.0.0/8; "
                         "ip -n $N route add default dev eth0 table 7"),
                     0);
    judge(&want, "there is a default route");
    assert_int_equal(run("ip -n $N route del default table 7; "
                         "ip -n $N route add unreachable default; "
                         "ip -n $N route add 198.18.77.9/32 dev eth0"),
                     0);
    judge(&want, NULL);
}

static void test_macvlan_is_refused(void **state)
{
    (void)state;
    struct netns_want want = want_internal();
    want.address = NULL;
    /* Over a dummy, which stands for the machine's own card. */
    assert_int_equal(
        run("ip link add ${B}d type dummy || ip link add ${B}d type ifb; ip link set ${B}d up; "
            "ip link add link ${B}d name ${V}m type macvlan mode bridge; "
            "ip link set ${V}m netns $N name eth0; ip -n $N link set eth0 up"),
        0);
    judge(&want, "link eth0 is a macvlan, not one end of a veth pair");
    struct netns_want cluster = { .mode = NETNS_CLUSTER, .max_ports = 4 };
    judge(&cluster, "link eth0 is a macvlan");
}

static void test_second_link(void **state)
{
    (void)state;
    internal();
    close6();
    struct netns_want want = want_internal();
    assert_int_equal(run("ip link add ${V}p type veth peer name eth1 netns $N"), 0);
    judge(&want, "link eth1 is there beside eth0 (one network only)");
    assert_int_equal(run("ip link del ${V}p; ip -n $N link add spare9 type dummy || ip -n $N link "
                         "add spare9 type ifb"),
                     0);
    judge(&want, "link spare9 is a ");
}

static void test_two_addresses(void **state)
{
    (void)state;
    internal();
    close6();
    struct netns_want want = want_internal();
    assert_int_equal(run("ip -n $N addr add 198.18.77.3/24 dev eth0"), 0);
    judge(&want, "eth0 has 2 IPv4 addresses");
}

static void test_bridge(void **state)
{
    (void)state;
    internal();
    close6();
    struct netns_want want = want_internal();
    char why[200];
    assert_int_equal(run("ip addr add 198.18.78.1/24 dev $B"), 0);
    snprintf(why, sizeof(why), "bridge %s has an IP address", bridge);
    judge(&want, why);
    assert_int_equal(run("ip addr del 198.18.78.1/24 dev $B"), 0);
    judge(&want, NULL);
    /* A link-local address is an address. */
    assert_int_equal(run("echo 0 > /proc/sys/net/ipv6/conf/$B/disable_ipv6; "
                         "ip addr add fe80::1/64 dev $B"),
                     0);
    judge(&want, why);
    assert_int_equal(run("echo 1 > /proc/sys/net/ipv6/conf/$B/disable_ipv6"), 0);
    judge(&want, NULL);
    /* A port that leads out, as a physical card would; and one that leads back to us. */
    assert_int_equal(run("ip link add ${B}d type dummy || ip link add ${B}d type ifb; ip link set "
                         "${B}d master $B"),
                     0);
    snprintf(why, sizeof(why), "bridge %s leads on by %sd", bridge, bridge);
    judge(&want, why);
    assert_int_equal(run("ip link del ${B}d; ip link add ${V}p type veth peer name ${V}m; "
                         "ip link set ${V}p master $B"),
                     0);
    snprintf(why, sizeof(why), "bridge %s leads on by %sp", bridge, outer);
    judge(&want, why);
    assert_int_equal(run("ip link del ${V}p; "
                         "ip link add link $B name ${B}d type vlan id 7 || "
                         "ip link add link $B name ${B}d type macvlan"),
                     0);
    snprintf(why, sizeof(why), "bridge %s leads on by %sd", bridge, bridge);
    judge(&want, why);
    assert_int_equal(run("ip link del ${B}d"), 0);
    /* More ports than allowed. */
    assert_int_equal(run("ip netns add ${N}x; for i in 1 2 3 4; do ip link add ${B}$i type veth "
                         "peer name e$i netns ${N}x; ip link set ${B}$i master $B; done"),
                     0);
    snprintf(why, sizeof(why), "bridge %s has 5 ports, more than network.max_ports = 4", bridge);
    judge(&want, why);
    want.max_ports = 5;
    judge(&want, NULL);
}

static void test_far_end(void **state)
{
    (void)state;
    internal();
    close6();
    struct netns_want want = want_internal();
    char why[200];
    assert_int_equal(run("ip link set $V nomaster"), 0);
    snprintf(why, sizeof(why), "%s, the other end of eth0, is on no bridge", outer);
    judge(&want, why);
    assert_int_equal(run("ip netns add ${N}x; ip link set $V netns ${N}x"), 0);
    judge(&want, "the other end of eth0 is not in the host's network namespace");
}

/* An address of the host in the guest's network would be answered for over any link. */
static void test_host_address_in_the_network(void **state)
{
    (void)state;
    internal();
    close6();
    struct netns_want want = want_internal();
    assert_int_equal(run("ip link add ${B}d type dummy || ip link add ${B}d type ifb; ip addr add "
                         "198.18.77.99/32 dev ${B}d"),
                     0);
    judge(&want, "the host's own address 198.18.77.99 is in this network");
}

static void test_hosts_own(void **state)
{
    (void)state;
    int fd CLEANUP_FD = -1;
    struct err err = { 0 };
    struct netns_want want = { .mode = NETNS_CLUSTER, .max_ports = 4 };
    assert_int_equal(netns_open("/proc/self/ns/net", &fd, &err), 0);
    assert_int_equal(netns_check(fd, &want, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "it is the host's own network namespace"));
}

static void test_open(void **state)
{
    (void)state;
    int fd = -1;
    struct err err;
    assert_int_equal(netns_open("/etc/passwd", &fd, &err), ERR_INVALID);
    assert_int_equal(netns_open("/proc/self/ns/mnt", &fd, &err), ERR_INVALID);
    assert_int_equal(netns_open("/dev/null", &fd, &err), ERR_INVALID);
    assert_int_equal(netns_open("/run/netns/utp-none", &fd, &err), ERR_NOT_FOUND);
    assert_int_equal(fd, -1);
}

static void test_users(void **state)
{
    (void)state;
    int fd CLEANUP_FD = open_ns();
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(netns_some_user("/proc", st.st_dev, st.st_ino, NULL, 0), 0);
    pid_t child = fork();
    if (child == 0) {
        execlp("ip", "ip", "netns", "exec", ns, "sleep", "30", (char *)NULL);
        _exit(127);
    }
    pid_t found = 0;
    for (int i = 0; i < 200 && !found; i++) {
        found = netns_some_user("/proc", st.st_dev, st.st_ino, NULL, 0);
        usleep(5000);
    }
    assert_int_equal(found, child);
    assert_int_equal(netns_some_user("/proc", st.st_dev, st.st_ino, &child, 1), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* ---- the judge alone --------------------------------------------------------------------------
 */

static void test_judge_is_pure(void **state)
{
    (void)state;
    struct netns_view *v CLEANUP_FREE = xcalloc(1, sizeof(*v));
    struct netns_outside o = { .peer_found = true, .peer = "v", .bridge = "b", .bridge_ports = 1 };
    struct netns_want want = { .mode = NETNS_INTERNAL, .max_ports = 4, .ipv6_closed = true };
    struct err err;
    v->n_links = 2;
    v->links[0] = (struct netns_link){ .index = 1, .name = "lo", .loopback = true, .up = true };
    v->links[1] = (struct netns_link){ .index = 2, .name = "eth0", .kind = "veth", .up = true };
    assert_int_equal(netns_judge(v, &o, &want, &err), 0);
    /* A physical card has no kind. */
    v->links[1].kind[0] = 0;
    assert_int_equal(netns_judge(v, &o, &want, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "link eth0 is a physical device"));
    /* A module's placeholder is fine as long as it is down. */
    snprintf(v->links[1].kind, 16, "veth");
    v->links[2] = (struct netns_link){ .index = 3, .name = "tunl0", .kind = "ipip" };
    v->n_links = 3;
    assert_int_equal(netns_judge(v, &o, &want, &err), 0);
    v->links[2].up = true;
    assert_int_equal(netns_judge(v, &o, &want, &err), ERR_PRECONDITION);
    v->n_links = 2;
    /* A default route on a link alone, without a gateway; IPv6's too. */
    v->n_routes = 1;
    v->routes[0] = (struct netns_route){ .family = AF_INET6, .link = 2, .type = 1 };
    assert_int_equal(netns_judge(v, &o, &want, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "default route of IPv6"));
    v->n_routes = 0;
    /* Everything wrong at once still is one line. */
    o.is_host = true;
    o.bridge_addresses = 1;
    o.bridge_ports = 9;
    snprintf(o.bad_port, sizeof(o.bad_port), "eth7");
    assert_int_equal(netns_judge(v, &o, &want, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.msg, "host's own network namespace; bridge b has an IP address"));
    assert_non_null(strstr(err.msg, "leads on by eth7; bridge b has 9 ports"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest pure[] = { cmocka_unit_test(test_judge_is_pure) };
    const struct CMUnitTest tests[] = {
        TEST(test_internal_is_accepted),
        TEST(test_ipv6_is_closed),
        TEST(test_loopback_alone),
        TEST(test_routes),
        TEST(test_macvlan_is_refused),
        TEST(test_second_link),
        TEST(test_two_addresses),
        TEST(test_bridge),
        TEST(test_far_end),
        TEST(test_host_address_in_the_network),
        TEST(test_hosts_own),
        TEST(test_open),
        TEST(test_users),
    };
    int failed = cmocka_run_group_tests(pure, NULL, NULL);
    if (geteuid() != 0)
        return failed ? failed : 77;
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
