/* Statistics, the four-way verdict and the shapes of braid-overlap. */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <braid/gemm_ops.h>

#include "tools/braid-overlap/ranks.h"
#include "tools/braid-overlap/shapes.h"
#include "tools/braid-overlap/stats.h"

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-3;
}

static void test_median_and_interval(void **state)
{
    static const double eleven[] = {9, 1, 5, 3, 7, 2, 8, 4, 6, 11, 10};
    struct stats s = {.count = 0};
    double low, high;

    assert_true(isnan(stats_median(&s)));
    for (int i = 0; i < 11; i++)
        stats_add(&s, eleven[i]);
    assert_true(near(stats_median(&s), 6));
    stats_interval(&s, &low, &high); /* the 2nd and the 10th of 11 hold the median with 98.8 % */
    assert_true(near(low, 2) && near(high, 10));
    stats_add(&s, 100);
    assert_true(near(stats_median(&s), 6.5));
}

/* Rows of the machine that were measured before Braid: the verdicts are known. */
static void test_verdict(void **state)
{
    struct verdict v = judge(2675.9, 337.1, 221.1, 3011.8, 2725.0);

    assert_true(v.sound && fabs(v.serial_error - 0.003) < 1e-3);
    assert_true(fabs(v.efficiency - 0.982) < 1e-3);
    assert_true(fabs(v.hidden - 0.778) < 1e-3);
    v = judge(356.9, 571.4, 394.5, 914.2, 567.1);
    assert_true(fabs(v.efficiency - 0.696) < 1e-3);
    v = judge(27.8, 31.5, 31.5, 54.8,
              74.2); /* 14 % of B seems hidden in the serial version: void */
    assert_false(v.sound);
}

static void test_shuffle_is_a_permutation(void **state)
{
    uint64_t a = 1, b = 1;
    int x[20], y[20], seen = 0;

    shuffle(x, 20, &a);
    shuffle(y, 20, &b);
    assert_memory_equal(x, y, sizeof(x));
    for (int i = 0; i < 20; i++)
        seen |= 1 << x[i];
    assert_int_equal(seen, (1 << 20) - 1);
    shuffle(y, 20, &b);
    assert_memory_not_equal(x, y, sizeof(x));
}

static void test_shapes(void **state)
{
    struct shape s, list[32];
    size_t count = 0;

    assert_int_equal(shape_parse("gemm_rs:8192,4096,1024", &s), 0);
    assert_true(s.op == BRAID_GEMM_RS && s.m == 8192 && s.n == 4096 && s.k == 1024);
    assert_int_equal(shape_parse("ag_gemm:64x4096x8192", &s), 0);
    assert_int_equal(shape_parse("ag_gemm:64,4096", &s), -EINVAL);
    assert_int_equal(shape_parse("ag_gemm:64,4096x8192", &s), -EINVAL);
    assert_int_equal(shape_parse("ag_gemm:64,4096,8192,1", &s), -EINVAL);
    assert_int_equal(shape_parse("gemm:64,4096,8192", &s), -EINVAL);
    assert_int_equal(shapes_standard(list, 32), 18);
    assert_true(list[17].op == BRAID_GEMM_RS && list[17].m == 64 && list[17].n == 8192);
    assert_int_equal(shapes_of_model("llama3-70b", 8192, 2, list, 32, &count), 0);
    assert_int_equal(count, 4);
    assert_true(list[2].n == 28672 && list[3].k == 14336);
    assert_int_equal(shapes_of_model("llama3-70b", 8191, 2, list, 32, &count), -EINVAL);
    assert_int_equal(shapes_of_model("llama9", 8192, 2, list, 32, &count), -ENOENT);
    assert_int_equal(shapes_of_model("llama3-8b", 8192, 2, list, 6, &count), -ENOSPC);
    assert_non_null(strstr(shapes_models(), "llama3-8b"));
}

static int meet(struct ranks_self *self, void *context)
{
    int mine = 10 + self->rank, all[RANKS_MAX];

    if (ranks_allgather(self, &mine, all, sizeof(mine)) != 0)
        return -EIO;
    for (int i = 0; i < self->ranks; i++)
        if (all[i] != 10 + i)
            return -EIO;
    if (ranks_max(self, self->rank) != self->ranks - 1)
        return -EIO;
    return ranks_agree(self, self->rank == *(int *)context ? -EBADMSG : 0) == -EBADMSG ? 0 : -EIO;
}

static void test_ranks(void **state)
{
    int who = 2;

    assert_int_equal(ranks_run(4, meet, &who), 0);
    who = 9;
    assert_int_not_equal(ranks_run(2, meet, &who), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median_and_interval),
        cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_shuffle_is_a_permutation),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
