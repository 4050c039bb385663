/* The prediction: known sums, and properties that must hold for every profile. */
#include "tests/unit/cmocka_all.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/tuner-plugin/profile_text.h"
#include "tuner-plugin/cost/cost.h"

static double us(const struct braid_profile *p, const struct braid_shape *s, enum braid_coll c,
                 double bytes, enum braid_algo a, enum braid_proto proto, int channels)
{
    return braid_cost_predict(p, s, c, bytes, a, proto, channels, 0).us;
}

static void sum_by_hand(void **state)
{
    struct braid_profile *p = test_profile(PROFILE_HEAD PROFILE_BODY);
    struct braid_shape shape = braid_shape_make(2, 1);
    struct braid_prediction got =
        braid_cost_predict(p, &shape, BRAID_ALL_REDUCE, 1e6, BRAID_RING, BRAID_SIMPLE, 1, 0);

    /* 10 to start, two hops, 1 MB at 10 GB/s of one channel; the port at 40 GB/s is far from narrow. */
    assert_true(fabs(got.latency_us - 12) < 1e-9);
    assert_true(fabs(got.transfer_us - 100) < 0.01);
    assert_int_equal(got.limit, BRAID_SM);
    got = braid_cost_predict(p, &shape, BRAID_ALL_REDUCE, 1e6, BRAID_RING, BRAID_SIMPLE, 8, 0);
    assert_int_equal(got.limit, BRAID_PORT);
    assert_true(got.transfer_us > 25 && got.transfer_us < 25.1);
    free(p);
}

static void uncovered_is_nan(void **state)
{
    struct braid_profile *p = test_profile(PROFILE_HEAD PROFILE_BODY);
    struct braid_shape shape = braid_shape_make(2, 1), alone = braid_shape_make(1, 1);

    assert_true(isnan(us(p, &shape, BRAID_ALL_REDUCE, 1, BRAID_NVLS, BRAID_SIMPLE, 0)));
    assert_true(isnan(us(p, &shape, BRAID_BROADCAST, 1, BRAID_TREE, BRAID_SIMPLE, 0)));
    assert_true(isnan(us(p, &alone, BRAID_ALL_REDUCE, 1, BRAID_RING, BRAID_SIMPLE, 0)));
    free(p);
}

/* More bytes never take less time, more channels never more (with no cost a channel), and nothing beats the bound. */
static void monotone(void **state)
{
    struct braid_profile *p = test_profile(PROFILE_HEAD PROFILE_BODY);

    for (int ranks = 2; ranks <= 100000; ranks *= 3) {
        struct braid_shape shape = braid_shape_make((size_t)ranks, (size_t)(ranks + 7) / 8);

        for (int c = 0; c < BRAID_COLLS; c++) {
            double last = 0;

            for (double bytes = 1; bytes < 1e13; bytes *= 3) {
                double one = us(p, &shape, (enum braid_coll)c, bytes, BRAID_RING, BRAID_SIMPLE, 1);
                double all = us(p, &shape, (enum braid_coll)c, bytes, BRAID_RING, BRAID_SIMPLE, 0);

                assert_true(one >= last);
                assert_true(all <= one * 1.0000001);
                assert_true(all >= braid_cost_bound_us(p, &shape, (enum braid_coll)c, bytes));
                last = one;
            }
        }
    }
    free(p);
}

static void small_messages_get_fewer_channels(void **state)
{
    struct braid_profile *p = test_profile(
        PROFILE_HEAD PROFILE_BODY "nccl_threads ring * 512 @t\nnccl_threshold_bytes ring ll 8 @t\n"
                                  "nccl_threshold_bytes ring simple 64 @t\n");
    struct braid_shape shape = braid_shape_make(2, 1);

    assert_int_equal(braid_nccl_channels(p, &shape, 1024, BRAID_RING, BRAID_LL), 1);
    assert_int_equal(braid_nccl_channels(p, &shape, 32768, BRAID_RING, BRAID_LL), 4);
    assert_int_equal(braid_nccl_channels(p, &shape, 32768, BRAID_RING, BRAID_SIMPLE), 1);
    assert_int_equal(braid_nccl_channels(p, &shape, 1 << 30, BRAID_RING, BRAID_SIMPLE), 8);
    free(p);
}

static void corrections_scale(void **state)
{
    struct braid_profile *p = test_profile(PROFILE_HEAD PROFILE_BODY);
    struct braid_profile *q =
        test_profile(PROFILE_HEAD PROFILE_BODY "correct_ratio all_reduce ring simple 1M 2 @t\n");
    struct braid_shape shape = braid_shape_make(2, 1);
    double a = us(p, &shape, BRAID_ALL_REDUCE, 1 << 20, BRAID_RING, BRAID_SIMPLE, 2);
    double b = us(q, &shape, BRAID_ALL_REDUCE, 1 << 20, BRAID_RING, BRAID_SIMPLE, 2);

    assert_true(fabs(b - 2 * a) < 1e-6);
    free(p);
    free(q);
}

/* One correction with all eight channels, another with one, and in between by what one channel carries. */
static void corrections_follow_channels(void **state)
{
    struct braid_profile *p = test_profile(PROFILE_HEAD PROFILE_BODY);
    struct braid_profile *q = test_profile(PROFILE_HEAD PROFILE_BODY
                                           "correct_ratio all_reduce ring simple 1M 2 @t\n"
                                           "correct_one_ratio all_reduce ring simple 1M 3 @t\n");
    struct braid_shape shape = braid_shape_make(2, 1);
    const double want[] = {3, 2 + 6.0 / 14, 2 + 4.0 / 28, 2};

    for (int i = 0; i < 4; i++) {
        double a = us(p, &shape, BRAID_ALL_REDUCE, 1 << 20, BRAID_RING, BRAID_SIMPLE, 1 << i);
        double b = us(q, &shape, BRAID_ALL_REDUCE, 1 << 20, BRAID_RING, BRAID_SIMPLE, 1 << i);

        assert_true(fabs(b - want[i] * a) < 1e-6 * a);
    }
    free(p);
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_by_hand),       cmocka_unit_test(uncovered_is_nan),
        cmocka_unit_test(monotone),          cmocka_unit_test(small_messages_get_fewer_channels),
        cmocka_unit_test(corrections_scale), cmocka_unit_test(corrections_follow_channels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
