/*
 * NCCL's model restated: the worked examples of its published constants (8 and 2 Hopper GPUs), and where it changes its mind.
 */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tuner-plugin/cost/cost.h"

static struct braid_profile *load(void)
{
    struct braid_profile *p = malloc(sizeof(*p));
    struct braid_profile_error error;

    if (braid_profile_read(BRAID_SHARE "/profiles/generic.profile", p, &error))
        fail_msg("%s:%d: %s", error.file, error.line, error.text);
    return p;
}

/* latency, us; bandwidth of the collective, GB/s */
static void expect(const struct braid_profile *p, int ranks, enum braid_algo algo,
                   enum braid_proto proto, double latency, double bandwidth)
{
    struct braid_shape shape = braid_shape_make((size_t)ranks, 1);
    double big = 64e9, us = braid_nccl_predict(p, &shape, BRAID_ALL_REDUCE, big, algo, proto);
    double small = braid_nccl_predict(p, &shape, BRAID_ALL_REDUCE, 1, algo, proto);

    if (fabs(small - latency) > 0.02 * latency)
        fail_msg("latency %f, expected %f", small, latency);
    if (fabs(big / us / 1e3 - bandwidth) > 0.02 * bandwidth)
        fail_msg("bandwidth %f, expected %f", big / us / 1e3, bandwidth);
}

static void eight_hopper_gpus(void **state)
{
    struct braid_profile *p = load();

    expect(p, 8, BRAID_RING, BRAID_LL, 15.0, 80.6);
    expect(p, 8, BRAID_RING, BRAID_LL128, 40.6, 189);
    expect(p, 8, BRAID_RING, BRAID_SIMPLE, 56, 206);
    expect(p, 8, BRAID_TREE, BRAID_LL128, 31.5, 129);
    expect(p, 8, BRAID_TREE, BRAID_SIMPLE, 64, 166);
    expect(p, 8, BRAID_NVLS, BRAID_SIMPLE, 25, 272);
    free(p);
}

static void two_hopper_gpus(void **state)
{
    struct braid_profile *p = load();

    expect(p, 2, BRAID_RING, BRAID_LL, 7.8, 141);
    expect(p, 2, BRAID_RING, BRAID_LL128, 17.8, 331);
    expect(p, 2, BRAID_RING, BRAID_SIMPLE, 15.2, 360);
    free(p);
}

/* On 8 GPUs rings with LL up to about 1.1 MiB, NVLS above; without NVLS on two GPUs LL up to 1.7 MiB, then Simple. */
static void changes_its_mind(void **state)
{
    struct braid_profile *p = load();
    struct braid_shape eight = braid_shape_make(8, 1), two = braid_shape_make(2, 1);
    enum braid_algo algo;
    enum braid_proto proto;

    assert_int_equal(braid_nccl_choice(p, &eight, BRAID_ALL_REDUCE, 1.0 * (1 << 20), &algo, &proto),
                     0);
    assert_int_equal(algo, BRAID_RING);
    assert_int_equal(proto, BRAID_LL);
    assert_int_equal(braid_nccl_choice(p, &eight, BRAID_ALL_REDUCE, 1.3 * (1 << 20), &algo, &proto),
                     0);
    assert_int_equal(algo, BRAID_NVLS);
    p->nccl.nvls = 0;
    assert_int_equal(braid_nccl_choice(p, &two, BRAID_ALL_REDUCE, 1.6 * (1 << 20), &algo, &proto),
                     0);
    assert_int_equal(proto, BRAID_LL);
    assert_int_equal(braid_nccl_choice(p, &two, BRAID_ALL_REDUCE, 1.9 * (1 << 20), &algo, &proto),
                     0);
    assert_int_equal(algo, BRAID_RING);
    assert_int_equal(proto, BRAID_SIMPLE);
    free(p);
}

static void only_what_nccl_has(void **state)
{
    struct braid_profile *p = load();
    struct braid_shape node = braid_shape_make(8, 1), nodes = braid_shape_make(32, 4);
    struct braid_shape thin = braid_shape_make(4, 4), alone = braid_shape_make(1, 1);
    enum braid_algo algo;
    enum braid_proto proto;

    assert_true(isnan(braid_nccl_predict(p, &node, BRAID_BROADCAST, 1, BRAID_TREE, BRAID_LL)));
    assert_true(
        isnan(braid_nccl_predict(p, &node, BRAID_ALL_REDUCE, 1, BRAID_NVLS_TREE, BRAID_SIMPLE)));
    assert_true(
        isnan(braid_nccl_predict(p, &nodes, BRAID_ALL_REDUCE, 1, BRAID_NVLS, BRAID_SIMPLE)));
    assert_false(
        isnan(braid_nccl_predict(p, &nodes, BRAID_ALL_REDUCE, 1, BRAID_NVLS_TREE, BRAID_SIMPLE)));
    assert_true(isnan(braid_nccl_predict(p, &nodes, BRAID_ALL_GATHER, 1, BRAID_PAT, BRAID_SIMPLE)));
    assert_false(isnan(braid_nccl_predict(p, &thin, BRAID_ALL_GATHER, 1, BRAID_PAT, BRAID_SIMPLE)));
    assert_int_equal(braid_nccl_choice(p, &alone, BRAID_ALL_REDUCE, 1, &algo, &proto), -ENODATA);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_hopper_gpus),
        cmocka_unit_test(two_hopper_gpus),
        cmocka_unit_test(changes_its_mind),
        cmocka_unit_test(only_what_nccl_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
