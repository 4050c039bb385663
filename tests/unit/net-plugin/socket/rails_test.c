/* Pairing of rails: subnets, families, unequal numbers. */
#include "tests/unit/cmocka_all.h"

#include "common/util.h"
#include "net-plugin/socket/rails.h"

/* "a.b" becomes 10.a.b.host/24. */
static struct braid_socket_rail rail(int subnet, int host)
{
    struct braid_socket_rail r = {.speed_Mbps = 1000};

    r.addrs[0] = (struct braid_wire_addr){
        .family = 4, .prefix_bits = 24, .bytes = {10, 0, (uint8_t)subnet, (uint8_t)host}};
    return r;
}

static struct braid_socket_offer offer(int count, const int *subnets, int host)
{
    struct braid_socket_offer o = {.rails = (uint32_t)count};

    for (int i = 0; i < count; i++)
        o.rail[i] = rail(subnets[i], host);
    return o;
}

static void expect(const struct braid_socket_route *route, const char *source, const char *peer)
{
    char text[BRAID_ADDR_TEXT];

    assert_string_equal(braid_addr_text(&route->source, text, sizeof(text)), source);
    assert_string_equal(braid_addr_text(&route->peer, text, sizeof(text)), peer);
}

static void by_subnet(void **state)
{
    struct braid_socket_offer a = offer(2, (int[]){1, 2}, 1), b = offer(2, (int[]){2, 1}, 2);
    struct braid_socket_route routes[BRAID_SOCKET_RAILS];

    assert_int_equal(braid_rails_pair(&a, &b, routes), 2);
    expect(&routes[0], "10.0.1.1:0", "10.0.1.2:0");
    expect(&routes[1], "10.0.2.1:0", "10.0.2.2:0");
    assert_int_equal(routes[1].rail, 1);
}

static void by_number(void **state)
{
    struct braid_socket_offer a = offer(2, (int[]){1, 2}, 1), b = offer(2, (int[]){3, 4}, 2);
    struct braid_socket_route routes[BRAID_SOCKET_RAILS];

    assert_int_equal(braid_rails_pair(&a, &b, routes), 2);
    expect(&routes[0], "10.0.1.1:0", "10.0.3.2:0");
    expect(&routes[1], "10.0.2.1:0", "10.0.4.2:0");
}

static void unequal(void **state)
{
    struct braid_socket_offer one = offer(1, (int[]){1}, 1), three = offer(3, (int[]){5, 6, 7}, 2);
    struct braid_socket_route routes[BRAID_SOCKET_RAILS];

    assert_int_equal(braid_rails_pair(&one, &three, routes), 3);
    expect(&routes[2], "10.0.1.1:0", "10.0.7.2:0");
    assert_int_equal(braid_rails_pair(&three, &one, routes), 3);
    expect(&routes[2], "10.0.7.2:0", "10.0.1.1:0");
}

static void families(void **state)
{
    struct braid_socket_offer a = offer(1, (int[]){1}, 1), b = offer(1, (int[]){1}, 2),
                              none = {.rails = 0};
    struct braid_socket_route routes[BRAID_SOCKET_RAILS];

    a.rail[0].addrs[1] = b.rail[0].addrs[1] =
        (struct braid_wire_addr){.family = 6, .prefix_bits = 64, .bytes = {0xfd, [15] = 9}};
    b.rail[0].addrs[0].family = 0;
    assert_int_equal(braid_rails_pair(&a, &b, routes), 1);
    expect(&routes[0], "[fd00::9]:0", "[fd00::9]:0");
    a.rail[0].addrs[1].family = 0;
    assert_int_equal(braid_rails_pair(&a, &b, routes), 0);
    assert_int_equal(braid_rails_pair(&a, &none, routes), 0);
    b.rails = 1u << 31; /* foreign bytes */
    a.rails = UINT32_MAX;
    assert_true(braid_rails_pair(&a, &b, routes) <= BRAID_SOCKET_RAILS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_subnet), cmocka_unit_test(by_number),
                                       cmocka_unit_test(unequal), cmocka_unit_test(families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
