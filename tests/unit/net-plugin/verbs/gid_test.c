/* Choice of GIDs on tables of real machines, as users posted them. */
#include "net-plugin/verbs/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include "tests/unit/cmocka_all.h"

static struct braid_verbs_gid gid(const char *text, int type, int index)
{
    struct braid_verbs_gid out = {.type = (uint8_t)type, .index = (uint8_t)index};

    assert_int_equal(inet_pton(AF_INET6, text, out.raw), 1);
    return out;
}

static const struct braid_gid_wish none = {.index = -1};

static int best_of(const struct braid_verbs_gid *table, int count,
                   const struct braid_gid_wish *wish)
{
    int best = -1, best_rank = -1;
    const char *why;

    for (int i = 0; i < count; i++) {
        int rank = braid_gid_rank(&table[i], wish, &why);
        if (rank > best_rank) {
            best_rank = rank;
            best = table[i].index;
        }
    }
    return best;
}

/* The common ConnectX table: link-local and IPv4, each as v1 and v2; index 3 is what folklore says. */
static void test_common_table(void **state)
{
    const struct braid_verbs_gid table[] = {
        gid("fe80::e42:a1ff:fe00:1", 1, 0), gid("fe80::e42:a1ff:fe00:1", 2, 1),
        gid("::ffff:10.1.0.1", 1, 2), gid("::ffff:10.1.0.1", 2, 3)};
    struct braid_gid_wish wish = none;

    assert_int_equal(best_of(table, 4, &none), 3);
    wish.index = 1;
    assert_int_equal(best_of(table, 4, &wish), 1);
    wish = none;
    wish.roce_version = 1;
    assert_int_equal(best_of(table, 4, &wish), 2);
    wish = none;
    wish.family = AF_INET6;
    assert_int_equal(best_of(table, 4, &wish), 1);
}

/* Containers that share a NIC see their entries at the end, the rest empty. */
static void test_late_table(void **state)
{
    const struct braid_verbs_gid table[] = {gid("::", 1, 0), gid("::", 2, 1), gid("fe80::2", 2, 12),
                                            gid("::ffff:192.168.4.7", 1, 13),
                                            gid("::ffff:192.168.4.7", 2, 14)};

    assert_int_equal(best_of(table, 5, &none), 14);
}

/* All addresses are IPv6 (bnxt): an IPv4 filter would leave nothing and fall to index 0. */
static void test_v6_only(void **state)
{
    const struct braid_verbs_gid table[] = {gid("fe80::1", 1, 0), gid("fe80::1", 2, 1),
                                            gid("2001:db8::1", 1, 2), gid("2001:db8::1", 2, 3)};

    assert_int_equal(best_of(table, 4, &none), 3);
}

static void test_range(void **state)
{
    const struct braid_verbs_gid table[] = {gid("::ffff:192.168.0.1", 2, 3),
                                            gid("::ffff:10.20.0.1", 2, 5)};
    struct braid_gid_wish wish = none;

    assert_int_equal(braid_gid_parse_range("10.0.0.0/8", &wish), 0);
    assert_int_equal(best_of(table, 2, &wish), 5);
    assert_int_equal(braid_gid_parse_range("fd00::/64", &wish), 0);
    assert_int_equal(best_of(table, 2, &wish), -1);
    assert_int_equal(braid_gid_parse_range("10.0.0.0/33", &wish), -EINVAL);
    assert_int_equal(braid_gid_parse_range("ten", &wish), -EINVAL);
    assert_int_equal(braid_gid_parse_range("10.0.0.0/", &wish), -EINVAL);
}

static struct braid_verbs_rail rail(int link, int count, const struct braid_verbs_gid *gids)
{
    struct braid_verbs_rail out = {
        .link = (uint8_t)link, .gid_count = (uint8_t)count, .name = "mlx5_0:1"};

    memcpy(out.gids, gids, (size_t)count * sizeof(*gids));
    return out;
}

/* Indices differ between the ends: the pair is chosen by type and address, not by index. */
static void test_pair(void **state)
{
    const struct braid_verbs_gid left[] = {gid("::ffff:10.1.0.1", 2, 3),
                                           gid("::ffff:10.1.0.1", 1, 2), gid("fe80::1", 2, 1)};
    const struct braid_verbs_gid right[] = {gid("fe80::2", 2, 1), gid("::ffff:10.1.0.2", 1, 6),
                                            gid("::ffff:10.1.0.2", 2, 7)};
    const struct braid_verbs_gid far[] = {gid("::ffff:10.9.0.2", 2, 3)};
    const struct braid_verbs_gid v6[] = {gid("2001:db8::2", 2, 3)};
    struct braid_verbs_rail a = rail(BRAID_VERBS_LINK_ETHERNET, 3, left),
                            b = rail(BRAID_VERBS_LINK_ETHERNET, 3, right);
    struct braid_verbs_rail c = rail(BRAID_VERBS_LINK_ETHERNET, 1, far),
                            d = rail(BRAID_VERBS_LINK_ETHERNET, 1, v6);
    struct braid_verbs_rail ib = rail(BRAID_VERBS_LINK_IB, 1, far);
    int own, peer, near;
    char why[200];

    near = braid_gid_pair(&a, &b, &own, &peer, why, sizeof(why));
    assert_true(near > 0);
    assert_int_equal(a.gids[own].index, 3);
    assert_int_equal(b.gids[peer].index, 7);
    assert_true(braid_gid_pair(&a, &c, &own, &peer, why, sizeof(why)) > 0);
    assert_true(braid_gid_pair(&a, &c, &own, &peer, why, sizeof(why)) < near);
    assert_int_equal(braid_gid_pair(&a, &d, &own, &peer, why, sizeof(why)), 0);
    assert_non_null(strstr(why, "family"));
    assert_int_equal(braid_gid_pair(&a, &ib, &own, &peer, why, sizeof(why)), 0);
    assert_non_null(strstr(why, "InfiniBand"));
    a.pkey = 0xffff;
    b.pkey = 0x7fff; /* the same partition; the highest bit says whether it is a full member */
    assert_true(braid_gid_pair(&a, &b, &own, &peer, why, sizeof(why)) > 0);
    b.pkey = 0x8001;
    assert_int_equal(braid_gid_pair(&a, &b, &own, &peer, why, sizeof(why)), 0);
    assert_non_null(strstr(why, "partition"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common_table), cmocka_unit_test(test_late_table),
        cmocka_unit_test(test_v6_only), cmocka_unit_test(test_range), cmocka_unit_test(test_pair)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
