/* Tests of common/topo/topo_path.c: path types, routes, which NIC belongs to which GPU. */
#include "tests/unit/common/topo/topo_testing.h"

static enum braid_topo_path_type gpus(const struct braid_topo *t, int a, int b)
{
    return braid_topo_path(t, gpu_id(t, a), gpu_id(t, b));
}

static void nvswitch_joins_all(void **state)
{
    struct braid_topo *t = machine("gpus:8 nvlink:18x25GB/s nics:8x400Gb/s");
    struct braid_topo_route route;

    assert_int_equal(gpus(t, 0, 7), BRAID_TOPO_PATH_NVL);
    assert_int_equal(gpus(t, 3, 3), BRAID_TOPO_PATH_LOC);
    assert_int_equal(braid_topo_route(t, gpu_id(t, 0), gpu_id(t, 7), &route), 0);
    assert_int_equal(route.hops, 2);
    assert_near(route.each_way_GBps, 450);
    assert_near(route.latency_us, 0.62);
    /* The first edge is listed from the GPU, the second is travelled backwards. */
    assert_int_equal(braid_topo_edge(t, route.edge[0])->a, gpu_id(t, 0));
    assert_false(route.reverse[0]);
    assert_true(route.reverse[1]);
    braid_topo_destroy(t);
}

static void pcie_paths_by_distance(void **state)
{
    struct braid_topo *t = machine("gpus:8 nics:4x200Gb/s pcie:4x16 pciswitches:4 numa:2");

    assert_int_equal(gpus(t, 0, 1), BRAID_TOPO_PATH_PIX);
    assert_int_equal(gpus(t, 0, 2), BRAID_TOPO_PATH_PHB);
    assert_int_equal(gpus(t, 0, 4), BRAID_TOPO_PATH_SYS);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), nic_id(t, 0)), BRAID_TOPO_PATH_PIX);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), nic_id(t, 3)), BRAID_TOPO_PATH_SYS);
    braid_topo_destroy(t);
}

static void two_switches_in_line_are_pxb(void **state)
{
    struct braid_topo *t = braid_topo_new("test");
    int numa = braid_topo_add(t, BRAID_TOPO_NUMA, "", ""), top, low[2], gpu[4];

    top = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", "0000:01:00.0");
    braid_topo_attach(t, top, numa, 16, 4, BRAID_TOPO_FROM_SYSFS);
    for (int i = 0; i < 2; i++) {
        low[i] = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", i ? "0000:02:00.0" : "0000:03:00.0");
        braid_topo_attach(t, low[i], top, 16, 4, BRAID_TOPO_FROM_SYSFS);
    }
    for (int i = 0; i < 4; i++) {
        char busid[20];

        snprintf(busid, sizeof(busid), "0000:1%d:00.0", i);
        gpu[i] = braid_topo_add(t, BRAID_TOPO_GPU, "", busid);
        braid_topo_attach(t, gpu[i], low[i / 2], 16, 4, BRAID_TOPO_FROM_SYSFS);
    }
    assert_int_equal(braid_topo_finish(t, NULL), 0);
    assert_int_equal(gpus(t, 0, 1), BRAID_TOPO_PATH_PIX);
    assert_int_equal(gpus(t, 0, 2), BRAID_TOPO_PATH_PXB);
    braid_topo_destroy(t);
}

static void through_another_gpu_is_nvb(void **state)
{
    struct braid_topo *t = braid_topo_new("test");
    struct braid_topo_route route;
    int gpu[3];

    for (int i = 0; i < 3; i++) {
        char busid[20];

        snprintf(busid, sizeof(busid), "0000:1%d:00.0", i);
        gpu[i] = braid_topo_add(t, BRAID_TOPO_GPU, "", busid);
    }
    braid_topo_link(t, BRAID_TOPO_LINK_NVLINK, gpu[0], gpu[1], 2, 25, BRAID_TOPO_FROM_NVML);
    braid_topo_link(t, BRAID_TOPO_LINK_NVLINK, gpu[1], gpu[2], 1, 25, BRAID_TOPO_FROM_NVML);
    assert_int_equal(braid_topo_finish(t, NULL), 0);
    braid_topo_route(t, gpu_id(t, 0), gpu_id(t, 2), &route);
    assert_int_equal(route.type, BRAID_TOPO_PATH_NVB);
    assert_near(route.each_way_GBps, 25);
    assert_int_equal(gpus(t, 0, 1), BRAID_TOPO_PATH_NVL);
    braid_topo_destroy(t);
}

