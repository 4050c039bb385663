/* Tests of common/topo/topo_synthetic.c: what a line means, and what is said about a bad one. */
#include "tests/unit/common/topo/topo_testing.h"

#include <errno.h>

static void the_example_of_the_readme(void **state)
{
    struct braid_topo *t = machine("nodes:16 gpus:8 nvlink:18x25GB/s nics:8x400Gb/s");

    assert_int_equal(braid_topo_nodes(t), 16);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_GPU), 8);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NIC), 8);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_RAIL), 8);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NVSWITCH), 1);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NUMA), 2);
    assert_near(braid_topo_object(t, nic_id(t, 0))->rate_Gbps, 400);
    braid_topo_destroy(t);
}

static void a_model_brings_its_numbers(void **state)
{
    struct braid_topo *t =
        machine("gpus:4 gpu:gb200 nvdomain:72 c2c:450GB/s numa:2 nics:4x400Gb/s");
    struct braid_topo_summary s;

    braid_topo_summarise(t, &s);
    assert_int_equal(s.sm, 100);
    assert_int_equal(s.nvlinks_per_gpu, 18);
    assert_near(s.nvlink_gpu_GBps, 900);
    assert_int_equal(s.nvlink_domain_gpus, 72);
    assert_true(s.c2c);
    braid_topo_destroy(t);
}

static void defaults_are_marked_as_assumed(void **state)
{
    struct braid_topo *t = machine("gpus:8 gpu:l40s");
    const struct braid_topo_object *gpu = braid_topo_object(t, gpu_id(t, 0));
    const struct braid_topo_edge *up = braid_topo_edge(t, gpu->uplink);

    assert_int_equal(up->bandwidth_from, BRAID_TOPO_FROM_DEFAULT);
    assert_near(up->each_way_GBps, 31.51);
    braid_topo_destroy(t);
    t = machine("gpus:8 gpu:l40s pcie:3x8");
    gpu = braid_topo_object(t, gpu_id(t, 0));
    up = braid_topo_edge(t, gpu->uplink);
    assert_int_equal(up->bandwidth_from, BRAID_TOPO_FROM_SYNTHETIC);
    assert_near(up->each_way_GBps, 7.88);
    braid_topo_destroy(t);
}

static void bad_lines_name_the_column(void **state)
{
    static const struct {
        const char *text;
        int column; /* 0: the whole line */
        const char *part;
    } bad[] = {
        {"", 1, "expected gpus:N, found none"},
        {"nodes:16", 9, "expected gpus:N"},
        {"gpus:8 nvlik:18x25GB/s", 8, "expected one of nodes gpus"},
        {"gpus", 5, "expected a colon"},
        {"gpus:", 6, "expected a whole number from 1 to 128"},
        {"gpus:0", 6, "expected a whole number from 1 to 128, found \"0\""},
        {"gpus:99999999999999999999", 6, "expected a whole number"},
        {"gpus:8x", 7, "expected a blank"},
        {"gpus:8 gpus:8", 8, "expected each key once"},
        {"gpus:8 nvlink:18", 17, "expected an x and a rate"},
        {"gpus:8 nvlink:18x25", 18, "expected a rate such as 25GB/s"},
        {"gpus:8 nvlink:18x25GB", 18, "expected a rate"},
        {"gpus:8 nvlink:18x25Gx/s", 18, "expected a rate"},
        {"gpus:8 nvlink:18x0GB/s", 18, "expected a rate above 0"},
        {"gpus:8 nics:8x400Gb/s rails:9", 0, "expected at most as many rails as NICs (8)"},
        {"gpus:8 nvlink:6x25GB/s nvswitch:no", 0, "expected nvswitch:yes or at least 7 NVLinks"},
        {"gpus:8 nvdomain:4", 0, "expected nvdomain to hold all 8"},
        {"gpus:8 nvswitch:maybe", 17, "expected yes or no"},
        {"gpus:8 gpu:h300", 12, "expected a GPU model"},
        {"gpus:8 pcie:5", 14, "expected an x and a width"},
        {"gpus:8 net:token", 12, "expected ib, roce, efa or eth, found \"token\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct braid_topo_error error = {0};
        struct braid_topo *t = NULL;

        if (braid_topo_load_synthetic(bad[i].text, &t, &error) != -EINVAL || t != NULL ||
            error.column != bad[i].column || strstr(error.text, bad[i].part) != error.text)
            fail_msg("\"%s\": column %d, \"%s\"", bad[i].text, error.column, error.text);
    }
}

static void extremes_are_built(void **state)
{
    static const char *const lines[] = {
        "gpus:1",
        "gpus:128 nics:250x800Gb/s rails:1 numa:64 pciswitches:128",
        "gpus:2 nvlink:4x14.0625GB/s",
        "gpus:3 nvlink:4x25GB/s nvswitch:no numa:3 cpulink:62.4GB/s",
        "\tgpus:8  nvlink:none nics:none\n",
        "nodes:1000000 gpus:1 nics:1x1Mb/s",
    };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct braid_topo *t = machine(lines[i]);
        struct braid_topo_summary s;

        braid_topo_summarise(t, &s);
        assert_true(s.gpus_per_node > 0 && s.key[0] != '\0');
        braid_topo_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_readme),
        cmocka_unit_test(a_model_brings_its_numbers),
        cmocka_unit_test(defaults_are_marked_as_assumed),
        cmocka_unit_test(bad_lines_name_the_column),
        cmocka_unit_test(extremes_are_built),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
