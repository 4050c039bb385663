/* How many I/O threads a process may have: half of the processors, this rank's share of them, bounds, ranks bound apart. */
#include "tests/unit/cmocka_all.h"

#include "net-plugin/socket/socket.h"

static void threads(void **state)
{
    assert_int_equal(braid_socket_threads_for(2, 2, 1), 0); /* callers alone */
    assert_int_equal(braid_socket_threads_for(6, 6, 0), 3);
    assert_int_equal(braid_socket_threads_for(16, 16, 0), 8);
    assert_int_equal(braid_socket_threads_for(32, 32, 0), 16);
    assert_int_equal(braid_socket_threads_for(192, 192, 1), 16);
    assert_int_equal(braid_socket_threads_for(32, 32, 2), 16);
    assert_int_equal(braid_socket_threads_for(64, 64, 8), 8);    /* all ranks on all processors */
    assert_int_equal(braid_socket_threads_for(96, 192, 12), 16); /* six of them on each half */
    assert_int_equal(braid_socket_threads_for(96, 192, 16), 12); /* eight */
    assert_int_equal(braid_socket_threads_for(24, 192, 8), 12);  /* each on its own */
    assert_int_equal(braid_socket_threads_for(64, 64, 64), 2);
    assert_int_equal(braid_socket_threads_for(8, 0, 0), 4); /* nothing known */
}

static void counted(void **state)
{
    assert_int_equal(braid_socket_threads_counted(32, 32, 1), 32);
    assert_int_equal(braid_socket_threads_counted(32, 32, 2), 16);
    assert_int_equal(braid_socket_threads_counted(32, 32, 8), 4);
    assert_int_equal(braid_socket_threads_counted(192, 192, 8), 24);
    assert_int_equal(braid_socket_threads_counted(24, 192, 8), 24); /* each on its own */
    assert_int_equal(braid_socket_threads_counted(64, 64, 64), 2);
    assert_int_equal(braid_socket_threads_counted(16, 16, 0), 16); /* nobody can be counted */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads), cmocka_unit_test(counted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
