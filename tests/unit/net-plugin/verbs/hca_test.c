/* The grammar of NCCL_IB_HCA, from what public threads got wrong: mlx5_1 against mlx5_10, '^=' and ports. */
#include "net-plugin/verbs/hca.h"

#include "tests/unit/cmocka_all.h"

static void test_admits(void **state)
{
    static const struct {
        const char *list, *device;
        int port;
        bool admits;
    } rows[] = {
        {"", "mlx5_0", 1, true},
        {"mlx5", "mlx5_0", 1, true},
        {"mlx5", "rxe0", 1, false},
        {"mlx5_1", "mlx5_10", 1, true},
        {"=mlx5_1", "mlx5_10", 1, false},
        {"=mlx5_1", "mlx5_1", 2, true},
        {"=mlx5_1:1", "mlx5_1", 2, false},
        {"=mlx5_1:2", "mlx5_1", 2, true},
        {"mlx5_0,mlx5_2:1", "mlx5_2", 1, true},
        {"mlx5_0,mlx5_2:1", "mlx5_2", 2, false},
        {"^mlx5_3", "mlx5_3", 1, false},
        {"^mlx5_3", "mlx5_30", 1, false},
        {"^=mlx5_3", "mlx5_30", 1, true},
        {"^=mlx5_3:1,mlx5_4", "mlx5_3", 2, true},
        {"^=mlx5_3:1,mlx5_4", "mlx5_4", 1, false},
        {"^", "mlx5_0", 1, true},
        {"=", "mlx5_0", 1, true},
        {",,mlx5_0", "mlx5_0", 1, true},
        {"mlx5_0:x", "mlx5_0", 1, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (braid_hca_admits(rows[i].list, rows[i].device, rows[i].port) != rows[i].admits)
            fail_msg("\"%s\" and %s:%d", rows[i].list, rows[i].device, rows[i].port);
}

static void test_odd(void **state)
{
    char why[160];

    assert_false(braid_hca_is_odd("", why, sizeof(why)));
    assert_false(braid_hca_is_odd("^=mlx5_0:1,mlx5_1", why, sizeof(why)));
    assert_true(braid_hca_is_odd("^=mlx5_0,^=mlx5_1", why, sizeof(why)));
    assert_non_null(strstr(why, "in front"));
    assert_true(braid_hca_is_odd("mlx5_0,,mlx5_1", why, sizeof(why)));
    assert_true(braid_hca_is_odd("mlx5_0, mlx5_1", why, sizeof(why)));
    assert_true(braid_hca_is_odd("^=", why, sizeof(why)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_admits), cmocka_unit_test(test_odd)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