static void c2c_reaches_the_nic_of_its_cpu(void **state)
{
    struct braid_topo *t =
        machine("gpus:4 gpu:gb200 c2c:450GB/s numa:2 nics:4x400Gb/s pciswitches:0");
    struct braid_topo_route route;

    braid_topo_route(t, gpu_id(t, 0), nic_id(t, 0), &route);
    assert_int_equal(route.type, BRAID_TOPO_PATH_P2C);
    assert_int_equal(route.hops, 2);
    assert_int_equal(braid_topo_edge(t, route.edge[0])->type, BRAID_TOPO_LINK_C2C);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), braid_topo_id(t, BRAID_TOPO_NUMA, 0)),
                     BRAID_TOPO_PATH_C2C);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), nic_id(t, 3)), BRAID_TOPO_PATH_SYS);
    braid_topo_destroy(t);
}

static void every_gpu_gets_its_own_nic(void **state)
{
    struct braid_topo *t = machine("gpus:8 nics:8x400Gb/s pciswitches:4 numa:2");
    int nics[8], seen = 0;

    for (int g = 0; g < 8; g++)
        seen |= 1 << braid_topo_gpu_nic(t, g);
    assert_int_equal(seen, 0xff);
    assert_int_equal(braid_topo_gpu_nics(t, 5, nics, 8), 8);
    assert_int_equal(nics[0], braid_topo_gpu_nic(t, 5));
    /* The other NIC of its switch comes second. */
    assert_int_equal(nics[0] / 2, nics[1] / 2);
    assert_int_equal(braid_topo_gpu_nics(t, 5, nics, 2), 8);
    assert_int_equal(braid_topo_gpu_nics(t, 8, nics, 8), -22);
    braid_topo_destroy(t);
}

static void one_nic_serves_all(void **state)
{
    struct braid_topo *t = machine("gpus:8 gpu:l40s nics:1x100Gb/s numa:2");

    for (int g = 0; g < 8; g++)
        assert_int_equal(braid_topo_gpu_nic(t, g), 0);
    braid_topo_destroy(t);
    t = machine("gpus:2");
    assert_int_equal(braid_topo_gpu_nic(t, 0), -1);
    braid_topo_destroy(t);
}

static void rails_are_reached_through_a_nic(void **state)
{
    struct braid_topo *t = machine("gpus:8 nvlink:18x25GB/s nics:8x400Gb/s");
    int rail = braid_topo_id(t, BRAID_TOPO_RAIL, 3);
    struct braid_topo_route out, in;

    braid_topo_route(t, gpu_id(t, 3), rail, &out);
    assert_int_equal(out.type, BRAID_TOPO_PATH_NET);
    assert_near(out.each_way_GBps, 50);
    assert_int_equal(braid_topo_edge(t, out.edge[out.hops - 1])->type, BRAID_TOPO_LINK_NET);
    braid_topo_route(t, rail, gpu_id(t, 3), &in);
    assert_int_equal(in.hops, out.hops);
    assert_near(in.latency_us, out.latency_us);
    assert_int_equal(in.edge[0], out.edge[out.hops - 1]);
    braid_topo_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvswitch_joins_all),
        cmocka_unit_test(pcie_paths_by_distance),
        cmocka_unit_test(two_switches_in_line_are_pxb),
        cmocka_unit_test(through_another_gpu_is_nvb),
        cmocka_unit_test(c2c_reaches_the_nic_of_its_cpu),
        cmocka_unit_test(every_gpu_gets_its_own_nic),
        cmocka_unit_test(one_nic_serves_all),
        cmocka_unit_test(rails_are_reached_through_a_nic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
