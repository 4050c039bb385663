/* Tests of common/topo/topo_summary.c: the machine key above all, since profiles are found by it. */
#include "tests/unit/common/topo/topo_testing.h"

static void keys(void **state)
{
    static const struct {
        const char *text, *key;
    } machines[] = {
        {"gpus:8 gpu:h200 nics:8x400Gb/s net:ib pcie:5x16", "h200x8-nvl18x25s-ib8x400-pcie5x16"},
        {"nodes:64 gpus:8 gpu:h200 nics:8x400Gb/s net:ib pcie:5x16",
         "h200x8-nvl18x25s-ib8x400-pcie5x16"},
        {"gpus:8 nvlink:18x25GB/s nics:8x400Gb/s", "gpux8-nvl18x25s-nic8x400"},
        {"gpus:2 gpu:h100", "h100x2-nvl18x25"},
        {"gpus:8 gpu:l40s nics:2x100Gb/s net:roce pcie:4x16", "l40sx8-roce2x100-pcie4x16"},
        {"gpus:8 nics:32x100Gb/s net:efa rails:8 gpu:h100", "h100x8-nvl18x25s-efa32x100-rails8"},
        {"gpus:4 gpu:gb200 nvdomain:72", "gb200x4-nvl18x50s-dom72"},
        {"gpus:1 sm:75", "sm75x1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
        struct braid_topo *t = machine(machines[i].text);
        struct braid_topo_summary s;

        braid_topo_summarise(t, &s);
        assert_string_equal(s.key, machines[i].key);
        braid_topo_destroy(t);
    }
}

static void numbers(void **state)
{
    struct braid_topo *t =
        machine("nodes:2 gpus:8 gpu:a100 nics:8x200Gb/s pcie:4x16 pciswitches:4 cpu:amd");
    struct braid_topo_summary s;

    braid_topo_summarise(t, &s);
    assert_int_equal(s.nodes, 2);
    assert_int_equal(s.sm, 80);
    assert_near(s.nvlink_lane_GBps, 25);
    assert_near(s.nvlink_gpu_GBps, 300);
    assert_true(s.nvswitch);
    assert_near(s.nic_GBps, 25);
    /* Two GPUs share each switch's uplink. */
    assert_near(s.pcie_gpu_GBps, 31.51);
    assert_near(s.pcie_root_GBps, 15.75);
    assert_near(s.node_cut_GBps, 200);
    assert_string_equal(s.cpu_vendor, "AuthenticAMD");
    assert_int_equal(s.gpu_gpu_path, BRAID_TOPO_PATH_NVL);
    assert_int_equal(s.gpu_nic_path, BRAID_TOPO_PATH_PIX);
    braid_topo_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys), cmocka_unit_test(numbers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
