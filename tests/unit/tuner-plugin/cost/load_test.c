/* What each algorithm moves, against the formulas that NCCL's documents and nccl-tests use. */
#include "tests/unit/cmocka_all.h"

#include "tuner-plugin/cost/cost.h"

static void near(double a, double b)
{
    if (a < b * 0.999999 - 1e-9 || a > b * 1.000001 + 1e-9)
        fail_msg("%f is not %f", a, b);
}

static void ring(void **state)
{
    struct braid_shape node = braid_shape_make(8, 1), nodes = braid_shape_make(16, 2);
    struct braid_load load = braid_load_of(&node, BRAID_ALL_REDUCE, BRAID_RING, 800);

    near(load.port_bytes, 1400);
    near(load.net_bytes, 0);
    assert_int_equal(load.intra_hops, 14);
    load = braid_load_of(&node, BRAID_ALL_GATHER, BRAID_RING, 800);
    near(load.port_bytes, 700);
    assert_int_equal(load.intra_hops, 7);
    load = braid_load_of(&nodes, BRAID_ALL_REDUCE, BRAID_RING, 1600);
    near(load.net_bytes, 3000);
    assert_int_equal(load.net_hops, 2);
    assert_int_equal(load.intra_hops, 28);
    load = braid_load_of(&node, BRAID_BROADCAST, BRAID_RING, 800);
    near(load.port_bytes, 800);
    assert_int_equal(load.depth, 7);
}

static void tree_saves_at_few_nodes(void **state)
{
    static const struct {
        int nodes;
        double net;
    } rows[] = {{2, 1}, {3, 4.0 / 3}, {4, 1.5}, {64, 2 * 63.0 / 64}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct braid_shape shape =
            braid_shape_make((size_t)rows[i].nodes * 8, (size_t)rows[i].nodes);

        near(braid_load_of(&shape, BRAID_ALL_REDUCE, BRAID_TREE, 1).net_bytes, rows[i].net);
        near(braid_load_of(&shape, BRAID_ALL_REDUCE, BRAID_NVLS_TREE, 1).net_bytes, rows[i].net);
    }
}

static void nvls_reads_one_share_more(void **state)
{
    struct braid_shape shape = braid_shape_make(8, 1);

    near(braid_load_of(&shape, BRAID_ALL_REDUCE, BRAID_NVLS, 8).port_bytes, 9);
    near(braid_load_of(&shape, BRAID_ALL_GATHER, BRAID_NVLS, 8).port_bytes, 8);
}

static void one_rank_a_node(void **state)
{
    struct braid_shape shape = braid_shape_make(16, 16);
    struct braid_load load = braid_load_of(&shape, BRAID_ALL_GATHER, BRAID_PAT, 16);

    near(load.net_bytes, 15);
    near(load.port_bytes, 0);
    assert_int_equal(load.net_hops, 4);
    load = braid_load_of(&shape, BRAID_ALL_REDUCE, BRAID_RING, 16);
    near(load.port_bytes, 0);
    assert_int_equal(load.intra_hops, 0);
    assert_int_equal(load.net_hops, 30);
}

static void shapes(void **state)
{
    assert_int_equal(braid_shape_make(100000, 12500).node_ranks, 8);
    assert_int_equal(braid_shape_make(0, 0).ranks, 1);
    assert_int_equal(braid_shape_make(4, 9).nodes, 4);
    assert_int_equal(braid_log2_floor(0), 0);
    assert_int_equal(braid_log2_floor(1023), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring),
        cmocka_unit_test(tree_saves_at_few_nodes),
        cmocka_unit_test(nvls_reads_one_share_more),
        cmocka_unit_test(one_rank_a_node),
        cmocka_unit_test(shapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
