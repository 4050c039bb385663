/* Fuzz target: captures, and through them all that sysfs and NVML can say. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/topo_use.h"

const char *const braid_fuzz_words[] = {"file ",
                                        "link ",
                                        "dir ",
                                        "gpu 0000:04:00.0 ",
                                        "peer 0000:04:00.0 switch 18",
                                        "nvml present",
                                        "class/infiniband/mlx5_0",
                                        "bus/pci/devices/0000:04:00.0",
                                        "/numa_node",
                                        "/physfn",
                                        "devices/pci0000:00/",
                                        "0000:05:00.0/",
                                        "max_link_speed 32.0 GT/s PCIe",
                                        "/ports",
                                        "\n",
                                        "../../",
                                        "400 Gb/sec",
                                        "\\n",
                                        "index=",
                                        "fabric=",
                                        NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct braid_topo *topo = NULL;
    struct braid_topo_error error;

    if (braid_topo_parse_capture((const char *)data, bytes, "fuzz", &topo, &error) == 0)
        use_topology(topo);
    braid_topo_destroy(topo);
    return 0;
}
