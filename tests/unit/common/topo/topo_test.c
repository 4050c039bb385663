/* Tests of common/topo/topo.c and topo_finish.c: helpers, and what finishing does to a raw graph. */
#include "tests/unit/common/topo/topo_testing.h"

#include <errno.h>
#include <unistd.h>

static void busids_are_made_uniform(void **state)
{
    char out[BRAID_TOPO_BUSID_LEN];

    assert_true(braid_topo_busid("00000000:1B:00.0", out));
    assert_string_equal(out, "0000:1b:00.0");
    assert_true(braid_topo_busid("1b:00.0", out));
    assert_string_equal(out, "0000:1b:00.0");
    assert_true(braid_topo_busid("10000:1b:1f.7", out));
    assert_string_equal(out, "10000:1b:1f.7");
    assert_false(braid_topo_busid("", out));
    assert_false(braid_topo_busid("fffffff:ffff:ff", out));
    assert_false(braid_topo_busid("0000:1b:00.0x", out));
    assert_false(braid_topo_busid("gpu0", out));
}

static void numbers_ignore_the_locale(void **state)
{
    const char *end;
    double value;

    assert_int_equal(braid_topo_number("16.5 GT/s", &value, &end), 0);
    assert_near(value, 16.5);
    assert_string_equal(end, " GT/s");
    assert_int_equal(braid_topo_number("-1", &value, &end), -EINVAL);
    assert_int_equal(braid_topo_number(".5", &value, &end), -EINVAL);
    assert_int_equal(braid_topo_number("9999999999999999999999", &value, &end), -EINVAL);
}

static void errors_name_the_place(void **state)
{
    struct braid_topo_error error;
    char text[400];

    assert_int_equal(braid_topo_fail(&error, -EINVAL, "a.xml", 3, 7, "expected %d", 1), -EINVAL);
    assert_string_equal(braid_topo_error_format(&error, text, sizeof(text)),
                        "a.xml:3:7: expected 1");
    braid_topo_fail(&error, -EINVAL, "a.xml", 0, 0, "gone");
    assert_string_equal(braid_topo_error_format(&error, text, sizeof(text)), "a.xml: gone");
    assert_int_equal(braid_topo_fail(NULL, -ENOENT, "", 0, 0, "x"), -ENOENT);
}

/* numa - root port - upstream port - (downstream - GPU, downstream - NIC function - port), and a lonely bridge. */
static struct braid_topo *raw_graph(void)
{
    struct braid_topo *t = braid_topo_new("test");
    int numa = braid_topo_add(t, BRAID_TOPO_NUMA, "", "");
    int root = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", "0000:00:01.0");
    int up = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", "0000:01:00.0");
    int down0 = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", "0000:02:00.0");
    int down1 = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", "0000:02:01.0");
    int gpu = braid_topo_add(t, BRAID_TOPO_GPU, "", "0000:03:00.0");
    int function = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", "0000:04:00.0");
    int nic = braid_topo_add(t, BRAID_TOPO_NIC, "mlx5_0", "0000:04:00.0");
    int lonely = braid_topo_add(t, BRAID_TOPO_BRIDGE, "", "0000:00:02.0");

    t->objects[numa].numa_id = 0;
    t->objects[gpu].pci_device = 0x2335;
    t->objects[nic].rate_Gbps = 400;
    braid_topo_attach(t, root, numa, 0, 0, BRAID_TOPO_FROM_SYSFS);
    braid_topo_attach(t, up, root, 16, 4, BRAID_TOPO_FROM_SYSFS);
    braid_topo_attach(t, down0, up, 0, 0, BRAID_TOPO_FROM_SYSFS);
    braid_topo_attach(t, down1, up, 8, 4, BRAID_TOPO_FROM_SYSFS);
    braid_topo_attach(t, gpu, down0, 16, 4, BRAID_TOPO_FROM_SYSFS);
    braid_topo_attach(t, function, down1, 16, 4, BRAID_TOPO_FROM_SYSFS);
    braid_topo_attach(t, nic, function, 0, 0, BRAID_TOPO_FROM_SYSFS);
    braid_topo_attach(t, lonely, numa, 0, 0, BRAID_TOPO_FROM_SYSFS);
    return t;
}

