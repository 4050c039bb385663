/* Fuzz target: the one-line synthetic form. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/topo_use.h"

#include <string.h>

const char *const braid_fuzz_words[] = {
    "nodes:",    "gpus:",     "gpu:",  "sm:",  "nvlink:",  "nvswitch:no", "nvdomain:",    "nics:",
    "net:",      "rails:",    "numa:", "cpu:", "cpulink:", "pcie:",       "pciswitches:", "c2c:",
    "18x25GB/s", "8x400Gb/s", "none",  "h200", " ",        "x",           "TB/s",         NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct braid_topo *topo = NULL;
    struct braid_topo_error error;
    char *text = malloc(bytes + 1);

    if (text == NULL)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (braid_topo_load_synthetic(text, &topo, &error) == 0)
        use_topology(topo);
    braid_topo_destroy(topo);
    free(text);
    return 0;
}
