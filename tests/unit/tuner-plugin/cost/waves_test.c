/* Wave quantisation: by hand, and that taking the free channels never adds a wave while one more does. */
#include "tests/unit/cmocka_all.h"

#include "tuner-plugin/cost/cost.h"

static void by_hand(void **state)
{
    /* 64 x 16 = 1024 tiles on 132 SMs: 8 waves, for which 128 SMs are enough. */
    assert_int_equal(braid_waves_count(8192, 4096, 128, 256, 1, 132, 0), 8);
    assert_int_equal(braid_waves_free_channels(8192, 4096, 128, 256, 1, 132), 4);
    assert_int_equal(braid_waves_free_channels(128, 256, 128, 256, 1, 132), 131);
    assert_int_equal(braid_waves_free_channels(0, 1, 1, 1, 1, 132), 0);
    assert_int_equal(braid_waves_count(1, 1, 1, 1, 1, 8, 8), 0);
}

static void exactly_the_most(void **state)
{
    for (int64_t m = 100; m < 20000; m = m * 2 + 37) {
        for (int64_t n = 100; n < 20000; n = n * 2 + 11) {
            for (int q = 1; q <= 3; q++) {
                int c = braid_waves_free_channels(m, n, 128, 128, q, 132);
                int64_t waves = braid_waves_count(m, n, 128, 128, q, 132, 0);

                assert_int_equal(braid_waves_count(m, n, 128, 128, q, 132, c), waves);
                assert_true(c == 131 || braid_waves_count(m, n, 128, 128, q, 132, c + 1) > waves);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand),
                                       cmocka_unit_test(exactly_the_most)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
