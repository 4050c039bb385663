/* The grammar of BRAID_SOCKET_IFNAME, the choice among made-up interfaces, and that this machine's list is sane. */
#include "tests/unit/cmocka_all.h"

#include <arpa/inet.h>
#include <string.h>

#include "common/netif.h"
#include "common/util.h"

static void grammar(void **state)
{
    static const struct {
        const char *spec, *name;
        bool admits;
    } cases[] = {
        {"", "eth0", true},        {"eth", "eth0", true},          {"eth", "ib0", false},
        {"eth,ib", "ib0", true},   {"=eth0", "eth0", true},        {"=eth1", "eth10", false},
        {"eth1", "eth10", true},   {"=eth1,eth10", "eth10", true}, {"^docker", "docker0", false},
        {"^docker", "eth0", true}, {"^docker,lo", "lo", false},    {"^docker0", "lo", true},
        {"^=eth0", "eth0", false}, {"^=eth0", "eth01", true},      {"^=eth0,eth1", "eth1", false},
        {"eth0,", "ib0", false},   {",eth0", "eth0", true},        {"^", "eth0", true},
        {"=", "eth0", false},      {"eth0,^ib", "ib0", false},     {"eth0:1", "eth0", true},
        {"=eth0:1", "eth0", true}, {"^eth0:7,ib", "eth0", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (braid_netif_spec_admits(cases[i].spec, cases[i].name) != cases[i].admits)
            fail_msg("'%s' on %s", cases[i].spec, cases[i].name);
}

static void misuse(void **state)
{
    static const char *const good[] = {"",           "eth0",   "eth,ib", "=eth0,eth1",
                                       "^docker,lo", "^=eth0", "eth0,"};
    static const char *const odd[] = {"^a,^b",
                                      "^=a,^=b",
                                      "=a,=b",
                                      "a,,b",
                                      "^",
                                      "=",
                                      "^=",
                                      "eth0, eth1",
                                      "a,=b",
                                      ",a",
                                      "eth0:1",
                                      "=eth0:4711",
                                      "10.0.0.1",
                                      "10.0.0.0/24",
                                      "10.0.0.1:80",
                                      "fe80::1",
                                      "fe80::1%eth0",
                                      "[fd00::1]:1",
                                      "averyveryverylongname"};
    char why[160];

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        if (braid_netif_spec_is_odd(good[i], why, sizeof(why)))
            fail_msg("'%s': %s", good[i], why);
    for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
        if (!braid_netif_spec_is_odd(odd[i], why, sizeof(why)))
            fail_msg("'%s' passed", odd[i]);
}

/* A made-up list: "name up kind master lower address". */
struct row {
    const char *name;
    unsigned flags;
    const char *kind, *master, *lower, *addr;
};
#define UP   (IFF_UP | IFF_RUNNING)
#define LOOP (UP | IFF_LOOPBACK)

static int choose(const char *spec, int family, const struct row *rows, size_t count,
                  struct braid_netif *out, struct braid_netif_verdict *verdicts, int *seen)
{
    struct braid_netif_found found[32];

    assert_true(count <= ARRAY_SIZE(found));
    memset(found, 0, sizeof(found));
    for (size_t i = 0; i < count; i++) {
        struct braid_netif_found *f = &found[i];
        strcpy(f->name, rows[i].name);
        f->flags = rows[i].flags;
        strcpy(f->kind, rows[i].kind);
        strcpy(f->master, rows[i].master);
        strcpy(f->lower, rows[i].lower);
        f->prefix_bits = 24;
        if (strchr(rows[i].addr, ':') != NULL) {
            f->addr.v6.sin6_family = AF_INET6;
            assert_int_equal(inet_pton(AF_INET6, rows[i].addr, &f->addr.v6.sin6_addr), 1);
        } else if (rows[i].addr[0] != '\0') {
            f->addr.v4.sin_family = AF_INET;
            assert_int_equal(inet_pton(AF_INET, rows[i].addr, &f->addr.v4.sin_addr), 1);
        }
    }
    return braid_netif_choose(spec, family, found, (int)count, out, BRAID_NETIF_MAX, verdicts,
                              seen);
}

static const struct row host[] = {
    {"lo", LOOP, "", "", "", "127.0.0.1"},
    {"eth0", UP, "", "", "", "10.0.0.1"},
    {"eth1", UP, "", "", "", "10.0.1.1"},
    {"eth2", IFF_UP, "", "", "", "10.0.2.1"},
    {"eth3", 0, "", "", "", "10.0.3.1"},
    {"eth4", UP, "", "", "", ""},
    {"eth5", UP, "", "br7", "", "10.0.5.1"},
    {"eth0.100", UP, "vlan", "", "eth0", "10.0.100.1"},
    {"usb0", UP, "", "", "", "169.254.3.1"},
    {"docker0", UP, "bridge", "", "", "172.17.0.1"},
    {"vpn", UP, "wireguard", "", "", "10.9.0.1"},
    {"tun0", UP, "tun", "", "", "10.8.0.1"},
    {"veth12ab", UP, "", "", "", "172.18.0.1"},
    {"eth6", UP, "", "", "", "10.0.0.1"},
    {"lo", LOOP, "", "", "", "::1"},
    {"eth0", UP, "", "", "", "fe80::1"},
    {"eth0", UP, "", "", "", "fd00::1"},
};

static const char *why_of(const struct braid_netif_verdict *verdicts, int seen, const char *name)
{
    for (int i = 0; i < seen; i++)
        if (strcmp(verdicts[i].name, name) == 0)
            return verdicts[i].chosen ? "chosen" : verdicts[i].why;
    return "not seen";
}

static void by_default(void **state)
{
    static const char *const expected[][2] = {
        {"lo", "loopback"},        {"eth0", "chosen"},
        {"eth1", "chosen"},        {"eth2", "no carrier"},
        {"eth3", "down"},          {"eth4", "no address"},
        {"eth5", "port of br7"},   {"eth0.100", "port of eth0"},
        {"usb0", "link-local"},    {"docker0", "bridge"},
        {"vpn", "tunnel"},         {"tun0", "tunnel"},
        {"veth12ab", "container"}, {"eth6", "eth0 has the same address"},
    };
    struct braid_netif out[BRAID_NETIF_MAX];
    struct braid_netif_verdict verdicts[BRAID_NETIF_SEEN];
    int seen, count = choose("", AF_UNSPEC, host, ARRAY_SIZE(host), out, verdicts, &seen);

    assert_int_equal(seen, 14);
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        if (strstr(why_of(verdicts, seen, expected[i][0]), expected[i][1]) == NULL)
            fail_msg("%s: '%s'", expected[i][0], why_of(verdicts, seen, expected[i][0]));
    assert_int_equal(count, 2);
    assert_string_equal(out[0].name, "eth0");
    assert_int_equal(out[0].addrs_count, 2);
    assert_int_equal(out[0].prefix_bits[0], 24);
    assert_int_equal(out[0].addrs[1].sa.sa_family, AF_INET6);
    assert_string_equal(out[1].name, "eth1");
}

static void by_setting(void **state)
{
    static const struct {
        const char *spec;
        int family, count;
        const char *first;
    } cases[] = {
        {"eth1", AF_UNSPEC, 1, "eth1"},  {"docker", AF_UNSPEC, 1, "docker0"},
        {"=lo", AF_UNSPEC, 1, "lo"},     {"eth0", AF_UNSPEC, 2, "eth0"}, /* and the VLAN on it */
        {"^eth0", AF_UNSPEC, 8, "lo"},   {"=eth2", AF_UNSPEC, 0, ""},
        {"nothing", AF_UNSPEC, 0, ""},   {"", AF_INET6, 1, "eth0"},
        {"=eth5", AF_UNSPEC, 1, "eth5"}, {"", AF_INET, 2, "eth0"},
        {"=lo", AF_INET6, 1, "lo"},      {"=usb0", AF_UNSPEC, 1, "usb0"},
    };
    struct braid_netif out[BRAID_NETIF_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int count = choose(cases[i].spec, cases[i].family, host, ARRAY_SIZE(host), out, NULL, NULL);
        if (count != cases[i].count || (count > 0 && strcmp(out[0].name, cases[i].first) != 0))
            fail_msg("'%s': %d, first %s", cases[i].spec, count, count > 0 ? out[0].name : "none");
    }
}

/* What a laptop, a container and a host with a bridge have: the best kind that is there. */
static void little_choice(void **state)
{
    static const struct row alone[] = {{"lo", LOOP, "", "", "", "127.0.0.1"}};
    static const struct row container[] = {{"lo", LOOP, "", "", "", "127.0.0.1"},
                                           {"tun0", UP, "tun", "", "", "10.8.0.1"},
                                           {"docker0", UP, "bridge", "", "", "172.17.0.1"}};
    static const struct row bridged[] = {{"lo", LOOP, "", "", "", "127.0.0.1"},
                                         {"eth0", UP, "", "br0", "", ""},
                                         {"br0", UP, "bridge", "", "eth0", "10.0.0.1"},
                                         {"virbr0", UP, "bridge", "", "", "192.168.122.1"}};
    static const struct row bonded[] = {{"ib0", UP, "", "bond0", "", ""},
                                        {"ib1", UP, "", "bond0", "", ""},
                                        {"bond0", UP, "bond", "", "ib0", "10.0.0.1"},
                                        {"bond0.5", UP, "vlan", "", "bond0", ""}};
    struct braid_netif out[BRAID_NETIF_MAX];

    assert_int_equal(choose("", AF_UNSPEC, alone, 1, out, NULL, NULL), 1);
    assert_true(out[0].loopback);
    assert_int_equal(choose("", AF_UNSPEC, container, 3, out, NULL, NULL), 2);
    assert_string_equal(out[0].name, "tun0");
    assert_int_equal(choose("", AF_UNSPEC, bridged, 4, out, NULL, NULL), 1);
    assert_string_equal(out[0].name, "br0");
    assert_int_equal(choose("", AF_UNSPEC, bonded, 4, out, NULL, NULL), 1);
    assert_string_equal(out[0].name, "bond0");
}

static void families(void **state)
{
    assert_int_equal(braid_netif_family(""), AF_UNSPEC);
    assert_int_equal(braid_netif_family("AF_INET"), AF_INET);
    assert_int_equal(braid_netif_family("AF_INET6"), AF_INET6);
}

static void loopback_speed(void **state)
{
    assert_int_equal(braid_netif_loopback_Mbps(1), 10000);
    assert_int_equal(braid_netif_loopback_Mbps(8), 39000);
    assert_int_equal(braid_netif_loopback_Mbps(16), 80000);
}

static void this_machine(void **state)
{
    struct braid_netif list[BRAID_NETIF_MAX];
    int count = braid_netif_list("", AF_UNSPEC, list, BRAID_NETIF_MAX);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        assert_true(list[i].name[0] != '\0' && list[i].addrs_count > 0 && list[i].speed_Mbps > 0);
        for (int j = 0; j < list[i].addrs_count; j++)
            assert_int_equal(braid_addr_port(&list[i].addrs[j]), 0);
    }
    count = braid_netif_list("=lo", AF_INET, list, BRAID_NETIF_MAX);
    for (int i = 0; i < count; i++)
        assert_true(list[i].loopback && list[i].addrs[0].sa.sa_family == AF_INET);
    assert_int_equal(braid_netif_list("=no-such-interface", AF_UNSPEC, list, BRAID_NETIF_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammar),        cmocka_unit_test(misuse),
        cmocka_unit_test(by_default),     cmocka_unit_test(by_setting),
        cmocka_unit_test(little_choice),  cmocka_unit_test(families),
        cmocka_unit_test(loopback_speed), cmocka_unit_test(this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
