/* Lists of processors and threads on the processors of a NUMA node. */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <unistd.h>

#include "common/thread.h"

static void lists(void **state)
{
    cpu_set_t set;

    assert_true(braid_cpu_list_parse("0-3,8,10-11\n", &set));
    assert_int_equal(CPU_COUNT(&set), 7);
    assert_true(CPU_ISSET(8, &set) && CPU_ISSET(11, &set) && !CPU_ISSET(4, &set));
    assert_true(braid_cpu_list_parse("5", &set));
    assert_int_equal(CPU_COUNT(&set), 1);
    assert_true(braid_cpu_list_parse("1000-99999", &set)); /* what does not fit is left out */
    assert_int_equal(CPU_COUNT(&set), CPU_SETSIZE - 1000);
    assert_false(braid_cpu_list_parse("", &set));
    assert_false(braid_cpu_list_parse("\n", &set)); /* a node that has memory only */
    assert_false(braid_cpu_list_parse("3-1", &set));
    assert_false(braid_cpu_list_parse("1;2", &set));
    assert_false(braid_cpu_list_parse("all", &set));
}

static void binding(void **state)
{
    cpu_set_t before, after;

    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
    assert_int_equal(braid_thread_bind(pthread_self(), -1), -ENOENT);
    assert_int_equal(braid_thread_bind(pthread_self(), 123456), -ENOENT);
    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    if (access("/sys/devices/system/node/node0/cpulist", R_OK) != 0)
        skip();
    if (braid_thread_bind(pthread_self(), 0) != 0)
        skip(); /* this test may not run there */
    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(after), &after), 0);
    CPU_AND(&before, &before, &after);
    assert_true(CPU_EQUAL(&before, &after)); /* never more than before */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists), cmocka_unit_test(binding)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
