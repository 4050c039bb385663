/* Tests of common/topo/topo_cut.c against cuts counted by hand. */
#include "tests/unit/common/topo/topo_testing.h"

static void nvlink_alone_counts_where_it_joins_all(void **state)
{
    struct braid_topo *t = machine("gpus:8 nvlink:18x25GB/s nics:8x400Gb/s");

    assert_near(braid_topo_gpu_cut_GBps(t, 0), 450);
    assert_near(braid_topo_bisection_gpu_GBps(t), 450);
    assert_near(braid_topo_node_cut_GBps(t), 400);
    assert_near(braid_topo_rail_GBps(t, 7), 50);
    assert_near(braid_topo_rail_GBps(t, 8), 0);
    braid_topo_destroy(t);
}

static void the_narrowest_pcie_link_decides(void **state)
{
    /* Two GPUs a switch, switch uplink x16 of 3.0 (15.75 GB/s), CPU link 10 GB/s. */
    struct braid_topo *t = machine("gpus:8 pcie:3x16 pciswitches:4 numa:2 cpulink:10GB/s");

    assert_near(braid_topo_gpu_cut_GBps(t, 0), 15.75);
    /* Halves are joined by the CPU link alone: 10 GB/s for 4 GPUs. */
    assert_near(braid_topo_bisection_gpu_GBps(t), 2.5);
    braid_topo_destroy(t);
}

static void a_nic_is_held_back_by_its_slot(void **state)
{
    /* 400 Gb/s ports in 3.0 x16 slots. */
    struct braid_topo *t = machine("gpus:2 nics:2x400Gb/s pcie:3x16 pciswitches:0 numa:1");

    assert_near(braid_topo_node_cut_GBps(t), 2 * 15.75);
    assert_near(braid_topo_rail_GBps(t, 0), 15.75);
    braid_topo_destroy(t);
    /* One GPU feeds both NICs through its own link. */
    t = machine("gpus:1 nics:2x100Gb/s pcie:3x16 numa:1");
    assert_near(braid_topo_node_cut_GBps(t), 15.75);
    braid_topo_destroy(t);
}

static void sets_of_objects(void **state)
{
    struct braid_topo *t = machine("gpus:4 nvlink:18x25GB/s");
    int from[2] = {gpu_id(t, 0), gpu_id(t, 1)}, to[2] = {gpu_id(t, 2), gpu_id(t, 3)};

    assert_true(braid_topo_flow_GBps(t, from, 2, to, 2) >= 900);
    assert_near(braid_topo_flow_GBps(t, from, 0, to, 2), -1);
    assert_near(braid_topo_flow_GBps(t, from, 2, from, 1), -1);
    to[0] = 999;
    assert_near(braid_topo_flow_GBps(t, from, 2, to, 1), -1);
    braid_topo_destroy(t);
}

static void resources_say_who_uses_them(void **state)
{
    struct braid_topo *t = machine("gpus:8 gpu:l40s nics:1x100Gb/s numa:2");
    struct braid_topo_resource all[64];
    int count = braid_topo_resources(t, all, 64), roots = 0, nics = 0;

    assert_int_equal(count, braid_topo_edges(t) + 2);
    for (int i = 0; i < count; i++) {
        roots += all[i].kind == BRAID_TOPO_RES_ROOT && all[i].gpus == 8;
        nics += all[i].kind == BRAID_TOPO_RES_NIC && all[i].gpus == 8;
        if (all[i].kind == BRAID_TOPO_RES_CPU_LINK)
            assert_int_equal(all[i].gpus, 8);
    }
    assert_int_equal(roots, 2);
    assert_int_equal(nics, 1);
    assert_int_equal(braid_topo_resources(t, all, 1), count);
    braid_topo_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvlink_alone_counts_where_it_joins_all),
        cmocka_unit_test(the_narrowest_pcie_link_decides),
        cmocka_unit_test(a_nic_is_held_back_by_its_slot),
        cmocka_unit_test(sets_of_objects),
        cmocka_unit_test(resources_say_who_uses_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
