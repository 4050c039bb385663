/* Addresses as text; a listener in a port range; connects that succeed and that fail. */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "common/sock.h"

static void text(void **state)
{
    static const uint8_t v4[4] = {10, 0, 0, 1}, mapped[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};
    static const uint8_t v6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
    union braid_addr addr;
    char buf[BRAID_ADDR_TEXT];

    assert_int_equal(braid_addr_from_bytes(&addr, AF_INET, v4, 4711), 0);
    assert_string_equal(braid_addr_text(&addr, buf, sizeof(buf)), "10.0.0.1:4711");
    assert_int_equal(braid_addr_port(&addr), 4711);
    braid_addr_from_bytes(&addr, AF_INET6, v6, 1);
    assert_string_equal(braid_addr_text(&addr, buf, sizeof(buf)), "[2001:db8::1]:1");
    braid_addr_from_bytes(&addr, AF_INET6, mapped, 2);
    assert_string_equal(braid_addr_text(&addr, buf, sizeof(buf)), "10.0.0.1:2");
    assert_int_equal(braid_addr_from_bytes(&addr, AF_UNIX, v4, 1), -EAFNOSUPPORT);
}

static void ports(void **state)
{
    static const char *const bad[] = {"45000", "abc",     "0-10",  "70000-70001", "5-3",
                                      "-",     "1-65536", "1-2-3", "1-2 ",        "4294967297-5"};
    uint16_t first, last;

    assert_int_equal(braid_sock_ports("45000-45999", &first, &last), 0);
    assert_true(first == 45000 && last == 45999);
    assert_int_equal(braid_sock_ports("65535-65535", &first, &last), 0);
    assert_true(first == 65535 && last == 65535);
    assert_int_equal(braid_sock_ports("", &first, &last), 0);
    assert_true(first == 0 && last == 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (braid_sock_ports(bad[i], &first, &last) != -EINVAL)
            fail_msg("'%s' passed", bad[i]);
        assert_true(first == 0 && last == 0);
    }
}

static int connect_to(uint16_t port)
{
    static const uint8_t loopback[4] = {127, 0, 0, 1};
    union braid_addr addr, source;
    struct pollfd p;

    braid_addr_from_bytes(&addr, AF_INET, loopback, port);
    braid_addr_from_bytes(&source, AF_INET, loopback, 0);
    p = (struct pollfd){.fd = braid_sock_connect(&addr, &source, NULL), .events = POLLOUT};
    if (p.fd < 0)
        return p.fd;
    assert_int_equal(poll(&p, 1, 5000), 1);
    if (braid_sock_error(p.fd) != 0) {
        close(p.fd);
        return -ECONNREFUSED;
    }
    return p.fd;
}

static void listening(void **state)
{
    static const int families[] = {AF_UNSPEC, AF_INET};
    uint16_t port, second;

    for (int i = 0; i < 2; i++) {
        int fd = braid_sock_listen(families[i], 0, 0, NULL, &port), other, peer;
        assert_true(fd >= 0);
        assert_true(port > 0);
        peer = connect_to(port);
        assert_true(peer >= 0);
        braid_sock_tune(peer, 60);
        other = braid_sock_listen(families[i], port, (uint16_t)(port + 50), NULL, &second);
        assert_true(other >= 0);
        assert_true(second > port && second <= port + 50);
        assert_int_equal(braid_sock_listen(families[i], port, port, NULL, &second), -EADDRINUSE);
        close(peer);
        close(other);
        close(fd);
        assert_int_equal(connect_to(port), -ECONNREFUSED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text), cmocka_unit_test(ports),
                                       cmocka_unit_test(listening)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
