/* Ways to a peer: their order on hosts with one and several interfaces, both families, the same host, and further streams. */
#include "tests/unit/cmocka_all.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "net-plugin/core/reach.h"

static struct braid_netif netif(const char *name, bool loopback, const char *a, int a_bits,
                                const char *b, int b_bits)
{
    struct braid_netif n = {.loopback = loopback};
    const char *texts[2] = {a, b};
    int bits[2] = {a_bits, b_bits};

    strcpy(n.name, name);
    for (int i = 0; i < 2 && texts[i] != NULL; i++) {
        uint8_t bytes[16];
        int family = strchr(texts[i], ':') != NULL ? AF_INET6 : AF_INET;
        assert_int_equal(inet_pton(family, texts[i], bytes), 1);
        braid_addr_from_bytes(&n.addrs[n.addrs_count], family, bytes, 0);
        n.prefix_bits[n.addrs_count++] = (uint8_t)bits[i];
    }
    return n;
}

static struct braid_handle handle(const char *a, const char *b, const char *c)
{
    struct braid_handle h = {.port = 4711};
    const char *texts[3] = {a, b, c};

    for (int i = 0; i < 3 && texts[i] != NULL; i++) {
        bool v6 = strchr(texts[i], ':') != NULL;
        h.addrs[i].family = v6 ? 6 : 4;
        assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, texts[i], h.addrs[i].bytes), 1);
    }
    return h;
}

static void expect(const struct braid_way *ways, int count, const char *const *texts)
{
    char text[256];
    int i;

    for (i = 0; i < count && texts[i] != NULL; i++)
        assert_string_equal(braid_way_text(&ways[i], text, sizeof(text)), texts[i]);
    assert_int_equal(i, count);
    assert_null(texts[i]);
}

static void one_interface(void **state)
{
    struct braid_netif ours[] = {netif("eth0", false, "10.0.0.1", 24, "fd00::1", 64)};
    struct braid_handle near = handle("10.0.0.2", NULL, NULL);
    struct braid_handle far = handle("10.9.0.2", NULL, NULL);
    struct braid_handle both = handle("10.9.0.2", "fd00::2", NULL);
    struct braid_way ways[BRAID_WAYS];
    static const char *const near_ways[] = {"10.0.0.2:4711 from 10.0.0.1 by eth0",
                                            "10.0.0.2:4711 from 10.0.0.1", "10.0.0.2:4711", NULL};
    static const char *const far_ways[] = {"10.9.0.2:4711 from 10.0.0.1 by eth0",
                                           "10.9.0.2:4711 from 10.0.0.1", "10.9.0.2:4711", NULL};
    static const char *const both_ways[] = {"[fd00::2]:4711 from [fd00::1] by eth0",
                                            "10.9.0.2:4711 from 10.0.0.1 by eth0",
                                            "[fd00::2]:4711 from [fd00::1]",
                                            "10.9.0.2:4711 from 10.0.0.1",
                                            "10.9.0.2:4711",
                                            "[fd00::2]:4711",
                                            NULL};

    expect(ways, braid_reach_ways(ours, 1, "eth0", &near, ways), near_ways);
    expect(ways, braid_reach_ways(ours, 1, "eth0", &far, ways), far_ways);
    expect(ways, braid_reach_ways(ours, 1, "eth0", &both, ways), both_ways);
}

static void several_interfaces(void **state)
{
    struct braid_netif ours[] = {netif("eth0", false, "10.0.0.1", 24, NULL, 0),
                                 netif("eth1", false, "10.0.1.1", 24, NULL, 0)};
    struct braid_handle h = handle("10.0.1.2", "10.0.0.2", NULL);
    struct braid_way ways[BRAID_WAYS];
    static const char *const expected[] = {"10.0.0.2:4711 from 10.0.0.1 by eth0",
                                           "10.0.1.2:4711 from 10.0.0.1 by eth0",
                                           "10.0.1.2:4711 from 10.0.1.1 by eth1",
                                           "10.0.0.2:4711 from 10.0.0.1",
                                           "10.0.1.2:4711 from 10.0.0.1",
                                           "10.0.1.2:4711",
                                           "10.0.0.2:4711",
                                           NULL};
    static const char *const no_own[] = {"10.0.1.2:4711 from 10.0.1.1 by eth1",
                                         "10.0.0.2:4711 from 10.0.0.1 by eth0", "10.0.1.2:4711",
                                         "10.0.0.2:4711", NULL};

    expect(ways, braid_reach_ways(ours, 2, "eth0", &h, ways), expected);
    expect(ways, braid_reach_ways(ours, 2, NULL, &h, ways), no_own);
}

