/* The machine key by which a profile is found: from BRAID_TOPO where that says which GPUs there are, and from names. */
#include "tests/unit/cmocka_all.h"

#include <stdlib.h>

#include "common/param.h"
#include "tuner-plugin/machine.h"

static void key_of(const char *topology, struct braid_machine_key *key)
{
    setenv("BRAID_TOPO", topology, 1);
    braid_param_reload();
    braid_machine_key_read(key);
    unsetenv("BRAID_TOPO");
    braid_param_reload();
}

static void described_machines(void **state)
{
    struct braid_machine_key key;

    key_of("gpus:8 gpu:h200 nics:8x400Gb/s net:ib", &key);
    assert_string_equal(key.gpu, "h200");
    assert_string_equal(key.net, "ib");
    /* Every network without RDMA is sockets. */
    key_of("gpus:2 gpu:a100 nics:1x25Gb/s net:eth", &key);
    assert_string_equal(key.gpu, "a100");
    assert_string_equal(key.net, "socket");
    key_of("gpus:2 gpu:b200", &key);
    assert_string_equal(key.net, "socket");
}

/* No GPU named, or nothing that can be read: this machine is looked at. */
static void descriptions_that_do_not_help(void **state)
{
    struct braid_machine_key here, key;

    braid_machine_key_read(&here);
    key_of("gpus:2", &key);
    assert_string_equal(key.gpu, here.gpu);
    key_of("/nowhere/at.all", &key);
    assert_memory_equal(&key, &here, sizeof(key));
}

static void models(void **state)
{
    static const char *const names[][2] = {
        {"NVIDIA H100 80GB HBM3", "h100"}, {"NVIDIA A100-SXM4-40GB", "a100"},
        {"NVIDIA GB200", "gb200"},         {"Tesla V100-PCIE-16GB", "v100"},
        {"no digit at all", ""},           {"", ""}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char model[64] = "";

        braid_machine_model(names[i][0], model, sizeof(model));
        assert_string_equal(model, names[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(described_machines),
        cmocka_unit_test(descriptions_that_do_not_help),
        cmocka_unit_test(models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