static void only_real_switches_stay(void **state)
{
    struct braid_topo *t = raw_graph();
    const struct braid_topo_object *gpu, *nic;

    assert_int_equal(braid_topo_finish(t, NULL), 0);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_BRIDGE), 1);
    gpu = braid_topo_object(t, gpu_id(t, 0));
    nic = braid_topo_object(t, nic_id(t, 0));
    assert_string_equal(braid_topo_object(t, gpu->parent)->busid, "0000:01:00.0");
    assert_int_equal(gpu->parent, nic->parent);
    assert_string_equal(gpu->model, "h200");
    assert_int_equal(gpu->sm, 90);
    assert_near(braid_topo_edge(t, gpu->uplink)->each_way_GBps, 64);
    /* The narrower of the two links in line stays. */
    assert_near(braid_topo_edge(t, nic->uplink)->each_way_GBps, 32);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), nic_id(t, 0)), BRAID_TOPO_PATH_PIX);
    assert_int_equal(braid_topo_find(t, "03:00.0"), gpu_id(t, 0));
    assert_int_equal(braid_topo_find(t, "mlx5_0"), nic_id(t, 0));
    assert_int_equal(braid_topo_find(t, "none"), -1);
    braid_topo_destroy(t);
}

static void nvswitches_become_one(void **state)
{
    struct braid_topo *t = braid_topo_new("test");
    int gpu[2], nvs[2];

    for (int i = 0; i < 2; i++)
        gpu[i] = braid_topo_add(t, BRAID_TOPO_GPU, "", i ? "0000:1b:00.0" : "0000:2b:00.0");
    for (int i = 0; i < 2; i++)
        nvs[i] = braid_topo_add(t, BRAID_TOPO_NVSWITCH, "", i ? "0000:05:00.0" : "0000:06:00.0");
    for (int i = 0; i < 4; i++)
        braid_topo_link(t, BRAID_TOPO_LINK_NVLINK, gpu[i & 1], nvs[i >> 1], 9, 25,
                        BRAID_TOPO_FROM_NVML);
    assert_int_equal(braid_topo_finish(t, NULL), 0);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NVSWITCH), 1);
    assert_int_equal(braid_topo_object(t, braid_topo_id(t, BRAID_TOPO_NVSWITCH, 0))->chips, 2);
    assert_near(braid_topo_gpu_cut_GBps(t, 0), 450);
    /* GPUs are numbered in bus order, and hang on a NUMA node although none was given. */
    assert_string_equal(braid_topo_object(t, gpu_id(t, 0))->busid, "0000:1b:00.0");
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NUMA), 1);
    braid_topo_destroy(t);
}

static void limits_hold(void **state)
{
    struct braid_topo *t = braid_topo_new("test");
    int rc = 0;

    for (int i = 0; i <= BRAID_TOPO_MAX_OBJECTS && rc >= 0; i++)
        rc = braid_topo_add(t, BRAID_TOPO_NUMA, "", "");
    assert_int_equal(rc, -E2BIG);
    braid_topo_destroy(t);
    braid_topo_destroy(NULL);
}

static void an_empty_machine_answers(void **state)
{
    struct braid_topo *t = braid_topo_new("test");
    struct braid_topo_summary s;
    struct braid_topo_route route;

    assert_int_equal(braid_topo_finish(t, NULL), 0);
    braid_topo_summarise(t, &s);
    assert_string_equal(s.key, "nogpu");
    assert_int_equal(braid_topo_gpu_nic(t, 0), -1);
    assert_near(braid_topo_min_gpu_cut_GBps(t), 0);
    assert_near(braid_topo_node_cut_GBps(t), 0);
    assert_int_equal(braid_topo_route(t, 0, 99, &route), -EINVAL);
    assert_null(braid_topo_object(t, -1));
    braid_topo_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busids_are_made_uniform),  cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(errors_name_the_place),    cmocka_unit_test(only_real_switches_stay),
        cmocka_unit_test(nvswitches_become_one),    cmocka_unit_test(limits_hold),
        cmocka_unit_test(an_empty_machine_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