/* A peer with a second port, where its answers are tied: neighbours are met there first; from afar it is never asked. */
static void tied_port(void **state)
{
    struct braid_netif ours[] = {netif("eth0", false, "10.0.0.1", 24, NULL, 0),
                                 netif("eth1", false, "10.0.0.11", 24, NULL, 0)};
    struct braid_netif far[] = {netif("eth0", false, "10.9.0.1", 24, NULL, 0)};
    struct braid_handle h = handle("10.0.0.2", NULL, NULL);
    struct braid_way ways[BRAID_WAYS];
    static const char *const near_ways[] = {"10.0.0.2:4712 from 10.0.0.11 by eth1",
                                            "10.0.0.2:4711 from 10.0.0.11 by eth1",
                                            "10.0.0.2:4712 from 10.0.0.1 by eth0",
                                            "10.0.0.2:4711 from 10.0.0.1 by eth0",
                                            "10.0.0.2:4711 from 10.0.0.11",
                                            "10.0.0.2:4711",
                                            NULL};
    static const char *const far_ways[] = {"10.0.0.2:4711 from 10.9.0.1 by eth0",
                                           "10.0.0.2:4711 from 10.9.0.1", "10.0.0.2:4711", NULL};

    h.tied_port = 4712;
    expect(ways, braid_reach_ways(ours, 2, "eth1", &h, ways), near_ways);
    assert_true(braid_way_is_twin(&ways[0], &ways[1]));
    assert_false(braid_way_is_twin(&ways[1], &ways[2]));
    expect(ways, braid_reach_ways(far, 1, "eth0", &h, ways), far_ways);
}

/* Between processes of one host packets never leave, whatever their addresses. */
static void same_host(void **state)
{
    struct braid_netif ours[] = {netif("eth0", false, "10.0.0.1", 24, NULL, 0)};
    struct braid_netif loopback[] = {netif("lo", true, "127.0.0.1", 8, "::1", 128)};
    struct braid_handle h = handle("10.0.0.1", NULL, NULL), local = handle("127.0.0.1", NULL, NULL);
    struct braid_way ways[BRAID_WAYS];
    static const char *const own[] = {"10.0.0.1:4711 from 10.0.0.1", "10.0.0.1:4711", NULL};
    static const char *const lo[] = {"127.0.0.1:4711 from 127.0.0.1", "127.0.0.1:4711", NULL};

    expect(ways, braid_reach_ways(ours, 1, "eth0", &h, ways), own);
    expect(ways, braid_reach_ways(loopback, 1, "lo", &local, ways), lo);
}

static void bounded(void **state)
{
    struct braid_netif ours[8];
    struct braid_handle h = handle("10.0.0.9", "10.0.0.8", "10.0.0.7"), empty = {.port = 1};
    struct braid_way ways[BRAID_WAYS];
    char text[32];

    for (int i = 0; i < 8; i++) {
        snprintf(text, sizeof(text), "10.0.0.%d", 20 + i);
        ours[i] = netif("eth", false, text, 24, NULL, 0);
        ours[i].name[3] = (char)('0' + i);
    }
    assert_int_equal(braid_reach_ways(ours, 8, "eth0", &h, ways), BRAID_WAYS);
    assert_int_equal(braid_reach_ways(ours, 8, "eth0", &empty, ways), 0);
}

static void routes(void **state)
{
    struct braid_netif ours[] = {netif("eth0", false, "10.0.0.1", 24, NULL, 0),
                                 netif("eth1", false, "10.0.1.1", 24, NULL, 0)};
    struct braid_netif theirs = netif("x", false, "10.0.1.2", 24, NULL, 0);
    union braid_addr none = {0};
    struct braid_way ways[BRAID_WAYS];
    static const char *const tied[] = {"10.0.1.2:0 from 10.0.1.1 by eth1",
                                       "10.0.1.2:0 from 10.0.1.1", NULL};
    static const char *const untied[] = {"10.0.1.2:0", NULL};

    expect(ways, braid_reach_route(ours, 2, &ours[1].addrs[0], &theirs.addrs[0], ways), tied);
    expect(ways, braid_reach_route(ours, 2, &none, &theirs.addrs[0], ways), untied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_interface), cmocka_unit_test(several_interfaces),
        cmocka_unit_test(tied_port),     cmocka_unit_test(same_host),
        cmocka_unit_test(bounded),       cmocka_unit_test(routes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
