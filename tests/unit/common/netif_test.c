/* The grammar of BRAID_SOCKET_IFNAME, and that this machine's list is sane. */
#include "tests/unit/cmocka_all.h"

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
        {"=", "eth0", false},      {"eth0,^ib", "ib0", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (braid_netif_spec_admits(cases[i].spec, cases[i].name) != cases[i].admits)
            fail_msg("'%s' on %s", cases[i].spec, cases[i].name);
}

static void misuse(void **state)
{
    static const char *const good[] = {"",           "eth0",   "eth,ib", "=eth0,eth1",
                                       "^docker,lo", "^=eth0", "eth0,"};
    static const char *const odd[] = {"^a,^b", "^=a,^=b", "=a,=b",      "a,,b", "^",
                                      "=",     "^=",      "eth0, eth1", "a,=b", ",a"};
    char why[160];

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        if (braid_netif_spec_is_odd(good[i], why, sizeof(why)))
            fail_msg("'%s': %s", good[i], why);
    for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
        if (!braid_netif_spec_is_odd(odd[i], why, sizeof(why)))
            fail_msg("'%s' passed", odd[i]);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(grammar), cmocka_unit_test(misuse),
                                       cmocka_unit_test(this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
